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
from functools import partial
from typing import Final, assert_never

from daemon.core.adapter_links import AdapterLinks
from daemon.core.administration import answer_of, status_of
from daemon.core.attempt_ends import AttemptEnds, describe_decision
from daemon.core.attempt_times import AttemptTimes
from daemon.core.binder_links import BinderLinks
from daemon.core.bindings import BinderPool
from daemon.core.cache import Cache
from daemon.core.cluster_changes import ClusterChanges
from daemon.core.committer import Committer
from daemon.core.counters import Counters, begin_at_zero
from daemon.core.dispatch import ScorerFleet
from daemon.core.effects import AnswerAdmin, Effect
from daemon.core.events import (
    AdapterGone,
    AdapterSaid,
    AdminAsked,
    BinderGone,
    BinderSaid,
    Event,
    LeaseTaken,
    ScorerGone,
    ScorerSaid,
)
from daemon.core.foresight import Foresight
from daemon.core.group_reservations import GroupReservations
from daemon.core.holdings import ClusterFacts, OutgoingWork
from daemon.core.nominations import Evictions, NominationBook
from daemon.core.owner_counts import Count
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.permit_stage import PermitStage
from daemon.core.pod_groups import PodGroups
from daemon.core.pre_enqueue import PreEnqueueGates
from daemon.core.queue.scheduling_queue import SchedulingQueue
from daemon.core.queue.wakeups import GATED_BY_EVICTIONS, Wakeups
from daemon.core.scorer_links import ScorerLinks
from daemon.core.settings import Settings
from daemon.core.snapshot_log import SnapshotLog
from daemon.core.status_patches import StatusPatches
from daemon.core.suspects import Suspects
from daemon.core.syncs import Syncs
from daemon.core.waiting_pods import WaitingPods
from shared.engine.checker import Checker
from shared.extenders.extender_config import EXTENDER
from shared.framework.cluster_view import ClusterView
from shared.framework.queueing_hints import ANY_EVENT, ClusterEventWithHint
from shared.framework.runtime.framework import Framework
from shared.in_hand import InHand
from shared.kube.custom_resources import custom_kind
from shared.kube.resources import ALL_KINDS, ResourceKind
from shared.messages.admin import StatusAnswer, StopRequest, TextAnswer
from shared.plugin_names import DEFAULT_PREEMPTION

TIDY_S: Final = 1.0
"""How often is looked whether names are of no use any more: in that time few come."""


