"""What `berth explain` says of a pod, for the live page: the command itself, in a process of its own.

So there is one source for both, and no process that schedules has anything to do with it. It lists the
cluster from the API server and holds all of it for a moment, which is dear on a large one. Hence: one at
a time, after each a pause as long as it took, and an end when it takes too long. It comes after others
where CPU is short, and the kernel ends it first where memory is.
"""

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from shared import exit_codes
from shared.clock import Clock
from shared.telemetry.log import EventLog

log: Final = EventLog("endpoints")

EXPLAIN_S_MAX: Final = 120.0
NICENESS: Final = 5
"""A third of the share of those who schedule."""
PROBLEM_CHARS_MAX: Final = 500
_KEY: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}/[a-z0-9][a-z0-9.-]{0,252}")
_OWN: Final = (sys.executable, "-P", "-m", "daemon", "explain", "-o", "json")


class Explainer:
    def __init__(self, runtime_dir: Path, clock: Clock, command: Sequence[str] = _OWN) -> None:
        self._command = [*command, "--runtime-dir", str(runtime_dir)]
        self._clock = clock
        self._is_busy = False
        self._rests_until_s = 0.0

    async def explain(self, key: str) -> bytes:
        """The command's JSON of a pod, or in its place what is the `problem`."""
        if not _KEY.fullmatch(key):
            return _problem(f"{key[:PROBLEM_CHARS_MAX]!r} is no pod")
        begun_s = self._clock.monotonic_s()
        rest_s = self._rests_until_s - begun_s
        if self._is_busy or rest_s > 0:
            when = "when that is done" if self._is_busy else f"in {rest_s:.0f} s"
            return _problem(f"another pod was asked about: ask again {when}")
        self._is_busy = True
        try:
            return await self._run(key)
        finally:
            self._is_busy = False
            ended_s = self._clock.monotonic_s()
            self._rests_until_s = ended_s + (ended_s - begun_s)

    async def _run(self, key: str) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, key, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
            )
        except OSError as error:
            return _problem(f"berth explain cannot be started: {error}")
        try:
            _let_others_go_first(process.pid)
            async with asyncio.timeout(EXPLAIN_S_MAX):
                told, complaint = await process.communicate()
        except TimeoutError:
            return _problem(f"no answer after {EXPLAIN_S_MAX:.0f} s: berth explain {key}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != exit_codes.OK:
            return _problem(complaint.decode(errors="replace").strip()[-PROBLEM_CHARS_MAX:])
        return told


def _problem(text: str) -> bytes:
    return msgspec.json.encode({"problem": text})


def _let_others_go_first(pid: int) -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000", "ascii")
    except OSError as error:  # Where a sandbox forbids it, or it has ended already.
        log.debug("not_put_last", pid=pid, reason=str(error))
