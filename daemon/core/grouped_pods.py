"""Pods on nodes by the pod group that they name, so that nobody has to look through all pods of a group
for those that have a node."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from daemon.core.pod_lifecycle import CachedPod
from shared.kube.pod_record import PodRecord

NOBODY: Final[Mapping[str, CachedPod]] = MappingProxyType({})


class GroupedPods:
    """Assumed ones included. A group has a number as long as a pod of it is on a node."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, CachedPod]] = {}
        """Key -> uid -> pod; never empty."""
        self._ids: dict[str, int] = {}
        self._last_id = 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Key and number of each group."""
        return iter(self._ids.items())

    def add(self, pod: CachedPod) -> None:
        key = pod.record.group_key
        pods = self._pods.get(key)
        if pods is None:
            pods = self._pods[key] = {}
            self._last_id += 1
            self._ids[key] = self._last_id
        pods[pod.record.uid] = pod

    def remove(self, pod: CachedPod) -> None:
        key = pod.record.group_key
        pods = self._pods[key]
        del pods[pod.record.uid]
        if not pods:
            del self._pods[key]
            del self._ids[key]

    def of(self, key: str) -> Mapping[str, CachedPod]:
        """By uid."""
        return self._pods.get(key, NOBODY)

    def id_of(self, record: PodRecord) -> int:
        """The number of a pod's group; 0 where it names none."""
        return self._ids[record.group_key] if record.group else 0