class SchedulerState:
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
        """`in_hand`: for an owner that is to take objects one by one, and say which. `stopwatch`: as
        `Counters` has it."""
        self._is_standby = settings.is_candidate
        counters = Counters(stopwatch)
        self._facts, self._outgoing = facts, outgoing = _holdings(
            epoch, settings, frameworks, plugins, now_s, counters
        )
        self.counters = outgoing.counters
        self.cache = facts.cache
        self.queue = facts.queue
        self.scorers = outgoing.scorers
        self.binders = outgoing.binders
        self.waiting = facts.waiting
        self.nominations = facts.nominations
        self.snapshots = outgoing.snapshots
        self._ends = AttemptEnds(facts, outgoing)
        self._permit = PermitStage(facts, outgoing, self._ends)
        committer = Committer(facts, outgoing, self._ends, self._permit)
        self._foresight = Foresight(facts, outgoing, committer)
        self._adapter_links = AdapterLinks(facts, outgoing, self._permit, now_s, in_hand)
        self.reservations = GroupReservations(facts)
        self._scorer_links = ScorerLinks(
            facts, outgoing, self._ends, committer, self._foresight, self.reservations
        )
        self._binder_links = BinderLinks(facts, outgoing, self._ends)
        self._tidies_at_s = now_s
        self._is_stopping = False
        self._stop_waiters: list[bytes] = []

    @property
    def is_synced(self) -> bool:
        return self._facts.syncs.is_synced

    @property
    def _gives_out_work(self) -> bool:
        return self.is_synced and not self._is_stopping and not self._is_standby

    # A turn --------------------------------------------------------------------------------------

    def handle(self, events: Sequence[Event], now_s: float) -> list[Effect]:
        """A whole turn, for those who need not hurry."""
        return self.decide(events, now_s) + self.spread(now_s)

    def decide(self, events: Sequence[Event], now_s: float) -> list[Effect]:
        """Applies a batch of events; says which bindings follow, and whatever else was answered.
        `spread` has to be called next, with the same time."""
        for event in events:
            self._apply(event, now_s)
        self._pass_time(now_s)
        self._permit.settle(now_s)
        self.nominations.refresh()
        if self._gives_out_work:
            self._foresight.place(now_s)
        self._outgoing.effects.extend(self.binders.flush())
        return self._taken()

    def spread(self, now_s: float) -> list[Effect]:
        """Tells everybody of what was decided, and gives out new work."""
        self._note_disagreements()
        self._outgoing.times.flush(now_s)
        self._outgoing.counters.flush()
        self._foresight.check_next()
        self._scorer_links.publish(is_synced=self.is_synced)
        if self._gives_out_work:
            self._scorer_links.hand_out(now_s)
        self._outgoing.effects.extend(self.nominations.flush(self.binders.for_pod))
        self._ends.report()
        self._answer_stop()
        return self._taken()

    def _taken(self) -> list[Effect]:
        effects = list(self._outgoing.effects)
        self._outgoing.effects.clear()
        return effects

    def next_wakeup_s(self) -> float:
        """When there is something to do even if nothing comes; infinite if never."""
        links = (self._adapter_links, self._scorer_links, self._binder_links, self.reservations)
        held = (self.queue, self.waiting, self.binders)
        awaited = (each.next_wakeup_s() for each in (*links, *held))
        return min(self.cache.next_deadline_s(), *awaited)

    # Events --------------------------------------------------------------------------------------

    def _apply(self, event: Event, now_s: float) -> None:
        match event:
            case AdapterSaid():
                self._adapter_links.hear(event, now_s)
            case ScorerSaid():
                self._scorer_links.hear(event, now_s)
            case BinderSaid():
                self._binder_links.hear(event, now_s)
            case ScorerGone(peer):
                self._scorer_links.lose(peer, now_s)
            case BinderGone(peer):
                self._binder_links.lose(peer, "would not take a message")
            case AdapterGone(peer):
                self._adapter_links.lose(peer)
            case AdminAsked():
                self._on_admin(event, now_s)
            case LeaseTaken(term):
                # Everything else was done all along, so the cache is warm and work begins at once.
                self._is_standby = False
                self._outgoing.note("leading", term=term)
            case _:
                assert_never(event)

    def _on_admin(self, event: AdminAsked, now_s: float) -> None:
        request = event.request
        if isinstance(request, StopRequest):
            self._is_stopping = True
            self._stop_waiters.append(event.peer)
            return
        is_standby = self._is_standby
        answer = answer_of(self._facts, self._outgoing, request, now_s, is_standby=is_standby)
        self._outgoing.effects.append(AnswerAdmin(event.peer, answer))

    # Time ----------------------------------------------------------------------------------------

    def _pass_time(self, now_s: float) -> None:
        self._adapter_links.pass_time(now_s)
        self.queue.flush(now_s)
        self.binders.pass_time(now_s)
        for pod in self.cache.cleanup_expired(now_s):
            self.counters[Count.ASSUMED_EXPIRED] += 1
            self._outgoing.warn("assumed_pod_expired", pod=pod.record.key)
            self._facts.changes.wake_as_deleted(pod, now_s)
            self._facts.changes.requeue(pod, now_s)
        self._scorer_links.lose_the_silent(now_s)
        self._scorer_links.release_parked(now_s)
        self.reservations.pass_time(now_s)
        self._binder_links.lose_the_silent(now_s)
        if now_s >= self._tidies_at_s:
            self._tidies_at_s = now_s + TIDY_S
            self._tidy()
        if self.cache.is_recounted:
            self.cache.is_recounted = False
            self._facts.checker.forget_all()
            self._scorer_links.start_over("a node has a resource that pods asked for before")

    def _tidy(self) -> None:
        """Takes back what names and sets that nobody has any more take up."""
        if self.cache.compact():
            self._facts.checker.forget_all()
        if self.is_synced and self.cache.compact_names():
            self._facts.checker.forget_all()
            self._scorer_links.start_over("names compacted")

    # The end of a turn ---------------------------------------------------------------------------

    def _note_disagreements(self) -> None:
        for kind, subject, detail in self.cache.disagreements:
            self.counters[Count.DISAGREEMENTS] += 1
            self._outgoing.warn("disagreement_repaired", kind=kind, pod=subject, detail=detail)
        self.cache.disagreements.clear()

    def _answer_stop(self) -> None:
        if not self._stop_waiters or self.scorers.awaited_count() or self.binders.in_flight_count():
            return
        answer = TextAnswer(["nothing in flight"])
        self._outgoing.effects.extend(AnswerAdmin(peer, answer) for peer in self._stop_waiters)
        self._stop_waiters.clear()
        self._scorer_links.drain()
        self._binder_links.drain()

    def status(self) -> StatusAnswer:
        """What `berth status` shows."""
        return status_of(self._facts, self._outgoing, is_standby=self._is_standby)


