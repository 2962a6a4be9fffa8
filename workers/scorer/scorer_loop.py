"""The scorer's I/O half: deltas and work in, proposals out. Decides nothing.

Work waits until the copy has reached the sequence that it names. A copy with a hole asks for a full
snapshot, once, and what was in hand waits for it.
"""

import itertools
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final, assert_never

from msgspec.structs import replace

from shared.clock import Clock
from shared.errors import FrameError
from shared.feature_gates import FeatureGates
from shared.framework.runtime.plugin_times import IN_SCORERS, PluginTimes
from shared.framework.runtime.registry import BuiltProfile
from shared.limits import EARLY_DELTAS_MAX
from shared.messages.codec import Drain
from shared.messages.from_scorer import (
    FORESEEN_MAX,
    FromScorer,
    Proposals,
    ResyncRequest,
    ScorerHeartbeat,
    ScorerHello,
)
from shared.messages.to_scorer import (
    GreetAgain,
    PodsOnNodes,
    ScheduleExtended,
    SchedulePods,
    ScorerRefused,
    SnapshotDelta,
    SnapshotFull,
)
from shared.telemetry.log import EventLog
from shared.telemetry.metrics import Tally, measured_by
from shared.transport.channels import Connected
from shared.transport.heartbeat import Heartbeat, until_beat_s
from shared.transport.scorer_sockets import FromOwner, RefusedError, ScorerSockets
from workers.scorer.cycle import Cycle
from workers.scorer.engine import BY_SEED
from workers.scorer.extended_pods import ExtendedCycle
from workers.scorer.extender_calls import ExtenderCaller
from workers.scorer.replica import Replica

log = EventLog("scorer")

HEARTBEAT_S: Final = 1.0
"""After so long whatever came or waits is told of; without any, after `QUIET_S`."""
ABSENCE_PATIENCE_S: Final = 3.0
"""An owner that is started again is back sooner."""
ABSENCE_TOLD_S: Final = 30.0
"""A scorer of another host says so often that it has no owner: nobody else there would."""
RESYNC_INTERVAL_S: Final = 1.0
"""A full snapshot that cannot be used either is not asked for in a loop."""
DICTIONARY_WASTE_MAX: Final = 16_384
"""Sets of images and ports that no row has any more; a new copy starts without them."""
CALM_MS: Final = 2
"""After so long without news, what the next pod will need is computed before it comes."""
SEND_TIMEOUT_MS: Final = 5_000
"""For proposals: the owner's queue is full only when the owner is in trouble."""
PLACED, FAILED, NO_ROOM, MADE_ROOM = "placed", "failed", "no room", "room made"
"""What becomes of a pod; of the last two it was looked whether others can make room for it."""


