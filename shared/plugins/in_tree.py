"""The in-tree plugins, and how each is made of its arguments.

Rules: pkg/scheduler/framework/plugins/registry.go, v1.36.2.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import metadata
from itertools import chain
from typing import Any, Final

from shared.feature_gates import STORAGE_CAPACITY_SCORING, FeatureGates
from shared.framework.out_of_tree import Args, Plugin
from shared.framework.plugin_args import ArgsStruct, parse_args
from shared.framework.runtime.profiles import DEFAULT_PLUGINS, GATED_PLUGINS
from shared.framework.runtime.registry import Registry
from shared.plugins.binding.default_binder import DefaultBinder
from shared.plugins.devices.dynamic_resources import (
    DynamicResources,
    DynamicResourcesArgs,
    dynamic_resources_problems,
)
from shared.plugins.gates.gang_scheduling import (
    GangScheduling,
    PodGroupPodsCount,
    TopologyPlacementGenerator,
)
from shared.plugins.gates.scheduling_gates import PrioritySort, SchedulingGates
from shared.plugins.images.image_locality import ImageLocality
from shared.plugins.interpod.inter_pod_affinity import (
    InterPodAffinity,
    InterPodAffinityArgs,
    interpod_problems,
)
from shared.plugins.node.node_affinity import NodeAffinity, NodeAffinityArgs, affinity_problems
from shared.plugins.node.node_filters import (
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeUnschedulable,
    TaintToleration,
)
from shared.plugins.preemption.default_preemption import (
    DefaultPreemption,
    DefaultPreemptionArgs,
    preemption_problems,
)
from shared.plugins.resources.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from shared.plugins.resources.node_resources_fit import NodeResourcesFit
from shared.plugins.resources.resource_args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    balanced_problems,
    fit_problems,
)
from shared.plugins.spread.pod_topology_spread import PodTopologySpread
from shared.plugins.spread.spread_constraints import PodTopologySpreadArgs, spread_problems
from shared.plugins.volumes.node_volume_limits import NodeVolumeLimits
from shared.plugins.volumes.volume_binding import (
    VolumeBinding,
    VolumeBindingArgs,
    volume_binding_problems,
)
from shared.plugins.volumes.volume_restrictions import VolumeRestrictions
from shared.plugins.volumes.volume_zone import VolumeZone

Factory = Callable[[FeatureGates, Args], Plugin]


def _made(
    plugin: type[Plugin],
    kind: type[ArgsStruct] | None = None,
    check: Callable[[Any], list[str]] | None = None,
    *,
    is_gated: bool = False,
) -> tuple[str, Factory]:
    """Name and factory of a plugin that is made of its arguments, if it takes any, and of the gates, if
    it `is_gated`. One that takes none does not look at what it is given (`decodeNestedObjects` in
    staging/src/k8s.io/kube-scheduler/config/v1/types.go, v1.36.2)."""

    def make(gates: FeatureGates, given: Args) -> Plugin:
        parsed = [parse_args(plugin.NAME, kind, given, check)] if kind else []
        return plugin(*parsed, *([gates] if is_gated else []))

    return plugin.NAME, make


def _volume_binding(gates: FeatureGates, given: Args) -> Plugin:
    def check(parsed: VolumeBindingArgs) -> list[str]:
        return volume_binding_problems(parsed, scores=gates[STORAGE_CAPACITY_SCORING])

    parsed = parse_args(VolumeBinding.NAME, VolumeBindingArgs, given, check)
    return VolumeBinding(parsed, gates)


IN_TREE: Final[Mapping[str, Factory]] = dict(
    (
        _made(SchedulingGates),
        _made(PrioritySort),
        _made(NodeUnschedulable, is_gated=True),
        _made(NodeName),
        _made(TaintToleration, is_gated=True),
        _made(NodeAffinity, NodeAffinityArgs, affinity_problems),
        _made(NodePorts),
        _made(NodeResourcesFit, NodeResourcesFitArgs, fit_problems),
        _made(VolumeRestrictions),
        _made(NodeVolumeLimits),
        (VolumeBinding.NAME, _volume_binding),
        _made(VolumeZone),
        _made(
            NodeResourcesBalancedAllocation, NodeResourcesBalancedAllocationArgs, balanced_problems
        ),
        _made(PodTopologySpread, PodTopologySpreadArgs, spread_problems, is_gated=True),
        _made(InterPodAffinity, InterPodAffinityArgs, interpod_problems),
        _made(DynamicResources, DynamicResourcesArgs, dynamic_resources_problems),
        _made(ImageLocality),
        _made(DefaultBinder),
        _made(DefaultPreemption, DefaultPreemptionArgs, preemption_problems),
        _made(NodeDeclaredFeatures),
        _made(GangScheduling),
        _made(TopologyPlacementGenerator),
        _made(PodGroupPodsCount),
    )
)


class InTreeRegistry(Registry):
    """These, and those of installed packages."""

    def __init__(
        self,
        gates: FeatureGates | None = None,
        entry_points: Iterable[metadata.EntryPoint] | None = None,
        *,
        samples_compatibly: bool = False,
    ) -> None:
        """`samples_compatibly`: see `node_sample.py`."""
        gates = gates or FeatureGates()
        in_tree = {name: partial(make, gates) for name, make in IN_TREE.items()}
        gated = chain(*(each for gate, each in GATED_PLUGINS.items() if gates[gate]))
        super().__init__(in_tree, entry_points, (*DEFAULT_PLUGINS, *gated), samples_compatibly)
