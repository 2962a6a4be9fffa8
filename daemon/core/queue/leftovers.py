"""LeftoverClock: when pods that no event woke are tried again.

Hints may be wrong, so a pod that is parked for too long is tried without a reason. It is looked for at
full 30 s from the start, however late the caller is and whatever else woke it, so that equal histories
give equal answers.

Rules: flushUnschedulablePodsLeftover in pkg/scheduler/backend/queue/scheduling_queue.go, v1.36.
"""

import math
from typing import Final

INTERVAL_S: Final = 30.0
"""How often such pods are looked for."""


class LeftoverClock:
    """Its ticks are `start_s` and every 30 s from it."""

    def __init__(self, start_s: float, leftover_after_s: float) -> None:
        self._start_s = start_s
        self._leftover_after_s = leftover_after_s
        self._next_tick_s = start_s

    def overdue_before_s(self, now_s: float) -> float | None:
        """Pods that were parked before this moment are overdue; None before the next tick."""
        if now_s < self._next_tick_s:
            return None
        self._next_tick_s = self._tick_after(now_s)
        return self._next_tick_s - INTERVAL_S - self._leftover_after_s

    def next_s(self, oldest_s: float) -> float:
        """When some pod may be overdue, if the first was parked at `oldest_s`; both infinity for
        never."""
        if math.isinf(oldest_s):
            return math.inf
        return max(self._next_tick_s, self._tick_after(oldest_s + self._leftover_after_s))

    def _tick_after(self, time_s: float) -> float:
        """The first tick after the given moment."""
        ticks = math.floor((time_s - self._start_s) / INTERVAL_S) + 1
        return self._start_s + max(ticks, 0) * INTERVAL_S
