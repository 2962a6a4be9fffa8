"""The in-tree plugins of kube-scheduler v1.36, by the names that users see, once."""

from collections.abc import Mapping
from itertools import chain
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

DEFAULT_PLUGINS: Final[tuple[tuple[str, int], ...]] = (
    (SCHEDULING_GATES, 0),
    (PRIORITY_SORT, 0),
    (NODE_UNSCHEDULABLE, 0),
    (NODE_NAME, 0),
    (TAINT_TOLERATION, 3),
    (NODE_AFFINITY, 2),
    (NODE_PORTS, 0),
    (NODE_RESOURCES_FIT, 1),
    (VOLUME_RESTRICTIONS, 0),
    (NODE_VOLUME_LIMITS, 0),
    (VOLUME_BINDING, 0),
    (VOLUME_ZONE, 0),
    (POD_TOPOLOGY_SPREAD, 2),
    (INTER_POD_AFFINITY, 2),
    (DYNAMIC_RESOURCES, 2),
    (DEFAULT_PREEMPTION, 0),
    (NODE_RESOURCES_BALANCED_ALLOCATION, 1),
    (IMAGE_LOCALITY, 1),
    (DEFAULT_BINDER, 0),
    (NODE_DECLARED_FEATURES, 0),
)
"""Order and score weight of the default profile (pkg/scheduler/apis/config/v1/default_plugins.go,
v1.36.2). Weight 0 reads as "not stated", which a score plugin treats as 1."""

GATED_PLUGINS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "GangScheduling": ((GANG_SCHEDULING, 0),),
    "TopologyAwareWorkloadScheduling": (
        (TOPOLOGY_PLACEMENT_GENERATOR, 0),
        (POD_GROUP_PODS_COUNT, 1),
    ),
}
"""Feature gate -> plugins that follow those with it (`applyFeatureGates` of the same file)."""

IN_TREE: Final = tuple(name for name, _ in (*DEFAULT_PLUGINS, *chain(*GATED_PLUGINS.values())))
"""All that a profile may name."""
