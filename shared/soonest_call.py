"""A call that is asked for with several delays: once, at the soonest of these times."""

import asyncio
from collections.abc import Callable
from typing import Final

_ROUNDING_S: Final = 0.0015
"""By which uvloop's timers, which count whole milliseconds, may be early. Who is called too early asks
again for the rest, and is called too early again."""


class SoonestCall:
    """At most one call is to come."""

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
        self._loop = loop
        self._function = function
        self._handle: asyncio.Handle | None = None
        self._at_s = 0.0

    @property
    def is_to_come(self) -> bool:
        return self._handle is not None

    def within(self, delay_s: float) -> None:
        """After this time at the latest, as far as timers go; not before."""
        at_s = self._loop.time() + delay_s
        if self._handle is not None:
            if self._at_s <= at_s:
                return
            self._handle.cancel()
        self._at_s = at_s
        self._handle = self._loop.call_later(delay_s and delay_s + _ROUNDING_S, self._call)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _call(self) -> None:
        self._handle = None
        self._function()
