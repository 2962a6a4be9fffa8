"""Pods on nodes by the pod group that they name, so that nobody has to look through all pods of a group
for those that have a node."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from daemon.core.pod_lifecycle import CachedPod
from shared.columns.pod_table import group_id
from shared.kube.pod_record import PodRecord

NOBODY: Final[Mapping[str, CachedPod]] = MappingProxyType({})


class GroupedPods:
    """Assumed ones included."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, CachedPod]] = {}
        """Key -> uid -> pod; never empty."""

    @property
    def keys(self) -> Iterable[str]:
        """Of groups with pods on nodes."""
        return self._pods.keys()

    def add(self, pod: CachedPod) -> None:
        self._pods.setdefault(pod.record.group_key, {})[pod.record.uid] = pod

    def remove(self, pod: CachedPod) -> None:
        key = pod.record.group_key
        pods = self._pods[key]
        del pods[pod.record.uid]
        if not pods:
            del self._pods[key]

    def of(self, key: str) -> Mapping[str, CachedPod]:
        """By uid."""
        return self._pods.get(key, NOBODY)


def group_id_of(record: PodRecord) -> int:
    """As the table of pods has it."""
    return group_id(record.group_key) if record.group else 0
