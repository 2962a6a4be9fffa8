"""The scorer's I/O half: deltas and work in, proposals out. Decides nothing.

Work waits until the copy has reached the sequence that it names. A copy with a hole asks for a full
snapshot, once, and what was in hand waits for it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, assert_never

from shared.clock import Clock
from shared.errors import FrameError
from shared.framework.plugin_api import ReservePlugin
from shared.framework.runtime import Framework
from shared.messages.frames import PROTOCOL_VERSION
from shared.messages.from_scorer import (
    FromScorer,
    Proposals,
    ResyncRequest,
    ScorerHeartbeat,
    ScorerHello,
)
from shared.messages.to_scorer import Drain, SchedulePods, SnapshotDelta, SnapshotFull
from shared.telemetry.log import EventLog
from shared.transport.connection import Connected
from shared.transport.scorer_sockets import FromOwner, ScorerSockets, SnapshotDamaged
from workers.scorer.cycle import Cycle
from workers.scorer.replica import DecodeObject, Replica

log = EventLog("scorer")

HEARTBEAT_S: Final = 1.0
RESYNC_INTERVAL_S: Final = 1.0
"""A full snapshot that cannot be used either is not asked for in a loop."""
DICTIONARY_WASTE_MAX: Final = 16_384
"""Sets of images and ports that no row has any more; a new copy starts without them."""
EARLY_DELTAS_MAX: Final = 256
"""More than that are not kept: the gap is noticed then, and another full snapshot asked for."""
SEND_TIMEOUT_MS: Final = 5_000
"""For proposals: the owner's queue is full only when the owner is in trouble."""


class ScorerLoop:
    """One scorer's life."""

    def __init__(
        self,
        sockets: ScorerSockets,
        *,
        worker_index: int,
        instance: str,
        seed: int,
        tie_break: str,
        frameworks: dict[str, Framework],
        reserves: Mapping[str, Sequence[ReservePlugin]],
        decode_object: DecodeObject,
        clock: Clock,
    ) -> None:
        self._sockets = sockets
        self._worker_index = worker_index
        self._instance = instance
        self._clock = clock
        self._replica = Replica(worker_index, decode_object)
        self._cycle = Cycle(self._replica, frameworks, seed, tie_break, reserves)
        self._work: deque[SchedulePods] = deque()
        self._early: deque[FromOwner] = deque(maxlen=EARLY_DELTAS_MAX)
        """Deltas that came while a full snapshot was awaited: the two travel on different sockets, and
        what was published after the full one may overtake it."""
        self._proposal_sequence = 0
        self._is_draining = False
        self._is_resync_asked = False
        self._has_greeted = False
        self._next_heartbeat_s = 0.0
        self._next_resync_s = 0.0

    def run(self, is_stopped: Callable[[], bool]) -> None:
        """Until drained, or `is_stopped` (asked after each wait) says so."""
        while not is_stopped():
            for received in self._sockets.poll(self._poll_timeout_ms()):
                self._handle(received)
            self._do_work()
            self._beat()
            if self._is_draining and not self._work:
                return

    def _poll_timeout_ms(self) -> int:
        if self._work and self._is_ready(self._work[0]):
            return 0
        return max(0, int((self._next_heartbeat_s - self._clock.monotonic_s()) * 1000))

    def _handle(self, received: FromOwner) -> None:
        message = received.message
        match message:
            case SnapshotDelta():
                self._apply_delta(message, received)
            case SnapshotFull():
                self._apply_full(message, received)
            case SchedulePods():
                if message.epoch != self._replica.epoch and self._replica.is_whole:
                    log.info("work_of_another_epoch_dropped", epoch=message.epoch)
                else:
                    self._work.append(message)
            case Connected():
                self._say_hello()
            case SnapshotDamaged():
                log.warning("snapshot_frame_damaged", problem=message.problem)
                self._replica.mark_broken()
                self._ask_for_resync(message.problem)
            case Drain():
                self._is_draining = True
            case _:
                assert_never(message)

    def _say_hello(self) -> None:
        """To a new owner, or to the same after a lost connection: it forgets what we had in hand."""
        self._work.clear()
        self._replica.mark_broken()
        self._proposal_sequence = 0
        self._replica.drop_tentative()
        self._is_resync_asked = True  # The owner answers Hello with a full snapshot.
        self._has_greeted = True
        self._send(ScorerHello(PROTOCOL_VERSION, self._worker_index, self._instance))

    def _apply_full(self, message: SnapshotFull, received: FromOwner) -> None:
        try:
            self._replica.apply_full(message, list(received.buffers))
        except FrameError as error:
            self._replica.mark_broken()
            self._is_resync_asked = False
            self._ask_for_resync(str(error))
            return
        self._is_resync_asked = False
        self._cycle.start_over()
        self._work = deque(work for work in self._work if work.epoch == message.epoch)
        early = list(self._early)
        self._early.clear()
        for one in early:
            assert isinstance(one.message, SnapshotDelta), "only deltas are put there"
            if one.message.epoch == message.epoch:
                self._apply_delta(one.message, one)

    def _apply_delta(self, message: SnapshotDelta, received: FromOwner) -> None:
        try:
            is_whole = self._replica.apply_delta(message, list(received.buffers))
        except FrameError as error:
            self._replica.mark_broken()
            self._ask_for_resync(str(error))
            return
        if not is_whole:
            self._early.append(received)
            self._ask_for_resync(f"gap before sequence {message.sequence}")

    def _ask_for_resync(self, reason: str) -> None:
        now_s = self._clock.monotonic_s()
        if self._is_resync_asked or now_s < self._next_resync_s:
            return
        self._next_resync_s = now_s + RESYNC_INTERVAL_S
        log.info("asking_for_a_full_snapshot", reason=reason)
        self._is_resync_asked = self._send(ResyncRequest(self._worker_index, reason))

    def _is_ready(self, work: SchedulePods) -> bool:
        replica = self._replica
        return (
            replica.is_whole
            and work.epoch == replica.epoch
            and replica.sequence >= work.min_sequence
        )

    def _do_work(self) -> None:
        """One batch, so that deltas are read between batches."""
        if not self._work or not self._is_ready(self._work[0]):
            return
        batch = self._work.popleft()
        self._proposal_sequence += 1
        answers = self._cycle.run(batch, self._proposal_sequence)
        self._send(
            Proposals(
                worker_index=self._worker_index,
                epoch=batch.epoch,
                batch_id=batch.batch_id,
                proposal_sequence=self._proposal_sequence,
                generation=self._replica.generation,
                is_last=True,
                placements=answers.placements,
                failures=answers.failures,
                skipped=answers.skipped,
            )
        )

    def _beat(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._next_heartbeat_s:
            return
        self._next_heartbeat_s = now_s + HEARTBEAT_S
        if not self._has_greeted:
            # The socket may be connected before we are told so, and an owner that hears anything
            # but Hello of a worker that it does not know sends it home.
            return
        replica = self._replica
        if replica.nodes.dictionary_waste() > DICTIONARY_WASTE_MAX:
            replica.mark_broken()
            self._ask_for_resync("sets that no row has any more")
        elif not replica.is_whole and replica.epoch:
            self._ask_for_resync("the copy is still not whole")
        self._send(ScorerHeartbeat(self._worker_index, replica.sequence, replica.generation))

    def _send(self, message: FromScorer) -> bool:
        is_sent = self._sockets.send(message, timeout_ms=SEND_TIMEOUT_MS)
        if not is_sent:
            # The owner is away; it takes our pods back by itself, and Hello follows on reconnect.
            log.info("not_sent_no_owner", kind=type(message).__name__)
        return is_sent
