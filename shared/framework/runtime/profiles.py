"""What a profile says, and which plugins run at which extension point by that.

Apart from the configuration file (`shared/config.py` reads that) and from the plugins themselves
(`registry.py` makes those), so that either can be tested without the other. A profile's multiPoint is
merged with the default plugins and then spread over the extension points that each plugin implements;
what a point says itself goes before. To the letter as in kube-scheduler, because people bring their
configuration files.

Shape: KubeSchedulerProfile of kubescheduler.config.k8s.io/v1, v1.36. Rules: `mergePluginSet` in
pkg/scheduler/apis/config/v1/default_plugins.go, and `expandMultiPointPlugins`, `getScoreWeights` in
pkg/scheduler/framework/runtime/framework.go, v1.36.2.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from shared import plugin_names
from shared.framework.out_of_tree import Plugin

MULTI_POINT: Final = "multiPoint"
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
    "placementGenerate": (),
    "placementScore": ("score_placements",),
}
"""Extension point -> the methods by which a plugin takes part in it; one is enough."""

EXTENSION_POINTS: Final = tuple(METHODS)
"""As they are called in a configuration file, without `multiPoint`."""

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"


class PluginSet(msgspec.Struct, frozen=True):
    """`plugins.<extension point>` of a profile."""

    enabled: list[tuple[str, int]] = []
    """(name, weight) in order; weight 0 means that none is stated."""
    disabled: list[str] = []
    """Names; "*" stands for all of the default profile."""


class ProfileConfig(msgspec.Struct, frozen=True):
    """One entry of `profiles`, as written: what it leaves out comes from the default profile."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    plugins: dict[str, PluginSet] = {}
    """Extension point (`multiPoint` or one of EXTENSION_POINTS) -> what is enabled and disabled."""
    plugin_config: dict[str, dict[str, Any]] = {}
    """Plugin -> its arguments as in the file, without apiVersion and kind."""
    percentage_of_nodes_to_score: int | None = None


CARRIED_OUT_BY_NAME: Final[Mapping[str, frozenset[str]]] = {
    "preBind": frozenset((plugin_names.VOLUME_BINDING, plugin_names.DYNAMIC_RESOURCES)),
    "preEnqueue": frozenset((plugin_names.GANG_SCHEDULING, plugin_names.DEFAULT_PREEMPTION)),
    "permit": frozenset((plugin_names.GANG_SCHEDULING,)),
    "placementGenerate": frozenset((plugin_names.TOPOLOGY_PLACEMENT_GENERATOR,)),
}
"""Extension point -> in-tree plugins that take part in it without a method: who runs the point knows
them by name (`workers/binder/binding_cycle.py`, `daemon/core/pod_groups.py`)."""


OURS_ALONE: Final[Mapping[str, frozenset[str]]] = {
    "preFilter": frozenset(
        (plugin_names.NODE_NAME, plugin_names.NODE_UNSCHEDULABLE, plugin_names.TAINT_TOLERATION)
    ),
    "preScore": frozenset((plugin_names.IMAGE_LOCALITY, plugin_names.DYNAMIC_RESOURCES)),
}
"""Extension point -> in-tree plugins that take part in it here and not in kube-scheduler, whose
configuration cannot name them there."""
_RUN_WITH: Final = {"preFilter": "filter", "preScore": "score"}
"""Extension point -> the later one whose plugins go by what they find in it."""


def runs_anyway(point: str, plugins_at: Mapping[str, tuple[Plugin, ...]]) -> list[Plugin]:
    """Plugins that take part in a point without being enabled there: they are at the later one."""
    later = plugins_at[_RUN_WITH[point]] if point in _RUN_WITH else ()
    return [each for each in later if takes_part(each, point) and each not in plugins_at[point]]


def is_named(plugin: Plugin, point: str) -> bool:
    """A configuration that kube-scheduler takes may name it there."""
    return plugin.NAME not in OURS_ALONE.get(point, ())


def takes_part(plugin: Plugin, point: str) -> bool:
    """Whether the plugin has something to do at an extension point."""
    if plugin.NAME in CARRIED_OUT_BY_NAME.get(point, ()):
        return True
    return any(hasattr(plugin, method) for method in METHODS[point])


def merged_with_default(
    custom: PluginSet, defaults: Iterable[tuple[str, int]]
) -> list[tuple[str, int]]:
    """multiPoint: the default plugins that are not disabled, then the profile's own."""
    own = {name: (index, weight) for index, (name, weight) in enumerate(custom.enabled)}
    merged: list[tuple[str, int]] = []
    replaced: set[int] = set()
    for name, weight in defaults if "*" not in custom.disabled else ():
        if name not in custom.disabled:
            index, own_weight = own.get(name, (-1, weight))
            replaced.add(index)
            merged.append((name, own_weight))
    return merged + [entry for index, entry in enumerate(custom.enabled) if index not in replaced]


def expanded(
    point: str,
    plugins: PluginSet,
    multi_point: Iterable[tuple[str, int]],
    made: Mapping[str, Plugin],
    problems: list[str],
) -> tuple[Plugin, ...]:
    """The plugins of one extension point, in kube-scheduler's order. First those of multiPoint that the
    extension point names again (in the order of the latter), then the others of multiPoint, then what
    only the extension point names."""
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
    # What the point names itself is taken from there, however often multiPoint has it.
    doubtful = [name for name in spread if name not in own and is_named(made[name], point)]
    problems += _twice(f"plugins.{MULTI_POINT}.enabled (for {point})", doubtful)
    spread = list(dict.fromkeys(spread))
    named_again = [name for name in own if name in spread]
    from_multi_point = [name for name in spread if name not in own]
    only_here = [name for name in own if name not in spread]
    return tuple(made[name] for name in (*named_again, *from_multi_point, *only_here))


def _twice(where: str, names: list[str]) -> list[str]:
    again = sorted({name for name in names if names.count(name) > 1})
    return [f"{where}: {name} stands there twice" for name in again]
