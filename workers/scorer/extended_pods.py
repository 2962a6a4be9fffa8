"""Pods that wait for extenders: which are being asked about, and what comes of the answers.

Pods that no extender is interested in never come here. Of the others so many are asked about at a
time; the rest wait, the most important first, and are evaluated when their turn comes, not before.
An answer is acted on at the moment when it arrives, on the copy as it is then. No I/O here: what is done
about a pod stands in one piece (`ExtendedCycle._steps`) and is left where somebody is asked, until the
answer comes; or for good, if none does (the owner then hears no more of the pod than that this scorer is
gone). A pod group counts as one of them; it is tried in one go, again and again, until there is nobody
left to ask (`group_hearing.py`).

Rules: schedulePod in pkg/scheduler/schedule_one.go, v1.36.2; of groups, `podGroupCycle` in
schedule_one_podgroup.go, which has schedulePod for each pod.
"""

import heapq
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace

from shared.columns.schema import Int64s, Rows
from shared.engine.class_scores import ClassScores
from shared.engine.evaluation import Evaluation
from shared.errors import ObjectError
from shared.extenders.extender_config import ExtenderConfig, is_interested
from shared.extenders.extender_wire import ExtenderVerdicts, MetaPod, MetaVictims, PodName
from shared.faults import reading
from shared.framework.cluster_view import Follower
from shared.framework.post_filter import Candidates, joined
from shared.framework.runtime.diagnosis import invalid_score
from shared.framework.runtime.framework import INVALID
from shared.framework.runtime.plans import PreScoreError
from shared.framework.runtime.what_if import WhatIf
from shared.framework.status import SUCCESS, Code, Status
from shared.messages.from_scorer import AskForPods, Failure, FromScorer, Placements, Proposals
from shared.messages.to_scorer import (
    ExtendedTask,
    PodOnNode,
    PodsOnNodes,
    PodTask,
    SchedulePods,
    TaskRun,
)
from shared.plugin_names import DEFAULT_PREEMPTION
from shared.plugins.preemption.victim_selector import fits_without
from workers.scorer.cycle import NO_NODES, ClassFailure, Cycle
from workers.scorer.evaluator import Refusals, RoomMaker, RoomSearch, SearchLimits, pick
from workers.scorer.group_cycle import NO_SEARCHES, found_count, is_error
from workers.scorer.group_hearing import NO_HEARING, GroupHearing, Heard
from workers.scorer.replica import ReplicaClass

PODS_AT_A_TIME: Final = 8
"""kube-scheduler asks about one pod after the other. With 8, an extender that takes 10 ms is no
bound below 800 pods/s, and a placement is chosen at most 7 pods after the extender saw the cluster."""


NO_CANDIDATE: Final = "no candidate node for preemption"
NO_BATCH: Final = 0
"""Of pods that are answered one by one."""

T = TypeVar("T")
_Became = int | Failure | None
"""The row that a pod takes, or why there is none; None: it is tried again at once."""
TRY_AGAIN: Final[tuple[_Became, int]] = (None, 0)


class FilterQuestion(NamedTuple):
    """Which of these nodes may the pod have, and how good are they?"""

    number: int
    pod: PodName
    extenders: tuple[int, ...]
    """Positions of those that are interested, in the order of the calls."""
    node_names: list[str]


class PreemptQuestion(NamedTuple):
    """Which of these ways to make room may be gone?"""

    number: int
    pod: PodName
    extenders: tuple[int, ...]
    victims: dict[str, MetaVictims]
    """By node."""
    pods: dict[tuple[str, str], PodName]
    """All pods of these nodes, by node and uid."""


Question = FilterQuestion | PreemptQuestion


class ExtenderAnswer(NamedTuple):
    """To the question of this number."""

    number: int
    error: str = ""
    """Not empty: an extender that must not be ignored failed, or the pod could not be read."""
    verdicts: ExtenderVerdicts | None = None
    victims: dict[str, MetaVictims] | None = None


