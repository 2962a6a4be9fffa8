"""When a write that did not end well is tried again: after pauses that double, while patience lasts.

What an answer means is the writer's to say; here is only whether there is another try, and when: never
before the time that the server wished for, and never after our own.
"""

from asyncio import sleep
from math import inf
from typing import NamedTuple

from shared.clock import Clock
from shared.kube.api_errors import ApiError


class Patience(NamedTuple):
    """With one write. All of it is spent only while the API server is in trouble."""

    pause_s: float
    """Before the second try; twice as much before each further one."""
    pause_s_max: float
    pauses_max: int | None = None
    total_s: float = inf

    def pause(self, pauses_before: int, error: Exception | None, spread: float = 1.0) -> float:
        """How long to wait after this error, if it was one. `spread`: a factor of whoever failed."""
        # The doubling ends long before the number becomes too large to be one.
        pause_s = min(self.pause_s_max, self.pause_s * 2.0 ** min(pauses_before, 32)) * spread
        wished_s = error.retry_after_s if isinstance(error, ApiError) else None
        return pause_s if wished_s is None else max(pause_s, wished_s)


class Retries:
    """Of one write, or of several that share their time."""

    def __init__(self, patience: Patience, clock: Clock, spread: float = 1.0) -> None:
        self._patience = patience
        self._clock = clock
        self._spread = spread
        self._deadline_s = clock.monotonic_s() + patience.total_s
        self.count = 0

    async def pause(self, error: Exception | None = None) -> bool:
        """Waits before the next try; False if there is to be none."""
        if self.count == self._patience.pauses_max:
            return False
        delay_s = self._patience.pause(self.count, error, self._spread)
        if self._clock.monotonic_s() + delay_s > self._deadline_s:
            return False
        self.count += 1
        await sleep(delay_s)
        return True
