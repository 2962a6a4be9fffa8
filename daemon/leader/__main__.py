"""`python -m daemon.leader`: the process that holds the lease, started by the supervisor.

Ends with 0 when told to stop (SIGTERM, SIGINT), having given the lease up; without giving it up when
the supervisor is gone: then nobody knows what the binders are doing, and the lease runs out.
"""

import argparse
import asyncio
import random
import signal
import sys
from pathlib import Path
from typing import Final

from daemon.leader.election import Terms
from daemon.leader.leader_assembly import Candidate
from shared import exit_codes
from shared.clock import SystemClock
from shared.config import LeaderElection
from shared.errors import ConfigurationError, OperationalError
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.kube.kubeconfig import find_access
from shared.telemetry.log import LEVELS, EventLog, start_logging
from shared.transport.heartbeat import Heartbeat
from shared.transport.lease_gate import GATE_NAME, LeaseGate
from shared.transport.parent import Lifeline, add_options

log: Final = EventLog("leader")


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    defaults = LeaderElection()
    parser = argparse.ArgumentParser(prog="python -m daemon.leader", description=__doc__)
    parser.add_argument("--runtime-dir", type=Path, required=True)
    add_options(parser)
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    parser.add_argument("--server", default="", help="API server without credentials")
    parser.add_argument("--kubeconfig", default="", help="how to reach the API server")
    parser.add_argument("--identity", required=True, help="of this berth; no other may have it")
    parser.add_argument("--lease-duration-s", type=float, default=defaults.lease_duration_s)
    parser.add_argument("--renew-deadline-s", type=float, default=defaults.renew_deadline_s)
    parser.add_argument("--retry-period-s", type=float, default=defaults.retry_period_s)
    parser.add_argument("--lease-name", default=defaults.resource_name)
    parser.add_argument("--lease-namespace", default=defaults.resource_namespace)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Runs until told to stop; the exit code."""
    options = parse_options(arguments)
    start_logging("leader", options.log_level)
    try:
        access = find_access(server=options.server, kubeconfig=options.kubeconfig)
        return asyncio.run(_run(options, access))
    except ConfigurationError as error:
        log.error("unusable_configuration", problem=str(error))
        return exit_codes.UNUSABLE
    except OperationalError as error:
        log.error("leader_failed", problem=str(error))
        return exit_codes.FAILED


async def _run(options: argparse.Namespace, access: ClusterAccess) -> int:
    loop = asyncio.get_running_loop()
    heartbeat = Heartbeat(options.heartbeat_fd)
    heartbeat.keep(loop)
    clock = SystemClock()
    terms = Terms(
        identity=options.identity,
        lease_duration_s=options.lease_duration_s,
        renew_deadline_s=options.renew_deadline_s,
        retry_period_s=options.retry_period_s,
    )
    candidate = Candidate(
        access,
        (options.lease_namespace, options.lease_name),
        terms,
        LeaseGate(options.runtime_dir / GATE_NAME, clock),
        clock,
        random.Random(),  # noqa: S311 # Jitter, no secret.
        ConnectionProblems(log, clock.wall_s, heartbeat.write_note),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, candidate.stop, exit_codes.OK)
    if options.lifeline_fd is not None:
        Lifeline(options.lifeline_fd).call_when_cut(loop, lambda: candidate.stop(exit_codes.FAILED))
    return await candidate.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
