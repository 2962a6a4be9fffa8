"""Plugins by name: which of them a profile has, made and in order.

How in-tree plugins are made the caller says (`shared/plugins/in_tree.py`); others come from installed
packages (`out_of_tree.py`). Which plugin runs where: `profiles.py`.

Rules: `NewFramework` in pkg/scheduler/framework/runtime/framework.go, v1.36.2. One departure: a plugin
of `score` has its PreScore run whatever `preScore` says: it does not score without what that computed.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import metadata
from typing import NamedTuple

from shared.errors import ConfigurationError
from shared.framework.out_of_tree import (
    ENTRY_POINT_GROUP,
    Args,
    Factory,
    Plugin,
    make_out_of_tree,
    plugin_entry_points,
    source_of,
)
from shared.framework.plugin_api import DEPENDENCE_OF
from shared.framework.queueing_hints import Registrations, registrations_of
from shared.framework.runtime.framework import Framework, sampling_of
from shared.framework.runtime.profiles import (
    EXTENSION_POINTS,
    METHODS,
    MULTI_POINT,
    PluginSet,
    ProfileConfig,
    expanded,
    is_named,
    merged_with_default,
    runs_anyway,
)


class BuiltProfile(NamedTuple):
    """A profile's plugins, made and in order."""

    scheduler_name: str
    framework: Framework
    plugins_at: Mapping[str, tuple[Plugin, ...]]
    """Extension point -> plugins in the order in which they run."""
    notes: tuple[str, ...]
    """Settings that were accepted and have no effect, each with the reason."""
    registrations: Registrations
    """The events that help pods which its plugins refused."""
    enabled: frozenset[str]
    """Plugins that are enabled anywhere, be it that each point disables them (`pluginsNeeded` in
    pkg/scheduler/framework/runtime/framework.go, v1.36.2)."""

    @property
    def queue_sort(self) -> Plugin:
        return self.plugins_at["queueSort"][0]

    @property
    def labels_read(self) -> frozenset[str] | None:
        """By its plugins, as they state it (`Promises.reads_labels`); None: any."""
        keys: set[str] = set()
        for plugin in {plugin for each in self.plugins_at.values() for plugin in each}:
            stated = getattr(plugin, "reads_labels", None)
            if stated is None:
                return None
            keys |= stated
        return frozenset(keys)


def rejecting(plugins_at: Mapping[str, tuple[Plugin, ...]]) -> list[Plugin]:
    """The plugins that may keep a pod from being scheduled, each once, in the order in which they
    run (shouldHaveEnqueueExtensions upstream)."""
    points = ("preEnqueue", "preFilter", "filter", "reserve", "permit")
    return list(dict.fromkeys(plugin for point in points for plugin in plugins_at[point]))


