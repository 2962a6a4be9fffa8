"""What a worker proposes becomes the owner's decision, or the pod is tried again.

`proposals.py` judges placements against the newest state; here follows what comes of each answer:
accepted pods go on to their binding, refused ones back to the head of the queue, and pods that fit
nowhere wait, perhaps with room being made for them.
"""

from collections import Counter

from daemon.core.claim_work import claim_releases
from daemon.core.dispatch import Attempt, Scorer
from daemon.core.holdings import ClusterFacts, OutgoingWork
from daemon.core.outcomes import Outcomes, left_out, refusal
from daemon.core.permit_stage import PermitStage
from daemon.core.pod_classes import PodClass
from daemon.core.proposals import Judgement, forget_worked_out, in_order, judge
from shared.errors import ObjectError
from shared.extenders.extender_verdicts import asked_of_scorers, binders_of
from shared.framework.status import CODE_NAMES, SUCCESS
from shared.messages.from_scorer import Failure, Placements, PreemptionProposal, Proposals
from shared.telemetry.metrics import Count


class Committer:
    """The one that assumes."""

    def __init__(
        self, facts: ClusterFacts, outgoing: OutgoingWork, outcomes: Outcomes, permit: PermitStage
    ) -> None:
        self._facts = facts
        self._outgoing = outgoing
        self._outcomes = outcomes
        self._permit = permit

    def commit(self, scorer: Scorer, proposals: Proposals, now_s: float) -> None:
        """Settles all answers of one message, as far as they change something in the order in which
        they were found.

        What is refused is tried again, so owner and workers would go round for ever if an answer
        could be refused that was found on the newest state. It cannot: the checks are the worker's
        own, and each answer meets what it was found on top of, the room that was made before it
        included. So of a message whose copy was up to date the first answer is settled at least, and
        whatever refuses another is a change that settled a pod, or came from outside: as long as
        nothing comes from there, the pods that are not settled become fewer with each round.
        """
        self._facts.nominations.refresh()
        scorer.proposal_sequence = proposals.proposal_sequence
        accepted_count = refused_count = 0
        for placements, preemption in in_order(proposals):
            if placements.tickets:
                judgement = self.judge(scorer, placements, proposals.generation)
                self.carry_out(judgement, now_s)
                accepted_count += len(judgement.accepted) + len(judgement.not_reserved)
                refused_count += len(judgement.rejected)
            if preemption is not None:
                self.settle_failure(scorer, preemption, proposals.generation, now_s)
        scorer.judged(accepted_count, refused_count, proposals.batch_id)
        for ticket in proposals.skipped:
            skipped = scorer.settle(ticket)
            if skipped is not None:
                # The worker did as much as it should at once: each answer settles at least one pod.
                self._outcomes.try_again(skipped, now_s, is_refused=False)
        for failure in proposals.failures:
            if failure.preemption is None:
                self.settle_failure(scorer, failure, proposals.generation, now_s)

    def commit_checked(self, attempt: Attempt, node_row: int, now_s: float) -> None:
        """Settles a placement that nothing has happened since its check."""
        counters, cache = self._outgoing.counters, self._facts.cache
        begun_s = counters.stopwatch()
        node_name = cache.nodes.name_of(node_row)
        cache.assume_pod(attempt.pod.record, node_name, attempt.pod_class)
        counters.took("Reserve", attempt.pod_class.profile, counters.stopwatch() - begun_s)
        self._bind(attempt, node_name, now_s)

    def judge(self, scorer: Scorer, placements: Placements, generation: int) -> Judgement:
        """Checks placements that nothing else came between; what passes is assumed."""
        counters = self._outgoing.counters
        begun_s = counters.stopwatch()
        judgement = judge(
            self._facts.cache, self._facts.checker, self._facts.plugins, self._facts.nominations,
            scorer, placements, generation,
        )  # fmt: skip
        self._time_reserve(judgement, counters.stopwatch() - begun_s)
        if judgement.any_refused:
            scorer.refused_generation = self._facts.cache.generation
        self._outgoing.counters[Count.PROPOSALS_REJECTED] += len(judgement.rejected)
        self._outgoing.counters[Count.PROPOSALS_STALE] += judgement.stale_count
        return judgement

    def carry_out(self, judgement: Judgement, now_s: float) -> None:
        """What comes of placements that were checked."""
        for attempt, node_name in judgement.accepted:
            self._bind(attempt, node_name, now_s)
        for rejected in judgement.rejected:
            self._outcomes.try_again(rejected.attempt, now_s)
        for refused in judgement.not_reserved:
            self._outcomes.fail(refused.attempt, refusal(refused.status), now_s)
        for unreadable, error in judgement.unreadable:
            self._outcomes.fail(unreadable, left_out(error), now_s)

    def _time_reserve(self, judgement: Judgement, took_s: float) -> None:
        """The check on the newest state and all that is done to assume pods is what Reserve is here."""
        reserved = [(each[0], SUCCESS.code) for each in judgement.accepted]
        reserved += [(each.attempt, each.status.code) for each in judgement.not_reserved]
        of_profile = Counter((attempt.pod_class.profile, code) for attempt, code in reserved)
        for (profile, code), count in of_profile.items():
            share_s = took_s * count / len(reserved)
            self._outgoing.counters.took("Reserve", profile, share_s, count, CODE_NAMES[code])

    def settle_failure(
        self, scorer: Scorer, failure: Failure, generation: int, now_s: float
    ) -> None:
        """On a copy from before a refusal, only what was refused may have kept the pod away."""
        is_too_old = generation < scorer.refused_generation
        for ticket in failure.tickets:
            failed = scorer.settle(ticket)
            if failed is None:
                continue
            if is_too_old:
                self._outcomes.try_again(failed, now_s)
            else:
                self._refuse(scorer, failed, failure, generation, now_s)

    def _bind(self, attempt: Attempt, node_name: str, now_s: float) -> None:
        """What follows for a pod that is assumed."""
        if self._is_bound_plainly(attempt.pod_class):
            self._outgoing.counters.took("Permit", attempt.pod_class.profile, 0.0)
            self._outcomes.order_plain_binding(attempt, node_name)
        else:
            self._permit.enter(attempt, node_name, now_s)

    def _is_bound_plainly(self, pod_class: PodClass) -> bool:
        """Nobody is asked whether pods of the class may be bound, there is nothing to write before, and
        no extender binds them."""
        if pod_class.is_bound_plainly is None:
            pod_class.is_bound_plainly = not (
                self._facts.plugins.permit.get(pod_class.profile)
                or pod_class.info.takes_more_than_room
                or binders_of(self._facts.settings.extenders, pod_class.info)
            )
        return pod_class.is_bound_plainly

    def _refuse(
        self, scorer: Scorer, attempt: Attempt, failure: Failure, generation: int, now_s: float
    ) -> None:
        """A pod fits nowhere; room may be made for it."""
        pod, info = attempt.pod, attempt.pod_class.info
        self._facts.nominations.release(
            claim_releases(pod.record, info, self._facts.cache.view, failure.freed_claims)
        )
        if failure.was_room_sought:
            self._outgoing.counters[Count.PREEMPTION_ATTEMPTS] += 1
        if failure.preemption is not None:
            try:
                victim_count = self.nominate(scorer, attempt, failure.preemption, generation)
            except ObjectError as error:
                forget_worked_out(self._facts.cache, self._facts.checker)
                self._outcomes.fail(attempt, left_out(error), now_s)
                return
            if victim_count is None:
                self._outgoing.counters[Count.PREEMPTIONS_REJECTED] += 1
                self._outcomes.try_again(attempt, now_s)
                return
            self._outgoing.counters[Count.PREEMPTIONS] += 1
            if victim_count:
                self._outgoing.counters.observe("victims", (), victim_count)
        elif failure.ends_nomination and self._facts.nominations.own_uid(pod.record.uid):
            self._facts.nominations.end(pod)
        self._outcomes.fail(attempt, failure, now_s)

    def nominate(
        self, scorer: Scorer, attempt: Attempt, proposal: PreemptionProposal, generation: int
    ) -> int | None:
        """Keeps room for a pod; as `NominationBook.commit`."""
        # Whom extenders want to go, no search of ours can tell.
        extenders = self._facts.settings.extenders
        is_believed = not scorer.key_name or asked_of_scorers(extenders, attempt.pod_class.info)
        return self._facts.nominations.commit(
            attempt, proposal, generation, is_believed=is_believed
        )
