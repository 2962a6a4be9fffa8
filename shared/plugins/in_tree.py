"""The in-tree plugins: how each is made of its arguments, its place and weight in the default profile.

Rules: pkg/scheduler/framework/plugins/registry.go and pkg/scheduler/apis/config/v1/default_plugins.go,
v1.36.2.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import metadata
from typing import Final, NamedTuple

from shared.feature_gates import (
    GANG_SCHEDULING,
    NODE_DECLARED_FEATURES,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    FeatureGates,
)
from shared.framework.out_of_tree import Args, Plugin
from shared.framework.plugin_args import ArgsStruct, parse_args
from shared.framework.runtime.registry import Registry
from shared.plugin_names import DYNAMIC_RESOURCES
from shared.plugins.binding.default_binder import DefaultBinder
from shared.plugins.devices.dynamic_resources import dynamic_resources
from shared.plugins.gates import (
    GangScheduling,
    PodGroupPodsCount,
    PrioritySort,
    SchedulingGates,
    TopologyPlacementGenerator,
)
from shared.plugins.images.image_locality import ImageLocality
from shared.plugins.interpod.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from shared.plugins.node.node_affinity import NodeAffinity, NodeAffinityArgs
from shared.plugins.node.node_filters import (
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeUnschedulable,
    TaintToleration,
)
from shared.plugins.preemption.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from shared.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from shared.plugins.resources.resource_score import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from shared.plugins.spread.pod_topology_spread import PodTopologySpread
from shared.plugins.spread.spread_constraints import PodTopologySpreadArgs
from shared.plugins.volumes.node_volume_limits import NodeVolumeLimits
from shared.plugins.volumes.volume_binding import VolumeBinding, VolumeBindingArgs
from shared.plugins.volumes.volume_restrictions import VolumeRestrictions
from shared.plugins.volumes.volume_zone import VolumeZone


class InTree(NamedTuple):
    make: Callable[[FeatureGates, Args], Plugin]
    weight: int
    """In the default profile; 0 reads as "not stated", which a score plugin treats as 1."""
    gate: str = ""
    """The feature gate with which it is a default plugin; empty: it always is."""


def _made(
    plugin: type[Plugin],
    kind: type[ArgsStruct] | None = None,
    *,
    takes_gates: bool = False,
    weight: int = 0,
    gate: str = "",
) -> tuple[str, InTree]:
    """Of a plugin that is made of its arguments, if it takes any, and of the gates, if it `takes_gates`.
    One that takes no arguments does not look at what it is given (`decodeNestedObjects` in
    staging/src/k8s.io/kube-scheduler/config/v1/types.go, v1.36.2)."""

    def make(gates: FeatureGates, given: Args) -> Plugin:
        parsed = [parse_args(plugin.NAME, kind, given)] if kind else []
        return plugin(*parsed, *([gates] if takes_gates else []))

    return plugin.NAME, InTree(make, weight, gate)


IN_TREE: Final[Mapping[str, InTree]] = dict(
    (
        _made(SchedulingGates),
        _made(PrioritySort),
        _made(NodeUnschedulable),
        _made(NodeName),
        _made(TaintToleration, weight=3),
        _made(NodeAffinity, NodeAffinityArgs, weight=2),
        _made(NodePorts),
        _made(NodeResourcesFit, NodeResourcesFitArgs, weight=1),
        _made(VolumeRestrictions),
        _made(NodeVolumeLimits),
        _made(VolumeBinding, VolumeBindingArgs, takes_gates=True),
        _made(VolumeZone),
        _made(PodTopologySpread, PodTopologySpreadArgs, weight=2),
        _made(InterPodAffinity, InterPodAffinityArgs, weight=2),
        (DYNAMIC_RESOURCES, InTree(dynamic_resources, weight=2)),
        _made(DefaultPreemption, DefaultPreemptionArgs),
        _made(NodeResourcesBalancedAllocation, NodeResourcesBalancedAllocationArgs, weight=1),
        _made(ImageLocality, weight=1),
        _made(DefaultBinder),
        _made(NodeDeclaredFeatures, gate=NODE_DECLARED_FEATURES),
        _made(GangScheduling, gate=GANG_SCHEDULING),
        _made(TopologyPlacementGenerator, gate=TOPOLOGY_AWARE_WORKLOAD_SCHEDULING),
        _made(PodGroupPodsCount, gate=TOPOLOGY_AWARE_WORKLOAD_SCHEDULING, weight=1),
    )
)
"""In the default profile's order."""


class InTreeRegistry(Registry):
    """These, and those of installed packages."""

    def __init__(
        self,
        gates: FeatureGates | None = None,
        entry_points: Iterable[metadata.EntryPoint] | None = None,
        *,
        samples_compatibly: bool = False,
    ) -> None:
        """`samples_compatibly`: see `Sampling`."""
        gates = gates or FeatureGates()
        factories = {name: partial(one.make, gates) for name, one in IN_TREE.items()}
        is_default = {name: not one.gate or gates[one.gate] for name, one in IN_TREE.items()}
        defaults = [(name, one.weight) for name, one in IN_TREE.items() if is_default[name]]
        super().__init__(factories, entry_points, defaults, samples_compatibly)
