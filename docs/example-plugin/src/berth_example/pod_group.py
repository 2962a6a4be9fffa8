"""PodGroup: pods of a group are bound together, or none of them.

Reserve and Permit, as coscheduling plugins use them: a pod waits on its node until all of its group
have one; the last to come lets the others go. If one's time is over, its peers give their places up.
These run in the owner, which is one process, so a plugin may keep books there.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import WAIT, Handle, PermitResult, WaitingPod
from shared.framework.plugin_args import ArgsStruct, parse_args
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import SUCCESS, Code, Status
from shared.kube.pod_record import PodRecord

GROUP = "example.com/group"
SIZE = "example.com/group-size"


class PodGroupArgs(ArgsStruct):
    """`pluginConfig[].args`."""

    wait_seconds: float = 60.0

    def problems(self) -> list[str]:
        """What is wrong although each field is of the right type."""
        found = self.wait_seconds
        return [] if 0 < found <= 900 else [f"waitSeconds: {found:g} must lie in (0, 900]"]


class PodGroup:
    """Reserve and Permit."""

    NAME: ClassVar[str] = "PodGroup"
    reads_labels: ClassVar[frozenset[str]] = frozenset({GROUP, SIZE})
    _handle: Handle

    def __init__(self, given: dict[str, Any]) -> None:
        self._wait_s = parse_args(self.NAME, PodGroupArgs, given).wait_seconds

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """What may help a group that did not come together; without this, every event would."""
        events = Resource.UNSCHEDULABLE_POD, Resource.NODE
        return tuple(ClusterEventWithHint(resource, (Action.ADD,)) for resource in events)

    def use_handle(self, handle: Handle) -> None:
        """Called once, in the owner only."""
        self._handle = handle

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        """Nothing to keep book of."""
        return SUCCESS

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        """A pod of the group gave its place up, so all do."""
        for peer in self._waiting(pod):
            peer.reject(self.NAME, f"pod group {pod.labels[GROUP]} did not come together")

    def permit(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> PermitResult:
        """Waits for the others, or lets them go if this is the last."""
        if GROUP not in pod.labels:
            return PermitResult()
        size = pod.labels.get(SIZE, "")
        if not size.isdecimal():
            return PermitResult(Status(Code.UNSCHEDULABLE, (f"label {SIZE} is no number",)))
        peers = list(self._waiting(pod))
        if len(peers) + 1 < int(size):
            return PermitResult(WAIT, self._wait_s)
        for peer in peers:
            peer.allow(self.NAME)
        return PermitResult()

    def _waiting(self, pod: PodInfo) -> Iterator[WaitingPod]:
        group = pod.labels.get(GROUP)
        for peer in self._handle.waiting_pods():
            if group is not None and peer.pod.labels.get(GROUP) == group:
                yield peer
