"""`python -m daemon.adapter`: the watch adapter process, started by the supervisor.

Tells the owner on the runtime directory what an API server holds. Ends with
0 when told to stop (SIGTERM, SIGINT) or when its supervisor is gone, with 1 when something it cannot
work with is wrong; the supervisor starts it anew.
"""

import asyncio
import ctypes
import os
import sys
from pathlib import Path
from typing import Final

import uvloop

from daemon.adapter.api_source import ApiSource, watched_kinds
from daemon.adapter.process import Adapter, adapter_peer
from daemon.adapter.recording import Recorder
from shared.child_plan import ChildStart, child_start
from shared.clock import SystemClock
from shared.errors import OperationalError
from shared.in_hand import InHand
from shared.kube.connection_problems import ConnectionProblems
from shared.telemetry.log import EventLog
from shared.transport.heartbeat import Heartbeat

log: Final = EventLog("adapter")

_M_MMAP_THRESHOLD: Final = -3
_STREAM_BYTES: Final = 128 << 10
"""The size from which memory is given back at once when it is freed. A process that holds many TLS
streams needs it fixed: glibc would raise it after the first buffer that is freed (256 KiB each) and keep
later ones in its heap, whose holes it never gives back."""


def main(arguments: list[str]) -> int:
    """Run until told to stop; the exit code."""
    start = child_start("adapter", arguments)
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # Other libraries of C have none.
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _STREAM_BYTES)
    problems: list[OperationalError] = []
    try:
        uvloop.run(_run(start))
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


async def _run(start: ChildStart) -> None:
    loop = asyncio.get_running_loop()
    heartbeat = Heartbeat(start.heartbeat_fd)
    heartbeat.keep(loop)
    instance = f"{os.getpid()}-{os.urandom(4).hex()}"
    recorder, options, clock = None, start.options, SystemClock()
    if options.record:
        recorder = Recorder(Path(options.record), clock, options.record_mib_max << 20)
    access = start.access()
    seed = int.from_bytes(os.urandom(8))
    log.info("api_server", url=access.url, source=access.source, seed=seed)
    source = ApiSource(
        access,
        seed=seed,
        kinds=watched_kinds(options),
        recorder=recorder,
        problems=ConnectionProblems(log, clock.wall_s, heartbeat.write_note),
        in_hand=InHand.asked_for(start.careful, heartbeat.beat),
    )
    with adapter_peer(start.runtime_dir, instance) as peer:
        task = loop.create_task(Adapter(source, peer).run())
        start.call_at_end(loop, task.cancel)
        log.info("started", instance=instance)
        try:
            await task
        except asyncio.CancelledError:
            log.info("stopped")
        finally:
            if recorder is not None:
                recorder.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