class ScorerLoop:
    """One scorer's life."""

    def __init__(
        self,
        sockets: ScorerSockets,
        profiles: Sequence[BuiltProfile],
        clock: Clock,
        heartbeat: Heartbeat,
        caller: ExtenderCaller | None = None,
        *,
        hello: ScorerHello,
        seed: int,
        gates: FeatureGates,
        tie_break: str = BY_SEED,
    ) -> None:
        """`caller`: with extenders. `hello`: who this is, for each owner that comes."""
        self._sockets = sockets
        self._hello = hello
        self._clock = clock
        self._tally = Tally()
        self._plugin_times = PluginTimes(clock.monotonic_s, self._tally)
        for profile in profiles:
            plugins = itertools.chain(*profile.plugins_at.values())
            self._plugin_times.watch(profile.scheduler_name, plugins, IN_SCORERS)
        self.replica = Replica(hello.worker_index, gates)
        self._heartbeat = heartbeat
        of_cycle = (
            self.replica,
            {profile.scheduler_name: profile.framework for profile in profiles},
            # Scorers break ties differently, so that they do not meet on the same nodes.
            seed * 1_000_003 + hello.worker_index,
            tie_break,
            {profile.scheduler_name: profile.plugins_at["reserve"] for profile in profiles},
            heartbeat.beat,
        )
        self._caller = caller
        self._extended: ExtendedCycle | None = None
        if caller is None:
            self._cycle = Cycle(*of_cycle)
        else:
            self._extended = ExtendedCycle(caller.extenders, caller.ask, self._send, *of_cycle)
            self._cycle = self._extended
            sockets.watch_fd(caller.fd)
        self._work: deque[SchedulePods | ScheduleExtended] = deque()
        self._early: deque[FromOwner] = deque(maxlen=EARLY_DELTAS_MAX)
        """Deltas that came while a full snapshot was awaited: the two travel on different sockets, and
        what was published after the full one may overtake it."""
        self._is_draining = False
        self._has_news = False
        """Something came since the last moment of calm."""
        self._told_ticket = 0
        """Of the first pod that was foreseen last: twice as many are as have come since, so that little
        is foreseen in vain where something else always happens in between."""
        self._is_resync_asked = False
        self._has_greeted = False
        self._next_heartbeat_s = 0.0
        self._awaited_sequence = 0
        """For which the first batch waited at the last heartbeat; 0: for none."""
        self._next_absence_s = clock.monotonic_s() + ABSENCE_PATIENCE_S
        self._next_resync_s = 0.0

    def run(self, is_stopped: Callable[[], bool]) -> None:
        """Until drained, or `is_stopped` (asked after each wait) says so."""
        while not is_stopped():
            came = self._sockets.poll(self._poll_timeout_ms())
            self._heartbeat.beat()
            for received in came:
                self._handle(received)
            if came:
                beat_s = self._clock.monotonic_s() + HEARTBEAT_S
                self._next_heartbeat_s = min(self._next_heartbeat_s, beat_s)
            self._foresee(is_calm=not came)
            self._do_work()
            if self._extended is not None and self.replica.is_whole:  # Else answers wait.
                assert self._caller is not None, "extended pods have somebody to ask"
                for proposals in self._extended.work(self._caller.take()):
                    self._send(proposals)
            self._beat()
            if self._is_draining and not self._work:
                return

    def _poll_timeout_ms(self) -> int:
        if self._work and self.replica.is_ready_for(self._work[0]):
            return 0
        if self._has_news and self.replica.is_settled:
            return CALM_MS
        wait_s = self._next_heartbeat_s - self._clock.monotonic_s()
        # Rounded up: waking a moment too early would be one more turn for nothing.
        return int(max(wait_s, 0.0) * 1000 + 0.999)

    def _foresee(self, *, is_calm: bool) -> None:
        """A lone pod does not wait for what the one before it changed to be evaluated, nor for this
        scorer at all where the owner knows what it would answer. Under load there is no calm, and
        nothing is computed that is not asked for."""
        if not is_calm:
            self._has_news = True
            return
        replica = self.replica
        had_news, self._has_news = self._has_news, False
        if not had_news or self._work or not replica.is_whole or not replica.is_settled:
            return
        begun_s = self._clock.monotonic_s()
        came_count = max(0, replica.next_ticket - self._told_ticket)
        self._told_ticket = replica.next_ticket
        forecast = self._cycle.foresee(min(FORESEEN_MAX, max(1, 2 * came_count)))
        if forecast is not None:
            count = len(forecast.node_rows)
            took_s = (self._clock.monotonic_s() - begun_s) / count
            # Found for these pods, whether or not they come.
            profile = replica.classes[forecast.class_id].profile
            self._time_points(Counter({(profile, PLACED): count}))
            self._send(replace(forecast, took_s=took_s))

    def _handle(self, received: FromOwner) -> None:
        message = received.message
        match message:
            case SnapshotDelta():
                self._apply_delta(message, received)
            case SnapshotFull():
                self._apply_full(message, received)
            case SchedulePods() | ScheduleExtended():
                if message.epoch != self.replica.epoch and self.replica.is_whole:
                    log.info("work_of_another_epoch_dropped", epoch=message.epoch)
                else:
                    self._work.append(message)
            case PodsOnNodes():
                if self._extended is not None and message.epoch == self.replica.epoch:
                    self._extended.on_pods(message)
            case Connected() | GreetAgain():
                self._say_hello()
            case ScorerRefused():
                raise RefusedError(message.problem)
            case Drain():
                # A scorer of another host waits for the next owner: nobody there started this one.
                self._is_draining = not self._hello.configuration
            case _:
                assert_never(message)

    def _say_hello(self) -> None:
        """To a new owner, or to the same after a lost connection: it forgets what we had in hand."""
        self._work.clear()
        if self._extended is not None:
            self._extended.clear()
        self.replica.is_whole = False
        self.replica.drop_tentative()
        self._is_resync_asked = True  # The owner answers Hello with a full snapshot.
        self._has_greeted = True
        self._send(self._hello)

    def _apply_full(self, message: SnapshotFull, received: FromOwner) -> None:
        self._is_resync_asked = False
        try:
            self.replica.apply_full(message, list(received.buffers))
        except FrameError as error:
            self._start_anew(str(error))
            return
        self._told_ticket = message.next_ticket
        self._cycle.start_over()
        # What an earlier owner wanted may wait for a delta that this one will not come to for long.
        self._work = deque(work for work in self._work if work.epoch == message.epoch)
        early = list(self._early)
        self._early.clear()
        for one in early:
            assert isinstance(one.message, SnapshotDelta), "only deltas are put there"
            if one.message.epoch == message.epoch:
                self._apply_delta(one.message, one)

    def _apply_delta(self, message: SnapshotDelta, received: FromOwner) -> None:
        try:
            is_whole = self.replica.apply_delta(message, list(received.buffers))
        except FrameError as error:
            self._start_anew(str(error))
            return
        if not is_whole:
            self._early.append(received)
            self._ask_for_resync(f"gap before sequence {message.sequence}")

    def _start_anew(self, reason: str) -> None:
        """The copy as it is is of no use."""
        self.replica.is_whole = False
        self._ask_for_resync(reason)

    def _ask_for_resync(self, reason: str) -> None:
        now_s = self._clock.monotonic_s()
        if self._is_resync_asked or now_s < self._next_resync_s:
            return
        self._next_resync_s = now_s + RESYNC_INTERVAL_S
        log.info("asking_for_a_full_snapshot", reason=reason)
        self._is_resync_asked = self._send(ResyncRequest(reason))

    def _do_work(self) -> None:
        """One batch, so that deltas are read between batches."""
        if not self._work or not self.replica.is_ready_for(self._work[0]):
            return
        batch = self._work.popleft()
        if isinstance(batch, ScheduleExtended):
            if self._extended is not None:  # As in every scorer of an owner that has extenders.
                self._extended.add(batch.tasks)
            return
        if batch.asked and self._extended is not None:
            self._extended.add_group(batch)
            return
        self._plugin_times.begin_round()
        begun_s = self._clock.monotonic_s()
        answers = self._cycle.run(batch)
        took_s = self._clock.monotonic_s() - begun_s
        outcomes = self._outcomes(batch, answers)
        if outcomes:
            # Of a batch the pods took equally long, as far as anybody can tell.
            count = outcomes.total()
            self._tally.observe("algorithm_s", (), took_s / count, count)
        if batch.group is not None:
            self._tally.observe("podgroup_algorithm_s", (), took_s, 1)
        if batch.names:
            self._log_answers(batch, answers)
        self._time_points(outcomes)
        self._send(answers)

    def _log_answers(self, batch: SchedulePods, answers: Proposals) -> None:
        """Of an owner that logs each attempt: a line for each of ours."""
        names = dict(enumerate(batch.names, batch.first_ticket))
        placements, nodes = answers.placements, self.replica.nodes
        for ticket, row in zip(placements.tickets, placements.node_rows, strict=True):
            node = nodes.name_of(row)
            log.debug("placement_proposed", pod=names.get(ticket), ticket=ticket, node=node)
        for failure in answers.failures:
            for ticket in failure.tickets:
                why = failure.message
                log.debug("no_node_found", pod=names.get(ticket), ticket=ticket, message=why)
        for ticket in answers.skipped:
            log.debug("attempt_skipped", pod=names.get(ticket), ticket=ticket)

    def _outcomes(self, batch: SchedulePods, answers: Proposals) -> Counter[tuple[str, str]]:
        """(profile, what became of them) -> pods of a batch."""
        profiles: dict[int, str] = {}
        ticket = batch.first_ticket
        for run in batch.runs:
            pod_class = self.replica.classes.get(run.class_id)
            if pod_class is not None:
                profiles.update(dict.fromkeys(range(ticket, ticket + run.count), pod_class.profile))
            ticket += run.count
        became = [(PLACED, answers.placements.tickets)]
        for failure in answers.failures:
            word = FAILED
            if failure.was_room_sought:
                word = NO_ROOM if failure.preemption is None else MADE_ROOM
            became.append((word, failure.tickets))
        found: Counter[tuple[str, str]] = Counter()
        for word, tickets in became:
            for profile, count in Counter(map(profiles.__getitem__, tickets)).items():
                found[profile, word] += count
        return found

    def _time_points(self, outcomes: Counter[tuple[str, str]]) -> None:
        """What the extension points took of pods that were tried together: of each equally long."""
        for profile in {profile for profile, _ in outcomes}:
            of = {word: outcomes[profile, word] for word in (PLACED, FAILED, NO_ROOM, MADE_ROOM)}
            all_of = {"Success": sum(of.values())}
            for point, counts in (
                ("PreFilter", all_of),
                ("Filter", all_of),
                ("PreScore", {"Success": of[PLACED]}),
                ("Score", {"Success": of[PLACED]}),
                ("PostFilter", {"Success": of[MADE_ROOM], "Unschedulable": of[NO_ROOM]}),
            ):
                total = sum(counts.values())
                each_s = self._plugin_times.each_s(point, profile, total) if total else 0.0
                for status, count in counts.items():
                    if count:
                        labels = (point, status, profile)
                        self._tally.observe("extension_point_s", labels, each_s, count)

    def _beat(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._next_heartbeat_s:
            return
        is_there = self._has_greeted and self.replica.is_whole and self._sockets.is_connected
        is_quiet = is_there and not self._work
        self._next_heartbeat_s = now_s + (until_beat_s(now_s) if is_quiet else HEARTBEAT_S)
        if self._hello.configuration:
            self._tell_of_absence(now_s)
        if not self._has_greeted:
            # The socket may be connected before we are told so, and an owner that hears anything
            # but Hello of a scorer that it does not know sends it home.
            return
        replica = self.replica
        if replica.nodes.dictionary_waste() > DICTIONARY_WASTE_MAX:
            self._start_anew("sets that no row has any more")
        elif not replica.is_whole:
            self._ask_for_resync("the copy is still not whole")
        self._look_for_lost_deltas()
        if self._send(ScorerHeartbeat(replica.generation, measured_by(self._tally))):
            self._tally.clear()

    def _look_for_lost_deltas(self) -> None:
        """A gap shows with the next delta; but what was lost may have been the last for a long time."""
        before, self._awaited_sequence = self._awaited_sequence, 0
        if self._work and not self.replica.is_ready_for(self._work[0]):
            self._awaited_sequence = self._work[0].min_sequence
        if before and before == self._awaited_sequence and self.replica.is_whole:
            self._ask_for_resync(f"no delta {before} came for which there is work")

    def _tell_of_absence(self, now_s: float) -> None:
        if self._sockets.is_connected:
            self._next_absence_s = now_s + ABSENCE_PATIENCE_S
        if now_s < self._next_absence_s:
            return
        self._next_absence_s = now_s + ABSENCE_TOLD_S
        remedy = "is berth running there, does it lead, is the way open?"
        if self._sockets.failed_count:
            remedy = (
                "somebody answers, but is not the berth whose key --server-key is, or cannot read its"
                " --workers-allowed-file"
            )
        log.warning("no_owner", failed_handshakes=self._sockets.failed_count, remedy=remedy)

    def _send(self, message: FromScorer) -> bool:
        is_sent = self._sockets.send(message, timeout_ms=SEND_TIMEOUT_MS)
        if not is_sent:
            # The owner is away; it takes our pods back by itself, and Hello follows on reconnect.
            log.info("not_sent_no_owner", kind=type(message).__name__)
        return is_sent
