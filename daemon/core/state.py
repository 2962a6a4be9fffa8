"""The owner's state and the one way it changes. START READING HERE.

    events -> decide -> effects, then spread -> effects

A turn takes what has come since the last one, as one batch. `decide` applies every event and says what
pods are waiting for: their bindings. `spread` follows once those are on their way: it publishes what
changed, and gives out new work. So a burst of events costs one delta, a lone pod waits for nothing, and
no binding waits for the delta that tells of it. No I/O, no clock, no randomness here or below: equal
events at equal times give equal effects.

Each part of the work has a file, and what is held is handed down, never up (`holdings.py`):

    adapter --> adapter_links --> cluster_changes -.
    scorer  --> scorer_links --> committer ---.    v
                                 |           +--> attempt_ends --> queue, bindings
                                 v           |
                                 permit_stage'
    binder  --> binder_links -----------------'
    people  --> administration
"""

from collections.abc import Callable, Sequence
from typing import Final, assert_never

from daemon.core.adapter_links import AdapterLinks
from daemon.core.administration import answer_of
from daemon.core.attempt_ends import AttemptEnds
from daemon.core.binder_links import BinderLinks
from daemon.core.cluster_changes import ClusterChanges
from daemon.core.committer import Committer
from daemon.core.events import Effect, Event, LeaseTaken, Tell
from daemon.core.foresight import Foresight
from daemon.core.group_commits import GroupCommits
from daemon.core.group_reservations import GroupReservations
from daemon.core.holdings import ClusterFacts, Holdings, OutgoingWork, Settings
from daemon.core.owner_counts import Count
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.permit_stage import PermitStage
from daemon.core.preemptions import Preemptions
from daemon.core.scorer_links import ScorerLinks
from shared.framework.runtime.framework import Framework
from shared.in_hand import InHand
from shared.limits import BINDERS_AWAITED_S
from shared.messages.admin import AdminRequest, StopRequest, TextAnswer
from shared.messages.codec import Drain
from shared.messages.from_binder import FromBinder
from shared.messages.from_scorer import FromScorer
from shared.messages.to_owner import AdapterBatch
from shared.transport.channels import Channel
from shared.transport.heard import PeerGone, Said

TIDY_S: Final = 1.0
"""How often waiting counts are added up and unused names are looked for: little comes in that time."""


