"""One poller, one thread: collect what has come, call the core once, carry out its effects."""

from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from daemon.core.events import Effect, Event, LeaseTaken, Note, Publish, Tell
from daemon.core.state import SchedulerState
from shared.clock import Clock
from shared.collector import Collector
from shared.limits import QUIET_S
from shared.messages.to_binder import BindPods, PreemptPods, ReportPods
from shared.telemetry.log import EventLog
from shared.transport.heard import PeerGone
from shared.transport.heartbeat import Heartbeat
from shared.transport.lease_gate import LeaseGate
from shared.transport.owner_sockets import OwnerSockets
from shared.transport.remote import WorkersEntrance

log = EventLog("owner")

POLL_MS_MAX: Final = round(QUIET_S * 1000)
"""For a turn is a beat. Signals and the lifeline wake us."""
STANDBY_POLL_MS: Final = 100
"""How often one that stands by looks whether the lease is ours: a look is an address in memory."""


class OwnerLoop:
    def __init__(
        self,
        sockets: OwnerSockets,
        state: SchedulerState,
        clock: Clock,
        gate: LeaseGate | None = None,
        entrance: WorkersEntrance | None = None,
        heartbeat: Heartbeat | None = None,
        collector: Collector | None = None,
    ) -> None:
        """`gate`: with leader election. `entrance`: with scorers of other hosts. `collector`: where many
        owners live in one process."""
        self._sockets = sockets
        self._state = state
        self._clock = clock
        self._collector = collector or Collector()
        self._gate = gate
        self._entrance = entrance
        self._heartbeat = heartbeat or Heartbeat()
        if gate is None:
            self._admit_workers()
        self._term = 0
        """In which this owner leads; 0: it does not (or there is no election)."""
        self.is_lease_lost = False
        """`run` ended because of that: what this owner decided is void, and so is its life."""
        self._undelivered: list[PeerGone] = []
        """Peers that would not take a message; told to the core with the next batch."""

    def run(self, is_stopped: Callable[[], bool]) -> None:
        """Until `is_stopped` (asked after each wait) says so."""
        while not is_stopped():
            received = self._sockets.poll(self._timeout_ms())
            self._heartbeat.beat()
            events: list[Event] = [*self._undelivered, *received]
            if self._gate is not None:
                events += self._look_at(self._gate)
                if self.is_lease_lost:
                    return
            self._undelivered = []
            now_s = self._clock.monotonic_s()
            for effect in self._state.decide(events, now_s):
                self._carry_out(effect)
            for effect in self._state.spread(now_s):
                self._carry_out(effect)
            if self._state.is_synced:
                self._collector.settled()

    def _look_at(self, gate: LeaseGate) -> list[Event]:
        term = gate.open_term()
        if term == self._term:
            return []
        if self._term:
            # What is assumed may not be bound any more, or was bound elsewhere by another leader. The
            # API server knows; a new owner asks it, and nothing is guessed.
            log.warning("lease_lost", term=self._term)
            self.is_lease_lost = True
            return []
        self._term = term
        self._admit_workers()
        return [LeaseTaken(term)]

    def _admit_workers(self) -> None:
        """Not while another leads: there is no work here, and the scorers' connections find the leader
        by being refused everywhere else."""
        if self._entrance is not None:
            self._sockets.admit_workers(self._entrance)
            addresses = sorted(self._entrance.addresses.values())
            log.info("workers_of_other_hosts_admitted", addresses=addresses)

    def _timeout_ms(self) -> int:
        if self._undelivered:
            return 0
        longest_ms = STANDBY_POLL_MS if self._gate is not None and not self._term else POLL_MS_MAX
        wait_s = self._state.wakes_at_s - self._clock.monotonic_s()
        # Rounded up: waking a moment too early would be one more turn for nothing.
        return int(min(max(wait_s, 0.0) * 1000 + 0.999, longest_ms))

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Tell(channel, peer, message, buffers):
                if self._term and isinstance(message, BindPods | PreemptPods | ReportPods):
                    # In which it was decided: this turn's, or the owner would have ended.
                    message = msgspec.structs.replace(message, lease_term=self._term)
                if not self._sockets.send(channel, peer, message, buffers):
                    self._undelivered.append(PeerGone(channel, peer))
            case Publish(message, buffers):
                self._sockets.publish(message, buffers)
            case Note(event, fields, is_warning, is_detail):
                say = log.warning if is_warning else log.debug if is_detail else log.info
                say(event, **fields)
            case _:
                assert_never(effect)
