"""What lets a pod into the active queue, and in which order: SchedulingGates and PrioritySort.

Rules: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go and
pkg/scheduler/framework/plugins/queuesort/priority_sort.go, v1.36.2.
"""

from typing import ClassVar

from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.framework.status import SUCCESS, Code, Status
from shared.plugin_names import PRIORITY_SORT, SCHEDULING_GATES


class SchedulingGates:
    """Whoever set the gates takes them away; until then the pod stays out of the active queue."""

    NAME: ClassVar[str] = SCHEDULING_GATES

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

    def queue_key(self, priority: int, queued_at_s: float) -> tuple[int, float]:
        return (-priority, queued_at_s)
