"""`python -m daemon.owner`: the cache owner. Reads its plan, builds the loop, runs it."""

import sys
import time

from daemon.owner.owner_assembly import make_state
from daemon.owner.owner_loop import OwnerLoop
from shared import exit_codes
from shared.child_plan import ChildStart, child_start, exit_code_of, reading_files, watch_for_end
from shared.clock import SystemClock
from shared.config import load_configuration
from shared.feature_gates import parse_feature_gates
from shared.in_hand import InHand
from shared.plugins.in_tree import InTreeRegistry
from shared.telemetry.log import EventLog
from shared.transport.heartbeat import Heartbeat
from shared.transport.owner_sockets import OwnerSockets
from shared.transport.remote import WorkersEntrance

log = EventLog("owner")


def main(arguments: list[str]) -> int:
    """Runs until SIGTERM, or until the supervisor is gone."""
    start = child_start("owner", arguments)
    return exit_code_of("owner", lambda: _run(start))


def _run(start: ChildStart) -> int:
    options = start.options
    config = load_configuration(options.config)
    gates = parse_feature_gates(options.feature_gates)
    entrance = None
    if options.workers_address:
        with reading_files():
            files = options.workers_key_file, options.workers_allowed_file
            entrance = WorkersEntrance.read(options.workers_address, *files)
    # Nanoseconds since 1970: greater than that of any earlier life on this machine.
    epoch = time.time_ns()
    clock = SystemClock()
    heartbeat = Heartbeat(start.heartbeat_fd)
    in_hand = InHand.asked_for(start.careful, heartbeat.beat)
    registry, now_s = InTreeRegistry(gates), clock.monotonic_s()
    state = make_state(
        config, gates, registry, options, epoch, now_s, in_hand, time.perf_counter,
        is_candidate=start.plan.is_candidate,
    )  # fmt: skip
    with OwnerSockets(start.runtime_dir) as sockets:
        is_stopped = watch_for_end(start.lifeline_fd, sockets.watch_fd)
        profiles = sorted(profile.scheduler_name for profile in config.profiles)
        log.info("owner_started", epoch=epoch, profiles=profiles)
        loop = OwnerLoop(sockets, state, clock, start.gate(clock), entrance, heartbeat)
        loop.run(is_stopped)
    log.info("owner_stopped", **state.counters.plain())
    return exit_codes.LEASE_LOST if loop.is_lease_lost else exit_codes.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
