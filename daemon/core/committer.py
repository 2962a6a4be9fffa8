"""What a scorer proposes becomes the owner's decision, or the pod is tried again.

The simple way is to let a scorer's placement stand, since it was right on the scorer's copy. But
copies are old by the time their answer arrives, and with several scorers two of them find the same
gap. So there is one serial committer, this one: each placement is checked again, with the scorers'
own filter code, on the state that contains everything accepted before it. What fails goes back to
the head of the queue and costs one more evaluation, with the fresh row already on its way. Scores
are not computed again: a placement that is no longer the very best is a matter of freshness, one
that does not fit would be a matter of truth.

`Committer` says what comes of each answer; the functions below it judge placements.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from daemon.core.attempt_ends import AttemptEnds, claim_releases, refusal
from daemon.core.cache import Cache
from daemon.core.checker import Checker, end_of_stretch
from daemon.core.dispatch import Found, Placed
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from daemon.core.owner_plugins import FITS_NO_MORE
from daemon.core.permit_stage import PermitStage
from daemon.core.preemptions import Preemptions
from daemon.core.queue.queued_pod import Place, QueuedPod
from shared.errors import ObjectError
from shared.extenders.extender_config import binders_of
from shared.faults import reading
from shared.framework.status import CODE_NAMES, Code, Status
from shared.messages.from_scorer import Failure, Placements, Proposals


class Judgement(NamedTuple):
    accepted: list[tuple[QueuedPod, str]]
    """Assumed on the node of that name."""
    rejected: list[QueuedPod]
    """The node does not take the pod any more; it is to be tried again at once."""
    failed: list[tuple[QueuedPod, Status]]
    """The attempt ends so: Reserve refused the placement, or it cannot be checked here."""


class Committer(Part):
    _ends: AttemptEnds
    _permit: PermitStage
    _preemptions: Preemptions

    def commit(self, answer: Found) -> None:
        """Settles all answers of one message, as far as they change something in the order in which
        they were found.

        What is refused is tried again, so owner and scorers would go round for ever if an answer
        could be refused that was found on the newest state. It cannot: the checks are the scorer's
        own, and each answer meets what it was found on top of, the room that was made before it
        included. So of a message whose copy was up to date the first answer is settled at least, and
        whatever refuses another is a change that settled a pod, or came from outside: as long as
        nothing comes from there, the pods that are not settled become fewer with each round.
        """
        accepted_count = refused_count = 0
        proposals = answer.proposals
        for placements, preemption in in_order(proposals):
            for placed in self._in_turn(placements):
                judgement = self.judge(answer, placed)
                self.carry_out(answer, judgement)
                accepted_count += len(judgement.accepted) + len(judgement.failed)
                refused_count += len(judgement.rejected)
            if preemption is not None:
                self.settle_failure(answer, preemption)
        answer.scorer.judged(accepted_count, refused_count, proposals.batch_id)
        # The scorer did as much as it should at once: each answer settles at least one pod.
        self.try_all_again(answer, proposals.skipped, is_refused=False)
        for failure in proposals.failures:
            if failure.preemption is None:
                self.settle_failure(answer, failure)

    def _in_turn(self, placements: Placements) -> Iterable[Placements]:
        """Those that are assumed before any of them is asked about: one at a time where Permit plugins
        could see the next ones there (schedulingCycle in pkg/scheduler/schedule_one.go, v1.36.2)."""
        if not any(self._owner.plugins.permit.values()):
            return (placements,) if placements.tickets else ()
        pairs = zip(placements.tickets, placements.node_rows, strict=True)
        return [Placements([ticket], [row]) for ticket, row in pairs]

    def commit_checked(self, pod: QueuedPod, node_row: int, now_s: float) -> bool:
        """Settles a placement that nothing has happened since its check; False as of `_bind`."""
        counters, cache = self._owner.counters, self._owner.cache
        begun_s = counters.stopwatch()
        node_name = cache.nodes.name_of(node_row)
        cache.assume_pod(pod.record, node_name, pod.pod_class)
        counters.took("Reserve", pod.pod_class.profile, counters.stopwatch() - begun_s)
        return self._bind(pod, node_name, now_s)

    def judge(self, answer: Found, placements: Placements) -> Judgement:
        """Checks placements that nothing else came between, in order, and assumes what passes. Other
        rows are marked as changed, so that the next delta puts the scorer's copy of them right."""
        scorer, cache, counters = answer.scorer, self._owner.cache, self._owner.counters
        begun_s = counters.stopwatch()
        known: list[Placed] = []
        for ticket, row in zip(placements.tickets, placements.node_rows, strict=True):
            pod = scorer.settle(ticket)
            if pod is None:  # Not out with this scorer (any more).
                counters[Count.PROPOSALS_STALE] += 1
                cache.touch_row(row)
            else:
                known.append((pod, row))
        judgement = self._judged(known, answer.proposals.generation)
        self._time_reserve(judgement, counters.stopwatch() - begun_s)
        if len(judgement.accepted) < len(placements.tickets):
            scorer.refused_generation = cache.generation
        counters[Count.PROPOSALS_REJECTED] += len(judgement.rejected)
        return judgement

    def _judged(self, known: list[Placed], generation: int) -> Judgement:
        cache, checker, plugins = self._owner.cache, self._owner.checker, self._owner.plugins
        nominations = self._owner.nominations
        judgement = Judgement([], [], [])
        begin = 0
        while begin < len(known):
            stretch = known[begin : end_of_stretch(known, begin, checker)]
            begin += len(stretch)
            pod_class = stretch[0][0].tried_as
            try:
                with reading("pod", stretch[0][0]):
                    passes = passing(cache, checker, stretch, generation)
                    if pod_class.is_reserved is None:
                        pod_class.is_reserved = plugins.may_reserve(pod_class.info)
            except ObjectError as error:
                self._owner.forget_derived()
                status = Status(Code.ERROR, (error.told(),))
                judgement.failed.extend((pod, status) for pod, _ in stretch)
                for _, row in stretch:
                    cache.touch_row(row)
                continue
            begin -= len(stretch) - len(passes)
            takes_more = pod_class.is_reserved or pod_class.info.takes_claims
            is_simple = not takes_more and not len(cache.view.nominations)
            chosen: list[tuple[QueuedPod, int]] = []
            for (pod, row), is_ok in zip(stretch, passes, strict=False):
                if not (is_ok and pod.is_awaited and is_wanted(pod, cache)):
                    judgement.rejected.append(pod)
                    cache.touch_row(row)
                    continue
                if is_simple:
                    chosen.append((pod, row))
                    continue
                record, info = pod.record, pod.info
                status = plugins.run_reserve(record, info, cache.view, row)
                if status.is_success:
                    node_name = cache.nodes.name_of(row)
                    reserved = plugins.as_reserved(record, info, cache.view)
                    is_as_it_was = reserved is record
                    cache.assume_pod(reserved, node_name, pod.pod_class if is_as_it_was else None)
                    if cache.view.nominations.get(record.uid) is not None:
                        nominations.placed(record.uid)
                    judgement.accepted.append((pod, node_name))
                    continue
                cache.touch_row(row)
                if status is FITS_NO_MORE:
                    judgement.rejected.append(pod)
                else:
                    nominations.not_placed(pod)
                    judgement.failed.append((pod, status))
            if chosen:
                records = [pod.record for pod, _ in chosen]
                names = cache.assume_pods(records, [row for _, row in chosen], pod_class)
                judgement.accepted.extend(zip((pod for pod, _ in chosen), names, strict=True))
        return judgement

    def carry_out(self, answer: Found, judgement: Judgement) -> None:
        for pod, node_name in judgement.accepted:
            if not self._bind(pod, node_name, answer.now_s):
                answer.scorer.refused_generation = self._owner.cache.generation
        for rejected in judgement.rejected:
            self.try_again(rejected, answer.now_s)
        for failed, status in judgement.failed:
            self._ends.fail(failed, refusal(status), answer.now_s)

    def _time_reserve(self, judgement: Judgement, took_s: float) -> None:
        """The check on the newest state and all that is done to assume pods is what Reserve is here."""
        took = self._owner.counters.took
        each_s = took_s / max(1, len(judgement.accepted) + len(judgement.failed))
        profiles = Counter([pod.pod_class.profile for pod, _ in judgement.accepted])
        for profile, count in profiles.items():
            took("Reserve", profile, each_s * count, count)
        for pod, status in judgement.failed:
            took("Reserve", pod.pod_class.profile, each_s, status=CODE_NAMES[status.code])

    def settle_failure(self, answer: Found, failure: Failure) -> None:
        """On a copy from before a refusal, only what was refused may have kept the pod away. It is tried
        at once, however often that happens: each time another pod was refused, whose count ends it."""
        scorer = answer.scorer
        is_too_old = answer.proposals.generation < scorer.refused_generation
        has_room = failure.preemption is not None
        for ticket in failure.tickets:
            failed = scorer.settle(ticket)
            if failed is None or is_too_old:
                self.not_made(answer, failure)
            if failed is None:
                continue
            if is_too_old or not self.refuse(answer, failed, failure):
                self.try_again(failed, answer.now_s, is_refused=has_room)

    def not_made(self, answer: Found, failure: Failure) -> None:
        """Room that was proposed, if any was. It is a refusal as well: the scorer has taken it for made,
        and found other answers on top of that."""
        if failure.preemption is not None:
            self._owner.cache.touch_row(failure.preemption.node_row)
            answer.scorer.refused_generation = self._owner.cache.generation

    def try_all_again(self, answer: Found, tickets: Iterable[int], *, is_refused: bool) -> None:
        for ticket in tickets:
            pod = answer.scorer.settle(ticket)
            if pod is not None:
                self.try_again(pod, answer.now_s, is_refused=is_refused)

    def try_again(self, pod: QueuedPod, now_s: float, *, is_refused: bool = True) -> None:
        """The pod is tried at once, with the state as it is then, because its answer cannot be used or
        there is none; one that `is_refused` too often in a row, later."""
        step = "placement_refused" if is_refused else "attempt_taken_back"
        self._owner.log_step(step, pod)
        place = self._owner.queue.requeue_head(pod.uid, now_s, is_refused=is_refused)
        self._owner.counters[Count.ATTEMPTS_REPEATED] += place is not None
        if place is Place.BACKOFF:
            self._owner.counters[Count.REFUSED_TOO_OFTEN] += 1
            times = pod.refused_count
            self._owner.warn("refused_too_often", pod=pod.key, ticket=pod.ticket, times=times)

    def _bind(self, pod: QueuedPod, node_name: str, now_s: float) -> bool:
        """What follows for a pod that is assumed; False where it loses its place at once."""
        pod_class = pod.pod_class
        if pod_class.is_bound_plainly is None:
            owner, info = self._owner, pod_class.info
            pod_class.is_bound_plainly = not (
                owner.plugins.permit.get(pod_class.profile)
                or owner.plugins.may_reserve(info)
                or binders_of(owner.settings.config.extenders, info.spec)
            )
        if pod_class.is_bound_plainly:
            permit = "Permit", "Success", pod_class.profile
            self._owner.counters.observed["extension_point_s", permit, 0.0] += 1
            self._ends.order_binding(pod, pod.record, node_name)
            return True
        return self._permit.enter(pod, node_name, now_s)

    def refuse(
        self, answer: Found, pod: QueuedPod, failure: Failure, placed: list[Placed] | None = None
    ) -> bool:
        """A pod fits nowhere; room may be made for it, on top of that of `placed`, others of its group.
        False where it is not, though it was proposed: then it is for the caller to end the attempt."""
        owner, info = self._owner, pod.tried_as.info
        view, freed = owner.cache.view, failure.freed_claims
        group_uid = owner.groups.unplaced_uid(pod.record)
        owner.binders.releases += claim_releases(
            pod.ticket, pod.record, info, view, freed, group_uid
        )
        owner.counters[Count.PREEMPTION_ATTEMPTS] += failure.was_room_sought
        if failure.preemption is not None:
            try:
                count = self._preemptions.commit(answer, pod, failure.preemption, placed)
            except ObjectError as error:
                owner.forget_derived()
                self.not_made(answer, failure)
                self._ends.fail(pod, Failure([], error.told(), is_error=True), answer.now_s)
                return True
            if count is None:
                self.not_made(answer, failure)
                return False
        elif failure.ends_nomination and pod.uid in owner.queue.nominator.node_by_uid:
            owner.nominations.end(pod, answer.now_s)
        self._ends.fail(pod, failure, answer.now_s)
        return True


