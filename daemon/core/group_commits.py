"""What becomes of a pod group that a scorer has tried: all of it that found a place passes, or nothing.

The scorer says where each pod would go and which fit nowhere; what that comes to is decided here, on
the newest state: as many pods as Permit wants have to find a place (`PodGroups.needed`), and each has to
pass the check that all placements pass. What was assumed before one too many failed is taken off again
in the same turn, so nobody else ever sees half a gang.

A pod that fits only once others have gone makes the whole group wait for that. Differs from upstream:
nobody is asked to go where the group could not be placed even so (there each pod's preemption begins as
soon as it is found, whatever becomes of the others). With the gate WorkloadAwarePreemption the pods'
own preemption is off, and who has to go for the group is found at once
(`workers/scorer/group_preemption.py`) and checked by `preemptions.py`.

Rules: pkg/scheduler/schedule_one_podgroup.go `podGroupSchedulingDefaultAlgorithm`,
`submitPodGroupAlgorithmResult`, v1.36.2.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from daemon.core.attempt_ends import AttemptEnds
from daemon.core.committer import Committer
from daemon.core.dispatch import Found, Placed, Scorer
from daemon.core.group_reservations import GroupReservations
from daemon.core.holdings import Part
from daemon.core.pod_groups import Unit
from daemon.core.preemptions import Preemptions
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.status_patches import group_verdict
from shared.errors import ObjectError
from shared.messages.from_scorer import Failure, GroupRoom, PreemptionProposal, Proposals
from shared.plugins.gates import UNSCHEDULABLE, WAITING_FOR_OTHERS

WAITING_FOR_PREEMPTION: Final = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"
OTHER_FAILED: Final = "failed to schedule other pod from a pod group: "


class GroupCommits(Part):
    _ends: AttemptEnds
    _committer: Committer
    _preemptions: Preemptions
    _reservations: GroupReservations

    def commit(self, answer: Found) -> bool:
        """Whether the answer was one about a group; then it is settled."""
        scorer, proposals, now_s = answer
        group = scorer.groups.pop(proposals.batch_id, None)
        if group is None:
            return False
        in_hand = (scorer.attempts[t] for t in group.tickets if t in scorer.attempts)
        first = next(in_hand, None)
        is_judged = first is not None and self._settle(group.key, first, answer)
        if not is_judged and len(proposals.placements.tickets) >= group.needed:
            # The scorer has all of it on its copy; what it found on top of that is no verdict.
            for row in proposals.placements.node_rows:
                self._owner.cache.touch_row(row)
            scorer.refused_generation = self._owner.cache.generation
        self.release((group.key,), now_s)
        return True

    def refuse(self, unit: Unit, problem: str, now_s: float) -> None:
        """A group that cannot be tried (`PodGroups.begin`)."""
        failure = Failure([], problem, is_error=True)
        for pod in unit.pods:
            self._fail(pod, failure, now_s)
        if len({pod.pod_class.profile for pod in unit.pods}) == 1:
            # Else there is nobody whose attempt it was, and its condition is let be (as upstream).
            self._tell(unit.key, unit.pods[0], "error", problem, now_s)

    def release(self, keys: Iterable[str], now_s: float) -> None:
        """Groups are not out with a scorer any more: pods of them that came since are tried."""
        for key in keys:
            for pod in self._owner.groups.settled(key):
                self._committer.try_again(pod, now_s, is_refused=False)

    def _settle(self, key: str, first: QueuedPod, answer: Found) -> bool:
        """Whether the placements were checked."""
        needed = self._owner.groups.needed(key, first)
        found = _found(answer.proposals)
        found_count = len(found)
        answer = self._permitted(key, first, answer, found)
        scorer, proposals, now_s = answer
        # The first one ends the look at the group: those after it are told of that alone.
        failing = (each for each in proposals.failures if each.is_error)
        own = dict(sorted((min(each.tickets, default=0), each.message) for each in failing)[:1])
        error = "".join(OTHER_FAILED + message for message in own.values())
        is_too_old = proposals.generation < scorer.refused_generation
        if found_count < needed and not error:
            if proposals.skipped or is_too_old:
                # What kept pods away may be gone, or has yet to be said.
                self._committer.try_all_again(answer, _tickets(proposals), is_refused=is_too_old)
                return False
            error = self._owner.groups.preemption_problem(key, first)
        is_judged = not error and needed <= found_count == len(proposals.placements.tickets)
        told = proposals.group_message or UNSCHEDULABLE
        room = proposals.group_room
        if error:
            result, message = "error", error
            for ticket in _tickets(proposals):
                self._reject(answer, ticket, own.get(ticket, error), is_error=True)
        elif found_count < needed and (room is None or room.is_awaited):
            if room is not None:
                self._reservations.hold(key, _placed(scorer, room), told, now_s)
            self._refuse_all(answer)
            result, message = "unschedulable", self._reservations.message(key, told)
        elif found_count < needed:
            if not self._have_gone(key, first, answer):
                self._committer.try_all_again(answer, _tickets(proposals), is_refused=True)
                return False
            result, message = "waiting_on_preemption", self._reservations.message(key, told)
            self._wait_for_room(answer, told, is_kept=message != told)
        elif not is_judged:
            result, message = "waiting_on_preemption", WAITING_FOR_PREEMPTION
            self._wait_for_room(answer, message)
            self._reservations.release(key, now_s, are_nominated=True)
        elif self._is_placed(key, needed, answer):
            result, message = "scheduled", ""
            self._reservations.release(key, now_s)
        else:
            result, message = "", ""
        self._reservations.renew(key)
        if result:
            self._tell(key, first, result, message, now_s)
        return is_judged

    def _permitted(self, key: str, first: QueuedPod, answer: Found, found: list[int]) -> Found:
        """With what Permit says to the first pod that found a place, where the group's object is gone:
        how many pods it wanted is not known any more."""
        problem = self._owner.groups.permit_problem(key, first)
        if not problem or not found:
            return answer
        failures = [Failure([min(found)], problem, is_error=True), *answer.proposals.failures]
        return answer._replace(proposals=replace(answer.proposals, failures=failures))

    def _tell(self, key: str, first: QueuedPod, result: str, message: str, now_s: float) -> None:
        labels = (result, first.pod_class.profile)
        self._owner.counters.count("podgroup_attempts", labels)
        self._owner.counters.observe("podgroup_attempt_s", labels, now_s - first.popped_s)
        group = self._owner.groups.of(key)
        if group is None or self._owner.settings.groups.are_foreign:
            return  # Gone meanwhile, and with it who could be told; or another scheduler's.
        is_scheduled, is_error = result == "scheduled", result == "error"
        verdict = group_verdict(group, message, is_scheduled=is_scheduled, is_error=is_error)
        if verdict is not None:
            self._owner.patches.add(verdict)

    def _is_placed(self, key: str, needed: int, answer: Found) -> bool:
        """Assumes what passes, if that is enough; else everything is as before, and tried again."""
        scorer, proposals, _ = answer
        nominated = dict(self._owner.queue.nominator.node_by_uid)
        with self._owner.cache.objects.for_one_group():
            judgement = self._committer.judge(answer, proposals.placements)
        accepted_count, rejected_count = len(judgement.accepted), len(judgement.rejected)
        is_placed = accepted_count >= needed
        refused = [pod.uid for pod, _ in judgement.failed]
        if is_placed:
            scorer.judged(accepted_count, rejected_count, proposals.batch_id)
            self._committer.carry_out(answer, judgement)
            accepted = (pod.uid for pod, _ in judgement.accepted)
            refused += [uid for uid in accepted if self._owner.cache.get_pod(uid) is None]
            is_settled = not (proposals.failures or judgement.rejected)
            self._committer.try_all_again(answer, proposals.skipped, is_refused=False)
            for failure in proposals.failures:
                self._committer.settle_failure(answer, failure)
        else:
            scorer.judged(0, accepted_count + rejected_count, proposals.batch_id)
            is_settled = False
            for pod, node_name in judgement.accepted:
                self._ends.take_off(pod.record, pod.info, node_name)
                if pod.uid in nominated:
                    self._owner.queue.nominator.nominate(pod.uid, nominated[pod.uid])
            scorer.refused_generation = self._owner.cache.generation
            taken_off = [pod for pod, _ in judgement.accepted]
            judgement = judgement._replace(accepted=[], rejected=taken_off + judgement.rejected)
            self._committer.carry_out(answer, judgement)
            self._committer.try_all_again(answer, _tickets(proposals), is_refused=True)
        if refused and not is_settled:
            self._owner.groups.tried_without(key, refused)
        return is_placed

    def _refuse_all(self, answer: Found) -> None:
        """Pods that have a place, and pods for which one could be made, wait for the others."""
        for ticket in _found(answer.proposals):
            self._reject(answer, ticket, f"{UNSCHEDULABLE}, {WAITING_FOR_OTHERS}")
        for failure in answer.proposals.failures:
            if failure.preemption is None:
                self._committer.settle_failure(answer, failure)

    def _reject(self, answer: Found, ticket: int, told: str, *, is_error: bool = False) -> None:
        pod = answer.scorer.settle(ticket)
        if pod is not None:
            self._fail(pod, Failure([], told, is_error=is_error), answer.now_s)

    def _fail(self, pod: QueuedPod, failure: Failure, now_s: float) -> None:
        """A pod keeps no claim to what was found for it earlier."""
        if pod.uid in self._owner.queue.nominator.node_by_uid:
            self._owner.nominations.end(pod, now_s)
        self._ends.fail(pod, failure, now_s)

    def _have_gone(self, key: str, first: QueuedPod, answer: Found) -> bool:
        """Has all go who are in a group's way; no, where that would not help any more."""
        owner, room = self._owner, answer.proposals.group_room
        assert room is not None, "asked before"
        group = owner.groups.of(key)
        placed = _placed(answer.scorer, room)
        if group is None or len(placed) < owner.groups.needed(key, first):
            return False
        priority = owner.groups.priority(group, (pod for pod, _ in placed))
        commit = self._preemptions.commit_group
        try:
            count = commit(answer, first, group, priority, placed, room.victims)
        except ObjectError:
            owner.forget_derived()
            return False
        if count is None:
            answer.scorer.refused_generation = owner.cache.generation
            return False
        if count:
            told = answer.proposals.group_message or UNSCHEDULABLE
            self._reservations.hold(key, placed, told, answer.now_s, priority)
        return True

    def _wait_for_room(self, answer: Found, message: str, *, is_kept: bool = False) -> None:
        """Each keeps the place that it has found, unless room `is_kept` for all of them, and who is in
        the way has to go. Were a pod that is refused its own room tried at once it would have them all
        tried with it, and take their room in turn; so it waits with them, and what was found on top of
        another's is looked at for itself."""
        proposals, placements = answer.proposals, answer.proposals.placements
        rows = dict(zip(placements.tickets, placements.node_rows, strict=True))
        failing = {ticket: each for each in proposals.failures for ticket in each.tickets}
        waits, placed = Failure([], message), list[Placed]()
        for ticket in sorted(rows | dict.fromkeys(failing, 0)):
            pod, failure = answer.scorer.settle(ticket), failing.get(ticket)
            if pod is None:
                if failure is not None:
                    self._committer.not_made(answer, failure)
                continue
            if failure is None:
                place = PreemptionProposal(rows[ticket], [])
                # Where that is not to be had any more, the next attempt finds another.
                if not is_kept:
                    self._preemptions.commit(answer, pod, place, placed)
            elif self._committer.refuse(answer, pod, failure, placed):
                continue
            self._ends.fail(pod, waits, answer.now_s)
        self._committer.try_all_again(answer, proposals.skipped, is_refused=False)


def _placed(scorer: Scorer, room: GroupRoom) -> list[Placed]:
    """Where the pods of a group would go, those that are still out with the scorer."""
    pairs = zip(room.placements.tickets, room.placements.node_rows, strict=True)
    return [(scorer.attempts[t], row) for t, row in pairs if t in scorer.attempts]


def _found(proposals: Proposals) -> list[int]:
    """Tickets of the pods that have a place, or could have one once others have gone."""
    waiting = [each.tickets for each in proposals.failures if each.preemption is not None]
    return [*proposals.placements.tickets, *(ticket for tickets in waiting for ticket in tickets)]


def _tickets(proposals: Proposals) -> list[int]:
    """Of all pods of the batch."""
    failing = [ticket for failure in proposals.failures for ticket in failure.tickets]
    return [*proposals.placements.tickets, *failing, *proposals.skipped]
