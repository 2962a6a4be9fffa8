"""`python -m workers.binder`: reads its plan, connects, binds until it is told to stop.

Exit status 0 after a drain (the owner's `Drain`, SIGTERM, SIGINT), 1 when the supervisor is gone.
"""

import asyncio
import secrets
import socket
import sys

import uvloop

from shared.child_plan import ChildStart, child_start, exit_code_of
from shared.clock import SystemClock
from shared.kube.connection_problems import ConnectionProblems
from shared.messages.from_binder import FROM_BINDER
from shared.messages.to_binder import TO_BINDER
from shared.telemetry.log import EventLog
from shared.transport.async_peer import AsyncPeer
from shared.transport.channels import Channel
from shared.transport.heartbeat import Heartbeat
from workers.binder.binder_assembly import BinderLife


async def _run(start: ChildStart) -> int:
    options = start.options
    loop = asyncio.get_running_loop()
    heartbeat = Heartbeat(start.heartbeat_fd)
    heartbeat.keep(loop)
    clock = SystemClock()
    problems = ConnectionProblems(EventLog("binder"), clock.wall_s, heartbeat.write_note)
    name = f"binder-{start.number}-{secrets.token_hex(4)}"
    with AsyncPeer(start.runtime_dir, Channel.BINDERS, name, FROM_BINDER, TO_BINDER) as peer:
        life = BinderLife(
            start.number,
            peer,
            start.access(),
            clock,
            socket.gethostname(),
            start.plan.binding,
            options.binders,
            options.max_in_flight,
            start.gate(clock),
            problems,
        )
        start.call_at_end(loop, life.drain, life.stop_now)
        await life.run()
    return 1 if life.is_orphaned else 0


def main(arguments: list[str]) -> int:
    """Runs to the end; errors of the outside become one line and a status."""
    start = child_start("binder", arguments, is_one_of_many=True)
    return exit_code_of("binder", lambda: uvloop.run(_run(start)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
