"""The scorers: who is there, what each is told of the cluster, and what work each is given."""

import math
from collections import deque
from collections.abc import Collection
from functools import partial
from typing import Final, assert_never

import msgspec

from daemon.core import suspects
from daemon.core.attempt_ends import AttemptEnds
from daemon.core.cluster_changes import LATE_S, ClusterChanges
from daemon.core.committer import Committer, is_wanted
from daemon.core.dispatch import Found
from daemon.core.events import Tell
from daemon.core.foresight import Foreseen, Foresight
from daemon.core.group_commits import GroupCommits
from daemon.core.group_reservations import GroupReservations
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from daemon.core.peer_checks import hello_problem, message_problem
from daemon.core.pod_groups import Unit
from daemon.core.queue.queued_pod import QueuedPod
from shared.extenders.extender_config import asked_of_scorers
from shared.limits import SENT_AWAY_MAX
from shared.messages import to_scorer
from shared.messages.from_scorer import (
    AskForPods,
    Failure,
    Forecast,
    FromScorer,
    Proposals,
    ResyncRequest,
    ScorerHeartbeat,
    ScorerHello,
)
from shared.transport.channels import Channel

CHOOSES_VICTIMS: Final = (
    "not eligible as an extender with a preemptVerb has a say in pods of the group"
)


