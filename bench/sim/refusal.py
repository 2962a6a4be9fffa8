"""A plugin that says no to some pods where they are about to be bound: in Reserve, or in Permit.

A pod says by its labels who refuses it, and how. Only half of the nodes are refused, so it may get
through in a later attempt.
"""

from importlib import metadata
from typing import Any, ClassVar, Final

from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.out_of_tree import ENTRY_POINT_GROUP
from shared.framework.plugin_api import PermitResult
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import SUCCESS, Code, Status
from shared.kube.pod_record import PodRecord

REFUSED_AT: Final = "example.com/refused-at"
REFUSED_AS: Final = "example.com/refused-as"
RESERVE: Final = "reserve"
PERMIT: Final = "permit"
CODES: Final = {
    "error": Code.ERROR,
    "no": Code.UNSCHEDULABLE,
    "not-yet": Code.PENDING,
}


class SimulatedRefusal:
    """Reserve and Permit."""

    NAME: ClassVar[str] = "SimulatedRefusal"

    def __init__(self, _: dict[str, Any]) -> None:
        """There is nothing to set."""

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(Resource.ASSIGNED_POD, (Action.ADD,)),
            ClusterEventWithHint(Resource.NODE, (Action.ADD,)),
        )

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        del record
        return _answer(RESERVE, pod, cluster, row)

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        """It holds nothing."""

    def permit(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> PermitResult:
        """At once."""
        del record
        return PermitResult(_answer(PERMIT, pod, cluster, row))


def _answer(where: str, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
    if pod.labels.get(REFUSED_AT) != where or cluster.nodes.name_of(row)[-1] in "13579":
        return SUCCESS
    return Status(CODES[pod.labels[REFUSED_AS]], (f"refused in {where}",))


PLUGIN: Final = metadata.EntryPoint(
    SimulatedRefusal.NAME, "bench.sim.refusal:SimulatedRefusal", ENTRY_POINT_GROUP
)
