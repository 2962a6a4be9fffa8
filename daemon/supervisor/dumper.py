"""Dumper: what kube-scheduler does on SIGUSR2: dump cache and queue, and compare them with the cluster.

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


class Dumper:
    def __init__(self, owner: OwnerLink, runtime_dir: Path) -> None:
        self._owner = owner
        self._runtime_dir = runtime_dir
        self._comparers: dict[int, subprocess.Popen[bytes]] = {}
        """By pidfd."""

    def close(self) -> None:
        for pidfd, comparer in list(self._comparers.items()):
            comparer.kill()
            self._on_comparer_end(pidfd)

    async def dump(self) -> None:
        """Writes `dump.txt` in the runtime directory, and what differs into the log."""
        try:
            dumped = await self._owner.ask(DumpRequest(), TextAnswer, DUMP_TIMEOUT_S)
            compared = await self._owner.ask(CompareRequest(), TextAnswer, DUMP_TIMEOUT_S)
        except NoAnswerError as error:
            log.warning("dump_failed", reason=str(error))
            return
        self._write(dumped.lines)
        for line in compared.lines:
            log.info("compared", finding=line)
        if (self._runtime_dir / PLAN_NAME).exists():
            self._start_comparer()

    def _write(self, lines: list[str]) -> None:
        path = self._runtime_dir / "dump.txt"
        try:
            replace_file(path, ("\n".join(lines) + "\n").encode())
        except OSError as error:
            remedy = "make room there; berth dump prints the same"
            log.warning("dump_not_written", path=str(path), reason=str(error), remedy=remedy)
            return
        log.info("dumped", path=str(path), lines=len(lines))

    def _start_comparer(self) -> None:
        """Cache and queue against the API server, in a process of its own that writes log lines: to
        list and compare a whole cluster would keep this one from its children for seconds."""
        command = [sys.executable, "-P", "-m", "daemon", "compare", "--log"]
        command += ["--runtime-dir", str(self._runtime_dir)]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command, stdin=subprocess.DEVNULL, process_group=0
            )
        except OSError as error:
            log.warning("comparer_not_started", reason=str(error))
            return
        pidfd = os.pidfd_open(process.pid)
        self._comparers[pidfd] = process
        asyncio.get_running_loop().add_reader(pidfd, self._on_comparer_end, pidfd)

    def _on_comparer_end(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        self._comparers.pop(pidfd).wait()
