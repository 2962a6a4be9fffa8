"""The owner's state and the one way it changes. START READING HERE.

    events -> SchedulerState.handle -> effects

`handle` takes what has come since the last time, as one batch, and returns what is to be done, in
order. It applies every event first; then, once for the whole batch, it publishes what changed, sends
the binds, and gives out new work. So a burst of events costs one delta, and a lone pod waits for
nothing. No I/O, no clock, no randomness here or below: equal events at equal times give equal effects.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, assert_never

import msgspec

from daemon.core.bindings import BinderPool
from daemon.core.cache import Cache
from daemon.core.claim_work import claim_work
from daemon.core.cluster_changes import ClusterChanges
from daemon.core.counters import Counters
from daemon.core.dispatch import Attempt, ScorerFleet
from daemon.core.dump import dump_lines, node_usages, pending_pods
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
from daemon.core.invariants import problems
from daemon.core.nominations import NominationBook
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.proposals import judge
from daemon.core.queue.hints import HintSettings, default_registrations
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.scheduling_queue import QueueSettings, SchedulingQueue
from daemon.core.queue.wakeups import Wakeups
from daemon.core.snapshot_log import SnapshotLog
from daemon.core.volume_work import volume_work
from shared.framework.engine import Checker
from shared.framework.pod_info import PodInfo
from shared.framework.runtime import Framework
from shared.kube.pod_record import PodRecord, decode_template
from shared.messages import to_binder, to_scorer
from shared.messages.admin import (
    CompareRequest,
    DumpRequest,
    NodesAnswer,
    NodesRequest,
    QueueAnswer,
    QueueRequest,
    StatusAnswer,
    StatusRequest,
    StopRequest,
    TextAnswer,
)
from shared.messages.from_binder import (
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
    VictimReport,
)
from shared.messages.from_scorer import (
    Failure,
    Proposals,
    ResyncRequest,
    ScorerHeartbeat,
    ScorerHello,
)
from shared.messages.to_owner import AdapterHello, StartSync

BINDER_SILENCE_MAX_S: Final = 15.0
"""A binder says something each second. One that has been silent for so long is stuck, or its host is
gone; its orders go to another, which looks first."""
SCORER_SILENCE_MAX_S: Final = 60.0
"""A worker says something each second, except while it places a batch: 256 pods of as many classes on
a million nodes take about 10 s. One that is silent for so long is stuck; others get its pods."""
BINDERS_AWAITED_S: Final = 10.0
"""At its start the owner waits for the binders to have nothing of an earlier owner in flight, so that
the list of pods that follows shows every binding ever ordered; but not longer than this."""


class Settings(msgspec.Struct, frozen=True):
    """What the owner must know from the configuration."""

    profiles: frozenset[str]
    binder_count: int = 1
    assumed_pod_ttl_s: float = 0.0
    queue: QueueSettings = QueueSettings()
    hints: HintSettings = HintSettings()


class SchedulerState:
    """Everything that the owner knows."""

    def __init__(
        self,
        epoch: int,
        settings: Settings,
        frameworks: dict[str, Framework],
        plugins: OwnerPlugins,
        now_s: float,
    ) -> None:
        self._epoch = epoch
        self._settings = settings
        self._start_s = now_s
        self.counters = Counters()
        self.cache = Cache(settings.assumed_pod_ttl_s)
        wakeups = Wakeups(default_registrations(self.cache.objects, settings.hints))
        self._plugins = plugins
        self.queue = SchedulingQueue(
            wakeups,
            start_s=now_s,
            settings=settings.queue,
            pre_enqueue=partial(plugins.gate_of, cluster=self.cache.view),
            queue_key=plugins.queue_sort.queue_key,
        )
        self.scorers = ScorerFleet(epoch)
        self.binders = BinderPool(epoch)
        self.nominations = NominationBook(self.cache, self.queue, frameworks, epoch)
        self._snapshots = SnapshotLog(self.cache, epoch)
        self._frameworks = frameworks
        self._checker = Checker(self.cache.view, self.cache.journal, frameworks)
        self._effects: list[Effect] = []
        self._changes = ClusterChanges(
            self.cache, self.queue, self._snapshots, self.counters, self._effects.append,
            settings.profiles,
        )  # fmt: skip
        self._verdicts: list[to_binder.PodVerdict] = []
        self._adapter: bytes | None = None
        self._is_sync_asked = False
        self._is_stopping = False
        self._stop_waiters: list[bytes] = []
        self._resyncs: dict[bytes, str] = {}

    @property
    def is_synced(self) -> bool:
        return self._changes.is_synced

    def handle(self, events: Sequence[Event], now_s: float) -> list[Effect]:
        """Applies a batch of events and says what is to be done now."""
        for event in events:
            self._apply(event, now_s)
        self._pass_time(now_s)
        self._note_disagreements()
        self.nominations.refresh()
        self._publish()
        self._hand_out(now_s)
        self._effects.extend(self.binders.flush())
        self._effects.extend(self.nominations.flush(self.binders.for_pod))
        self._report()
        self._answer_stop()
        effects = list(self._effects)
        self._effects.clear()
        return effects

    def next_wakeup_s(self) -> float:
        """When `handle` has something to do even if nothing comes; infinite if never."""
        wakeup_s = min(self.queue.next_wakeup_s(), self.cache.next_deadline_s())
        if not self._is_sync_asked and self._adapter is not None:
            wakeup_s = min(wakeup_s, self._start_s + BINDERS_AWAITED_S)
        if self.scorers.attempt_count():
            wakeup_s = min(wakeup_s, self.scorers.oldest_heard_s() + SCORER_SILENCE_MAX_S)
        if self.binders.peers():
            wakeup_s = min(wakeup_s, self.binders.oldest_heard_s() + BINDER_SILENCE_MAX_S)
        return wakeup_s

    def _apply(self, event: Event, now_s: float) -> None:
        match event:
            case AdapterSaid():
                self._on_adapter(event, now_s)
            case ScorerSaid():
                self._on_scorer(event, now_s)
            case BinderSaid():
                self._on_binder(event, now_s)
            case ScorerGone(peer):
                self._take_back(self.scorers.leave(peer), now_s)
            case BinderGone(peer):
                self._lose_binder(peer, "would not take a message")
            case AdapterGone(peer):
                if peer == self._adapter:
                    self._adapter = None
            case AdminAsked():
                self._on_admin(event)
            case _:
                assert_never(event)

    # The watch adapter ---------------------------------------------------------------------------

    def _on_adapter(self, event: AdapterSaid, now_s: float) -> None:
        is_current = event.batch.epoch == self._epoch and event.peer == self._adapter
        self.counters["adapter_batches"] += is_current
        for message in event.batch.messages:
            if isinstance(message, AdapterHello):
                self._adapter = event.peer
                self._is_sync_asked = False
            elif is_current:
                self._changes.apply(message, now_s)
            # Else: of an adapter that was replaced, or listed for another life of the owner.

    def _ask_for_sync(self, now_s: float) -> None:
        """Lists begin when no binder has anything of an earlier owner in flight."""
        if self._adapter is None or self._is_sync_asked:
            return
        is_calm = self.binders.ready_count() >= self._settings.binder_count
        if is_calm or now_s >= self._start_s + BINDERS_AWAITED_S:
            self._is_sync_asked = True
            self._effects.append(TellAdapter(self._adapter, StartSync(self._epoch)))

    # Scoring workers -----------------------------------------------------------------------------

    def _on_scorer(self, event: ScorerSaid, now_s: float) -> None:
        message = event.message
        if not self.scorers.heard(event.peer, now_s) and not isinstance(message, ScorerHello):
            # Given up as stuck, and back: its pods are elsewhere. It ends, and is started anew.
            self._effects.append(TellScorer(event.peer, to_scorer.Drain()))
            return
        match message:
            case ScorerHello():
                _, lost = self.scorers.join(
                    event.peer, message.worker_index, message.instance, now_s
                )
                self._take_back(lost, now_s)
                self._resyncs[event.peer] = "hello"
            case ResyncRequest():
                self._resyncs[event.peer] = message.reason
            case Proposals():
                self._on_proposals(event.peer, message, now_s)
            case ScorerHeartbeat():
                pass
            case _:
                assert_never(message)

    def _take_back(self, attempts: list[Attempt], now_s: float) -> None:
        """Pods that a lost worker had in hand go to the head of the queue, in order."""
        for attempt in attempts:
            self.queue.requeue_head(attempt.pod.record.uid, now_s)

    def _on_proposals(self, peer: bytes, proposals: Proposals, now_s: float) -> None:
        scorer = self.scorers.get(peer)
        if scorer is None or proposals.epoch != self._epoch:
            self.counters["proposals_stale"] += len(proposals.placements)
            return
        self.nominations.refresh()
        verdicts = judge(
            self.cache, self._checker, self._plugins, self.nominations, scorer, proposals
        )
        scorer.proposal_sequence = proposals.proposal_sequence
        for accepted in verdicts.accepted:
            record = accepted.attempt.pod.record
            pod_class = accepted.attempt.pod_class
            row = self.cache.nodes.row_of(accepted.node_name)
            volumes = volume_work(self._plugins, pod_class.info, self.cache.view, row)
            claims = claim_work(self._plugins, record, pod_class.info, self.cache.view)
            self.binders.order(record, accepted.node_name, pod_class.profile, volumes, claims)
        for rejected in verdicts.rejected:
            self.queue.requeue_head(rejected.attempt.pod.record.uid, now_s)
        for refused in verdicts.not_reserved:
            status = refused.status
            plugins = [status.plugin] if status.is_rejected else []
            failure = Failure([], status.message, plugins, [], not plugins)
            self._on_failure(refused.attempt, failure, now_s)
        self.counters["scheduled"] += len(verdicts.accepted)
        self.counters["proposals_rejected"] += len(verdicts.rejected)
        self.counters["proposals_stale"] += verdicts.stale_count
        for ticket in proposals.skipped:
            skipped = scorer.attempts.pop(ticket, None)
            if skipped is not None:
                self.queue.requeue_head(skipped.pod.record.uid, now_s)
        for failure in proposals.failures:
            for ticket in failure.tickets:
                attempt = scorer.attempts.pop(ticket, None)
                if attempt is not None:
                    self._on_refusal(attempt, failure, proposals.generation, now_s)

    def _on_refusal(
        self, attempt: Attempt, failure: Failure, generation: int, now_s: float
    ) -> None:
        """A pod fits nowhere; room may be made for it."""
        pod = attempt.pod
        if failure.preemption is not None:
            if not self.nominations.commit(attempt, failure.preemption, generation):
                self.counters["preemptions_rejected"] += 1
                self.queue.requeue_head(pod.record.uid, now_s)
                return
            self.counters["preemptions"] += 1
        elif failure.ends_nomination and self.nominations.own_uid(pod.record.uid):
            self.nominations.end(pod)
        self._on_failure(attempt, failure, now_s)

    def _on_failure(self, attempt: Attempt, failure: Failure, now_s: float) -> None:
        record = attempt.pod.record
        if failure.is_error:
            self.counters["errors"] += 1
            place = self.queue.requeue_error(record.uid, now_s)
        else:
            self.counters["unschedulable"] += 1
            place = self.queue.requeue_unschedulable(
                record.uid, failure.plugins, failure.pending_plugins, now_s
            )
        if place is None:
            return  # Deleted meanwhile.
        self._verdicts.append(
            to_binder.PodVerdict(
                profile=attempt.pod_class.profile,
                namespace=record.namespace,
                name=record.name,
                uid=record.uid,
                reason="SchedulerError" if failure.is_error else "Unschedulable",
                message=failure.message,
                write_event=True,
                resource_version=record.resource_version,
            )
        )

    # Binders -------------------------------------------------------------------------------------

    def _on_binder(self, event: BinderSaid, now_s: float) -> None:
        message = event.message
        match message:
            case BinderHello():
                self._welcome(event.peer, message.binder_index, message.instance, now_s)
            case BinderReady():
                if message.epoch == self._epoch:
                    self.binders.ready(event.peer)
            case BindReport():
                self.binders.heard(event.peer, now_s)
                if message.epoch == self._epoch:
                    self._on_report(event.peer, message, now_s)
            case VictimReport():
                self.binders.heard(event.peer, now_s)
                if message.epoch == self._epoch:
                    self._on_victims(message, now_s)
            case BinderHeartbeat():
                if not self.binders.heard(event.peer, now_s):
                    # It was given up as silent and is back; its orders are with others by now.
                    self._welcome(event.peer, message.binder_index, "back", now_s)
            case _:
                assert_never(message)

    def _welcome(self, peer: bytes, binder_index: int, instance: str, now_s: float) -> None:
        self.counters["binds_repeated"] += self.binders.join(peer, binder_index, instance, now_s)
        self.nominations.lose_binder(peer)
        self.nominations.keep_binders(self.binders.peers())
        self._effects.append(TellBinder(peer, to_binder.Welcome(self._epoch)))

    def _on_report(self, peer: bytes, report: BindReport, now_s: float) -> None:
        for finished in report.finished:
            order = self.binders.settle(peer, finished.order_id)
            if order is not None:
                self.counters["bound"] += 1
                self.cache.finish_binding(order.record.uid, now_s)
                if self.queue.done(order.record.uid) is not None:
                    self._changes.release_queued(order.record.uid)
        for failed in report.failed:
            self._on_bind_failed(peer, failed, now_s)

    def _on_bind_failed(self, peer: bytes, failed: BindFailed, now_s: float) -> None:
        order = self.binders.settle(peer, failed.order_id)
        if order is None:
            return
        fields: dict[str, object] = {
            "pod": order.record.key,
            "node": order.node_name,
            "reason": failed.reason.value,
            "message": failed.message,
        }
        self._effects.append(Note("binding_failed", fields, True))
        self.counters["binds_failed"] += 1
        if failed.reason is BindFailureReason.UNREACHABLE:
            self.binders.order_again(order)
            return
        row = self.cache.nodes.row_of(order.node_name)
        forgotten = self.cache.forget_pod(order.record.uid)
        # What was reserved is given back even if the pod is gone: nobody else would.
        info = _info(order.record) if forgotten is None else forgotten.pod_class.info
        self._plugins.run_unreserve(order.record, info, self.cache.view, row)
        if forgotten is None:
            return  # Confirmed by the watch, or deleted meanwhile: the API server's word stands.
        self.queue.requeue_error(order.record.uid, now_s)
        self.nominations.not_placed(self.queue.get(order.record.uid))
        self._changes.wake_as_deleted(forgotten, now_s)

    def _on_victims(self, report: VictimReport, now_s: float) -> None:
        for done in report.victims:
            order = self.nominations.settle(done.order_id, done.problem, now_s)
            if order is not None and done.problem:
                fields: dict[str, object] = {
                    "pod": f"{order.namespace}/{order.name}",
                    "node": order.node_name,
                    "problem": done.problem,
                }
                self._effects.append(Note("victim_not_deleted", fields, True))

    def _lose_binder(self, peer: bytes, reason: str) -> None:
        self.nominations.lose_binder(peer)
        lost = self.binders.leave(peer)
        self.counters["binds_repeated"] += lost
        self._effects.append(Note("binder_lost", {"orders": lost, "reason": reason}, True))

    # Once for each batch -------------------------------------------------------------------------

    def _pass_time(self, now_s: float) -> None:
        self._ask_for_sync(now_s)
        self.queue.flush(now_s)
        for pod in self.cache.cleanup_expired(now_s):
            self.counters["assumed_expired"] += 1
            self._effects.append(Note("assumed_pod_expired", {"pod": pod.record.key}, True))
            self._changes.wake_as_deleted(pod, now_s)
            self._changes.requeue(pod, now_s)
        for peer in self.scorers.silent_since(now_s - SCORER_SILENCE_MAX_S):
            lost = self.scorers.leave(peer)
            self._effects.append(Note("scorer_lost", {"pods": len(lost), "reason": "silent"}, True))
            self._take_back(lost, now_s)
        for peer in self.binders.silent_since(now_s - BINDER_SILENCE_MAX_S):
            self._lose_binder(peer, "silent")

        if self.cache.compact():
            self._checker.forget_all()

    def _note_disagreements(self) -> None:
        for kind, subject, detail in self.cache.disagreements:
            self.counters["disagreements"] += 1
            fields: dict[str, object] = {"kind": kind, "pod": subject, "detail": detail}
            self._effects.append(Note("disagreement_repaired", fields, True))
        self.cache.disagreements.clear()

    def _publish(self) -> None:
        """The delta of this batch; then whole snapshots for those that asked."""
        retired = self.cache.classes.retired
        self.scorers.retire_classes(retired)
        for class_id in retired:
            self._checker.forget(class_id)
        settled = self.scorers.settled()
        if self.scorers.ready():
            snapshot = self._snapshots.delta(settled)
            if snapshot is not None:
                self.counters["snapshots"] += 1
                self._effects.append(Publish(snapshot.message, snapshot.buffers))
        elif self._resyncs:
            self._snapshots.skip(settled)
        if not self._resyncs or not self.is_synced:
            return
        full = self._snapshots.full(settled)
        for peer, reason in self._resyncs.items():
            scorer = self.scorers.get(peer)
            if scorer is None:
                continue
            scorer.is_ready = True
            self.counters["resyncs"] += 1
            fields: dict[str, object] = {"worker": scorer.worker_index, "reason": reason}
            self._effects.append(Note("full_snapshot_sent", fields))
            self._effects.append(TellScorer(peer, full.message, full.buffers))
        self._resyncs.clear()

    def _hand_out(self, now_s: float) -> None:
        """New work for the workers that have credit."""
        if not self.is_synced or self._is_stopping:
            return
        credit = self.scorers.credit()
        if credit <= 0 or not self.queue.poppable_count:
            return
        pods = [
            (pod, self._changes.class_of(pod.record.uid))
            for pod in self.queue.pop_batch(credit, now_s)
            if self._is_wanted(pod)
        ]
        if pods:
            own_uid = self.nominations.own_uid
            self._effects.extend(self.scorers.hand_out(pods, self._snapshots.sequence, own_uid))

    def _is_wanted(self, pod: QueuedPod) -> bool:
        """Pods that are being deleted or already assumed are not scheduled (skipPodSchedule)."""
        if pod.record.deleted or self.cache.is_assumed_pod(pod.record.uid):
            if self.queue.done(pod.record.uid) is not None:
                self._changes.release_queued(pod.record.uid)
            return False
        return True

    def _report(self) -> None:
        """Conditions and events of the attempts that failed."""
        if not self._verdicts or not self.binders.ready_count():
            return
        by_binder: dict[bytes, list[to_binder.PodVerdict]] = {}
        for verdict in self._verdicts:
            peer = self.binders.for_pod(verdict.uid)
            assert peer is not None, "one is ready"
            by_binder.setdefault(peer, []).append(verdict)
        self._verdicts = []
        for peer, verdicts in by_binder.items():
            self._effects.append(TellBinder(peer, to_binder.ReportPods(self._epoch, verdicts)))

    # Administration ------------------------------------------------------------------------------

    def _on_admin(self, event: AdminAsked) -> None:
        request = event.request
        match request:
            case StatusRequest():
                self._effects.append(AnswerAdmin(event.peer, self.status()))
            case DumpRequest():
                lines = dump_lines(self.cache, self.queue)
                self._effects.append(AnswerAdmin(event.peer, TextAnswer(lines)))
            case CompareRequest():
                lines = problems(self.cache, self.queue) or ["no contradictions"]
                self._effects.append(AnswerAdmin(event.peer, TextAnswer(lines)))
            case QueueRequest():
                self._effects.append(AnswerAdmin(event.peer, self._queue_answer()))
            case NodesRequest(profile):
                self._effects.append(AnswerAdmin(event.peer, self._nodes_answer(profile)))
            case StopRequest():
                self._is_stopping = True
                self._stop_waiters.append(event.peer)
            case _:
                assert_never(request)

    def _queue_answer(self) -> QueueAnswer:
        in_flight = self.binders.in_flight_count()
        return QueueAnswer(pending_pods(self.queue), in_flight, dict(self.counters))

    def _nodes_answer(self, profile: str) -> NodesAnswer:
        framework = self._frameworks.get(profile)
        scores = () if framework is None else framework.scores
        weights = {entry.plugin.NAME: entry.weight for entry in scores}
        return NodesAnswer(node_usages(self.cache), weights)

    def _answer_stop(self) -> None:
        if not self._stop_waiters or self.scorers.attempt_count() or self.binders.in_flight_count():
            return
        answer = TextAnswer(["nothing in flight"])
        self._effects.extend(AnswerAdmin(peer, answer) for peer in self._stop_waiters)
        self._stop_waiters.clear()
        for scorer in self.scorers.ready():
            self._effects.append(TellScorer(scorer.peer, to_scorer.Drain()))
        self._effects.extend(TellBinder(peer, to_binder.Drain()) for peer in self.binders.peers())

    def status(self) -> StatusAnswer:
        """What `berth status` shows."""
        return StatusAnswer(
            epoch=self._epoch,
            generation=self.cache.generation,
            synced=self.is_synced,
            node_count=self.cache.node_count(),
            pod_count=self.cache.pod_count(),
            assumed_pod_count=len(self.cache.assumed_pods()),
            queue=self.queue.pending_lengths(),
            scorers_ready=len(self.scorers.ready()),
            binders_ready=self.binders.ready_count(),
            binds_in_flight=self.binders.in_flight_count(),
            counters=dict(self.counters),
        )


def _info(record: PodRecord) -> PodInfo:
    """Of a pod whose class may be gone."""
    return PodInfo(record.namespace, decode_template(record.template))
