"""Pods that wait for extenders: which are being asked about, and what comes of the answers.

Pods that no extender is interested in never come here. Of the others so many are asked about at a
time; the rest wait, the most important first, and are evaluated when their turn comes, not before.
An answer is acted on at the moment when it arrives, on the copy as it is then. No I/O here: questions
go out by `ask`, and come back as answers some time later, or never (the owner then hears no more of
the pod than that this worker is gone).

    waiting -> nominated node asked about -> feasible nodes asked about -> placed
                                                     '-> nothing left -> room searched -> failed
                                       (owner asked who the victims are, extenders asked) -'
"""

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np

from shared.columns.journal import START, Position
from shared.columns.schema import Int64s, Rows
from shared.errors import ObjectError
from shared.extenders.extender_config import ExtenderConfig
from shared.extenders.extender_verdicts import ExtenderVerdicts, is_interested
from shared.extenders.extender_wire import MetaPod, MetaVictims, PodName
from shared.faults import reading
from shared.framework.post_filter import Candidates
from shared.framework.runtime.diagnosis import FitError
from shared.framework.status import SUCCESS, Code, Status
from shared.messages.from_scorer import Failure, Placements
from shared.messages.to_scorer import ExtendedTask, PodOnNode, PodsOnNodes
from shared.plugin_names import DEFAULT_PREEMPTION
from workers.scorer.answers import BatchAnswers
from workers.scorer.extended_cycle import NO_CANDIDATE, ExtendedCycle
from workers.scorer.replica import Replica
from workers.scorer.room_maker import RoomSearch

PODS_AT_A_TIME: Final = 8
"""kube-scheduler asks about one pod after the other. With 8, an extender that takes 10 ms is no
bound below 800 pods/s, and a placement is chosen at most 7 pods after the extender saw the cluster."""


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
    pods: dict[str, PodName]
    """All victims, by uid."""


Question = FilterQuestion | PreemptQuestion


class ExtenderAnswer(NamedTuple):
    """To the question of this number."""

    number: int
    error: str = ""
    """Not empty: an extender that must not be ignored failed, or the pod could not be read."""
    verdicts: ExtenderVerdicts | None = None
    victims: dict[str, MetaVictims] | None = None


class Caller(Protocol):
    """Asks extenders; `extender_calls.ExtenderCaller` is one."""

    extenders: tuple[ExtenderConfig, ...]

    def ask(self, question: Question) -> None: ...


class Settled(NamedTuple):
    """One pod is done with."""

    answers: BatchAnswers
    generation: int
    """Of the copy that the answer holds for."""
    proposal_sequence: int


class _Open(msgspec.Struct):
    """One pod that is being asked about."""

    task: ExtendedTask
    asked: list[str]
    nominated: str = ""
    """The node, as long as only that is asked about."""
    search: RoomSearch | None = None
    generation: int = 0
    """Of the copy on which `search` was done."""
    position: Position = START
    """Of its journal then."""
    pods: dict[tuple[int, str], PodOnNode] = {}
    """(node row, uid) -> a pod that might have to go."""


