"""`python -m workers.scorer`: one scorer, beside its owner; as `run_remotely`, on another host."""

import contextlib
import os
import socket
import sys
from pathlib import Path

from shared import exit_codes
from shared.child_plan import ChildPlan, ChildStart, child_start, exit_code_of, watch_for_end
from shared.clock import SystemClock
from shared.collector import Collector
from shared.config import SchedulerConfiguration, load_configuration, scoring_digest
from shared.feature_gates import parse_feature_gates
from shared.limits import PROCESSES_MAX
from shared.messages.from_scorer import ScorerHello
from shared.plugins.in_tree import InTreeRegistry
from shared.runtime_options import RuntimeOptions
from shared.telemetry.log import EventLog, start_logging
from shared.transport.heartbeat import Heartbeat
from shared.transport.remote import RemoteOwner
from shared.transport.scorer_sockets import ScorerSockets
from workers.scorer.engine import BY_NAME, BY_SEED
from workers.scorer.extender_calls import ExtenderCaller
from workers.scorer.scorer_loop import ScorerLoop

log = EventLog("scorer")


def main(arguments: list[str]) -> int:
    """Runs until drained, SIGTERM, or the end of the supervisor."""
    start = child_start("scorer", arguments, is_one_of_many=True)
    name = f"scorer-{start.number}"
    return exit_code_of("scorer", lambda: _run(start, start.runtime_dir, name))


def _run(start: ChildStart, way: Path | RemoteOwner, name: str) -> int:
    options = start.options
    config = load_configuration(options.config)
    gates = parse_feature_gates(options.feature_gates)
    heartbeat = Heartbeat(start.heartbeat_fd)
    caller = _caller(start, config, heartbeat)
    configuration = scoring_digest(config, gates) if isinstance(way, RemoteOwner) else ""
    instance = f"{name}-{os.getpid()}-{os.urandom(4).hex()}"
    tie_break = BY_NAME if start.plan.breaks_ties_by_name else BY_SEED
    with caller or contextlib.nullcontext(), ScorerSockets(way, instance) as sockets:
        is_stopped = watch_for_end(start.lifeline_fd, sockets.watch_fd)
        registry = InTreeRegistry(gates, samples_compatibly=options.compatible_sampling)
        loop = ScorerLoop(
            sockets,
            [registry.build(profile) for profile in config.profiles],
            SystemClock(),
            heartbeat,
            caller,
            hello=ScorerHello(start.number, instance, configuration),
            seed=options.seed,
            tie_break=tie_break,
            gates=gates,
        )
        Collector().settled()
        log.info("scorer_started", index=start.number, owner=sockets.address)
        loop.run(is_stopped)
    log.info("scorer_stopped")
    return exit_codes.OK


def _caller(
    start: ChildStart, config: SchedulerConfiguration, heartbeat: Heartbeat
) -> ExtenderCaller | None:
    """Only with extenders does a scorer need the API server."""
    if not any(extender.is_asked_by_scorers for extender in config.extenders):
        return None
    return ExtenderCaller(config.extenders, start.access(), heartbeat.write_note)


def run_remotely(options: RuntimeOptions, way: RemoteOwner) -> int:
    """A scorer that no supervisor starts; as `main`. Nobody numbers these; 2^48 numbers make it unlikely
    that two have the same."""
    start_logging("worker", options.log_level)
    index = PROCESSES_MAX + int.from_bytes(os.urandom(6))
    start = ChildStart(ChildPlan(options=options), index, None, None, None)
    return exit_code_of("scorer", lambda: _run(start, way, socket.gethostname()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
