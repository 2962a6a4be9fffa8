"""The in-tree plugins of kube-scheduler v1.36, by the names that users see, once."""

from typing import Final

SCHEDULING_GATES: Final = "SchedulingGates"
PRIORITY_SORT: Final = "PrioritySort"
NODE_UNSCHEDULABLE: Final = "NodeUnschedulable"
NODE_NAME: Final = "NodeName"
TAINT_TOLERATION: Final = "TaintToleration"
NODE_AFFINITY: Final = "NodeAffinity"
NODE_PORTS: Final = "NodePorts"
NODE_RESOURCES_FIT: Final = "NodeResourcesFit"
VOLUME_RESTRICTIONS: Final = "VolumeRestrictions"
NODE_VOLUME_LIMITS: Final = "NodeVolumeLimits"
VOLUME_BINDING: Final = "VolumeBinding"
VOLUME_ZONE: Final = "VolumeZone"
POD_TOPOLOGY_SPREAD: Final = "PodTopologySpread"
INTER_POD_AFFINITY: Final = "InterPodAffinity"
DYNAMIC_RESOURCES: Final = "DynamicResources"
DEFAULT_PREEMPTION: Final = "DefaultPreemption"
NODE_RESOURCES_BALANCED_ALLOCATION: Final = "NodeResourcesBalancedAllocation"
IMAGE_LOCALITY: Final = "ImageLocality"
DEFAULT_BINDER: Final = "DefaultBinder"
NODE_DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
GANG_SCHEDULING: Final = "GangScheduling"
TOPOLOGY_PLACEMENT_GENERATOR: Final = "TopologyPlacementGenerator"
POD_GROUP_PODS_COUNT: Final = "PodGroupPodsCount"

TAKE_ARGUMENTS: Final = frozenset({
    NODE_AFFINITY, NODE_RESOURCES_FIT, NODE_RESOURCES_BALANCED_ALLOCATION, VOLUME_BINDING,
    POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY, DYNAMIC_RESOURCES, DEFAULT_PREEMPTION,
})  # fmt: skip
TAKE_NONE: Final = frozenset({
    SCHEDULING_GATES, PRIORITY_SORT, NODE_UNSCHEDULABLE, NODE_NAME, TAINT_TOLERATION, NODE_PORTS,
    VOLUME_RESTRICTIONS, NODE_VOLUME_LIMITS, VOLUME_ZONE, IMAGE_LOCALITY, DEFAULT_BINDER,
    NODE_DECLARED_FEATURES, GANG_SCHEDULING, TOPOLOGY_PLACEMENT_GENERATOR, POD_GROUP_PODS_COUNT,
})  # fmt: skip
"""What their arguments are is not looked at."""
