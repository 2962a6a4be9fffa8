"""Plugins by name, and profiles made of them.

In-tree plugins stand in a table here; others come from installed packages through the entry point
group `berth.plugins` (name = plugin name, object = a callable that takes the arguments as a dict
and returns the plugin). Which plugin runs where follows kube-scheduler to the letter, because
people bring their configuration files: default profile, merged with the profile's sets, then
multiPoint spread over the extension points that a plugin implements.

Rules: pkg/scheduler/apis/config/v1/default_plugins.go `mergePluginSet`, and `NewFramework`,
`expandMultiPointPlugins`, `getScoreWeights` in pkg/scheduler/framework/runtime/framework.go,
v1.36.2. One departure: a plugin of `score` has its PreScore run whatever `preScore` says, as it does
not score without what that computed.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any, Final, NamedTuple, cast

from shared import plugin_names
from shared.errors import ConfigurationError
from shared.framework.feature_gates import STORAGE_CAPACITY_SCORING, FeatureGates
from shared.framework.pre_score_alone import PreScoreAlone
from shared.framework.profiles import EXTENSION_POINTS, MULTI_POINT, PluginSet, ProfileConfig
from shared.framework.runtime import Framework, ScoreEntry
from shared.plugins import args
from shared.plugins.default_binder import DefaultBinder
from shared.plugins.default_preemption import DefaultPreemption
from shared.plugins.dynamic_resources import DynamicResources
from shared.plugins.image_locality import ImageLocality
from shared.plugins.inter_pod_affinity import InterPodAffinity
from shared.plugins.node_affinity import NodeAffinity
from shared.plugins.node_declared_features import NodeDeclaredFeatures
from shared.plugins.node_name import NodeName
from shared.plugins.node_ports import NodePorts
from shared.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from shared.plugins.node_resources_fit import NodeResourcesFit
from shared.plugins.node_unschedulable import NodeUnschedulable
from shared.plugins.node_volume_limits import NodeVolumeLimits
from shared.plugins.pod_topology_spread import PodTopologySpread
from shared.plugins.priority_sort import PrioritySort
from shared.plugins.scheduling_gates import SchedulingGates
from shared.plugins.taint_toleration import TaintToleration
from shared.plugins.volume_binding import VolumeBinding
from shared.plugins.volume_restrictions import VolumeRestrictions
from shared.plugins.volume_zone import VolumeZone

ENTRY_POINT_GROUP: Final = "berth.plugins"

Plugin = Any
"""An object with a NAME and methods of `plugin_api`; which ones, only looking at it tells."""
Args = dict[str, Any]
Factory = Callable[[Args, FeatureGates], Plugin]

METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "preEnqueue": ("pre_enqueue",),
    "queueSort": ("queue_key",),
    "preFilter": ("pre_filter",),
    "filter": ("filter",),
    "postFilter": ("post_filter",),
    "preScore": ("pre_score",),
    "score": ("score",),
    "reserve": ("reserve",),
    "permit": ("permit",),
    "preBind": ("pre_bind",),
    "bind": ("bind", "binder_name"),
    "postBind": ("post_bind",),
}
"""Extension point -> the methods by which a plugin takes part in it; one is enough."""

_DECLARATIONS: Final[Mapping[str, str]] = {
    "pre_filter": "pre_filter_depends",
    "filter": "filter_depends",
    "pre_score": "pre_score_depends",
    "score": "score_depends",
}
"""Method -> the declaration that must stand beside it."""


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

CARRIED_OUT_BY_NAME: Final[Mapping[str, frozenset[str]]] = {
    "preBind": frozenset((plugin_names.VOLUME_BINDING, plugin_names.DYNAMIC_RESOURCES)),
}
"""Extension point -> in-tree plugins that take part in it without a method: who runs the point knows
them by name (`workers/binder/binding_cycle.py`)."""


class BuiltProfile(NamedTuple):
    """A profile's plugins, made and in order."""

    scheduler_name: str
    framework: Framework
    plugins_at: Mapping[str, tuple[Plugin, ...]]
    """Extension point -> plugins in the order in which they run."""
    out_of_tree: tuple[Plugin, ...]
    """Those of them that are somebody else's."""
    notes: tuple[str, ...]
    """Settings that were accepted and have no effect, each with the reason."""
    percentage_of_nodes_to_score: int | None

    @property
    def queue_sort(self) -> Plugin:
        return self.plugins_at["queueSort"][0]


