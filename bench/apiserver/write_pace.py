"""How slow the server is for a scheduler: how late its writes are carried out, and how many a second.

A server in memory answers in a tenth of a millisecond, so that nothing ever waits for it. A real one
writes to a disk first: here a write waits for its turn, so many of which there are a second, and then
for the latency. Objects that are made are not held up, events excepted: a workload is there as fast as
it comes, and what is slow is what a scheduler makes of it.
"""

from typing import Final

from bench.apiserver.router import Request, parse_path
from bench.apiserver.served_resources import CORE_EVENTS, EVENTS
from bench.watched.server_pace import PaceOptions

_READING: Final = frozenset({"GET", "HEAD"})


class WritePace:
    """Gives each write its turn."""

    def __init__(self, options: PaceOptions) -> None:
        self._latency_s = options.write_latency_ms / 1000
        self._interval_s = 1 / options.writes_per_s if options.writes_per_s else 0.0
        self._next_turn_s = 0.0
        self.is_active = bool(self._latency_s or self._interval_s)

    def wait_s(self, request: Request, now_s: float) -> float:
        """How long the request waits before it is carried out; it has taken its turn."""
        if not _is_held_up(request):
            return 0.0
        turn_s = max(now_s, self._next_turn_s)
        self._next_turn_s = turn_s + self._interval_s
        return turn_s - now_s + self._latency_s


def _is_held_up(request: Request) -> bool:
    if request.method != "POST":
        return request.method not in _READING
    target = parse_path(request.target.partition("?")[0])
    return target is not None and (
        bool(target.subresource) or target.resource in (CORE_EVENTS, EVENTS)
    )
