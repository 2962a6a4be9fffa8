"""GangScheduling: pods of a gang are tried once so many of them are there, and placed together.

Its Permit is a number here: a group is tried as a whole, so nobody has to wait at Permit for others
(`daemon/core/pod_groups.py`).

Rule: pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go, v1.36.2.
"""

from typing import ClassVar, Final

from shared.columns.schema import Int64s
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import SCORE_MAX
from shared.framework.plugin_api import GroupFits
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.plugin_names import GANG_SCHEDULING, POD_GROUP_PODS_COUNT, TOPOLOGY_PLACEMENT_GENERATOR

UNSCHEDULABLE: Final = "pod group is unschedulable"
WAITING_FOR_OTHERS: Final = (
    "waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
"""Of a pod that found a place in a group that did not: what Permit says, with what is added there to
any plugin that waits (RunPermitPlugins in pkg/scheduler/framework/runtime/framework.go, v1.36.2)."""


class GangScheduling:
    """Takes part in PreEnqueue and Permit by its name."""

    NAME: ClassVar[str] = GANG_SCHEDULING

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Who knows the groups says which pod or group lets whom in (`SchedulingQueue.let_in`): no pod
        is asked about at each that comes."""
        return (
            ClusterEventWithHint(Resource.POD, (Action.ADD,), _told_otherwise),
            ClusterEventWithHint(Resource.POD_GROUP, (Action.ADD,), _told_otherwise),
        )


def _told_otherwise(*_: object) -> bool:
    return False


class TopologyPlacementGenerator:
    """Takes part in PlacementGenerate by its name: one placement for each value of the group's label."""

    NAME: ClassVar[str] = TOPOLOGY_PLACEMENT_GENERATOR


class PodGroupPodsCount:
    """The more pods of the group, the better."""

    NAME: ClassVar[str] = POD_GROUP_PODS_COUNT

    def score_placements(self, group: GroupFits, cluster: ClusterView) -> Int64s:
        """`ScorePlacement` and `NormalizePlacementScore`."""
        total = group.scheduled_count + sum(
            (counts for _, counts in group.counts), start=group.topology.by_domain()
        )
        return total * SCORE_MAX // int(total[group.successful].max())
