"""The one place that reads clocks, so that deciding code can be given any time.

`monotonic_s` orders and measures; `wall_s` is for people and for the API's timestamps; `boot_s` also
counts the time that the machine sleeps, for what must not outlive an agreement with other machines.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def monotonic_s(self) -> float: ...

    def wall_s(self) -> float: ...


class BootClock(Protocol):
    """Where the time since the machine's start comes from."""

    def boot_s(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    def boot_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wall_s(self) -> float:
        return time.time()


class ManualClock:
    """A clock that moves only when told; for tests and replays."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def boot_s(self) -> float:
        return self.now_s

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s

    def advance(self, by_s: float) -> None:
        assert by_s >= 0, "time does not run backwards"
        self.now_s += by_s
