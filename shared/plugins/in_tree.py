"""The in-tree plugins: how each is made of its arguments, and profiles made of these and others.

Rules: pkg/scheduler/framework/plugins/registry.go, v1.36.2. One departure: a plugin of `score` has its
PreScore run whatever `preScore` says, as it does not score without what that computed.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from itertools import chain
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.feature_gates import STORAGE_CAPACITY_SCORING, FeatureGates
from shared.framework.cluster_view import ClusterView
from shared.framework.out_of_tree import Args, Plugin
from shared.framework.plugin_api import ON_NODE, Dependence, PreScorePlugin, PreScoreResult
from shared.framework.plugin_args import ArgsStruct, parse_args
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Registrations, registrations_of
from shared.framework.runtime.framework import Framework, ScoreEntry
from shared.framework.runtime.profiles import DEFAULT_PLUGINS, GATED_PLUGINS, ProfileConfig
from shared.framework.runtime.registry import Registry
from shared.framework.status import SKIP
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
from shared.plugins.gates.priority_sort import PrioritySort
from shared.plugins.gates.scheduling_gates import SchedulingGates
from shared.plugins.images.image_locality import ImageLocality
from shared.plugins.interpod.inter_pod_affinity import (
    InterPodAffinity,
    InterPodAffinityArgs,
    interpod_problems,
)
from shared.plugins.node.node_affinity import NodeAffinity, NodeAffinityArgs, affinity_problems
from shared.plugins.node.node_declared_features import NodeDeclaredFeatures
from shared.plugins.node.node_name import NodeName
from shared.plugins.node.node_ports import NodePorts
from shared.plugins.node.node_unschedulable import NodeUnschedulable
from shared.plugins.node.taint_toleration import TaintToleration
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
from shared.plugins.spread.spread_args import PodTopologySpreadArgs, spread_problems
from shared.plugins.volumes.node_volume_limits import NodeVolumeLimits
from shared.plugins.volumes.volume_binding import (
    VolumeBinding,
    VolumeBindingArgs,
    volume_binding_problems,
)
from shared.plugins.volumes.volume_restrictions import VolumeRestrictions
from shared.plugins.volumes.volume_zone import VolumeZone

Factory = Callable[[Args, FeatureGates], Plugin]


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

    def make(given: Args, gates: FeatureGates) -> Plugin:
        parsed = [parse_args(plugin.NAME, kind, given, check)] if kind else []
        return plugin(*parsed, *([gates] if is_gated else []))

    return plugin.NAME, make


def _volume_binding(given: Args, gates: FeatureGates) -> Plugin:
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


class BuiltProfile(NamedTuple):
    """A profile's plugins, made and in order."""

    scheduler_name: str
    framework: Framework
    plugins_at: Mapping[str, tuple[Plugin, ...]]
    """Extension point -> plugins in the order in which they run."""
    notes: tuple[str, ...]
    """Settings that were accepted and have no effect, each with the reason."""
    percentage_of_nodes_to_score: int | None
    registrations: Registrations
    """The events that help pods which its plugins refused."""

    @property
    def queue_sort(self) -> Plugin:
        return self.plugins_at["queueSort"][0]


def rejecting(plugins_at: Mapping[str, tuple[Plugin, ...]]) -> list[Plugin]:
    """The plugins that may keep a pod from being scheduled, each once, in the order in which they
    run (shouldHaveEnqueueExtensions upstream)."""
    points = ("preEnqueue", "preFilter", "filter", "reserve", "permit")
    return list(dict.fromkeys(plugin for point in points for plugin in plugins_at[point]))


def _bound(make: Factory, gates: FeatureGates) -> Callable[[Args], Plugin]:
    return lambda given: make(given, gates)


class InTreeRegistry(Registry):
    """All plugins that can be named in a profile, and what a profile of them does."""

    def __init__(
        self,
        gates: FeatureGates | None = None,
        entry_points: Iterable[metadata.EntryPoint] | None = None,
        *,
        samples_compatibly: bool = False,
    ) -> None:
        """`samples_compatibly`: see `node_sample.py`."""
        gates = gates or FeatureGates()
        in_tree = {name: _bound(make, gates) for name, make in IN_TREE.items()}
        gated = chain(*(each for gate, each in GATED_PLUGINS.items() if gates[gate]))
        default_plugins = (*DEFAULT_PLUGINS, *gated)
        super().__init__(in_tree, entry_points, default_plugins)
        self._samples_compatibly = samples_compatibly

    def build(self, profile: ProfileConfig) -> BuiltProfile:
        """ConfigurationError names everything that is wrong with the profile."""
        plugins_at, weights_at, notes = self.plugins_of(profile)
        framework = Framework(
            profile.scheduler_name,
            plugins_at["preFilter"],
            plugins_at["filter"],
            _score_entries(plugins_at, weights_at["score"]),
            plugins_at["postFilter"],
            profile.percentage_of_nodes_to_score,
            placement_scores=[
                ScoreEntry(plugin, weights_at["placementScore"][plugin.NAME])
                for plugin in plugins_at["placementScore"]
            ],
            samples_compatibly=self._samples_compatibly,
        )
        return BuiltProfile(
            profile.scheduler_name,
            framework,
            plugins_at,
            notes,
            profile.percentage_of_nodes_to_score,
            registrations_of(rejecting(plugins_at)),
        )


def _score_entries(
    plugins_at: Mapping[str, tuple[Plugin, ...]], weights: Mapping[str, int]
) -> list[ScoreEntry]:
    """The plugins of score, each with its PreScore, after those that take part in preScore alone."""
    scores = plugins_at["score"]
    alone = [
        plugin
        for plugin in plugins_at["preScore"]
        if not hasattr(plugin, "score") and hasattr(plugin, "pre_score")
    ]
    entries = [ScoreEntry(PreScoreAlone(plugin), 0) for plugin in alone]
    return entries + [ScoreEntry(plugin, weights[plugin.NAME]) for plugin in scores]


class PreScoreAlone:
    """Passes PreScore on; never scores."""

    NAME: ClassVar[str]
    pre_score_depends: ClassVar[Dependence | None]
    score_depends: ClassVar[Dependence] = ON_NODE

    def __init__(self, plugin: PreScorePlugin) -> None:
        # Each wrapper has its plugin's.
        vars(self).update(NAME=plugin.NAME, pre_score_depends=plugin.pre_score_depends)
        self._plugin = plugin

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        result = self._plugin.pre_score(pod, cluster, feasible)
        return result._replace(status=SKIP) if result.status.is_success else result

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        return np.zeros(len(rows), np.int64)
