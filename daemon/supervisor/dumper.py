"""What kube-scheduler does on SIGUSR2: dump cache and queue, and compare them with the cluster.

Apart from the supervise loop, in whose way it must not be: a whole cluster takes seconds.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from daemon.supervisor.process_list import replace_file
from shared.child_plan import PLAN_NAME
from shared.messages.admin import CompareRequest, DumpRequest, TextAnswer
from shared.telemetry.log import EventLog
from shared.transport.owner_link import NoAnswerError, OwnerLink

log = EventLog("supervisor")

DUMP_TIMEOUT_S: Final = 60.0


async def dump(owner: OwnerLink, runtime_dir: Path) -> None:
    """Writes `dump.txt` in the runtime directory, and what differs into the log."""
    try:
        dumped = await owner.ask(DumpRequest(), TextAnswer, DUMP_TIMEOUT_S)
        compared = await owner.ask(CompareRequest(), TextAnswer, DUMP_TIMEOUT_S)
    except NoAnswerError as error:
        log.warning("dump_failed", reason=str(error))
        return
    _write(runtime_dir / "dump.txt", dumped.lines)
    for line in compared.lines:
        log.info("compared", finding=line)
    if (runtime_dir / PLAN_NAME).exists():
        await _compare(runtime_dir)


def _write(path: Path, lines: list[str]) -> None:
    try:
        replace_file(path, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        remedy = "make room there; berth dump prints the same"
        log.warning("dump_not_written", path=str(path), reason=str(error), remedy=remedy)
        return
    log.info("dumped", path=str(path), lines=len(lines))


async def _compare(runtime_dir: Path) -> None:
    """Cache and queue against the API server, in a process of its own that writes log lines: to list and
    compare a whole cluster would keep this one from its children for seconds."""
    command = [sys.executable, "-P", "-m", "daemon", "compare", "--log"]
    command += ["--runtime-dir", str(runtime_dir)]
    try:
        # asyncio would wait for it in a thread, and children are forks of this process.
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own interpreter; it is one fork.
            command, stdin=subprocess.DEVNULL, process_group=0
        )
    except OSError as error:
        log.warning("comparer_not_started", reason=str(error))
        return
    try:
        await _end_of(process.pid)
    except OSError as error:  # No descriptor left: what cannot be watched must not run.
        log.warning("comparer_not_watched", reason=str(error))
    finally:
        process.kill()  # To one that has ended it is nothing.
        process.wait()


async def _end_of(pid: int) -> None:
    pidfd, ended = os.pidfd_open(pid), asyncio.Event()
    asyncio.get_running_loop().add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