def _holdings(
    epoch: int,
    settings: Settings,
    frameworks: dict[str, Framework],
    plugins: OwnerPlugins,
    now_s: float,
    counters: Counters,
) -> tuple[ClusterFacts, OutgoingWork]:
    """What a new owner begins with."""
    begin_at_zero(counters, frameworks)
    cache = Cache(settings.assumed_pod_ttl_s)
    suspects = Suspects()
    groups = PodGroups(cache, settings.groups)
    evictions = Evictions(cache, groups, is_async=settings.preempts_async)
    gates = PreEnqueueGates(plugins, cache.view, counters, suspects, evictions, groups)
    queue = SchedulingQueue(
        _wakeups(settings, plugins, cache.view, counters),
        start_s=now_s,
        settings=settings.queue,
        pre_enqueue=gates.gate_of,
        queue_key=plugins.queue_sort.queue_key,
        release=cache.classes.release,
    )
    waiting = WaitingPods(plugins.permit, queue)
    waiting.introduce(plugins.everyone())
    snapshots = SnapshotLog(cache, epoch)
    patches = StatusPatches()
    changes = ClusterChanges(
        cache,
        queue,
        snapshots,
        counters,
        patches.add,
        settings.profiles,
        waiting.reject_deleted,
        groups,
    )
    facts = ClusterFacts(
        settings=settings,
        frameworks=frameworks,
        plugins=plugins,
        cache=cache,
        queue=queue,
        syncs=Syncs(_watched(settings)),
        changes=changes,
        checker=Checker(cache.view, plugins.checked(frameworks)),
        nominations=NominationBook(
            cache, queue, frameworks, epoch, patches, waiting.preempt, evictions
        ),
        waiting=waiting,
        groups=groups,
    )
    describe = partial(describe_decision, cache, queue) if settings.annotates_decisions else None
    binders = BinderPool(
        epoch,
        describe,
        announces=settings.announces_nodes,
        shared_claim_of=changes.shared_claim_of,
    )
    return facts, _outgoing(epoch, settings, snapshots, suspects, binders, patches, counters)


def _watched(settings: Settings) -> list[ResourceKind]:
    """What the adapter lists."""
    known = [kind for kind in ALL_KINDS if settings.groups.is_on or not kind.feature_gate]
    return known + [custom_kind(name) for name in settings.custom_kinds]


def _outgoing(
    epoch: int,
    settings: Settings,
    snapshots: SnapshotLog,
    suspects: Suspects,
    binders: BinderPool,
    patches: StatusPatches,
    counters: Counters,
) -> OutgoingWork:
    scorers = ScorerFleet(epoch)
    scorers.names_pods = settings.logs_attempts
    return OutgoingWork(
        epoch=epoch,
        snapshots=snapshots,
        scorers=scorers,
        suspects=suspects,
        binders=binders,
        patches=patches,
        counters=counters,
        times=AttemptTimes(counters),
        logs_steps=settings.logs_attempts,
        effects=[],
    )


def _wakeups(
    settings: Settings, plugins: OwnerPlugins, cluster: ClusterView, counters: Counters
) -> Wakeups:
    beside: dict[str, tuple[ClusterEventWithHint, ...]] = {}
    if settings.extenders:
        beside[EXTENDER] = ANY_EVENT
    if settings.preempts_async:
        beside[DEFAULT_PREEMPTION] = GATED_BY_EVICTIONS
    registrations = {name: {**of, **beside} for name, of in plugins.registrations.items()}
    on_hint = partial(counters.observe, "hint_s")
    return Wakeups(registrations, cluster, counters.stopwatch, on_hint)
