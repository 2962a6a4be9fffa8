"""`python -m daemon.owner`: the cache owner. Reads its options, builds the loop, runs it."""

import argparse
import signal
import sys
import time
from pathlib import Path

from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.queue.hints import HintSettings, registrations_of
from daemon.core.queue.scheduling_queue import QueueSettings
from daemon.core.settings import Settings
from daemon.core.state import SchedulerState
from daemon.owner.loop import OwnerLoop
from shared import exit_codes
from shared.clock import SystemClock
from shared.config import SchedulerConfiguration, load_configuration
from shared.config_digest import scoring_digest
from shared.errors import ConfigurationError, OperationalError
from shared.framework.feature_gates import (
    NOMINATED_NODE_NAME_FOR_EXPECTATION,
    SCHEDULER_ASYNC_PREEMPTION,
    TAINT_TOLERATION_COMPARISON_OPERATORS,
    FeatureGates,
    parse_feature_gates,
)
from shared.framework.plugin_api import QueueSortPlugin
from shared.framework.registry import BuiltProfile, Registry
from shared.in_hand import InHand, add_option
from shared.plugins.node_affinity import NodeAffinity
from shared.plugins.pod_topology_spread import PodTopologySpread
from shared.telemetry.log import EventLog, start_logging
from shared.transport.endpoints import Endpoints
from shared.transport.heartbeat import Heartbeat
from shared.transport.lease_gate import GATE_NAME, LeaseGate
from shared.transport.owner_sockets import OwnerSockets
from shared.transport.parent import Lifeline, add_options
from shared.transport.remote import WorkersEntrance
from shared.transport.stop import StopSignals

log = EventLog("owner")


def main(argv: list[str]) -> int:
    """Runs until SIGTERM, or until the supervisor is gone."""
    options = _parse(argv)
    start_logging("owner", options.log_level)
    try:
        return _run(options)
    except ConfigurationError as error:
        log.error("unusable_configuration", problem=str(error))
        return exit_codes.UNUSABLE
    except OperationalError as error:
        log.error("owner_failed", problem=str(error))
        return exit_codes.FAILED


def _run(options: argparse.Namespace) -> int:
    config = load_configuration(options.config) if options.config else SchedulerConfiguration()
    gates = parse_feature_gates(options.feature_gates)
    registry = Registry(gates)
    built = [registry.build(profile) for profile in config.profiles]
    clock = SystemClock()
    settings = Settings(
        profiles=frozenset(profile.scheduler_name for profile in built),
        binder_count=options.binders,
        is_candidate=options.elect_leader,
        assumed_pod_ttl_s=options.assume_ttl_s,
        queue=QueueSettings(
            initial_backoff_s=config.pod_initial_backoff_s,
            max_backoff_s=config.pod_max_backoff_s,
        ),
        hints=_hint_settings(built, gates),
        extenders=config.extenders,
        annotates_decisions=options.annotate_decisions,
        announces_nodes=gates[NOMINATED_NODE_NAME_FOR_EXPECTATION],
        preempts_async=gates[SCHEDULER_ASYNC_PREEMPTION],
        configuration=scoring_digest(config, gates),
    )
    entrance = _entrance(options)
    # Nanoseconds since 1970: greater than that of any earlier life on this machine.
    epoch = time.time_ns()
    frameworks = {profile.scheduler_name: profile.framework for profile in built}
    plugins = OwnerPlugins(
        queue_sort=_queue_sort(built),
        pre_enqueue={p.scheduler_name: p.plugins_at["preEnqueue"] for p in built},
        reserve={p.scheduler_name: p.plugins_at["reserve"] for p in built},
        permit={p.scheduler_name: p.plugins_at["permit"] for p in built},
    )
    heartbeat = Heartbeat(options.heartbeat_fd)
    in_hand = InHand.asked_for(options, heartbeat.beat)
    state = SchedulerState(epoch, settings, frameworks, plugins, clock.monotonic_s(), in_hand)
    stop = StopSignals((signal.SIGTERM, signal.SIGINT))
    with OwnerSockets(Endpoints(Path(options.runtime_dir))) as sockets:
        sockets.watch_fd(stop.fd)
        lifeline = Lifeline(options.lifeline_fd) if options.lifeline_fd is not None else None
        if lifeline is not None:
            sockets.watch_fd(lifeline.fd)
        log.info("owner_started", epoch=epoch, profiles=sorted(frameworks))
        gate_path = Path(options.runtime_dir) / GATE_NAME
        gate = LeaseGate(gate_path, clock) if options.elect_leader else None
        loop = OwnerLoop(sockets, state, clock, gate, entrance, heartbeat)
        loop.run(lambda: stop.is_set or (lifeline is not None and lifeline.is_cut()))
    log.info("owner_stopped", **state.counters)
    return exit_codes.LEASE_LOST if loop.is_lease_lost else exit_codes.OK


def _entrance(options: argparse.Namespace) -> WorkersEntrance | None:
    if not options.workers_address:
        return None
    return WorkersEntrance.read(
        options.workers_address, options.workers_key_file, options.workers_allowed_file
    )


def _hint_settings(built: list[BuiltProfile], gates: FeatureGates) -> HintSettings:
    """Where profiles differ, hints take the weaker view: a pod tried in vain beats one forgotten."""
    added = [
        plugin.added_terms
        for profile in built
        for plugin in profile.framework.filters
        if isinstance(plugin, NodeAffinity)
    ]
    is_common = bool(added) and all(terms == added[0] for terms in added)
    return HintSettings(
        added_affinity=added[0] if is_common else None,
        has_hard_default_constraints=any(
            isinstance(plugin, PodTopologySpread) and plugin.has_hard_defaults
            for profile in built
            for plugin in profile.framework.filters
        ),
        out_of_tree=registrations_of(p for profile in built for p in profile.out_of_tree),
        has_toleration_comparison=gates[TAINT_TOLERATION_COMPARISON_OPERATORS],
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


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="daemon.owner", description=__doc__)
    parser.add_argument("--runtime-dir", required=True)
    add_options(parser)
    add_option(parser)
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--config", default="")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--binders", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--feature-gates", default="", help="Name=true,Name=false,...")
    parser.add_argument("--elect-leader", action="store_true", help="schedule with the lease only")
    parser.add_argument("--workers-address", default="", help="for workers of other hosts")
    parser.add_argument("--workers-key-file", default="")
    parser.add_argument("--workers-allowed-file", default="")
    parser.add_argument("--assume-ttl-s", type=float, default=0.0)
    parser.add_argument("--annotate-decisions", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
