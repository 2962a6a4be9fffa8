"""`python -m workers.binder`: reads the options, connects, binds until it is told to stop.

Exit status 0 after a drain (the owner's `Drain`, SIGTERM, SIGINT), 1 when the supervisor is gone or
an option cannot be used.
"""

import argparse
import asyncio
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shared.clock import SystemClock
from shared.errors import OperationalError
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.kube.kubeconfig import find_access
from shared.messages.from_binder import FROM_BINDER
from shared.messages.to_binder import TO_BINDER
from shared.telemetry.log import LEVELS, EventLog, start_logging
from shared.transport.async_peer import AsyncPeer
from shared.transport.channels import Channel
from shared.transport.endpoints import Endpoints
from shared.transport.heartbeat import Heartbeat
from shared.transport.lease_gate import GATE_NAME, LeaseGate
from shared.transport.parent import Lifeline, add_options
from workers.binder.binder_assembly import BinderLife, MakeProfiles, Surroundings
from workers.binder.binder_limits import Limits, limits_of
from workers.binder.binder_loop import Identity
from workers.binder.recorder import RecorderSettings

if TYPE_CHECKING:
    from shared.config import SchedulerConfiguration


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    defaults = RecorderSettings()
    parser = argparse.ArgumentParser(prog="python -m workers.binder", description=__doc__)
    parser.add_argument("--index", type=int, required=True, help="which binder of the pool")
    parser.add_argument("--runtime-dir", type=Path, required=True, help="where the sockets are")
    parser.add_argument("--server", default="", help="URL of the API server, without credentials")
    parser.add_argument("--kubeconfig", default="", help="how to reach the API server")
    parser.add_argument("--config", default="", help="KubeSchedulerConfiguration file")
    parser.add_argument("--pool-size", type=_positive, default=1, help="binders that share limits")
    parser.add_argument("--max-in-flight", type=_positive, default=64, help="bindings at once")
    parser.add_argument(
        "--record-queue-max",
        type=_positive,
        default=defaults.queue_max,
        help="conditions and events that wait; beyond, the oldest events are dropped",
    )
    parser.add_argument(
        "--record-trickle",
        type=_positive,
        default=defaults.trickle_per_s,
        help="conditions and events written each second while bindings are under way",
    )
    parser.add_argument("--elect-leader", action="store_true", help="write with the lease only")
    add_options(parser)
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    return parser.parse_args(arguments)


async def run(options: argparse.Namespace, access: ClusterAccess) -> int:
    """The process's life; returns its exit status."""
    loop = asyncio.get_running_loop()
    heartbeat = Heartbeat(options.heartbeat_fd)
    heartbeat.keep(loop)
    clock = SystemClock()
    instance = secrets.token_hex(4)
    configuration = _configuration(options)
    limits = _limits(configuration, options.pool_size)
    settings = RecorderSettings(
        queue_max=options.record_queue_max,
        trickle_per_s=options.record_trickle,
        per_s=limits.records_per_s,
        burst=limits.records_burst,
    )
    gate = LeaseGate(options.runtime_dir / GATE_NAME, clock) if options.elect_leader else None
    problems = ConnectionProblems(EventLog("binder"), clock.wall_s, heartbeat.write_note)
    around = Surroundings(access, clock, loop, socket.gethostname(), gate, problems)
    name = f"binder-{options.index}-{instance}"
    endpoints = Endpoints(options.runtime_dir)
    with AsyncPeer(endpoints, Channel.BINDERS, name, FROM_BINDER, TO_BINDER) as peer:
        life = BinderLife(
            Identity(options.index, instance),
            peer,
            around,
            limits,
            options.max_in_flight,
            settings,
            _make_profiles(configuration, problems),
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, life.drain)
        if options.lifeline_fd is not None:

            def stop_orphaned() -> None:
                EventLog("binder").error("supervisor_gone")
                life.stop_orphaned()

            Lifeline(options.lifeline_fd).call_when_cut(loop, stop_orphaned)
        await life.run()
    return 1 if life.is_orphaned else 0


def main(arguments: Sequence[str]) -> int:
    """Runs to the end; errors of the outside become one line and a status."""
    options = parse_options(arguments)
    start_logging(f"binder-{options.index}", options.log_level)
    try:
        access = find_access(server=options.server, kubeconfig=options.kubeconfig)
        return asyncio.run(run(options, access))
    except OperationalError as error:
        EventLog("binder").error("binder_failed", error=str(error))
        return 1


def _configuration(options: argparse.Namespace) -> "SchedulerConfiguration | None":
    """None without a file. Read here, as the modules that read it take memory."""
    if not options.config:
        return None
    from shared.config import load_configuration

    return load_configuration(options.config)


def _limits(configuration: "SchedulerConfiguration | None", pool_size: int) -> Limits:
    if configuration is None:
        return limits_of(0.0, 0, pool_size)
    connection = configuration.client_connection
    return limits_of(connection.qps, connection.burst, pool_size)


def _make_profiles(
    configuration: "SchedulerConfiguration | None",
    problems: ConnectionProblems,
) -> MakeProfiles | None:
    if configuration is None:
        return None
    from workers.binder.binding_profiles import plugins_by_profile

    return partial(plugins_by_profile, configuration, problems)


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
