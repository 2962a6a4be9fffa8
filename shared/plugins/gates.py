"""Plugins that look at no node: SchedulingGates and PrioritySort for the queue; GangScheduling,
TopologyPlacementGenerator and PodGroupPodsCount for groups of pods.

GangScheduling tries pods of a gang once so many of them are there, and has them placed together. Its
Permit is a number here: a group is tried as a whole, so nobody has to wait at Permit for others
(`daemon/core/pod_groups.py`).

Rules: pkg/scheduler/framework/plugins/{schedulinggates,queuesort,gangscheduling,topologyaware,
podgrouppodscount}, v1.36.2.
"""

from typing import ClassVar, Final

from shared.columns.schema import Int64s
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import SCORE_MAX
from shared.framework.plugin_api import GroupFits
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.framework.status import SUCCESS, Code, Status
from shared.plugin_names import (
    GANG_SCHEDULING,
    POD_GROUP_PODS_COUNT,
    PRIORITY_SORT,
    SCHEDULING_GATES,
    TOPOLOGY_PLACEMENT_GENERATOR,
)

UNSCHEDULABLE: Final = "pod group is unschedulable"
WAITING_FOR_OTHERS: Final = (
    "waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
"""Of a pod that found a place in a group that did not: what Permit says, with what is added there to
any plugin that waits (RunPermitPlugins in pkg/scheduler/framework/runtime/framework.go, v1.36.2)."""


class SchedulingGates:
    """Whoever set the gates takes them away; until then the pod stays out of the active queue."""

    NAME: ClassVar[str] = SCHEDULING_GATES
    reads_labels: ClassVar[frozenset[str]] = frozenset()

    def may_gate(self, pod: PodInfo) -> bool:
        return bool(pod.spec.scheduling_gates)

    def pre_enqueue(self, pod: PodInfo, cluster: ClusterView) -> Status:
        gates = pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        names = " ".join(gate.name for gate in gates)
        reason = f"waiting for scheduling gates: [{names}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), self.NAME)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        eliminated = (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,)
        return (ClusterEventWithHint(Resource.POD, eliminated, self._after_own_gates),)

    def _after_own_gates(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """The pod's own gates are gone."""
        return change.is_of(pod) and not pod.info.spec.scheduling_gates


class PrioritySort:
    """Higher priority first, then whoever was queued first."""

    NAME: ClassVar[str] = PRIORITY_SORT
    reads_labels: ClassVar[frozenset[str]] = frozenset()

    def queue_key(self, priority: int, queued_at_s: float) -> tuple[int, float]:
        return (-priority, queued_at_s)


class GangScheduling:
    """Takes part in PreEnqueue and Permit by its name."""

    NAME: ClassVar[str] = GANG_SCHEDULING
    reads_labels: ClassVar[frozenset[str]] = frozenset()

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Who knows the groups says which pod or group lets whom in (`SchedulingQueue.let_in`): no pod
        is asked about at each that comes."""
        return (
            ClusterEventWithHint(Resource.POD, (Action.ADD,), _never, classes=_none),
            ClusterEventWithHint(Resource.POD_GROUP, (Action.ADD,), _never, classes=_none),
        )


def _never(*_: object) -> bool:
    return False


def _none(*_: object) -> tuple[int, ...]:
    return ()


class TopologyPlacementGenerator:
    """Takes part in PlacementGenerate by its name: one placement for each value of the group's label."""

    NAME: ClassVar[str] = TOPOLOGY_PLACEMENT_GENERATOR
    reads_labels: ClassVar[frozenset[str]] = frozenset()


class PodGroupPodsCount:
    """The more pods of the group, the better."""

    NAME: ClassVar[str] = POD_GROUP_PODS_COUNT
    reads_labels: ClassVar[frozenset[str]] = frozenset()

    def score_placements(self, group: GroupFits, cluster: ClusterView) -> Int64s:
        """`ScorePlacement` and `NormalizePlacementScore`."""
        total = group.scheduled_count + sum(
            (counts for _, counts in group.counts), start=group.topology.by_domain()
        )
        return total * SCORE_MAX // int(total[group.successful].max())
