"""One poller, one thread: collect what has come, call the core once, carry out its effects."""

from collections.abc import Callable
from typing import Final, assert_never

from daemon.core.effects import (
    AnswerAdmin,
    Effect,
    Note,
    Publish,
    TellAdapter,
    TellBinder,
    TellScorer,
)
from daemon.core.events import (
    AdapterGone,
    AdapterSaid,
    AdminAsked,
    BinderGone,
    BinderSaid,
    Event,
    ScorerGone,
    ScorerSaid,
)
from daemon.core.state import SchedulerState
from shared.clock import Clock
from shared.messages.admin import (
    CompareRequest,
    DumpRequest,
    NodesRequest,
    QueueRequest,
    StatusRequest,
    StopRequest,
)
from shared.messages.from_binder import (
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindReport,
    VictimReport,
)
from shared.messages.from_scorer import Proposals, ResyncRequest, ScorerHeartbeat, ScorerHello
from shared.messages.to_owner import AdapterBatch
from shared.telemetry.log import EventLog
from shared.transport.channels import Channel
from shared.transport.owner_sockets import OwnerSockets, PeerGone, Received

log = EventLog("owner")

POLL_MS_MAX: Final = 1000
"""Also the longest that a stop request of the operating system goes unnoticed."""


class OwnerLoop:
    """The owner's life."""

    def __init__(self, sockets: OwnerSockets, state: SchedulerState, clock: Clock) -> None:
        self._sockets = sockets
        self._state = state
        self._clock = clock
        self._undelivered: list[Event] = []
        """Peers that would not take a message; told to the core with the next batch."""

    def run(self, is_stopped: Callable[[], bool]) -> None:
        """Until `is_stopped` (asked after each wait) says so."""
        while not is_stopped():
            received = self._sockets.poll(self._timeout_ms())
            events = [*self._undelivered, *(to_event(one) for one in received)]
            self._undelivered = []
            for effect in self._state.handle(events, self._clock.monotonic_s()):
                self._carry_out(effect)

    def _timeout_ms(self) -> int:
        if self._undelivered:
            return 0
        wait_s = self._state.next_wakeup_s() - self._clock.monotonic_s()
        # Rounded up: waking a moment too early would be one more turn for nothing.
        return int(min(max(wait_s, 0.0) * 1000 + 0.999, POLL_MS_MAX))

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case TellScorer(peer, message, buffers):
                is_sent = self._sockets.send(
                    Channel.SCORERS, peer, message, buffers, handed_over=True
                )
                if not is_sent:
                    self._undelivered.append(ScorerGone(peer))
            case Publish(message, buffers):
                self._sockets.publish(message, buffers, handed_over=True)
            case TellBinder(peer, message):
                if not self._sockets.send(Channel.BINDERS, peer, message):
                    self._undelivered.append(BinderGone(peer))
            case TellAdapter(peer, message):
                if not self._sockets.send(Channel.ADAPTER, peer, message):
                    self._undelivered.append(AdapterGone(peer))
            case AnswerAdmin(peer, answer):
                if not self._sockets.send(Channel.ADMIN, peer, answer):
                    log.info("admin_client_left")
            case Note(event, fields, is_warning):
                (log.warning if is_warning else log.info)(event, **fields)
            case _:
                assert_never(effect)


def to_event(received: Received) -> Event:
    """What a message means to the core."""
    peer, message = received.peer, received.message
    match message:
        case AdapterBatch():
            return AdapterSaid(peer, message)
        case PeerGone():
            return ScorerGone(peer)
        case ScorerHello() | ResyncRequest() | Proposals() | ScorerHeartbeat():
            return ScorerSaid(peer, message)
        case BinderHello() | BinderReady() | BindReport() | VictimReport() | BinderHeartbeat():
            return BinderSaid(peer, message)
        case StatusRequest() | DumpRequest() | CompareRequest() | StopRequest():
            return AdminAsked(peer, message)
        case QueueRequest() | NodesRequest():
            return AdminAsked(peer, message)
        case _:
            assert_never(message)