class SchedulerState(Holdings):
    """Everything that the owner knows."""

    def __init__(
        self,
        epoch: int,
        settings: Settings,
        frameworks: dict[str, Framework],
        plugins: OwnerPlugins,
        now_s: float,
        in_hand: InHand | None = None,
        stopwatch: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`in_hand`: objects are taken one by one, and said. `stopwatch`: as in `Counters`."""
        ClusterFacts.__init__(self, settings, frameworks, plugins, now_s, stopwatch)
        OutgoingWork.__init__(self, epoch, self)
        self._changes = changes = ClusterChanges(self, may_be_late=in_hand is None)
        self._ends = ends = AttemptEnds(self)
        self._permit = permit = PermitStage(self, changes, ends)
        self.preemptions = preemptions = Preemptions(self)
        committer = Committer(self, ends, permit, preemptions)
        self._foresight = foresight = Foresight(self, committer)
        lists_at_s = now_s + BINDERS_AWAITED_S
        self._adapter_links = links = AdapterLinks(self, changes, permit, lists_at_s, in_hand)
        self.reservations = held = GroupReservations(self)
        groups = GroupCommits(self, ends, committer, preemptions, held)
        scorers = ScorerLinks(self, changes, ends, committer, groups, held, foresight)
        self._scorer_links = scorers
        self._binder_links = BinderLinks(self, changes, ends)
        self._timed = (links, scorers, held, self.queue, self.waiting, self.binders, self.cache)
        self.wakes_at_s = self._looks_at_s = self._tidies_at_s = now_s
        """When there is something to do even if nothing comes, by the last turn; infinite if never. When
        to look what time brings about. When to tidy."""
        self._is_stopping = False
        self._stop_waiters: list[bytes] = []

    @property
    def is_synced(self) -> bool:
        return self.syncs.is_synced

    @property
    def _gives_out_work(self) -> bool:
        return self.syncs.is_synced and not self._is_stopping and not self.is_standby

    def handle(self, events: Sequence[Event], now_s: float) -> list[Effect]:
        """A whole turn, for those who need not hurry."""
        return self.decide(events, now_s) + self.spread(now_s)

    def decide(self, events: Sequence[Event], now_s: float) -> list[Effect]:
        """Applies a batch of events; says which bindings follow, and whatever else was answered.
        `spread` has to be called next, with the same time."""
        for event in events:
            self._apply(event, now_s)
        self._adapter_links.pass_time(now_s)
        if now_s >= self._looks_at_s:
            self._pass_time(now_s)
        if self.cache.is_recounted:
            self.cache.is_recounted = False
            self.checker.forget_all()
            self._scorer_links.start_over("a node has a resource that pods asked for before")
        if self.waiting.by_uid or self.waiting.to_activate:
            self._permit.settle(now_s)
        self.nominations.refresh()
        if self._gives_out_work:
            self._foresight.place(now_s)
        self.effects.extend(self.binders.flush())
        effects, self.effects = self.effects, []
        return effects

    def spread(self, now_s: float) -> list[Effect]:
        """Tells everybody of what was decided, and gives out new work."""
        for kind, subject, detail in self.cache.disagreements:
            self.counters[Count.DISAGREEMENTS] += 1
            self.warn("disagreement_repaired", kind=kind, pod=subject, detail=detail)
        self.cache.disagreements.clear()
        self.counters.plugin_times.begin_round()
        self._foresight.check_next()
        is_work, is_late = self.queue.poppable_count > 0, now_s >= self._changes.late_at_s
        if is_late or (is_work and self._changes.late):
            self._adapter_links.tell_late(now_s)
            is_work = self.queue.poppable_count > 0
        is_due = is_work or is_late
        self._scorer_links.publish(now_s, is_due=is_due)
        if is_work and self._gives_out_work:
            self._scorer_links.hand_out(now_s)
        if self.binders.victims or self.binders.releases:
            self.effects.extend(self.binders.preempt())
        if self.patches.by_uid:
            self._ends.report()
        if self._stop_waiters:
            self._answer_stop()
        self.wakes_at_s = min([each.next_wakeup_s() for each in self._timed])
        self._looks_at_s = min(self.wakes_at_s, self._tidies_at_s)
        effects, self.effects = self.effects, []
        return effects

    def _apply(self, event: Event, now_s: float) -> None:
        match event:
            case Said(peer, message, key_name):
                if isinstance(message, AdapterBatch):
                    self._adapter_links.hear(peer, message, now_s)
                elif isinstance(message, FromBinder):
                    self._binder_links.hear(peer, message, now_s)
                elif isinstance(message, FromScorer):
                    self._scorer_links.hear(peer, message, key_name, now_s)
                else:
                    self._answer(peer, message, now_s)
            case PeerGone(Channel.SCORERS, peer):
                self._scorer_links.lose(peer, now_s)
            case PeerGone(Channel.BINDERS, peer):
                self._binder_links.lose(peer, "would not take a message")
            case PeerGone(Channel.ADAPTER, peer):
                self._adapter_links.lose(peer)
            case PeerGone():
                self.note("admin_client_left")
            case LeaseTaken(term):
                # Everything else was done all along, so the cache is warm and work begins at once.
                self.is_standby = False
                self.note("leading", term=term)
            case _:
                assert_never(event)

    def _answer(self, peer: bytes, request: AdminRequest, now_s: float) -> None:
        if isinstance(request, StopRequest):
            self._is_stopping = True
            self._stop_waiters.append(peer)
            return
        answer = answer_of(self, request, now_s)
        self.effects.append(Tell(Channel.ADMIN, peer, answer))

    def _pass_time(self, now_s: float) -> None:
        self.queue.flush(now_s)
        self.binders.pass_time(now_s)
        for pod in self.cache.cleanup_expired(now_s):
            self.counters[Count.ASSUMED_EXPIRED] += 1
            self.warn("assumed_pod_expired", pod=pod.record.key)
            self._changes.wake_as_removed(pod.view, pod.node_name, now_s)
            self._changes.requeue(pod, now_s)
        self._scorer_links.lose_the_silent(now_s)
        self._scorer_links.release_parked(now_s)
        self.reservations.pass_time(now_s)
        self._binder_links.lose_the_silent(now_s)
        if now_s >= self._tidies_at_s:
            self._tidies_at_s = now_s + TIDY_S
            self._tidy()

    def _tidy(self) -> None:
        """Counts what waits for that, and drops names and sets that nobody has any more."""
        self.counters.flush()
        if self.cache.compact():
            self.checker.forget_all()
        if self.syncs.is_synced and self.cache.compact_names():
            self.checker.forget_all()
            self._scorer_links.start_over("names compacted")

    def _answer_stop(self) -> None:
        if self.scorers.awaited_count() or self.binders.in_flight_count():
            return
        answer = TextAnswer(["nothing in flight"])
        self.effects += [Tell(Channel.ADMIN, peer, answer) for peer in self._stop_waiters]
        self.effects += [Tell(Channel.SCORERS, each.peer, Drain()) for each in self.scorers.ready()]
        self.effects += [Tell(Channel.BINDERS, each.peer, Drain()) for each in self.binders]
        self._stop_waiters.clear()
