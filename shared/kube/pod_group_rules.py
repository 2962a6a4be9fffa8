"""What a PodGroup asks for: how many pods at once, on which nodes, and what may become of them."""

from typing import Final

from shared.kube.api.scheduling_v1alpha2 import PodGroup

TOPOLOGY_KEYS: Final = "berth.dev/topology-keys"
"""Annotation of a PodGroup: labels, the narrowest first, to be tried before that of its spec."""
ELASTIC: Final = "berth.dev/elastic"
"""Annotation of a PodGroup, "true": of its pods those above minCount are the first to be preempted."""
LEVELS_MAX: Final = 8
"""Each is another pass over the nodes."""


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


def is_elastic(group: PodGroup) -> bool:
    """Whether it can do without the pods that it has above minCount, and says so. That is ours."""
    is_told = (group.metadata.annotations or {}).get(ELASTIC) == "true"
    return is_told and quorum(group) > 0 and not goes_as_a_whole(group)


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


def not_found(key: str) -> str:
    """What upstream's lister says of a group without an object."""
    return f'podgroup.scheduling.k8s.io "{key.partition("/")[2]}" not found'