class ScorerLinks(Part):
    _changes: ClusterChanges
    _ends: AttemptEnds
    _committer: Committer
    _group_commits: GroupCommits
    _reservations: GroupReservations
    _foresight: Foresight
    _resyncs: dict[bytes, str] = msgspec.field(default_factory=dict)
    """Who needs everything, and why."""
    _sent_away: deque[bytes] = msgspec.field(default_factory=partial(deque, maxlen=SENT_AWAY_MAX))
    """Connections of other hosts that are not listened to any more."""
    _publish_at_s: float = math.inf

    def hear(self, peer: bytes, message: FromScorer, key_name: str, now_s: float) -> None:
        """`key_name`: as `Said` has it."""
        if peer in self._sent_away:
            return
        if isinstance(message, ScorerHello):
            self._greet(peer, message, key_name, now_s)
            return
        scorer = self._owner.scorers.heard(peer, now_s)
        if scorer is None:
            # Given up as stuck, and back: its pods are elsewhere. Or it spoke before it knew that the
            # owner is another.
            self._tell(peer, to_scorer.GreetAgain())
            return
        problem = message_problem(
            message, self._owner.scorers.settled[scorer.index], self._owner.cache
        )
        if scorer.key_name != key_name:
            problem = "somebody else speaks in its name"
        is_current = getattr(message, "epoch", self._owner.epoch) == self._owner.epoch
        if problem and is_current:
            self._send_away(peer, key_name, scorer.instance, problem, now_s)
            return
        match message:
            case ResyncRequest():
                self._resyncs[peer] = message.reason
            case Proposals():
                if not is_current:
                    self._owner.counters[Count.PROPOSALS_STALE] += len(message.placements.tickets)
                else:
                    in_hand = dict(scorer.attempts) if self._owner.suspects.is_careful else {}
                    self._owner.nominations.refresh()
                    self._owner.scorers.settled[scorer.index] = message.proposal_sequence
                    answer = Found(scorer, message, now_s)
                    if not self._group_commits.commit(answer):
                        self._committer.commit(answer)
                    for ticket in in_hand.keys() - scorer.attempts.keys():
                        self._owner.suspects.clear(in_hand[ticket].tried_as.class_id)
            case Forecast():
                if is_current:
                    self._foresight.note(scorer, message)
            case AskForPods():
                self._tell(peer, self._pods_on(message))
            case ScorerHeartbeat():
                scorer.lag = max(0, self._owner.cache.generation - message.generation)
                self._owner.counters.add(message.measured)
            case _:
                assert_never(message)

    def _tell(self, peer: bytes, message: to_scorer.ToScorer) -> None:
        self._owner.effects.append(Tell(Channel.SCORERS, peer, message))

    def _greet(self, peer: bytes, hello: ScorerHello, key_name: str, now_s: float) -> None:
        problem = hello_problem(hello, key_name, self._owner.settings.configuration)
        scorers, index = self._owner.scorers, hello.worker_index
        same = (each for each in scorers if each.index == index)
        if any(each.key_name != key_name for each in same):
            problem = "its number is that of another worker"
        if not problem:
            for former in scorers.replaced_by(peer, index):
                self.lose(former, now_s)
            scorers.join(peer, index, hello.instance, now_s, key_name)
            self._owner.suspects.has_lived(hello.instance)
            self._resyncs[peer] = "hello"
            return
        self._tell(peer, to_scorer.ScorerRefused(problem))
        self._note_refused(hello.instance, key_name, problem)

    def _send_away(
        self, peer: bytes, key_name: str, instance: str, problem: str, now_s: float
    ) -> None:
        """It said what none of ours would: one of another host is done with, ours begins anew."""
        self._take_back(self._owner.scorers.leave(peer), now_s)
        if key_name:
            self._sent_away.append(peer)
            self._tell(peer, to_scorer.ScorerRefused(problem))
        else:
            self._tell(peer, to_scorer.GreetAgain())
        self._note_refused(instance, key_name, problem)

    def _note_refused(self, instance: str, key_name: str, problem: str) -> None:
        self._owner.counters[Count.WORKERS_REFUSED] += 1
        self._owner.warn("worker_refused", instance=instance, key=key_name, problem=problem)

    def _pods_on(self, question: AskForPods) -> to_scorer.PodsOnNodes:
        """Names for a scorer whose copy is as old as it says."""
        cache, epoch = self._owner.cache, self._owner.epoch
        pods: list[to_scorer.PodOnNode] = []
        for row in question.node_rows if question.epoch == epoch else ():
            info = cache.node_info(cache.nodes.name_of(row)) if cache.shows(row) else None
            for held in () if info is None else info.pods.values():
                if held.attached_at <= question.generation:
                    record = held.record
                    names = (record.namespace, record.name, record.uid)
                    pods.append(to_scorer.PodOnNode(held.row, row, *names))
        return to_scorer.PodsOnNodes(epoch, question.request_id, pods)

    def lose(self, peer: bytes, now_s: float) -> None:
        """A scorer's connection is closed, or another has come in its place."""
        scorer = self._owner.scorers.get(peer)
        instance = None if scorer is None else scorer.instance
        self._take_back(self._owner.scorers.leave(peer), now_s, instance)

    def lose_the_silent(self, now_s: float) -> None:
        scorers = self._owner.scorers
        for peer in scorers.silent(now_s):
            lost = scorers.leave(peer)
            self._owner.warn("scorer_lost", pods=len(lost), reason="silent")
            self._take_back(lost, now_s)

    def _take_back(self, pods: list[QueuedPod], now_s: float, instance: str | None = None) -> None:
        """What a lost scorer had is tried again, in order; what scorers are lost of is parked
        (`instance` as there)."""
        guilty = self._owner.suspects.lose(pods, now_s, instance)
        for pod in pods:
            if pod.tried_as.class_id in guilty:
                self._park(pod, now_s)
            else:
                self._committer.try_again(pod, now_s, is_refused=False)
        records = [pod.record for pod in pods]
        groups = dict.fromkeys(record.group_key for record in records if record.group)
        self._group_commits.release(groups, now_s)

    def _park(self, pod: QueuedPod, now_s: float) -> None:
        self._owner.counters[Count.PODS_PARKED] += 1
        self._owner.warn("pod_parked", pod=pod.key, ticket=pod.ticket, reason=suspects.WHY)
        self._ends.fail(pod, Failure([], suspects.WHY, is_error=True), now_s)

    def release_parked(self, now_s: float) -> None:
        """Pods whose time is over are tried again, alone."""
        due = self._owner.suspects.due(now_s)
        if due:
            queue = self._owner.queue
            queue.activate([pod.record.uid for pod in queue if pod.class_id in due], now_s)

    def start_over(self, reason: str) -> None:
        """No copy that is out is of use any more."""
        self._owner.snapshots.start_over(self._owner.scorers.settled)
        self._resyncs |= {scorer.peer: reason for scorer in self._owner.scorers.ready()}

    def next_wakeup_s(self) -> float:
        """When what waits is published at the latest; infinite if nothing does."""
        return self._publish_at_s

    def publish(self, now_s: float, *, is_due: bool) -> None:
        """The delta of this turn, unless that can wait; then whole snapshots for those that asked.
        `is_due`: pods wait that somebody may be given, or something has waited as long as it may."""
        scorers = self._owner.scorers
        settled = scorers.settled
        covering = self._foresight.covering()
        is_needed = is_due or self._resyncs or any(scorer.attempts for scorer in scorers)
        if not is_needed and self._may_wait(covering, now_s):
            return
        self._publish_at_s = math.inf
        retired = self._owner.cache.classes.retired
        if retired:
            self._owner.suspects.retire(retired)
            for class_id in retired:
                scorers.by_class.pop(class_id, None)
                self._owner.checker.evaluations.forget(class_id)
        if scorers.ready():
            snapshot = self._owner.snapshots.delta(settled, scorers.next_ticket)
            if snapshot is not None:
                for foreseen in covering:
                    foreseen.sequence, foreseen.is_told = self._owner.snapshots.sequence, True
                self._owner.counters[Count.SNAPSHOTS] += 1
                self._owner.effects.append(snapshot)
        else:
            self._owner.snapshots.skip(settled)
        if self._resyncs and self._owner.syncs.is_synced:
            self._send_everything(settled)

    def _may_wait(self, covering: Collection[Foreseen], now_s: float) -> bool:
        """Nobody has to know yet what changed: it is as it was foreseen, or nothing is foreseen
        from it."""
        if now_s >= self._publish_at_s:
            return False
        if any(each.may_wait for each in covering):
            return True
        if self._foresight.is_worth_it:
            return False
        if self._publish_at_s == math.inf:
            owner, snapshots = self._owner, self._owner.snapshots
            if not snapshots.is_current(owner.scorers.settled, snapshots.generation):
                self._publish_at_s = now_s + LATE_S
        return True

    def _send_everything(self, settled: dict[int, int]) -> None:
        full, buffers = self._owner.snapshots.full(settled, self._owner.scorers.next_ticket)
        for peer, reason in self._resyncs.items():
            scorer = self._owner.scorers.get(peer)
            if scorer is None:
                continue
            scorer.is_ready = True
            self._owner.counters[Count.RESYNCS] += 1
            self._owner.note("full_snapshot_sent", worker=scorer.index, reason=reason)
            self._owner.effects.append(Tell(Channel.SCORERS, peer, full, buffers))
        self._resyncs.clear()

    def hand_out(self, now_s: float) -> None:
        """New work for the scorers that have credit."""
        scorers = self._owner.scorers
        scorers.is_careful = self._owner.suspects.is_careful
        credit = scorers.credit()
        if credit <= 0:
            return
        pods: list[QueuedPod] = []
        groups = self._owner.groups
        while popped := self._owner.queue.pop_batch(credit - len(pods), now_s):
            pods += [pod for pod in popped if self._is_tried(pod, now_s)]
        for pod in pods[-2:]:
            self._foresight.came(pod)
        for unit in groups.units(pods) if groups.is_used else [Unit(pods)]:
            if unit.key:
                self._hand_out_group(unit, now_s)
            else:
                self._hand_out_pods(unit.pods)

    def _hand_out_pods(self, pods: list[QueuedPod]) -> None:
        scorers = self._owner.scorers
        tried = pods
        extenders = self._owner.settings.config.extenders
        if extenders and pods:
            extended = [each for each in pods if asked_of_scorers(extenders, each.info.spec)]
            self._owner.effects.extend(scorers.hand_out_extended(extended))
            waiting = {id(pod) for pod in extended}
            pods = [each for each in pods if id(each) not in waiting]
        if pods:
            self._owner.effects.extend(scorers.hand_out(pods))
        self._log_handed_out(tried)

    def _hand_out_group(self, unit: Unit, now_s: float) -> None:
        groups, scorers = self._owner.groups, self._owner.scorers
        mates = self._owner.queue.pop_these(groups.mates(unit.key), now_s)
        unit.pods += [pod for pod in mates if self._is_tried(pod, now_s)]
        task = groups.begin(unit, may_hold=self._reservations.is_due(unit, now_s))
        if isinstance(task, str):
            self._group_commits.refuse(unit, task, now_s)
            return
        extenders = self._owner.settings.config.extenders
        asked = [pod for pod in unit.pods if asked_of_scorers(extenders, pod.info.spec)]
        choosing = [each for each in extenders if each.preempt_verb]
        if any(asked_of_scorers(choosing, pod.info.spec) for pod in asked):
            task = msgspec.structs.replace(task, forbidden=task.forbidden or CHOOSES_VICTIMS)
        self._owner.effects.extend(scorers.hand_out_group(unit.pods, task, asked))
        self._log_handed_out(unit.pods)

    def _log_handed_out(self, pods: list[QueuedPod]) -> None:
        for pod in pods if self._owner.logs_attempts else ():
            self._owner.log_step("handed_out", pod, attempts=pod.attempts)

    def _is_tried(self, pod: QueuedPod, now_s: float) -> bool:
        if not is_wanted(pod, self._owner.cache):
            self._changes.pass_over(pod, now_s)
            return False
        if pod.class_id in self._owner.suspects.parked:
            # It was active when another of it was parked.
            self._park(pod, now_s)
            return False
        return True
