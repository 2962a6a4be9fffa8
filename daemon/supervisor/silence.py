"""When a child is silent for too long. Pure: counts, times and what the kernel says come in.

What counts is time in which the child could have said something, so that a busy machine or one that
slept kills nobody: while it waits for a core or for the disk (state R or D), only the CPU time that it
got; otherwise (asleep, or stopped by a signal) all time. And a look that comes late is our own pause: a
machine that was suspended, or has no core for us either. Then everybody begins anew.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

OWN_PAUSE_S: Final = 5.0
"""Looks are two seconds apart (`LOOK_PERIOD_S`)."""


class Use(NamedTuple):
    cpu_s: float
    is_waiting: bool
    """It works, or would if it were let: for a core (state R) or for a disk (state D)."""


class Silence:
    def __init__(self, bound_s: float, now_s: float) -> None:
        self._bound_s = bound_s
        self._looked_s = now_s
        self._count = -1
        self._use: Use | None = None
        self.silent_s = 0.0

    def look(self, count: int, now_s: float, measure: Callable[[], Use]) -> bool:
        """Whether it has been silent for too long. `measure` is asked of the silent only."""
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        if count != self._count or passed_s > OWN_PAUSE_S:
            self._count, self._use, self.silent_s = count, None, 0.0
            return False
        if self._use is None and self.silent_s + passed_s <= self._bound_s / 5:
            self.silent_s += passed_s  # As everybody with nothing to do (`QUIET_S`): not worth one.
            return False
        before, self._use = self._use, measure()
        if self._use.is_waiting:
            got_s = self._use.cpu_s - before.cpu_s if before is not None else 0.0
            passed_s = min(passed_s, got_s)
        self.silent_s += passed_s
        return self.silent_s >= self._bound_s