def in_order(proposals: Proposals) -> Iterator[tuple[Placements, Failure | None]]:
    """Placements, each time with the preemption that was found on top of them: that may have taken
    back the nomination which keeps what follows away."""
    tickets, rows = proposals.placements.tickets, proposals.placements.node_rows
    first = 0
    for failure in proposals.failures:
        if failure.preemption is not None:
            end = bisect_left(tickets, min(failure.tickets, default=0), first)
            yield Placements(tickets[first:end], rows[first:end]), failure
            first = end
    yield Placements(tickets[first:], rows[first:]), None


def passing(
    cache: Cache, checker: Checker, stretch: Sequence[Placed], generation: int
) -> list[bool]:
    """Whether each pod of a stretch may go where a copy at `generation` had it go, on the state of now;
    of fewer pods, where those before may let in the ones that are left."""
    nodes = cache.nodes
    proposed = [row for _, row in stretch]
    if max(proposed) >= nodes.row_count or min(proposed) < 0:
        return [False] * len(stretch)  # Of a copy that is not ours; nothing there can be checked.
    rows = np.array(proposed, np.intp)
    pod_class = stretch[0][0].tried_as
    uid = stretch[0][0].record.uid
    own_uid = uid if cache.view.nominations.get(uid) is not None else ""
    asked = pod_class.class_id, pod_class.info
    passed: list[bool] = checker.passing(*asked, rows, own_uid).tolist()
    for at, row in enumerate(proposed):
        if nodes.incarnation.item(row) > generation:
            passed[at] = False  # Another node has taken the row since: not the one that was meant.
    if not all(passed) and checker.known(*asked).is_wide:
        for at, (before, is_let_in) in enumerate(pairwise(passed), 1):
            if before and not is_let_in:
                return passed[:at]
    return passed


def is_wanted(pod: QueuedPod, cache: Cache) -> bool:
    """To be scheduled at all: not being deleted, and on no node (skipPodSchedule in
    pkg/scheduler/schedule_one.go, v1.36.2)."""
    return not pod.record.deleted and cache.get_pod(pod.record.uid) is None
