"""The seam for faults: named points at which a plan may interfere, and what it may order.

The server asks the plan at three points: before a request is handled, after it was handled and
before its answer is written (the answer is lost, the change is not: an ambiguous answer), and
before each watch event is sent. A plan that is not active is not asked, which costs one attribute
check. Plans are given the server's seed, so that a run with faults can be repeated.
"""

from dataclasses import dataclass
from typing import Protocol

from bench.apiserver.router import Request
from bench.apiserver.status import ApiError
from bench.apiserver.watching import WatchCursor


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait, then go on as if nothing had been."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with this error instead of handling the request."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Drop the connection without another byte."""


@dataclass(frozen=True, slots=True)
class ExpireWatch:
    """End the watch with a 410 ERROR event."""


RequestFault = Delay | Refuse | Disconnect
AnswerFault = Delay | Disconnect
WatchFault = Delay | Disconnect | ExpireWatch


class FaultPlan(Protocol):
    """Decides what goes wrong and when."""

    @property
    def is_active(self) -> bool:
        """Whether the plan wants to be asked at all."""

    def before_request(self, request: Request) -> RequestFault | None:
        """Decide before a request is handled."""

    def before_answer(self, request: Request, code: int) -> AnswerFault | None:
        """Decide before an answer is written; the request has been carried out."""

    def before_watch_event(self, cursor: WatchCursor) -> WatchFault | None:
        """Decide before the next event of a watch is sent."""


class NoFaults:
    """The plan of a server that works."""

    is_active = False

    def before_request(self, request: Request) -> RequestFault | None:
        """Let the request through."""
        del request
        return None

    def before_answer(self, request: Request, code: int) -> AnswerFault | None:
        """Let the answer through."""
        del request, code
        return None

    def before_watch_event(self, cursor: WatchCursor) -> WatchFault | None:
        """Let the event through."""
        del cursor
        return None
