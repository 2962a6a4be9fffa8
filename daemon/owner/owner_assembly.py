"""The owner's core put together as a configuration says, for `__main__` and for the simulation."""

import itertools
from collections.abc import Callable
from typing import Any

from daemon.core.holdings import Settings
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.pod_groups import NO_GROUPS, GroupSettings
from daemon.core.state import SchedulerState
from shared import feature_gates
from shared.config import SchedulerConfiguration, scoring_digest
from shared.errors import ConfigurationError
from shared.framework.plugin_api import QueueSortPlugin
from shared.framework.runtime.plugin_times import IN_OWNER
from shared.framework.runtime.profiles import CARRIED_OUT_BY_NAME
from shared.framework.runtime.registry import BuiltProfile
from shared.in_hand import InHand
from shared.plugin_names import DEFAULT_PREEMPTION, GANG_SCHEDULING, TOPOLOGY_PLACEMENT_GENERATOR
from shared.plugins.in_tree import InTreeRegistry
from shared.runtime_options import RuntimeOptions


def make_state(
    config: SchedulerConfiguration,
    gates: feature_gates.FeatureGates,
    registry: InTreeRegistry,
    options: RuntimeOptions,
    epoch: int,
    now_s: float,
    in_hand: InHand | None = None,
    stopwatch: Callable[[], float] = lambda: 0.0,
    *,
    is_candidate: bool = False,
) -> SchedulerState:
    """A core that knows nothing of the cluster yet; ConfigurationError where profiles contradict one
    another. `epoch` is greater than that of any earlier owner; `stopwatch` as `Counters` has it;
    `is_candidate`: with leader election."""
    built = [registry.build(profile) for profile in config.profiles]
    groups, digest = _group_settings(built, gates, options), scoring_digest(config, gates)
    settings = Settings(gates, config, options, groups, is_candidate, digest)
    plugins = OwnerPlugins(
        queue_sort=_queue_sort(built),
        pre_enqueue={p.scheduler_name: with_method(p, "preEnqueue") for p in built},
        reserve={p.scheduler_name: p.plugins_at["reserve"] for p in built},
        permit={p.scheduler_name: with_method(p, "permit") for p in built},
        registrations={p.scheduler_name: p.registrations for p in built},
        labels_read=_labels_read(built),
    )
    frameworks = {profile.scheduler_name: profile.framework for profile in built}
    state = SchedulerState(epoch, settings, frameworks, plugins, now_s, in_hand, stopwatch)
    for profile in built:
        several = (profile.plugins_at[point] for point in ("preEnqueue", "reserve", "permit"))
        watched = itertools.chain(*several)
        state.counters.plugin_times.watch(profile.scheduler_name, watched, IN_OWNER)
    return state


def _labels_read(built: list[BuiltProfile]) -> frozenset[str] | None:
    """None: any."""
    read = [keys for profile in built if (keys := profile.labels_read) is not None]
    return frozenset().union(*read) if len(read) == len(built) else None


def with_method(profile: BuiltProfile, point: str) -> tuple[Any, ...]:
    """The plugins of an extension point but those that are carried out by name."""
    by_name = CARRIED_OUT_BY_NAME[point]
    return tuple(each for each in profile.plugins_at[point] if each.NAME not in by_name)


def _group_settings(
    built: list[BuiltProfile], gates: feature_gates.FeatureGates, options: RuntimeOptions
) -> GroupSettings:
    if not gates[feature_gates.GENERIC_WORKLOAD]:
        return NO_GROUPS

    def having(plugin: str, point: str) -> frozenset[str]:
        return frozenset(
            profile.scheduler_name
            for profile in built
            if plugin in (each.NAME for each in profile.plugins_at[point])
        )

    placing = having(TOPOLOGY_PLACEMENT_GENERATOR, "placementGenerate")
    # Wherever it is enabled (NewFramework in pkg/scheduler/framework/runtime/framework.go, v1.36.2).
    preempting = frozenset(p.scheduler_name for p in built if DEFAULT_PREEMPTION in p.enabled)
    return GroupSettings(
        having(GANG_SCHEDULING, "preEnqueue"),
        having(GANG_SCHEDULING, "permit"),
        placing if gates[feature_gates.TOPOLOGY_AWARE_WORKLOAD_SCHEDULING] else None,
        preempting if gates[feature_gates.WORKLOAD_AWARE_PREEMPTION] else None,
        are_foreign=bool(options.pod_groups),
        reservation_s=options.gang_reservation_s,
    )


def _queue_sort(built: list[BuiltProfile]) -> QueueSortPlugin:
    """There is one queue, so all profiles must order it alike (as in kube-scheduler)."""
    plugins = {profile.queue_sort.NAME: profile.queue_sort for profile in built}
    if len(plugins) > 1:
        problem = f"profiles enable different plugins ({', '.join(sorted(plugins))}); choose one"
        raise ConfigurationError("profiles[].plugins.queueSort", [problem])
    (plugin,) = plugins.values()
    assert isinstance(plugin, QueueSortPlugin), "the registry checks what a plugin can do"
    return plugin
