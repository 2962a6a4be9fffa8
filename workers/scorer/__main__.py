"""`python -m workers.scorer --index N`: one scoring worker."""

import argparse
import os
import signal
import sys
from pathlib import Path

from shared import exit_codes
from shared.clock import SystemClock
from shared.config import SchedulerConfiguration, load_configuration
from shared.errors import ConfigurationError, OperationalError
from shared.framework.feature_gates import parse_feature_gates
from shared.framework.registry import Registry
from shared.kube.object_codec import decode_object
from shared.telemetry.log import EventLog, start_logging
from shared.transport.endpoints import Endpoints
from shared.transport.parent import Lifeline
from shared.transport.scorer_sockets import ScorerSockets
from shared.transport.stop import StopSignals
from workers.scorer.loop import ScorerLoop
from workers.scorer.tie_break import BY_SEED, TIE_BREAKS

log = EventLog("scorer")


def main(argv: list[str]) -> int:
    """Runs until drained, SIGTERM, or the end of the supervisor."""
    options = _parse(argv)
    start_logging(f"scorer-{options.index}", options.log_level)
    try:
        return _run(options)
    except ConfigurationError as error:
        log.error("unusable_configuration", problem=str(error))
        return exit_codes.UNUSABLE
    except OperationalError as error:
        log.error("scorer_failed", problem=str(error))
        return exit_codes.FAILED


def _run(options: argparse.Namespace) -> int:
    config = load_configuration(options.config) if options.config else SchedulerConfiguration()
    registry = Registry(parse_feature_gates(options.feature_gates))
    built = [registry.build(profile) for profile in config.profiles]
    instance = f"scorer-{options.index}-{os.getpid()}-{os.urandom(4).hex()}"
    stop = StopSignals((signal.SIGTERM, signal.SIGINT))
    with ScorerSockets(Endpoints(Path(options.runtime_dir)), instance) as sockets:
        sockets.watch_fd(stop.fd)
        lifeline = Lifeline(options.lifeline_fd) if options.lifeline_fd is not None else None
        if lifeline is not None:
            sockets.watch_fd(lifeline.fd)
        loop = ScorerLoop(
            sockets,
            worker_index=options.index,
            instance=instance,
            # Workers break ties differently, so that they do not meet on the same nodes.
            seed=options.seed * 1_000_003 + options.index,
            tie_break=options.tie_break,
            frameworks={profile.scheduler_name: profile.framework for profile in built},
            reserves={p.scheduler_name: p.plugins_at["reserve"] for p in built},
            decode_object=decode_object,
            clock=SystemClock(),
        )
        log.info("scorer_started", index=options.index)
        loop.run(lambda: stop.is_set or (lifeline is not None and lifeline.is_cut()))
    log.info("scorer_stopped")
    return exit_codes.OK


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="workers.scorer", description=__doc__)
    parser.add_argument("--runtime-dir", required=True)
    parser.add_argument("--lifeline-fd", type=int)
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--config", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tie-break", choices=TIE_BREAKS, default=BY_SEED)
    parser.add_argument("--feature-gates", default="", help="Name=true,Name=false,...")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
