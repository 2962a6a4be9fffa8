"""Kills and stops berth's processes while the traffic goes on, as an unlucky machine would."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from daemon.supervisor.process_list import ProcessEntry, read_list
from shared.clock import Clock

KILLABLE: Final = ("owner", "adapter", "scorer", "binder")
STOPPED_S: Final = (1.0, 4.0, 12.0)
"""A hiccup, a long one, and one that a supervisor may take for a hang."""


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
        whom: Sequence[str],
        seed: int,
    ) -> None:
        self._runtime_dir = runtime_dir
        self._clock = clock
        self._tell = tell
        self._every_s = {"kill": kill_every_s, "stop": stop_every_s}
        self._whom = whom
        self._random = random.Random(f"kills/{seed}")
        self.done: Counter[str] = Counter()
        """Process -> how often."""

    async def run(self, until_s: float) -> None:
        """Nobody is stopped any more when it ends."""
        async with asyncio.TaskGroup() as group:
            for how, every_s in self._every_s.items():
                if every_s:
                    group.create_task(self._disturb(how, every_s, until_s))

    async def _disturb(self, how: str, every_s: float, until_s: float) -> None:
        while self._clock.monotonic_s() + every_s < until_s:
            await asyncio.sleep(every_s)
            entries = [
                one
                for one in read_list(self._runtime_dir).processes
                if one.pid and one.name.split("-")[0] in self._whom
            ]
            if not entries:
                continue
            entry = self._random.choice(entries)
            self.done[entry.name] += 1
            if how == "kill":
                self._tell(f"kill -9 {entry.name} (pid {entry.pid})")
                self._send(entry, signal.SIGKILL)
            else:
                await self._stop_a_while(entry)

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
