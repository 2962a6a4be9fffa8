"""Kills, stops and starves berth's processes while the traffic goes on, as an unlucky machine would."""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.watched.watched_processes import core_count
from daemon.supervisor.process_list import NotRunningError, ProcessEntry, read_list
from shared.clock import Clock

SUPERVISOR: Final = "supervisor"
CHILDREN: Final = ("owner", "adapter", "scorer", "binder")
LEADER: Final = "leader"
ENDPOINTS: Final = "endpoints"
KILLABLE: Final = (*CHILDREN, LEADER, ENDPOINTS, SUPERVISOR)
STOPPED_S: Final = (1.0, 4.0, 12.0)
"""A hiccup, a long one, and one that a supervisor may take for a hang."""
BUSY_LOOPS_PER_CORE: Final = 4
"""While they run each process has a fifth of what it is used to."""
BUSY_LOOP: Final = (sys.executable, "-c", "while True: pass")


class Disturbance:
    """Of one soak."""

    def __init__(
        self,
        runtime_dir: Path,
        clock: Clock,
        tell: Callable[[str], None],
        *,
        kill_every_s: float,
        stop_every_s: float,
        starve_every_s: float,
        whom: Sequence[str],
        seed: int,
    ) -> None:
        self._runtime_dir = runtime_dir
        self._clock = clock
        self._tell = tell
        self._every_s = {"kill": kill_every_s, "stop": stop_every_s, "starve": starve_every_s}
        self._whom = whom
        self._random = random.Random(f"kills/{seed}")
        self.done: Counter[str] = Counter()
        """Process -> how often it was killed or stopped; "all" for those that starved."""

    async def run(self, until_s: float) -> None:
        """Nobody is stopped or starved any more when it ends."""
        async with asyncio.TaskGroup() as group:
            for how, every_s in self._every_s.items():
                if every_s:
                    group.create_task(self._disturb(how, every_s, until_s))

    async def _disturb(self, how: str, every_s: float, until_s: float) -> None:
        while self._clock.monotonic_s() + every_s < until_s:
            await asyncio.sleep(every_s)
            if how == "starve":
                await self._starve_a_while()
                continue
            entries = self._candidates()
            if not entries:
                continue
            entry = self._random.choice(entries)
            self.done[entry.name] += 1
            if how == "kill":
                self._tell(f"kill -9 {entry.name} (pid {entry.pid})")
                self._send(entry, signal.SIGKILL)
            else:
                await self._stop_a_while(entry)

    def _candidates(self) -> list[ProcessEntry]:
        try:
            processes = read_list(self._runtime_dir).processes
        except NotRunningError:
            return []  # Its supervisor was killed just now.
        return [one for one in processes if one.pid and one.name.split("-")[0] in self._whom]

    async def _starve_a_while(self) -> None:
        for_s = self._random.choice(STOPPED_S)
        self._tell(f"starve all for {for_s:g} s")
        self.done["all"] += 1
        count = BUSY_LOOPS_PER_CORE * core_count()
        loops = [await asyncio.create_subprocess_exec(*BUSY_LOOP) for _ in range(count)]
        try:
            await asyncio.sleep(for_s)
        finally:
            for loop in loops:
                loop.kill()
                await loop.wait()

    async def _stop_a_while(self, entry: ProcessEntry) -> None:
        stopped_s = self._random.choice(STOPPED_S)
        self._tell(f"stop {entry.name} (pid {entry.pid}) for {stopped_s:g} s")
        self._send(entry, signal.SIGSTOP)
        try:
            await asyncio.sleep(stopped_s)
        finally:
            self._send(entry, signal.SIGCONT)

    def _send(self, entry: ProcessEntry, what: signal.Signals) -> None:
        try:
            os.kill(entry.pid, what)
        except ProcessLookupError:
            self._tell(f"{entry.name} (pid {entry.pid}) is gone already")
