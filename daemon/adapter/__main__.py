"""`python -m daemon.adapter`: the watch adapter process, started by the supervisor.

Tells the owner on the runtime directory what an API server (or a recording of one) holds. Ends with
0 when told to stop (SIGTERM, SIGINT) or when its supervisor is gone, with 1 when something it cannot
work with is wrong; the supervisor starts it anew.
"""

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

from daemon.adapter.api_source import ApiSource
from daemon.adapter.event_source import EventSource
from daemon.adapter.kind_watch import WatchSettings
from daemon.adapter.process import Adapter
from daemon.adapter.recording import FileRecorder, RecordedSource
from shared.clock import SystemClock
from shared.errors import OperationalError
from shared.framework.feature_gates import parse_feature_gates
from shared.in_hand import InHand, add_option
from shared.kube.connection_problems import ConnectionProblems
from shared.kube.kubeconfig import find_access
from shared.kube.resources import ALL_KINDS
from shared.telemetry.log import LEVELS, EventLog, start_logging
from shared.transport.adapter_link import AdapterLink
from shared.transport.endpoints import Endpoints
from shared.transport.heartbeat import Heartbeat
from shared.transport.parent import Lifeline, add_options

log: Final = EventLog("adapter")


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m daemon.adapter", description=__doc__)
    parser.add_argument("--runtime-dir", required=True, help="where the owner's sockets are")
    add_options(parser)
    add_option(parser)
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    parser.add_argument("--server", default="", help="URL of the API server")
    parser.add_argument("--kubeconfig", default="", help="kubeconfig file")
    parser.add_argument("--replay", type=Path, help="a recording in place of an API server")
    parser.add_argument("--context", default="", help="context of the kubeconfig file")
    parser.add_argument(
        "--replay-speed", type=float, default=0.0, help="1: as recorded; 0: as fast as possible"
    )
    parser.add_argument("--record", type=Path, help="write all that the API server tells there")
    parser.add_argument(
        "--watch-list",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="list by watches (sendInitialEvents) where the server knows how, else by pages",
    )
    parser.add_argument("--feature-gates", default="", help="Name=true,Name=false,...")
    parser.add_argument("--seed", type=int, help="of the jitter in delays; default: a random one")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run until told to stop; the exit code."""
    options = parse_options(arguments)
    start_logging("adapter", options.log_level)
    problems: list[OperationalError] = []
    try:
        asyncio.run(_run(options))
    except* OperationalError as group:
        problems = _leaves(group)
    for problem in problems:
        log.error("ended", error=str(problem))
    return 1 if problems else 0


def _leaves(group: BaseExceptionGroup[OperationalError]) -> list[OperationalError]:
    leaves: list[OperationalError] = []
    for one in group.exceptions:
        leaves.extend(_leaves(one) if isinstance(one, BaseExceptionGroup) else [one])
    return leaves


async def _run(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    heartbeat = Heartbeat(options.heartbeat_fd)
    heartbeat.keep(loop)
    problems = ConnectionProblems(log, SystemClock().wall_s, heartbeat.write_note)
    instance = f"{os.getpid()}-{os.urandom(4).hex()}"
    recorder = FileRecorder(options.record, SystemClock()) if options.record else None
    try:
        in_hand = InHand.asked_for(options, heartbeat.beat)
        source = _source(options, recorder, problems, in_hand)
        async with AdapterLink(Endpoints(Path(options.runtime_dir)), instance) as link:
            task = loop.create_task(Adapter(source, link, instance=instance).run())

            def stop() -> None:
                task.cancel()

            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop)
            if options.lifeline_fd is not None:
                Lifeline(options.lifeline_fd).call_when_cut(loop, stop)
            log.info("started", instance=instance)
            try:
                await task
            except asyncio.CancelledError:
                log.info("stopped")
    finally:
        if recorder is not None:
            recorder.close()


def _source(
    options: argparse.Namespace,
    recorder: FileRecorder | None,
    problems: ConnectionProblems,
    in_hand: InHand | None,
) -> EventSource:
    if options.replay:
        return RecordedSource(options.replay, speed=options.replay_speed)
    access = find_access(
        server=options.server, kubeconfig=options.kubeconfig, context=options.context
    )
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(8))
    log.info("api_server", url=access.url, source=access.source, seed=seed)
    gates = parse_feature_gates(options.feature_gates)
    settings = WatchSettings(use_watch_list=options.watch_list)
    return ApiSource(
        access,
        seed=seed,
        settings=settings,
        kinds=[kind for kind in ALL_KINDS if not kind.feature_gate or gates[kind.feature_gate]],
        recorder=recorder,
        problems=problems,
        in_hand=in_hand,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
