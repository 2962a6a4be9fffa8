"""`python -m workers.scorer`: one scoring worker, beside its owner or (`--connect`) on another host."""

import argparse
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

from shared import exit_codes
from shared.clock import SystemClock
from shared.collector import Collector
from shared.config import SchedulerConfiguration, load_configuration
from shared.config_digest import scoring_digest
from shared.errors import ConfigurationError, OperationalError
from shared.framework.feature_gates import parse_feature_gates
from shared.kube.kubeconfig import find_access
from shared.limits import PROCESSES_MAX
from shared.plugins.in_tree import InTreeRegistry
from shared.telemetry.log import EventLog, start_logging
from shared.transport.channels import Channel
from shared.transport.endpoints import Endpoints
from shared.transport.heartbeat import Heartbeat
from shared.transport.parent import Lifeline, add_options
from shared.transport.remote import RemoteOwner
from shared.transport.scorer_sockets import ScorerSockets
from shared.transport.stop import StopSignals
from workers.scorer.extender_calls import ExtenderCaller
from workers.scorer.scorer_assembly import ScorerIdentity, make_loop
from workers.scorer.tie_break import BY_SEED, TIE_BREAKS

log = EventLog("scorer")


def main(argv: list[str]) -> int:
    """Runs until drained, SIGTERM, or the end of the supervisor."""
    options = _parse(argv)
    start_logging("worker" if options.connect else f"scorer-{options.index}", options.log_level)
    try:
        return _run(options)
    except ConfigurationError as error:
        log.error("unusable_configuration", problem=str(error))
        return exit_codes.UNUSABLE
    except OperationalError as error:
        log.error("scorer_failed", problem=str(error))
        return exit_codes.FAILED


def _run(options: argparse.Namespace) -> int:
    config = load_configuration(options.config)
    gates = parse_feature_gates(options.feature_gates)
    heartbeat = Heartbeat(options.heartbeat_fd)
    caller = _caller(options, config, heartbeat)
    way = _way_to_owner(options)
    is_remote = isinstance(way, RemoteOwner)
    index = _index_of_its_own() if is_remote else options.index
    instance = f"{_name(options)}-{os.getpid()}-{os.urandom(4).hex()}"
    stop = StopSignals((signal.SIGTERM, signal.SIGINT))
    with (
        caller or contextlib.nullcontext(),
        ScorerSockets(way, instance) as sockets,
    ):
        sockets.watch_fd(stop.fd)
        lifeline = Lifeline(options.lifeline_fd) if options.lifeline_fd is not None else None
        if lifeline is not None:
            sockets.watch_fd(lifeline.fd)
        loop = make_loop(
            sockets,
            config,
            InTreeRegistry(gates, samples_compatibly=options.compatible_sampling),
            ScorerIdentity(index, instance, options.seed, options.tie_break),
            SystemClock(),
            heartbeat,
            caller,
            scoring_digest(config, gates) if is_remote else "",
        )
        Collector().settled()
        log.info("scorer_started", index=index, owner=way.address(Channel.SCORERS))
        loop.run(lambda: stop.is_set or (lifeline is not None and lifeline.is_cut()))
    log.info("scorer_stopped")
    return exit_codes.OK


def _way_to_owner(options: argparse.Namespace) -> Endpoints | RemoteOwner:
    if options.connect:
        return RemoteOwner(options.connect, options.server_key, options.key)
    if not options.runtime_dir:
        raise ConfigurationError("command line", ["give --runtime-dir or --connect"])
    return Endpoints(Path(options.runtime_dir))


def _name(options: argparse.Namespace) -> str:
    return socket.gethostname() if options.connect else f"scorer-{options.index}"


def _index_of_its_own() -> int:
    """Nobody numbers workers of other hosts; 2^48 numbers make it unlikely that two have the same."""
    return PROCESSES_MAX + int.from_bytes(os.urandom(6))


def _caller(
    options: argparse.Namespace, config: SchedulerConfiguration, heartbeat: Heartbeat
) -> ExtenderCaller | None:
    """Only with extenders does a scorer need the API server."""
    if not any(extender.is_asked_by_scorers for extender in config.extenders):
        return None
    access = find_access(server=options.server, kubeconfig=options.kubeconfig)
    return ExtenderCaller(config.extenders, access, heartbeat.write_note)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="workers.scorer", description=__doc__)
    parser.add_argument("--runtime-dir", default="")
    parser.add_argument("--connect", default="", help="tcp://HOST:PORT of a berth elsewhere")
    parser.add_argument("--server-key", default="", help="its public key")
    parser.add_argument("--key", default="", help="this worker's secret key")
    add_options(parser)
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--config", default="")
    parser.add_argument(
        "--server", default="", help="API server, for pods that extenders are shown"
    )
    parser.add_argument("--kubeconfig", default="", help="how to reach the API server")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tie-break", choices=TIE_BREAKS, default=BY_SEED)
    parser.add_argument("--compatible-sampling", action="store_true")
    parser.add_argument("--feature-gates", default="", help="Name=true,Name=false,...")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
