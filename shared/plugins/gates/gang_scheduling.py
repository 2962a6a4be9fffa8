"""GangScheduling: pods of a gang are tried once so many of them are there, and placed together.

Its Permit is a number here: a group is tried as a whole, so nobody has to wait at Permit for others
(`daemon/core/pod_groups.py`).

Rule: pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go, v1.36.2.
"""

from typing import ClassVar, Final

from shared.framework.cluster_event import Action, Resource
from shared.framework.queueing_hints import ClusterEventWithHint, QueueingHint
from shared.kube.objects import PodGroup
from shared.plugin_names import (
    GANG_SCHEDULING,
    POD_GROUP_PODS_COUNT,
    TOPOLOGY_PLACEMENT_GENERATOR,
)

UNSCHEDULABLE: Final = "pod group is unschedulable"
TOPOLOGY_KEYS: Final = "berth.dev/topology-keys"
"""Annotation of a PodGroup: labels, the narrowest first, to be tried before that of its spec."""
LEVELS_MAX: Final = 8
"""Each is another pass over the nodes."""
WAITING_FOR_OTHERS: Final = "waiting for minCount pods from a gang to be scheduled"
"""Of a pod that found a place in a group that did not."""


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


def _told_otherwise(*_: object) -> QueueingHint:
    return QueueingHint.SKIP


class TopologyPlacementGenerator:
    """Takes part in PlacementGenerate by its name: one placement for each value of the group's label."""

    NAME: ClassVar[str] = TOPOLOGY_PLACEMENT_GENERATOR


class PodGroupPodsCount:
    """Takes part in PlacementScore by its name: the more pods of the group, the better."""

    NAME: ClassVar[str] = POD_GROUP_PODS_COUNT


def quorum(group: PodGroup | None) -> int:
    """minCount of a gang; 0 of a group whose pods are placed one by one, or that is not known."""
    gang = None if group is None else group.spec.scheduling_policy.gang
    return 0 if gang is None else gang.min_count


def lets_in(group: PodGroup | None, pod_count: int) -> bool:
    """Whether a pod of a group may be tried; `pod_count`: so many pods of it are known."""
    return group is not None and pod_count >= quorum(group)


def needed(group: PodGroup | None, scheduled_count: int) -> int:
    """How many pods more have to find a place for Permit to let those that did pass; at least one."""
    return max(1, quorum(group) - scheduled_count)


def priority_of(group: PodGroup) -> int:
    """Of the group as a whole (PodGroupPriority in pkg/scheduler/util/utils.go, v1.36.2)."""
    return group.spec.priority or 0


def goes_as_a_whole(group: PodGroup | None) -> bool:
    """Whether none of the group's pods is to be disrupted without the others."""
    return group is not None and group.spec.disruption_mode == "PodGroup"


def topology_keys_of(group: PodGroup | None) -> list[str]:
    """Labels of which all of a group's nodes are to have one value, the narrowest first; of the last
    they have to. That is the one of the spec, of several the first (TopologyPlacementGenerator); those
    before it are ours."""
    if group is None:
        return []
    annotation = (group.metadata.annotations or {}).get(TOPOLOGY_KEYS, "")
    keys = [key.strip() for key in annotation.split(",") if key.strip()]
    constraints = group.spec.scheduling_constraints
    topology = None if constraints is None else constraints.topology
    if topology:
        keys.append(topology[0].key)
    return list(dict.fromkeys(keys))[-LEVELS_MAX:]
