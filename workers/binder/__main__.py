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
from pathlib import Path

from shared.clock import SystemClock
from shared.errors import OperationalError
from shared.framework.feature_gates import FeatureGates, parse_feature_gates
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.kube.kubeconfig import find_access
from shared.telemetry.log import LEVELS, EventLog, start_logging
from shared.telemetry.tally import Tally, request_observer
from shared.transport.async_peer import binder_peer
from shared.transport.endpoints import Endpoints
from shared.transport.heartbeat import Heartbeat
from shared.transport.lease_gate import GATE_NAME, LeaseGate
from shared.transport.parent import Lifeline, add_options
from workers.binder.bind_call import DefaultBinder
from workers.binder.binding_cycle import BindingCycle, BindingPlugins, ClaimPreBind, VolumePreBind
from workers.binder.claim_bind import ClaimBinder
from workers.binder.claim_free import ClaimFreer
from workers.binder.claim_lines import ClaimLines
from workers.binder.evictions import Evictor
from workers.binder.fences import FencedClient, Fences
from workers.binder.lease_hold import LeaseHold
from workers.binder.limits import Limits, limits_of
from workers.binder.loop import RECORDER_DRAIN_S, Binder, Identity
from workers.binder.recorder import Recorder, RecorderSettings
from workers.binder.volume_bind import VolumeBinder


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    defaults = RecorderSettings()
    parser = argparse.ArgumentParser(prog="python -m workers.binder", description=__doc__)
    parser.add_argument("--index", type=int, required=True, help="which binder of the pool")
    parser.add_argument("--runtime-dir", type=Path, required=True, help="where the sockets are")
    parser.add_argument("--server", default="", help="URL of the API server, without credentials")
    parser.add_argument("--kubeconfig", default="", help="how to reach the API server")
    parser.add_argument("--config", default="", help="KubeSchedulerConfiguration file")
    parser.add_argument("--feature-gates", default="", help="Name=true,Name=false,...")
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
    gates = parse_feature_gates(options.feature_gates)
    loop = asyncio.get_running_loop()
    heartbeat = Heartbeat(options.heartbeat_fd)
    heartbeat.keep(loop)
    clock = SystemClock()
    instance = secrets.token_hex(4)
    limits = _limits(options)
    settings = RecorderSettings(
        queue_max=options.record_queue_max,
        trickle_per_s=options.record_trickle,
        per_s=limits.records_per_s,
        burst=limits.records_burst,
    )
    gate = LeaseGate(options.runtime_dir / GATE_NAME, clock) if options.elect_leader else None
    hold = LeaseHold(gate)
    tally = Tally()
    observer = request_observer(tally, access.host_header)
    problems = ConnectionProblems(EventLog("binder"), clock.wall_s, heartbeat.write_note)
    fences = Fences()
    bind_api = FencedClient(
        access,
        fences,
        hold.may_write,
        connections_max=options.max_in_flight,
        rate_limit=limits.bindings,
        observer=observer,
        problems=problems,
    )
    record_api = FencedClient(
        access,
        fences,
        hold.may_write,
        connections_max=settings.writes_max,
        observer=observer,
        problems=problems,
    )
    recorder = Recorder(record_api, settings, clock, socket.gethostname(), loop)
    lines = ClaimLines()
    cycle = _cycle(bind_api, recorder, lines, fences, options.config, gates)
    is_orphaned = False
    name = f"binder-{options.index}-{instance}"
    with binder_peer(Endpoints(options.runtime_dir), name) as peer:
        identity = Identity(options.index, instance)
        freer = ClaimFreer(record_api, lines)
        evictor = Evictor(record_api, clock, recorder.pod_preempted, freer=freer, fences=fences)
        binder = Binder(
            identity, peer, cycle, recorder, options.max_in_flight, clock, evictor, fences, hold,
            tally,
        )  # fmt: skip
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, binder.drain)
        if options.lifeline_fd is not None:

            def stop_orphaned() -> None:
                nonlocal is_orphaned
                is_orphaned = True
                EventLog("binder").error("supervisor_gone")
                binder.stop_now()

            Lifeline(options.lifeline_fd).call_when_cut(loop, stop_orphaned)
        await binder.run()
        if not is_orphaned:
            await recorder.drain(RECORDER_DRAIN_S)
        recorder.close()
        await bind_api.close()
        await record_api.close()
    return 1 if is_orphaned else 0


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


def _limits(options: argparse.Namespace) -> Limits:
    if not options.config:
        return limits_of(0.0, 0, options.pool_size)
    from shared.config import load_configuration

    connection = load_configuration(options.config).client_connection
    return limits_of(connection.qps, connection.burst, options.pool_size)


def _cycle(
    api: ApiClient,
    recorder: Recorder,
    lines: ClaimLines,
    fences: Fences,
    config_path: str,
    gates: FeatureGates,
) -> BindingCycle:
    binder = DefaultBinder(api)
    pre_binders = (
        VolumePreBind(VolumeBinder(api)),
        ClaimPreBind(
            ClaimBinder(api, recorder.pod_waits_for_devices, lines), ClaimFreer(api, lines)
        ),
    )
    plain = BindingPlugins((binder,), pre_binders)
    if not config_path:
        return BindingCycle(plain, spawn=fences.spawn)
    from workers.binder.profiles import plugins_by_profile

    by_profile = plugins_by_profile(config_path, gates, api, binder, pre_binders)
    return BindingCycle(plain, by_profile, spawn=fences.spawn)


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
