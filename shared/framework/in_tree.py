"""The in-tree plugins: how each is made of its arguments.

Rules: pkg/scheduler/framework/plugins/registry.go, v1.36.2.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from shared import plugin_names
from shared.framework import plugin_args as args
from shared.framework.extension_points import Plugin
from shared.framework.feature_gates import STORAGE_CAPACITY_SCORING, FeatureGates
from shared.plugins.binding.default_binder import DefaultBinder
from shared.plugins.devices.dynamic_resources import DynamicResources
from shared.plugins.gates.priority_sort import PrioritySort
from shared.plugins.gates.scheduling_gates import SchedulingGates
from shared.plugins.images.image_locality import ImageLocality
from shared.plugins.interpod.inter_pod_affinity import InterPodAffinity
from shared.plugins.node.node_affinity import NodeAffinity
from shared.plugins.node.node_declared_features import NodeDeclaredFeatures
from shared.plugins.node.node_name import NodeName
from shared.plugins.node.node_ports import NodePorts
from shared.plugins.node.node_unschedulable import NodeUnschedulable
from shared.plugins.node.taint_toleration import TaintToleration
from shared.plugins.preemption.default_preemption import DefaultPreemption
from shared.plugins.resources.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from shared.plugins.resources.node_resources_fit import NodeResourcesFit
from shared.plugins.spread.pod_topology_spread import PodTopologySpread
from shared.plugins.volumes.node_volume_limits import NodeVolumeLimits
from shared.plugins.volumes.volume_binding import VolumeBinding
from shared.plugins.volumes.volume_restrictions import VolumeRestrictions
from shared.plugins.volumes.volume_zone import VolumeZone

Args = dict[str, Any]
Factory = Callable[[Args, FeatureGates], Plugin]


def _without_args(plugin: type[Plugin]) -> Factory:
    def make(given: Args, gates: FeatureGates) -> Plugin:  # noqa: ARG001  # A Factory's signature.
        args.parse_args(plugin.NAME, args.NoArgs, given)
        return plugin()

    return make


def _with_gates(plugin: type[Plugin]) -> Factory:
    def make(given: Args, gates: FeatureGates) -> Plugin:
        args.parse_args(plugin.NAME, args.NoArgs, given)
        return plugin(gates)

    return make


def _with_args(
    plugin: type[Plugin], kind: type[args.A], check: Callable[[args.A], list[str]]
) -> Factory:
    def make(given: Args, gates: FeatureGates) -> Plugin:  # noqa: ARG001  # A Factory's signature.
        return plugin(args.parse_args(plugin.NAME, kind, given, check))

    return make


def _with_args_and_gates(
    plugin: type[Plugin], kind: type[args.A], check: Callable[[args.A], list[str]]
) -> Factory:
    def make(given: Args, gates: FeatureGates) -> Plugin:
        return plugin(args.parse_args(plugin.NAME, kind, given, check), gates)

    return make


def _volume_binding(given: Args, gates: FeatureGates) -> Plugin:
    def check(parsed: args.VolumeBindingArgs) -> list[str]:
        return args.volume_binding_problems(parsed, scores=gates[STORAGE_CAPACITY_SCORING])

    parsed = args.parse_args(VolumeBinding.NAME, args.VolumeBindingArgs, given, check)
    return VolumeBinding(parsed, gates)


IN_TREE: Final[Mapping[str, Factory]] = {
    plugin_names.SCHEDULING_GATES: _without_args(SchedulingGates),
    plugin_names.PRIORITY_SORT: _without_args(PrioritySort),
    plugin_names.NODE_UNSCHEDULABLE: _with_gates(NodeUnschedulable),
    plugin_names.NODE_NAME: _without_args(NodeName),
    plugin_names.TAINT_TOLERATION: _with_gates(TaintToleration),
    plugin_names.NODE_AFFINITY: _with_args(
        NodeAffinity, args.NodeAffinityArgs, args.affinity_problems
    ),
    plugin_names.NODE_PORTS: _without_args(NodePorts),
    plugin_names.NODE_RESOURCES_FIT: _with_args(
        NodeResourcesFit, args.NodeResourcesFitArgs, args.fit_problems
    ),
    plugin_names.VOLUME_RESTRICTIONS: _without_args(VolumeRestrictions),
    plugin_names.NODE_VOLUME_LIMITS: _without_args(NodeVolumeLimits),
    plugin_names.VOLUME_BINDING: _volume_binding,
    plugin_names.VOLUME_ZONE: _without_args(VolumeZone),
    plugin_names.NODE_RESOURCES_BALANCED_ALLOCATION: _with_args(
        NodeResourcesBalancedAllocation,
        args.NodeResourcesBalancedAllocationArgs,
        args.balanced_problems,
    ),
    plugin_names.POD_TOPOLOGY_SPREAD: _with_args_and_gates(
        PodTopologySpread, args.PodTopologySpreadArgs, args.spread_problems
    ),
    plugin_names.INTER_POD_AFFINITY: _with_args(
        InterPodAffinity, args.InterPodAffinityArgs, args.interpod_problems
    ),
    plugin_names.DYNAMIC_RESOURCES: _with_args(
        DynamicResources, args.DynamicResourcesArgs, args.dynamic_resources_problems
    ),
    plugin_names.IMAGE_LOCALITY: _without_args(ImageLocality),
    plugin_names.DEFAULT_BINDER: _without_args(DefaultBinder),
    plugin_names.DEFAULT_PREEMPTION: _with_args(
        DefaultPreemption, args.DefaultPreemptionArgs, args.preemption_problems
    ),
    plugin_names.NODE_DECLARED_FEATURES: _without_args(NodeDeclaredFeatures),
}
