"""A Permit plugin: pods of a group are bound together, or none of them is.

As plugins for coscheduling do it: a pod waits on its node until as many are there as its label says, and
a group whose time is over gives all its places up.
"""

from collections.abc import Iterator
from importlib import metadata
from typing import Any, ClassVar, Final

from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.out_of_tree import ENTRY_POINT_GROUP
from shared.framework.plugin_api import WAIT, Handle, PermitResult, WaitingPod
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import SUCCESS, Status
from shared.kube.pod_record import PodRecord

GROUP: Final = "example.com/group"
SIZE: Final = "example.com/group-size"
WAIT_S: Final = 5.0


class SimulatedGroup:
    """Reserve and Permit."""

    NAME: ClassVar[str] = "SimulatedGroup"
    _handle: Handle

    def __init__(self, _: dict[str, Any]) -> None:
        """There is nothing to set."""

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(Resource.UNSCHEDULABLE_POD, (Action.ADD,)),
            ClusterEventWithHint(Resource.NODE, (Action.ADD,)),
        )

    def use_handle(self, handle: Handle) -> None:
        self._handle = handle

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        del record, pod, cluster, row
        return SUCCESS

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        """One gave its place up, so all do."""
        del record, cluster, row
        for peer in self._waiting(pod):
            peer.reject(self.NAME, "the group did not come together")

    def permit(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> PermitResult:
        """Waits for the others, or lets them go if this is the last."""
        del record, cluster, row
        if GROUP not in pod.labels:
            return PermitResult()
        peers = list(self._waiting(pod))
        if len(peers) + 1 < int(pod.labels[SIZE]):
            return PermitResult(WAIT, WAIT_S)
        for peer in peers:
            peer.allow(self.NAME)
        return PermitResult()

    def _waiting(self, pod: PodInfo) -> Iterator[WaitingPod]:
        group = pod.labels.get(GROUP)
        for peer in self._handle.waiting_pods():
            if group is not None and peer.pod.labels.get(GROUP) == group:
                yield peer


PLUGIN: Final = metadata.EntryPoint(
    SimulatedGroup.NAME, "bench.sim.permit:SimulatedGroup", ENTRY_POINT_GROUP
)