class Registry:
    """All plugins that can be named in a profile, and what a profile of them does."""

    def __init__(
        self,
        in_tree: Mapping[str, Factory],
        entry_points: Iterable[metadata.EntryPoint] | None,
        default_plugins: Sequence[tuple[str, int]],
        samples_compatibly: bool,  # As InTreeRegistry has it.
    ) -> None:
        self._default_plugins = default_plugins
        self._samples_compatibly = samples_compatibly
        out_of_tree = plugin_entry_points(entry_points)
        foreign = {name: partial(_make_foreign, point) for name, point in out_of_tree.items()}
        self._factories: dict[str, Factory] = {**in_tree, **foreign}
        self._foreign = foreign.keys()
        taken = sorted(set(foreign) & set(in_tree))
        if taken:
            problems = [
                f"{name}: is the name of an in-tree plugin; choose another" for name in taken
            ]
            raise ConfigurationError(f"entry points {ENTRY_POINT_GROUP}", problems)

    def names(self) -> list[str]:
        """Every plugin that a profile may enable."""
        return sorted(self._factories)

    def build(self, profile: ProfileConfig) -> BuiltProfile:
        """ConfigurationError names everything that is wrong with the profile."""
        problems, notes = self._name_problems(profile)
        sets = {point: profile.plugins.get(point, PluginSet()) for point in EXTENSION_POINTS}
        custom = profile.plugins.get(MULTI_POINT, PluginSet())
        multi_point = merged_with_default(custom, self._default_plugins)
        enabled = {name for name, _ in multi_point}
        enabled.update(name for plugins in sets.values() for name, _ in plugins.enabled)
        made = self._make_all(profile, enabled, problems)
        _raise_if(problems, profile)
        plugins_at = {
            point: expanded(point, plugins, multi_point, made, problems)
            for point, plugins in sets.items()
        }
        if len(plugins_at["queueSort"]) != 1:
            found = ", ".join(p.NAME for p in plugins_at["queueSort"]) or "none"
            problems.append(f"plugins.queueSort: exactly one plugin is needed, not {found}")
        if not plugins_at["bind"]:
            problems.append("plugins.bind: at least one plugin is needed; enable DefaultBinder")
        _raise_if(problems, profile)
        for point, later in (("preFilter", "PreFilter"), ("preScore", "PreScore")):
            if any(is_named(plugin, point) for plugin in runs_anyway(point, plugins_at)):
                told = f"no effect on plugins of {later[3:].lower()}: their {later} runs always"
                notes.append(f"plugins.{point}: {told}")
        pre_filters = [*plugins_at["preFilter"], *runs_anyway("preFilter", plugins_at)]
        scores, placement_scores = (
            _weighed(plugins_at[point], (*sets[point].enabled, *multi_point))
            for point in ("score", "placementScore")
        )
        framework = Framework(
            pre_filters,
            plugins_at["filter"],
            _alone_in_pre_score(plugins_at) + scores,
            plugins_at["postFilter"],
            placement_scores,
            sampling_of(
                profile.percentage_of_nodes_to_score, is_compatible=self._samples_compatibly
            ),
        )
        return BuiltProfile(
            profile.scheduler_name,
            framework,
            plugins_at,
            tuple(notes),
            registrations_of(rejecting(plugins_at)),
            frozenset(enabled),
        )

    def _name_problems(self, profile: ProfileConfig) -> tuple[list[str], list[str]]:
        """What is wrong with the plugins' names in a profile, and which of them have no effect."""
        problems: list[str] = []
        notes: list[str] = []
        for point, plugins in profile.plugins.items():
            where = f"plugins.{point}"
            for name, _ in plugins.enabled:
                if name not in self._factories:
                    known = ", ".join(self.names())
                    told = f"there is no plugin {name}; there are {known}"
                    problems.append(f"{where}.enabled[{name}]: {told}")
            notes += [
                f"{where}.disabled: {name}: no effect; there is no such plugin"
                for name in plugins.disabled
                if name != "*" and name not in self._factories
            ]
        notes += [
            f"pluginConfig: {name}: no effect; there is no such plugin"
            for name in profile.plugin_config
            if name not in self._factories
        ]
        return problems, notes

    def _make_all(
        self,
        profile: ProfileConfig,
        enabled: set[str],
        problems: list[str],
    ) -> dict[str, Plugin]:
        """One instance of each plugin that is enabled somewhere; checks the arguments of the rest of
        those in-tree. Others are not made for nothing."""
        needed = enabled | (profile.plugin_config.keys() - self._foreign)
        made: dict[str, Plugin] = {}
        for name in sorted(needed & self._factories.keys()):
            given = profile.plugin_config.get(name, {})
            try:
                made[name] = self._factories[name](given)
            except ConfigurationError as error:
                problems.extend(f"{error.source}: {problem}" for problem in error.problems)
        return made


def _make_foreign(point: metadata.EntryPoint, given: Args) -> Plugin:
    plugin = make_out_of_tree(point, given)
    problems = _shape_problems(point.name, plugin)
    if problems:
        raise ConfigurationError(source_of(point), problems)
    return plugin


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
    for method, declaration in DEPENDENCE_OF.items():
        if hasattr(plugin, method) and not hasattr(plugin, declaration):
            problems.append(f"has {method} but no {declaration}: say what the result depends on")
    if hasattr(plugin, "normalize") != hasattr(plugin, "normalization"):
        problems.append("normalize and normalization go together")
    return problems


def _weighed(
    plugins: Iterable[Plugin], stated: Sequence[tuple[str, int]]
) -> list[tuple[Plugin, int]]:
    """With the first weight stated for each, the extension point's own before multiPoint's."""
    weights = {name: weight or 1 for name, weight in reversed(stated)}
    return [(plugin, weights[plugin.NAME]) for plugin in plugins]


def _alone_in_pre_score(plugins_at: Mapping[str, tuple[Plugin, ...]]) -> list[tuple[Plugin, int]]:
    """Those that take part in preScore alone (weight 0); of such as could score, those whose PreScore
    may refuse the pod."""
    return [
        (plugin, 0)
        for plugin in plugins_at["preScore"]
        if hasattr(plugin, "pre_score")
        and plugin not in plugins_at["score"]
        and getattr(plugin, "refuses_in_pre_score", not hasattr(plugin, "score"))
    ]
