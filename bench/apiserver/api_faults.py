"""The seam for faults: named points at which a plan may interfere, and what it may order.

The server asks the plan at three points: before a request is handled, after it was handled and
before its answer is written (the answer is lost, the change is not: an ambiguous answer), and
before each watch event is sent. A plan that is not active is not asked, which costs one attribute
check. `fault_plan.py` has the plan that is read from a file.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from bench.apiserver.api_status import ApiError
from bench.apiserver.router import Request
from bench.apiserver.watching import WatchCursor


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait, then go on as if nothing had been."""

    delay_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """Wait until this is done, then go on as if nothing had been."""

    released: "asyncio.Future[None]"


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with this error instead of handling the request."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Drop the connection without another byte."""

    is_reset: bool = False
    """By a TCP reset, as of a host that has forgotten the connection."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Keep the connection open and never send anything on it again: a peer that is half gone."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer with these very bytes as the body, in one piece, instead of handling the request."""

    code: int
    body: bytes
    content_type: bytes = b"application/json"


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """Send only the first half of the answer's body."""

    is_whole_http: bool = False
    """The half with its own length, as a proxy that lost the rest may send it; else the connection
    ends in the middle of the body."""


@dataclass(frozen=True, slots=True)
class ExpireWatch:
    """End the watch with a 410 ERROR event."""


@dataclass(frozen=True, slots=True)
class EndWatch:
    """End the watch in good order."""


@dataclass(frozen=True, slots=True)
class CutEvent:
    """Drop the connection in the middle of the event."""


@dataclass(frozen=True, slots=True)
class DropEvent:
    """Do not send the event."""


@dataclass(frozen=True, slots=True)
class RepeatEvent:
    """Send the event, and again one that this watch has sent before."""

    back_count: int = 0
    """How many events ago; 0: the event itself, twice. Before there are so many: the first."""


@dataclass(frozen=True, slots=True)
class GarbleEvent:
    """Send a line that is not JSON in the event's place."""


RequestFault = Delay | Hold | Refuse | Reply | Disconnect | Hang
AnswerFault = Delay | CutAnswer | Disconnect | Hang
WatchFault = (
    Delay
    | Disconnect
    | Hang
    | ExpireWatch
    | EndWatch
    | CutEvent
    | DropEvent
    | RepeatEvent
    | GarbleEvent
)

REPEATABLE_EVENTS: Final = 64
"""Events that a watch under faults remembers, to send them again."""


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