class Registry:
    """All plugins that can be named in a profile."""

    def __init__(
        self,
        gates: FeatureGates | None = None,
        entry_points: Iterable[metadata.EntryPoint] | None = None,
    ) -> None:
        self._gates = gates or FeatureGates()
        if entry_points is None:
            entry_points = metadata.entry_points(group=ENTRY_POINT_GROUP)
        self._out_of_tree = {point.name: point for point in entry_points}
        taken = sorted(set(self._out_of_tree) & set(IN_TREE))
        if taken:
            problems = [
                f"{name}: is the name of an in-tree plugin; choose another" for name in taken
            ]
            raise ConfigurationError(f"entry points {ENTRY_POINT_GROUP}", problems)

    def names(self) -> list[str]:
        """Every plugin that a profile may enable."""
        return sorted((*IN_TREE, *self._out_of_tree))

    def build(self, profile: ProfileConfig) -> BuiltProfile:
        """The profile's plugins; ConfigurationError names everything that is wrong with it."""
        problems, notes = self._name_problems(profile)
        _raise_if(problems, profile)
        sets = {point: profile.plugins.get(point, PluginSet()) for point in EXTENSION_POINTS}
        multi_point = _merged_with_default(profile.plugins.get(MULTI_POINT, PluginSet()))
        made = self._make_all(profile, sets, multi_point, problems)
        _raise_if(problems, profile)
        plugins_at = {
            point: _expanded(point, sets[point], multi_point, made, problems)
            for point in EXTENSION_POINTS
        }
        if len(plugins_at["queueSort"]) != 1:
            found = ", ".join(p.NAME for p in plugins_at["queueSort"]) or "none"
            problems.append(f"plugins.queueSort: exactly one plugin is needed, not {found}")
        if not plugins_at["bind"]:
            problems.append("plugins.bind: at least one plugin is needed; enable DefaultBinder")
        _raise_if(problems, profile)
        if "preScore" in profile.plugins:
            notes.append(
                "plugins.preScore: no effect on plugins of score: their PreScore runs always"
            )
        framework = Framework(
            profile.scheduler_name,
            plugins_at["preFilter"],
            plugins_at["filter"],
            _score_entries(plugins_at, _weights((*sets["score"].enabled, *multi_point))),
            plugins_at["postFilter"],
            profile.percentage_of_nodes_to_score,
        )
        return BuiltProfile(
            profile.scheduler_name,
            framework,
            plugins_at,
            tuple(plugin for name, plugin in made.items() if name in self._out_of_tree),
            tuple(notes),
            profile.percentage_of_nodes_to_score,
        )

    # Names -----------------------------------------------------------------------------------------

    def _name_problems(self, profile: ProfileConfig) -> tuple[list[str], list[str]]:
        """What is wrong with the names in a profile, and which of them have no effect."""
        problems: list[str] = []
        notes: list[str] = []
        for point, plugins in profile.plugins.items():
            where = f"plugins.{point}"
            if point not in (MULTI_POINT, *EXTENSION_POINTS):
                known = ", ".join((MULTI_POINT, *EXTENSION_POINTS))
                problems.append(f"{where}: is no extension point; there are {known}")
            for name, _ in plugins.enabled:
                if not self._knows(name):
                    problems.append(f"{where}.enabled: {self._unknown(name)}")
            notes += [
                f"{where}.disabled: {name}: no effect; there is no such plugin"
                for name in plugins.disabled
                if name != "*" and not self._knows(name)
            ]
        notes += [
            f"pluginConfig: {name}: no effect; there is no such plugin"
            for name in profile.plugin_config
            if not self._knows(name)
        ]
        return problems, notes

    def _knows(self, name: str) -> bool:
        return name in IN_TREE or name in self._out_of_tree

    def _unknown(self, name: str) -> str:
        return f"there is no plugin {name}; there are {', '.join(self.names())}"

    # Making ----------------------------------------------------------------------------------------

    def _make_all(
        self,
        profile: ProfileConfig,
        sets: Mapping[str, PluginSet],
        multi_point: Iterable[tuple[str, int]],
        problems: list[str],
    ) -> dict[str, Plugin]:
        """One instance of each plugin that is enabled somewhere; checks the arguments of the rest."""
        needed = {name for name, _ in multi_point}
        needed.update(name for plugins in sets.values() for name, _ in plugins.enabled)
        configured = {name for name in profile.plugin_config if self._knows(name)}
        made: dict[str, Plugin] = {}
        for name in sorted(needed | configured):
            given = profile.plugin_config.get(name, {})
            try:
                made[name] = self._make(name, given)
            except ConfigurationError as error:
                problems.extend(f"{error.source}: {problem}" for problem in error.problems)
        return made

    def _make(self, name: str, given: Args) -> Plugin:
        factory = IN_TREE.get(name)
        if factory is not None:
            return factory(given, self._gates)
        point = self._out_of_tree[name]
        source = f"plugin {name} ({point.value})"
        try:
            factory = point.load()
        except (
            Exception
        ) as error:  # Somebody else's module may raise anything while it is imported.
            told = f"cannot be loaded: {type(error).__name__}: {error}"
            raise ConfigurationError(source, [told]) from error
        try:
            plugin = cast("Callable[[Args], Plugin]", factory)(given)
        except ConfigurationError:
            raise
        except Exception as error:  # As above: what is wrong with the arguments, as it puts it.
            where = f"pluginConfig[{name}].args"
            raise ConfigurationError(where, [f"{type(error).__name__}: {error}"]) from error
        problems = _shape_problems(name, plugin)
        if problems:
            raise ConfigurationError(source, problems)
        return plugin