class ExtendedPods:
    """All extended pods of one worker."""

    def __init__(
        self,
        cycle: ExtendedCycle,
        replica: Replica,
        caller: Caller,
        ask_for_pods: Callable[[int, int, list[int]], None],
        next_sequence: Callable[[], int],
    ) -> None:
        """`ask_for_pods(request_id, generation, node_rows)` asks the owner; `next_sequence` numbers
        proposals, in the order in which they are sent."""
        self._cycle = cycle
        self._replica = replica
        self._extenders = caller.extenders
        self._ask = caller.ask
        self._ask_for_pods = ask_for_pods
        self._next_sequence = next_sequence
        self._waiting: list[tuple[int, int, ExtendedTask]] = []
        """A heap: priority turned round, ticket."""
        self._open: dict[int, _Open] = {}
        self._next_number = 1
        self._settled: list[Settled] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._open)

    def add(self, tasks: Sequence[ExtendedTask]) -> None:
        """More pods; the copy knows their classes."""
        for task in tasks:
            info = self._cycle.info_of(task)
            priority = 0 if info is None else info.priority
            heapq.heappush(self._waiting, (-priority, task.ticket, task))

    def clear(self) -> None:
        """The owner has taken all pods back; answers that are still to come are to nobody."""
        self._waiting.clear()
        self._open.clear()
        self._settled.clear()

    def work(self, answers: Sequence[ExtenderAnswer]) -> list[Settled]:
        """Acts on answers, then begins with the next pods. The copy must be whole."""
        for answer in answers:
            opened = self._open.pop(answer.number, None)
            if opened is not None:
                self._step(opened.task, partial(self._on_answer, opened, answer))
        while self._waiting and len(self._open) < PODS_AT_A_TIME:
            task = heapq.heappop(self._waiting)[2]
            self._step(task, partial(self._begin, task))
        settled, self._settled = self._settled, []
        return settled

    def _step(self, task: ExtendedTask, step: Callable[[], None]) -> None:
        """One step with a pod; one that cannot be evaluated is answered so."""
        try:
            with reading("ticket", task.ticket):
                step()
        except ObjectError as error:
            self._fail(self._cycle.left_out(task.ticket, error))

    # Filter and prioritize -----------------------------------------------------------------------

    def _begin(self, task: ExtendedTask) -> None:
        self._cycle.began(task.ticket)
        if self._cycle.info_of(task) is None:
            self._skip(task)
            return
        node = self._cycle.nominated_node(task)
        if node:
            self._ask_about(_Open(task, [node], nominated=node))
        else:
            self._ask_about_all(task)

    def _ask_about_all(self, task: ExtendedTask) -> None:
        names = self._cycle.feasible_nodes(task)
        if names:
            self._ask_about(_Open(task, names))
        else:
            self._on_nothing_left(task, None)

    def _ask_about(self, opened: _Open) -> None:
        extenders = self._interested(
            opened.task, lambda each: bool(each.filter_verb or each.prioritize_verb)
        )
        if not extenders:
            self._on_verdicts(opened, ExtenderVerdicts(opened.asked))
            return
        number = self._number(opened)
        self._ask(FilterQuestion(number, _pod_name(opened.task), extenders, opened.asked))

    def _on_answer(self, opened: _Open, answer: ExtenderAnswer) -> None:
        task = opened.task
        self._cycle.began(task.ticket)
        if self._cycle.info_of(task) is None:
            self._skip(task)
        elif opened.search is not None:
            self._on_victims(opened, opened.search, answer)
        elif opened.nominated:
            self._on_nominated(opened, answer)
        elif answer.error:
            self._fail(Failure([task.ticket], answer.error, [], [], is_error=True))
        else:
            assert answer.verdicts is not None, "a filter question has a filter answer"
            self._on_verdicts(opened, answer.verdicts)

    def _on_nominated(self, opened: _Open, answer: ExtenderAnswer) -> None:
        """Whatever is wrong with the nominated node, there may be others (evaluateNominatedNode)."""
        task, verdicts = opened.task, answer.verdicts
        if verdicts is not None and verdicts.passing == [opened.nominated]:
            sequence = self._next_sequence()
            row = self._cycle.place_on_nominated(task, opened.nominated, sequence)
            if row >= 0:
                self._placed(task, row, sequence)
                return
        self._ask_about_all(task)

    def _on_verdicts(self, opened: _Open, verdicts: ExtenderVerdicts) -> None:
        task = opened.task
        if not verdicts.passing:
            self._on_nothing_left(task, verdicts)
            return
        sequence = self._next_sequence()
        row = self._cycle.place_among(task, verdicts, sequence)
        if isinstance(row, FitError):
            self._fail(Failure([task.ticket], row.error, [], [], is_error=True))
        elif row < 0:
            # What the extenders left has filled up meanwhile; the pod is tried again at once.
            self._skip(task)
        else:
            self._placed(task, row, sequence)

    # Preempt -------------------------------------------------------------------------------------

    def _on_nothing_left(self, task: ExtendedTask, verdicts: ExtenderVerdicts | None) -> None:
        search = self._cycle.search_room(task, verdicts)
        if search.is_open:
            self._skip(task)
            return
        preemption = None if search.result is None else search.result.preemption
        asked = self._interested(task, lambda each: bool(each.preempt_verb))
        if preemption is None or preemption.best is None or not asked:
            self._conclude(task, search, self._replica.generation)
            return
        generation = self._replica.generation
        position = self._replica.journal.position
        opened = _Open(task, [], search=search, generation=generation, position=position)
        number = self._number(opened)
        self._ask_for_pods(number, generation, preemption.candidates.rows.tolist())

    def on_pods(self, message: PodsOnNodes) -> None:
        """The owner has told who the victims are: now the extenders can be asked."""
        opened = self._open.pop(message.request_id, None)
        if opened is not None:
            self._step(opened.task, partial(self._ask_about_victims, opened, message))

    def _ask_about_victims(self, opened: _Open, message: PodsOnNodes) -> None:
        if self._cycle.info_of(opened.task) is None:
            self._skip(opened.task)
            return
        assert opened.search is not None, "only a search asks for pods"
        result = opened.search.result
        assert result is not None, "a search that found something"
        assert result.preemption is not None, "a search that found something"
        opened.pods = {(pod.node_row, pod.uid): pod for pod in message.pods}
        by_row = {pod.pod_row: pod for pod in message.pods}
        victims: dict[str, MetaVictims] = {}
        for candidate in result.preemption.candidates.all():
            if all(row in by_row for row in candidate.victims):
                meta = [MetaPod(by_row[row].uid) for row in candidate.victims]
                name = self._replica.nodes.name_of(candidate.row)
                victims[name] = MetaVictims(meta, candidate.pdb_violations)
        if not victims:
            self._skip(opened.task)  # They have all changed since; the pod is tried again at once.
            return
        self._ask(
            PreemptQuestion(
                self._number(opened),
                _pod_name(opened.task),
                self._interested(opened.task, lambda each: bool(each.preempt_verb)),
                victims,
                {pod.uid: PodName(pod.namespace, pod.name, pod.uid) for pod in message.pods},
            )
        )

    def _on_victims(self, opened: _Open, search: RoomSearch, answer: ExtenderAnswer) -> None:
        result = search.result
        assert result is not None, "extenders were asked about a result"
        assert result.preemption is not None, "extenders were asked about a result"
        status, best = Status(Code.ERROR, (answer.error,)), None
        if not answer.error:
            candidates = self._candidates(opened, answer.victims or {})
            if candidates is None:
                self._skip(opened.task)
                return
            if isinstance(candidates, str):
                status = Status(Code.ERROR, (candidates,))
            elif len(candidates.rows):
                status, best = SUCCESS, self._cycle.best_of(opened.task, candidates)
            else:
                status = Status(Code.UNSCHEDULABLE, (NO_CANDIDATE,))
        if not status.is_success:
            # An error is told alone.
            before = result.said_before if status.is_rejected else ()
            told = (*before, f"preemption: {status.message}")
            status = Status(status.code, told, DEFAULT_PREEMPTION)
        preemption = result.preemption._replace(status=status, best=best)
        result = result._replace(status=status, preemption=preemption)
        self._conclude(opened.task, search._replace(result=result), opened.generation)

    def _candidates(
        self, opened: _Open, victims: dict[str, MetaVictims]
    ) -> Candidates | str | None:
        """What extenders left, as rows; or what is wrong with it. None where nothing of it would make
        room as things are now, which have changed since they were asked: the pod is tried again."""
        pods, nodes = self._replica.view.pods, self._replica.nodes
        is_outdated = False
        rows: list[int] = []
        violations: list[int] = []
        chosen: list[Rows] = []
        for name, meta in victims.items():
            row = nodes.row_of(name)
            found = [opened.pods.get((row, each.uid)) for each in meta.pods or ()]
            if None in found:
                uids = ", ".join(each.uid for each in meta.pods or ())
                return (
                    f"an extender claims to preempt pods (UID: {uids}) on node: {name}, but they are"
                    " not all found on that node"
                )
            pod_rows = np.array([pod.pod_row for pod in found if pod is not None], np.intp)
            are_there = bool((pods.node_row[pod_rows] == row).all())
            if not are_there or not self._cycle.makes_room(opened.task, row, pod_rows):
                if not self._has_changed(row, opened.position):
                    return f"the pods that an extender wants gone from node {name} do not make room"
                is_outdated = True
                continue
            rows.append(row)
            violations.append(meta.num_pdb_violations)
            chosen.append(pod_rows)
        if is_outdated and not rows:
            return None
        counts: Int64s = np.array([len(each) for each in chosen], np.int64)
        flat = np.concatenate(chosen) if chosen else np.zeros(0, np.intp)
        return Candidates(np.array(rows, np.intp), np.array(violations, np.int64), counts, flat)

    def _has_changed(self, row: int, position: Position) -> bool:
        """Whether pods have come to the node or left it, or the node itself is another."""
        changes = self._replica.journal.since(position)
        return changes is None or row in changes.usage_rows or row in changes.node_rows

    # Ends ----------------------------------------------------------------------------------------

    def _conclude(self, task: ExtendedTask, search: RoomSearch, generation: int) -> None:
        sequence = self._next_sequence()
        failure = self._cycle.failure(task, search, sequence)
        self._settled.append(Settled(_failed(failure), generation, sequence))

    def _fail(self, failure: Failure) -> None:
        generation, sequence = self._replica.generation, self._next_sequence()
        self._settled.append(Settled(_failed(failure), generation, sequence))

    def _placed(self, task: ExtendedTask, row: int, sequence: int) -> None:
        answers = BatchAnswers(Placements([task.ticket], [row]), [], [])
        self._settled.append(Settled(answers, self._replica.generation, sequence))

    def _skip(self, task: ExtendedTask) -> None:
        answers = BatchAnswers(Placements([], []), [], [task.ticket])
        settled = Settled(answers, self._replica.generation, self._next_sequence())
        self._settled.append(settled)

    def _number(self, opened: _Open) -> int:
        number = self._next_number
        self._next_number += 1
        self._open[number] = opened
        return number

    def _interested(
        self, task: ExtendedTask, does: Callable[[ExtenderConfig], bool]
    ) -> tuple[int, ...]:
        info = self._cycle.info_of(task)
        assert info is not None, "asked about a pod whose class is known"
        return tuple(
            i for i, each in enumerate(self._extenders) if does(each) and is_interested(each, info)
        )


def _failed(failure: Failure) -> BatchAnswers:
    return BatchAnswers(Placements([], []), [failure], [])


def _pod_name(task: ExtendedTask) -> PodName:
    return PodName(task.namespace, task.name, task.uid)