Steps = Generator[Question | AskForPods, Any, T]
"""What is done about one pod. Yields what is asked, and is sent the answer."""


class Unasked(BaseException):
    """A group cannot be tried any further before extenders have been asked this. No exception that a
    boundary around one pod would take for the pod's (`shared/faults.py`)."""

    def __init__(self, question: FilterQuestion, heard: Heard) -> None:
        """`heard`: where the answer belongs."""
        super().__init__(question, heard)
        self.question, self.heard = question, heard


class _Life(NamedTuple):
    """One pod, or one group of pods, that is being asked about."""

    number: int
    """Of its questions: it has one open at a time."""
    task: ExtendedTask | SchedulePods
    steps: Steps[Proposals]


class ExtendedCycle(Cycle):
    """The scheduling cycle of a scorer that asks extenders, with all pods that they have a say in: it is
    cut where one has to wait for them. What is before a call and what is after it are decided on the
    copy as it is then: a node that filled up meanwhile is not taken, and scores are those of the moment
    of choosing."""

    def __init__(
        self,
        extenders: Sequence[ExtenderConfig],
        ask: Callable[[Question], None],
        send: Callable[[FromScorer], object],
        *of_cycle: Any,
    ) -> None:
        """`ask` asks extenders, `send` the owner; the rest as of any cycle."""
        super().__init__(*of_cycle)
        self._extenders = extenders
        self._ask = ask
        self._send = send
        self._waiting: list[tuple[int, int, ExtendedTask | SchedulePods]] = []
        """A heap: priority turned round, ticket."""
        self._hearing = NO_HEARING
        """Of the batch that is being placed."""
        self._open: dict[int, _Life] = {}
        self._last_number = 0
        self._settled: list[Proposals] = []

    def add(self, tasks: Sequence[ExtendedTask]) -> None:
        """More pods; the copy knows their classes."""
        for task in tasks:
            heapq.heappush(self._waiting, (-self._priority(task.class_id), task.ticket, task))

    def add_group(self, batch: SchedulePods) -> None:
        """The same of pods that are placed together, the most important first."""
        priority = self._priority(batch.runs[0].class_id)
        heapq.heappush(self._waiting, (-priority, batch.first_ticket, batch))

    def _priority(self, class_id: int) -> int:
        pod_class = self._replica.classes.get(class_id)
        return 0 if pod_class is None else pod_class.info.priority

    def clear(self) -> None:
        """The owner has taken all pods back; answers that are still to come are to nobody."""
        self._waiting.clear()
        self._open.clear()
        self._settled.clear()

    def work(self, answers: Sequence[ExtenderAnswer]) -> list[Proposals]:
        """Acts on answers, then begins with the next pods; the owner is to be told what it returns. The
        copy must be whole."""
        for answer in answers:
            self._go_on(self._open.pop(answer.number, None), answer)
        while self._waiting and len(self._open) < PODS_AT_A_TIME:
            task = heapq.heappop(self._waiting)[2]
            self._last_number += 1
            number = self._last_number
            if isinstance(task, SchedulePods):
                steps = self._of_group(number, task)
            else:
                steps = self._of_pod(number, task)
            self._go_on(_Life(number, task, steps), None)
        settled, self._settled = self._settled, []
        return settled

    def on_pods(self, message: PodsOnNodes) -> None:
        """The owner has told who the victims are: now the extenders can be asked."""
        self._go_on(self._open.pop(message.request_id, None), message)

    def _go_on(self, life: _Life | None, answer: ExtenderAnswer | PodsOnNodes | None) -> None:
        """Up to the next question, or the end. A pod that cannot be evaluated is answered so."""
        if life is None:
            return
        task = life.task
        if isinstance(task, SchedulePods):
            found = _next(life.steps, answer)
        else:
            self.began(task.ticket)
            try:
                with reading("ticket", task.ticket):
                    is_known = task.class_id in self._replica.classes
                    found = _next(life.steps, answer) if is_known else self._end(task)
            except ObjectError as error:
                found = self._end(task, self.left_out(task.ticket, error))
        if isinstance(found, Proposals):
            self._settled.append(found)
            return
        self._open[life.number] = life
        if isinstance(found, AskForPods):
            self._send(found)
        else:
            self._ask(found)

    def _of_pod(self, number: int, task: ExtendedTask) -> Steps[Proposals]:
        """Returns what the owner is told."""
        became, generation = yield from self._steps(number, task, self._room_maker())
        return self._end(task, became, generation)

    def _steps(
        self, number: int, task: ExtendedTask, room_maker: RoomMaker
    ) -> Steps[tuple[_Became, int]]:
        """What becomes of a pod, and the generation of the copy on which room was searched for it (0: it
        was not)."""
        node = self._nominated_node(task)
        if node:
            answer = yield from self._filtered(number, task, [node], is_nominated=True)
            # Whatever is wrong with the nominated node, there may be others (evaluateNominatedNode).
            is_left = answer.verdicts is not None and answer.verdicts.passing == [node]
            if is_left and self._nominated_node(task) == node:
                return self._replica.nodes.row_of(node), 0
        names, verdicts = self._feasible_nodes(task), None
        if names:
            answer = yield from self._filtered(number, task, names)
            if answer.error:
                return _error(task, answer.error), 0
            verdicts = answer.verdicts
            assert verdicts is not None, "a filter question has a filter answer"
            if verdicts.passing:
                return self._best_among(task, verdicts), 0
        return (yield from self._with_room(number, task, verdicts, room_maker))

    def _filtered(
        self, number: int, task: ExtendedTask, names: list[str], *, is_nominated: bool = False
    ) -> Steps[ExtenderAnswer]:
        """What extenders say of these nodes. `is_nominated`: of the one that the pod is nominated to."""
        extenders = self._interested(
            task, lambda each: bool(each.filter_verb or each.prioritize_verb)
        )
        if not extenders:
            return ExtenderAnswer(number, verdicts=ExtenderVerdicts(names))
        question = FilterQuestion(number, _pod_name(task), extenders, names)
        if task.ticket in self._hearing.tasks:
            heard = self._hearing.of(task, is_nominated=is_nominated)
            unasked = heard.unasked(names)
            if unasked:
                raise Unasked(question._replace(node_names=unasked), heard)
            return ExtenderAnswer(number, heard.error, heard.verdicts)
        answer: ExtenderAnswer = yield question
        return answer

    # Groups --------------------------------------------------------------------------------------

    def _of_group(self, number: int, batch: SchedulePods) -> Steps[Proposals]:
        """The same of a group."""
        hearing = GroupHearing(batch.asked)
        while True:
            self._hearing = hearing
            try:
                return hearing.dated(self.run(batch))
            except Unasked as unasked:
                question, heard = unasked.question._replace(number=number), unasked.heard
            finally:
                self._hearing = NO_HEARING
            answer: ExtenderAnswer = yield question
            heard.take(question.node_names, answer.verdicts, answer.error)

    def _place_group(
        self, batch: SchedulePods, rows: Rows | None, limits: SearchLimits
    ) -> Proposals:
        if not batch.asked:
            return super()._place_group(batch, rows, limits)
        assert batch.group is not None, "a group"
        known = self._hearing.try_on(rows, only_looks=limits is NO_SEARCHES)
        if known is not None:
            return replace(known, proposal_sequence=self._replica.proposal_sequence)
        answers = super()._place_group(batch, rows, limits)
        is_open = is_error(answers) or (limits is not NO_SEARCHES and answers.skipped)
        if rows is not None and not is_open and found_count(answers) < batch.group.needed:
            self._hearing.give_up(answers)
        return answers

    def _place_run(self, run: TaskRun, ticket: int, placements: Placements) -> int:
        if ticket in self._hearing.tasks:
            return ticket  # Each is asked about.
        return super()._place_run(run, ticket, placements)

    def _answer(
        self,
        task: PodTask,
        pod_class: ReplicaClass,
        room_maker: RoomMaker,
        answers: Proposals,
        known: ClassFailure | None,
        open_classes: set[int],
    ) -> Failure | None:
        asked = self._hearing.tasks.get(task.ticket)
        if asked is None:
            return super()._answer(task, pod_class, room_maker, answers, known, open_classes)
        # After an error nobody looks at those that follow.
        became = None if is_error(answers) else self._became(asked, room_maker)
        if isinstance(became, Failure):
            answers.failures.append(became)
            return became
        if became is None:
            answers.skipped.append(task.ticket)
            return None
        self._put(task, became, answers.placements)
        return None

    def _became(self, task: ExtendedTask, room_maker: RoomMaker) -> _Became:
        """What becomes of a pod of a group; the same as in the last run, if that can be."""
        heard, nodes = self._hearing.of(task), self._replica.nodes
        row = nodes.row_of(heard.node)
        if row >= 0 and self._evaluation(task).feasible[row]:
            return row
        if heard.failure is not None:
            return heard.failure
        found = _next(self._steps(NO_BATCH, task, room_maker), None)
        assert not isinstance(found, FilterQuestion | PreemptQuestion | AskForPods), (
            "extenders choose no victims for a pod of a group"
        )
        became, _ = found
        if isinstance(became, int):
            heard.node = nodes.name_of(became)
        elif became is not None and became.preemption is None:
            heard.failure, heard.generation = became, self._replica.generation
        return became

    # Preempt -------------------------------------------------------------------------------------

    def _with_room(
        self,
        number: int,
        task: ExtendedTask,
        verdicts: ExtenderVerdicts | None,
        room_maker: RoomMaker,
    ) -> Steps[tuple[_Became, int]]:
        """Where nothing was left."""
        if room_maker.has_searched_enough and not self._evaluation(task).is_error:
            return TRY_AGAIN
        search = self.search_room(task, verdicts, room_maker)
        if search.is_open:
            return TRY_AGAIN
        result, generation = search.result, self._replica.generation
        preemption = None if result is None else result.preemption
        extenders = self._interested(task, lambda each: bool(each.preempt_verb))
        if result is None or preemption is None or preemption.best is None or not extenders:
            return self.failure(task, search, room_maker), generation
        view, found = self._replica.view, preemption.candidates
        changes = Follower(view)
        changes.note()
        message: PodsOnNodes = yield AskForPods(
            self._replica.epoch, number, generation, found.rows.tolist()
        )
        # Of another copy the rows may be those of other nodes and pods.
        victims = self._victims(found, message) if self._replica.view is view else {}
        if not victims:
            return TRY_AGAIN  # They have all changed since.
        name_of = self._replica.nodes.name_of
        pods = {
            (name_of(pod.node_row), pod.uid): PodName(pod.namespace, pod.name, pod.uid)
            for pod in message.pods
        }
        answer: ExtenderAnswer = yield PreemptQuestion(
            number, _pod_name(task), extenders, victims, pods
        )
        candidates: Candidates | str | None = answer.error or None
        if not answer.error and self._replica.view is view:
            candidates = self._candidates(task, answer.victims or {}, message, changes)
        if candidates is None:
            return TRY_AGAIN
        status, best = SUCCESS, None
        if isinstance(candidates, str):
            status = Status(Code.ERROR, (candidates,))
        elif len(candidates.rows):
            best, _ = pick(view, candidates, lambda ties: self._among(ties, task.ticket))
        else:
            status = Status(Code.UNSCHEDULABLE, (NO_CANDIDATE,))
        if not status.is_success:
            # An error is told alone.
            before = result.said_before if status.is_rejected else ()
            told = (*before, f"preemption: {status.message}")
            status = Status(status.code, told, DEFAULT_PREEMPTION)
        preemption = preemption._replace(status=status, best=best)
        result = result._replace(status=status, preemption=preemption)
        search = search._replace(result=result)
        return self.failure(task, search, room_maker), generation

    def _victims(self, found: Candidates, message: PodsOnNodes) -> dict[str, MetaVictims]:
        """The candidates of which all victims are still there, by node."""
        by_row = {pod.pod_row: pod for pod in message.pods}
        victims: dict[str, MetaVictims] = {}
        for candidate in found.all():
            if all(row in by_row for row in candidate.victims):
                meta = [MetaPod(by_row[row].uid) for row in candidate.victims]
                name = self._replica.nodes.name_of(candidate.row)
                victims[name] = MetaVictims(meta, candidate.pdb_violations)
        return victims

    def _candidates(
        self,
        task: ExtendedTask,
        victims: dict[str, MetaVictims],
        message: PodsOnNodes,
        changes: Follower,
    ) -> Candidates | str | None:
        """What extenders left, as rows; or what is wrong with it. None where nothing of it would make
        room as things are now, which have changed since they were asked: the pod is tried again."""
        pods, nodes = self._replica.view.pods, self._replica.nodes
        known: dict[tuple[int, str], PodOnNode] = {
            (pod.node_row, pod.uid): pod for pod in message.pods
        }
        is_outdated = False
        left: list[Candidates] = []
        for name, meta in victims.items():
            row = nodes.row_of(name)
            found = [known.get((row, each.uid)) for each in meta.pods or ()]
            if None in found:
                uids = ", ".join(each.uid for each in meta.pods or ())
                return (
                    f"an extender claims to preempt pods (UID: {uids}) on node: {name}, but they are"
                    " not all found on that node"
                )
            pod_rows = np.array([pod.pod_row for pod in found if pod is not None], np.intp)
            are_there = bool((pods.node_row[pod_rows] == row).all())
            if not are_there or not self._makes_room(task, row, pod_rows):
                # Pods have come to the node or left it, or it is another, since they were asked?
                changed = changes.rows()
                if changed is not None and row not in changed:
                    return f"the pods that an extender wants gone from node {name} do not make room"
                is_outdated = True
                continue
            violations, count = np.array([meta.num_pdb_violations]), np.array([len(pod_rows)])
            left.append(Candidates(np.array([row], np.intp), violations, count, pod_rows))
        return None if is_outdated and not left else joined(left)

    # On the copy as it is -------------------------------------------------------------------------

    def _nominated_node(self, task: ExtendedTask) -> str:
        """The node that the pod is nominated to, if it takes the pod; else empty."""
        row = self._nominated_row(_plain(task)) if task.is_nominated else -1
        return "" if row < 0 else self._replica.nodes.name_of(row)

    def _feasible_nodes(self, task: ExtendedTask) -> list[str]:
        """The nodes that pass the filters; none if a filter failed."""
        evaluation = self._evaluation(task)
        if evaluation.pod.has_failed and evaluation.fit_error().error:
            return []
        rows = np.flatnonzero(evaluation.feasible)
        return [self._replica.nodes.name_of(row) for row in rows.tolist()]

    def _best_among(self, task: ExtendedTask, verdicts: ExtenderVerdicts) -> int | Failure | None:
        """The row of the best node that extenders left and that is still feasible; None if there is
        none any more, a failure if the nodes cannot be rated."""
        evaluation = self._evaluation(task)
        nodes = self._replica.nodes
        rows = np.sort(self._rows_of(verdicts.passing))
        rows = rows[evaluation.feasible[rows]]
        if not len(rows):
            return None
        row = int(rows[0])
        if len(rows) > 1:
            try:
                total = self._totals(evaluation, rows, are_bare=verdicts.are_bare)
            except PreScoreError as error:
                return _error(task, str(error))
            if total.max() >= INVALID:
                return _error(task, invalid_score(evaluation.pod, rows))
            scores = (verdicts.scores.get(nodes.name_of(r), 0) for r in rows.tolist())
            total += np.fromiter(scores, np.int64, len(rows))
            ties = rows[total == total.max()]
            row = int(ties[0]) if len(ties) == 1 else self._among(ties, task.ticket)
        return row

    def search_room(
        self, task: ExtendedTask, verdicts: ExtenderVerdicts | None, room_maker: RoomMaker
    ) -> RoomSearch:
        """What could be done for a pod that nothing was left for; nothing is taken yet."""
        evaluation = self._evaluation(task)
        refusals = None if verdicts is None else self._refusals(verdicts)
        return room_maker.attempt(_plain(task), evaluation, refusals)

    def failure(self, task: ExtendedTask, search: RoomSearch, room_maker: RoomMaker) -> Failure:
        """What the owner is told of it."""
        if not len(self._replica.nodes.order):
            return Failure([task.ticket], NO_NODES, ends_nomination=True)
        return room_maker.conclude(_plain(task), self._evaluation(task), search)

    def _makes_room(self, task: ExtendedTask, row: int, victims: Rows) -> bool:
        """Whether the pod fits without these pods, all of them less important and still there."""
        evaluation = self._evaluation(task)
        view = self._replica.view
        priorities = view.usages.priorities(view.pods.class_id[victims])
        if (priorities >= evaluation.pod.info.priority).any():
            return False
        return fits_without(evaluation.pod, row, victims)

    def _evaluation(self, task: ExtendedTask) -> Evaluation:
        pod_class = self._replica.classes[task.class_id]
        return self._evaluated(task.class_id, pod_class, _plain(task).uid)

    def _totals(self, evaluation: Evaluation, rows: Rows, *, are_bare: bool) -> Int64s:
        """What the plugins say of these rows, normalised over them alone."""
        scores, view = evaluation.scores, self._replica.view
        if scores is None or are_bare or len(rows) != evaluation.feasible_count:
            allowed = np.zeros_like(evaluation.feasible)
            allowed[rows] = True
            with WhatIf(view, rows, with_pods=False) as what_if:
                if are_bare:
                    what_if.bare()
                scores = ClassScores(evaluation.pod, evaluation.filters.static_ok, allowed)
        totals: Int64s = scores.total[rows]
        return totals

    def _refusals(self, verdicts: ExtenderVerdicts) -> Refusals:
        named = self._rows_of((*verdicts.refused, *verdicts.unresolvable))
        return Refusals(verdicts.reasons(), named, self._rows_of(verdicts.refused))

    def _rows_of(self, names: Iterable[str]) -> Rows:
        """Of those of the nodes that are there."""
        rows = np.array([self._replica.nodes.row_of(name) for name in names], np.intp)
        return rows[rows >= 0]

    # Ends ----------------------------------------------------------------------------------------

    def _end(self, task: ExtendedTask, became: _Became = None, generation: int = 0) -> Proposals:
        """Takes this row, or says why there is none. `generation`: as in `_steps`."""
        replica, placements = self._replica, Placements([], [])
        if isinstance(became, int):
            self._put(_plain(task), became, placements)
        replica.proposal_sequence += 1
        return Proposals(
            replica.epoch,
            NO_BATCH,
            replica.proposal_sequence - 1,
            generation or replica.generation,
            placements,
            [became] if isinstance(became, Failure) else [],
            [task.ticket] if became is None else [],
        )

    def _interested(
        self, task: ExtendedTask, does: Callable[[ExtenderConfig], bool]
    ) -> tuple[int, ...]:
        spec = self._replica.classes[task.class_id].info.spec
        return tuple(
            i for i, each in enumerate(self._extenders) if does(each) and is_interested(each, spec)
        )


def _plain(task: ExtendedTask) -> PodTask:
    return PodTask(task.ticket, task.class_id, task.uid if task.is_nominated else "")


def _next(
    steps: Steps[T], answer: ExtenderAnswer | PodsOnNodes | None
) -> Question | AskForPods | T:
    """What is asked next, or the end."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        came_to: T = end.value
        return came_to


def _error(task: ExtendedTask, text: str) -> Failure:
    return Failure([task.ticket], text, is_error=True, ends_nomination=True)


def _pod_name(task: ExtendedTask) -> PodName:
    return PodName(task.namespace, task.name, task.uid)
