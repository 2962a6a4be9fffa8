"""The scheduling cycle of a scorer: a batch of pods, each placed on top of the one before.

Pure: a replica and a batch in, proposals out. START READING HERE.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from shared.columns.nomination_columns import Nomination
from shared.columns.schema import NO_NODE as NOT_NOMINATED
from shared.columns.schema import Rows
from shared.dra.device_index import takes_devices
from shared.dra.search_work import BATCH_STEPS_MAX, StepsTried
from shared.engine.best_rows import Ties
from shared.engine.evaluation import Evaluation
from shared.errors import ObjectError
from shared.faults import changing, reading
from shared.framework.plugin_api import ReservePlugin
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import Failure, Forecast, Placements, Proposals
from shared.messages.to_scorer import PodTask, SchedulePods, TaskRun
from workers.scorer.engine import BY_NAME, BY_SEED, Choice, Engine, NodeSample, by_seed, mix
from workers.scorer.evaluator import USUAL_LIMITS, RoomMaker, SearchLimits
from workers.scorer.group_cycle import GroupCycle, no_answers
from workers.scorer.lone_pods import LonePods
from workers.scorer.replica import NOTHING, Replica, ReplicaClass, Reserved

_NO_TEMPLATE: Final = msgspec.Raw(b"")


RUN_PODS_MIN: Final = 4
"""A run of fewer pods does not pay for its preparation."""
NO_NODES: Final = "no nodes available to schedule pods"


class ClassFailure(NamedTuple):
    """Why a class fits nowhere, within a batch."""

    failure: Failure
    placed_count: int
    """Of this scorer, when that was found."""


class Cycle:
    """Places batches on a replica. `frameworks` and `reserves` by schedulerName; `seed` breaks ties."""

    def __init__(
        self,
        replica: Replica,
        frameworks: dict[str, Framework],
        seed: int,
        tie_break: str = BY_SEED,
        reserves: Mapping[str, Sequence[ReservePlugin]] | None = None,
        began: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`began` is told of each ticket whose evaluation begins: of it alone, or of the run of equal
        pods that it is the first of."""
        self._replica = replica
        self._frameworks = frameworks
        self._seed = seed
        self._tie_break = tie_break
        self._reserves = reserves or {}
        self.began = began
        self._sample = NodeSample()
        self.start_over()

    def start_over(self) -> None:
        """The replica was replaced as a whole."""
        view = self._replica.view
        self._engine = Engine(view, self._frameworks, sample=self._sample)
        self._lone_pods = LonePods(view, self._frameworks, self._engine)
        # Of another owner, the same number may be that of other pods.
        self._last_class_id = 0

    def run(self, batch: SchedulePods) -> Proposals:
        """An answer to every task. Of a group that cannot be placed as a whole, or has to wait for room,
        nothing stays on the copy."""
        self._forget_retired()
        if batch.group is None:
            answers = self._run(batch, USUAL_LIMITS)
        else:
            is_by_name = self._tie_break == BY_NAME
            chosen = 0 if is_by_name else mix(self._seed, batch.first_ticket)
            place = self._place_group
            with self._replica.objects.for_one_group():
                answers = GroupCycle(batch, self._replica, self._engine, place, chosen).run()
        self._replica.proposal_sequence += 1
        return answers

    def _place_group(
        self, batch: SchedulePods, rows: Rows | None, limits: SearchLimits
    ) -> Proposals:
        """As `PlaceGroup` has it."""
        if rows is None:
            return self._run(batch, limits)
        engine = self._engine
        try:
            with engine.within(rows):
                return self._run(batch, limits)
        finally:
            if self._engine is not engine:
                self.start_over()  # Something could not be evaluated, and this one knows `rows` alone.

    def _run(self, batch: SchedulePods, limits: SearchLimits) -> Proposals:
        if batch.runs and not batch.asked:
            self._last_class_id = batch.runs[-1].class_id
        answers = no_answers(self._replica, batch)
        failed: dict[int, ClassFailure] = {}
        open_classes: set[int] = set()
        room_maker = self._room_maker(limits)
        # By searches of devices: where these are long, the owner should hear of what was found before
        # all pods of the batch have been looked at.
        tried = self._replica.view.derived(StepsTried)
        steps_max = tried.count + BATCH_STEPS_MAX
        for task in self._one_by_one(batch, answers.placements):
            is_enough = batch.group is None and tried.count > steps_max
            pod_class = self._replica.classes.get(task.class_id)
            if pod_class is None or is_enough:
                answers.skipped.append(task.ticket)
                continue
            self.began(task.ticket)
            known = None if task.uid else failed.get(task.class_id)
            try:
                with reading("ticket", task.ticket):
                    failure = self._answer(
                        task, pod_class, room_maker, answers, known, open_classes
                    )
            except ObjectError as error:
                failure = self.left_out(task.ticket, error)
                answers.failures.append(failure)
                room_maker = self._room_maker(limits)
                tried = self._replica.view.derived(StepsTried)
            if failure is not None and failure.preemption is None and not task.uid:
                failed[task.class_id] = ClassFailure(
                    failure, self._replica.view.tentative.row_count
                )
        return answers

    def _answer(
        self,
        task: PodTask,
        pod_class: ReplicaClass,
        room_maker: RoomMaker,
        answers: Proposals,
        known: ClassFailure | None,
        open_classes: set[int],
    ) -> Failure | None:
        """Adds what becomes of one pod to the answers; returns its failure if it is a new one. `known`:
        that of another pod of the class."""
        if known is not None and known.failure.is_error:
            known.failure.tickets.append(task.ticket)
            return None
        placed = self._choice(task, pod_class)
        if isinstance(placed, Choice):
            self._put(task, placed.row, answers.placements)
            return None
        if not self._replica.view.node_count:
            # Nobody rejected it, so no plugin is asked what would help (ErrNoNodesAvailable).
            failure = Failure([task.ticket], NO_NODES, ends_nomination=True)
        elif (
            known is not None
            and placed.pod.framework.fails_by_class
            and not (placed.is_wide and known.placed_count < self._replica.view.tentative.row_count)
        ):
            # Within a batch nodes only fill up: what fitted nowhere still does, and neither will
            # there be more that could go. But whoever came may be whom an affinity was waiting for, and
            # then it is room that is short.
            known.failure.tickets.append(task.ticket)
            return None
        elif (
            room_maker.has_searched_enough and not placed.is_error
        ) or task.class_id in open_classes:
            answers.skipped.append(task.ticket)
            return None
        else:
            search = room_maker.attempt(task, placed)
            if search.is_open:
                answers.skipped.append(task.ticket)
                open_classes.add(task.class_id)
                return None
            failure = room_maker.conclude(task, placed, search)
        answers.failures.append(failure)
        return failure

    def left_out(self, ticket: int, error: ObjectError) -> Failure:
        """The answer to a pod that nobody knows how to evaluate. What was worked out so far is worked
        out anew: half of it may be of that pod."""
        self._replica.forget_assumed(f"ticket {ticket}")
        self._replica.view.forget_derived()
        self.start_over()
        return Failure([ticket], error.told(), is_error=True, ends_nomination=True)

    def foresee(self, count: int = 1) -> Forecast | None:
        """Evaluates the class of the last pod ahead of the next ones, up to `count`, which are likely of
        it too; and finds out which nodes are alike, which any class wants to know. None where it cannot
        be said where the next pod would go. Nothing may be placed here that is not settled."""
        self._forget_retired()
        if not self._engine.states.are_many:
            self._engine.states.follow()
        class_id = self._last_class_id
        pod_class = self._replica.classes.get(class_id)
        if pod_class is None or class_id not in self._engine.evaluations:
            return None
        try:
            with reading("class", class_id):
                return self._foreseen(class_id, pod_class, count)
        except ObjectError as error:
            self.left_out(self._replica.next_ticket, error)  # The next pod of the class is told.
            return None

    def _forget_retired(self) -> None:
        """Classes whose last pod is gone, as the deltas since the last time say. At each batch, and in
        calm too: a scorer may be without work for as long as it likes."""
        for class_id in self._replica.newly_retired:
            self._engine.evaluations.forget(class_id)
        self._replica.newly_retired.clear()

    def _foreseen(self, class_id: int, pod_class: ReplicaClass, count: int) -> Forecast | None:
        evaluation = self._evaluated(class_id, pod_class)
        if evaluation.pod.framework.sampling is not None:
            return None  # Looking at nodes moves on the place where the next look begins.
        replica, ticket = self._replica, self._replica.next_ticket
        placements = Placements([], [])
        if count > 1:
            mark = replica.mark()
            self._place_run(TaskRun(class_id, count), ticket, placements)
            replica.roll_back(mark)
            evaluation = self._evaluated(class_id, pod_class)
        rows = placements.node_rows
        if not rows:
            choice = self._engine.choose(evaluation, partial(self._among, ticket=ticket))
            rows = [] if choice is None else [choice.row]
        forecast = Forecast(replica.epoch, replica.sequence, ticket, class_id, rows, 0.0)
        return forecast if rows else None

    def _one_by_one(self, batch: SchedulePods, placements: Placements) -> Iterator[PodTask]:
        """Places runs of equal pods as far as that goes; yields the tasks that are left, each where
        it is next in line."""
        ticket = batch.first_ticket
        for run in batch.runs:
            end = ticket + run.count
            if run.count >= RUN_PODS_MIN:
                self.began(ticket)
                ticket = self._place_run(run, ticket, placements)
            while ticket < end:
                is_single = run.count == 1 < len(batch.runs)
                yield PodTask(ticket, run.class_id, run.uid, is_single)
                ticket += 1

    def _place_run(self, run: TaskRun, ticket: int, placements: Placements) -> int:
        """The first ticket of the run that has to be looked at by itself."""
        class_id, end = run.class_id, ticket + run.count
        pod_class = self._replica.classes.get(class_id)
        if pod_class is None:
            return ticket
        put = partial(self._replica.place_many, class_id)
        is_going = True
        while ticket < end and is_going:
            try:
                with reading("class", class_id):
                    rows, is_going = self._engine.place_run(
                        class_id, pod_class.info, pod_class.profile, pod_class.usage,
                        range(ticket, end), self._among, put,
                    ) or ([], False)  # fmt: skip
            except ObjectError as error:
                rows, is_going = [], False  # None of this run was written.
                self.left_out(ticket, error)  # Told where the next pod is looked at by itself.
            placements.tickets.extend(range(ticket, ticket + len(rows)))
            placements.node_rows.extend(rows)
            ticket += len(rows)
        return ticket

    def _room_maker(self, limits: SearchLimits = USUAL_LIMITS) -> RoomMaker:
        return RoomMaker(self._replica, self._seed, self._among, self._reserve, limits)

    def _evaluated(self, class_id: int, pod_class: ReplicaClass, uid: str = "") -> Evaluation:
        """Of the class; `uid`: of a nominated pod alone."""
        return self._engine.evaluate(class_id, pod_class.info, pod_class.profile, uid)

    def _put(self, task: PodTask, row: int, placements: Placements) -> None:
        """The pod is proposed there, and counts there from now on."""
        reserved = self._reserve(task, row)
        with changing():
            self._replica.place(task.class_id, row, reserved)
            if task.uid:
                # The room that was kept for it is taken now.
                self._replica.nominate(Nomination(task.uid, 0, 0, NOT_NOMINATED))
            placements.tickets.append(task.ticket)
            placements.node_rows.append(row)

    def _reserve(self, task: PodTask, row: int) -> Reserved:
        """Keeps the pods that follow from choosing the same volumes and devices. A refusal is left to
        the owner, which asks again."""
        pod_class = self._replica.classes[task.class_id]
        if not (pod_class.info.takes_claims or takes_devices(pod_class.info, self._replica.view)):
            return NOTHING
        uid = f"ticket {task.ticket}"
        record = PodRecord(
            namespace=pod_class.info.namespace, name="", uid=uid, resource_version="",
            node_name="", deleted="", started="", nominated_node_name="", template=_NO_TEMPLATE,
        )  # fmt: skip
        reserved = None
        for plugin in self._reserves.get(pod_class.profile, ()):
            if not plugin.reserve(record, pod_class.info, self._replica.view, row).is_success:
                break
            ask = getattr(plugin, "reserved_status", None)
            status = None if ask is None else ask(record, pod_class.info, self._replica.view)
            if status is not None:
                template = replace(pod_class.info.template, status=status)
                reserved = PodInfo(pod_class.info.namespace, template)
        return Reserved(uid, reserved)

    def _choice(self, task: PodTask, pod_class: ReplicaClass) -> Choice | Evaluation:
        """Where the pod goes, or, where it fits nowhere, the evaluation that says why."""

        tie_break = partial(self._among, ticket=task.ticket)
        is_anywhere = self._replica.view.placement is None
        if task.uid:
            row = self._nominated_row(task)
            if row >= 0:
                return Choice(row, 0, 1)
        elif is_anywhere and task.class_id not in self._engine.evaluations:
            info, profile = pod_class.info, pod_class.profile
            choice = self._lone_pods.choose(
                task.class_id, info, profile, tie_break, is_single=task.is_single
            )
            if choice is not None:
                return choice
        evaluation = self._evaluated(task.class_id, pod_class, task.uid)
        return self._engine.choose(evaluation, tie_break) or evaluation

    def _nominated_row(self, task: PodTask) -> int:
        """Of the node that the pod is nominated to, if that takes it; else -1."""
        pod_class = self._replica.classes[task.class_id]
        row = self._replica.view.nominations.row_of(task.uid)
        evaluation = self._evaluated(task.class_id, pod_class)
        return row if self._engine.takes_nominated(evaluation, row, task.uid) else -1

    def _among(self, ties: Ties, ticket: int) -> int:
        if self._tie_break == BY_NAME:
            return min(ties.tolist(), key=self._replica.nodes.name_of)
        return by_seed(ties, self._seed, ticket)
