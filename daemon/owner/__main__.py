"""`python -m daemon.owner`: the cache owner. Reads its options, builds the loop, runs it."""

import argparse
import signal
import sys
import time
from pathlib import Path

from daemon.core.queue.scheduling_queue import LEFTOVER_AFTER_S
from daemon.owner.owner_assembly import OwnerOptions, make_state
from daemon.owner.owner_loop import OwnerLoop
from shared import exit_codes
from shared.clock import SystemClock
from shared.config import load_configuration
from shared.errors import ConfigurationError, OperationalError
from shared.framework.feature_gates import parse_feature_gates
from shared.in_hand import InHand, add_option
from shared.plugins.in_tree import InTreeRegistry
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
    config = load_configuration(options.config)
    gates = parse_feature_gates(options.feature_gates)
    entrance = _entrance(options)
    # Nanoseconds since 1970: greater than that of any earlier life on this machine.
    epoch = time.time_ns()
    clock = SystemClock()
    heartbeat = Heartbeat(options.heartbeat_fd)
    in_hand = InHand.asked_for(options, heartbeat.beat)
    core = OwnerOptions(
        options.binders,
        options.elect_leader,
        options.assume_ttl_s,
        options.annotate_decisions,
        options.leftover_after_s,
    )
    registry = InTreeRegistry(gates)
    now_s = clock.monotonic_s()
    state = make_state(
        config, gates, registry, core, epoch, now_s, in_hand, stopwatch=time.perf_counter
    )
    stop = StopSignals((signal.SIGTERM, signal.SIGINT))
    with OwnerSockets(Endpoints(Path(options.runtime_dir))) as sockets:
        sockets.watch_fd(stop.fd)
        lifeline = Lifeline(options.lifeline_fd) if options.lifeline_fd is not None else None
        if lifeline is not None:
            sockets.watch_fd(lifeline.fd)
        profiles = sorted(profile.scheduler_name for profile in config.profiles)
        log.info("owner_started", epoch=epoch, profiles=profiles)
        gate_path = Path(options.runtime_dir) / GATE_NAME
        gate = LeaseGate(gate_path, clock) if options.elect_leader else None
        loop = OwnerLoop(sockets, state, clock, gate, entrance, heartbeat)
        loop.run(lambda: stop.is_set or (lifeline is not None and lifeline.is_cut()))
    log.info("owner_stopped", **state.counters.plain())
    return exit_codes.LEASE_LOST if loop.is_lease_lost else exit_codes.OK


def _entrance(options: argparse.Namespace) -> WorkersEntrance | None:
    if not options.workers_address:
        return None
    return WorkersEntrance.read(
        options.workers_address, options.workers_key_file, options.workers_allowed_file
    )


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
    parser.add_argument("--leftover-after-s", type=float, default=LEFTOVER_AFTER_S)
    parser.add_argument("--annotate-decisions", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
