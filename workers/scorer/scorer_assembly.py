"""A scorer put together as a configuration says: apart from `__main__`, as the simulation makes it,
too.
"""

import itertools
from typing import Final

from shared.clock import Clock
from shared.config import SchedulerConfiguration
from shared.framework.runtime.plugin_times import IN_SCORERS, PluginTimes
from shared.kube.decode import decode_object
from shared.plugins.in_tree import InTreeRegistry
from shared.transport.heartbeat import Heartbeat
from shared.transport.scorer_sockets import ScorerSockets
from workers.scorer.extender_calls import ExtenderCaller
from workers.scorer.scorer_loop import ScorerLoop
from workers.scorer.tie_break import BY_SEED

_POINTS: Final = ("preFilter", "filter", "postFilter", "preScore", "score")


def make_loop(
    sockets: ScorerSockets,
    config: SchedulerConfiguration,
    registry: InTreeRegistry,
    clock: Clock,
    heartbeat: Heartbeat,
    caller: ExtenderCaller | None = None,
    *,
    worker_index: int,
    instance: str,
    seed: int,
    tie_break: str = BY_SEED,
    configuration: str = "",
) -> ScorerLoop:
    """A scorer that has no copy of the cluster yet. `caller`: with extenders. `instance`: another one
    for each life of the process. `configuration`: on another host; see `ScorerHello`."""
    built = [registry.build(profile) for profile in config.profiles]
    times = PluginTimes(clock.monotonic_s)
    for profile in built:
        several = (profile.plugins_at[point] for point in _POINTS)
        times.watch(profile.scheduler_name, itertools.chain(*several), IN_SCORERS)
    return ScorerLoop(
        sockets,
        worker_index=worker_index,
        instance=instance,
        # Workers break ties differently, so that they do not meet on the same nodes.
        seed=seed * 1_000_003 + worker_index,
        tie_break=tie_break,
        frameworks={profile.scheduler_name: profile.framework for profile in built},
        reserves={p.scheduler_name: p.plugins_at["reserve"] for p in built},
        decode_object=decode_object,
        clock=clock,
        caller=caller,
        heartbeat=heartbeat,
        configuration=configuration,
        plugin_times=times,
    )
