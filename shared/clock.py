"""The one place that reads clocks, so that deciding code can be given any time.

`monotonic_s` orders and measures; `wall_s` is for people and for the API's timestamps; `boot_s` also
counts the time that the machine sleeps, for what must not outlive an agreement with other machines.
"""

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic_s(self) -> float: ...

    def wall_s(self) -> float: ...

    def boot_s(self) -> float: ...


class SystemClock:
    # Asked for each call of a plugin: without a function of ours around it.
    monotonic_s = staticmethod(time.monotonic)
    wall_s = staticmethod(time.time)

    def boot_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