def takes_part(plugin: Plugin, point: str) -> bool:
    """Whether the plugin has something to do at an extension point."""
    if plugin.NAME in CARRIED_OUT_BY_NAME.get(point, ()):
        return True
    return any(hasattr(plugin, method) for method in METHODS[point])


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


def _raise_if(problems: list[str], profile: ProfileConfig) -> None:
    if problems:
        raise ConfigurationError(f"profile {profile.scheduler_name}", problems)


def _shape_problems(name: str, plugin: Plugin) -> list[str]:
    """What a plugin of somebody else lacks, found before a pod is lost on it."""
    problems = []
    if getattr(plugin, "NAME", None) != name:
        problems.append(f"NAME must be {name!r}, as the entry point is called")
    methods = [method for each in METHODS.values() for method in each]
    if not any(hasattr(plugin, method) for method in methods):
        problems.append(f"has none of the methods {', '.join(methods)}")
    if hasattr(plugin, "reserve") != hasattr(plugin, "unreserve"):
        problems.append("reserve and unreserve go together")
    for method, declaration in _DECLARATIONS.items():
        if hasattr(plugin, method) and not hasattr(plugin, declaration):
            problems.append(f"has {method} but no {declaration}: say what the result depends on")
    if hasattr(plugin, "normalize") != hasattr(plugin, "normalization"):
        problems.append("normalize and normalization go together")
    return problems


def _merged_with_default(custom: PluginSet) -> list[tuple[str, int]]:
    """multiPoint: the default plugins that are not disabled, then the profile's own."""
    replacements = {name: (index, weight) for index, (name, weight) in enumerate(custom.enabled)}
    replaced: set[int] = set()
    merged: list[tuple[str, int]] = []
    if "*" not in custom.disabled:
        for name, weight in plugin_names.DEFAULT_PLUGINS:
            if name in custom.disabled:
                continue
            if name in replacements:
                index, own_weight = replacements[name]
                replaced.add(index)
                merged.append((name, own_weight))
            else:
                merged.append((name, weight))
    merged += [entry for index, entry in enumerate(custom.enabled) if index not in replaced]
    return merged


def _expanded(
    point: str,
    plugins: PluginSet,
    multi_point: Iterable[tuple[str, int]],
    made: Mapping[str, Plugin],
    problems: list[str],
) -> tuple[Plugin, ...]:
    """The plugins of one extension point, in kube-scheduler's order.

    First those of multiPoint that the extension point names again (in the order of the latter),
    then the others of multiPoint, then what only the extension point names.
    """
    own = [name for name, _ in plugins.enabled]
    problems += [
        f"plugins.{point}.enabled: {name} does not take part in {point}"
        for name in own
        if not takes_part(made[name], point)
    ]
    problems += _twice(f"plugins.{point}.enabled", own)
    if "*" in plugins.disabled:
        return tuple(made[name] for name in own)
    spread = [
        name
        for name, _ in multi_point
        if takes_part(made[name], point) and name not in plugins.disabled
    ]
    problems += _twice(f"plugins.{MULTI_POINT}.enabled (for {point})", spread)
    named_again = [name for name in own if name in spread]
    from_multi_point = [name for name in spread if name not in own]
    only_here = [name for name in own if name not in spread]
    return tuple(made[name] for name in (*named_again, *from_multi_point, *only_here))


def _twice(where: str, names: list[str]) -> list[str]:
    again = sorted({name for name in names if names.count(name) > 1})
    return [f"{where}: {name} stands there twice" for name in again]


def _weights(entries: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The first weight stated for a plugin, the extension point's own before multiPoint's."""
    weights: dict[str, int] = {}
    for name, weight in entries:
        weights.setdefault(name, weight or 1)
    return weights
