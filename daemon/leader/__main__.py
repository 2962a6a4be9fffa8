"""`python -m daemon.leader`: the process that holds the lease, started by the supervisor.

Ends with 0 when told to stop (SIGTERM, SIGINT), having given the lease up; without giving it up when
the supervisor is gone: then nobody knows what the binders are doing, and the lease runs out.
"""

import asyncio
import random
import sys
from functools import partial
from typing import Final

from daemon.leader.elector import Elector
from shared import exit_codes
from shared.child_plan import ChildStart, child_start, exit_code_of
from shared.clock import SystemClock
from shared.kube.connection_problems import ConnectionProblems
from shared.telemetry.log import EventLog
from shared.transport.heartbeat import Heartbeat

log: Final = EventLog("leader")


def main(arguments: list[str]) -> int:
    """Runs until told to stop; the exit code."""
    start = child_start("leader", arguments)
    return exit_code_of("leader", lambda: asyncio.run(_run(start)))


async def _run(start: ChildStart) -> int:
    loop = asyncio.get_running_loop()
    heartbeat = Heartbeat(start.heartbeat_fd)
    heartbeat.keep(loop)
    clock = SystemClock()
    election, gate = start.plan.election, start.gate(clock)
    assert election is not None, "only with an election is there an elector"
    assert gate is not None, "the same"
    candidate = Elector(
        start.access(),
        election,
        start.plan.identity,
        gate,
        clock,
        random.Random(),  # noqa: S311 # Jitter, no secret.
        ConnectionProblems(log, clock.wall_s, heartbeat.write_note),
    )
    start.call_at_end(
        loop, partial(candidate.stop, exit_codes.OK), partial(candidate.stop, exit_codes.FAILED)
    )
    return await candidate.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
