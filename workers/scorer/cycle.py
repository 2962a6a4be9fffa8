"""The scheduling cycle of a worker: a batch of pods, each placed on top of the one before.

Pure: a replica and a batch in, proposals out. START READING HERE.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from shared.columns.schema import Rows
from shared.framework.engine import Choice, ClassEvaluation, Engine
from shared.framework.plugin_api import ReservePlugin
from shared.framework.runtime import Framework
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import Failure, Placement
from shared.messages.to_scorer import PodTask, SchedulePods
from workers.scorer.preemption import RoomMaker
from workers.scorer.replica import Replica, ReplicaClass
from workers.scorer.tie_break import BY_NAME, BY_SEED, by_seed, first_by_name

_NO_TEMPLATE: Final = msgspec.Raw(b"")


NO_NODES: Final = "no nodes available to schedule pods"


class Answers(NamedTuple):
    """What became of a batch."""

    placements: list[Placement]
    """In task order."""
    failures: list[Failure]
    """One for all tickets of a class that fit nowhere."""
    skipped: list[int]
    """Tickets whose class is not known any more."""


class Cycle:
    """Places batches on a replica. `frameworks` and `reserves` by schedulerName; `seed` breaks ties."""

    def __init__(
        self,
        replica: Replica,
        frameworks: dict[str, Framework],
        seed: int,
        tie_break: str = BY_SEED,
        reserves: Mapping[str, Sequence[ReservePlugin]] | None = None,
    ) -> None:
        self._replica = replica
        self._frameworks = frameworks
        self._seed = seed
        self._tie_break = tie_break
        self._reserves = reserves or {}
        self.start_over()

    def start_over(self) -> None:
        """The replica was replaced as a whole."""
        self._engine = Engine(self._replica.view, self._replica.journal, self._frameworks)

    def run(self, batch: SchedulePods, proposal_sequence: int) -> Answers:
        """An answer to every task."""
        for class_id in self._replica.newly_retired:
            self._engine.forget(class_id)
        self._replica.newly_retired.clear()
        placements: list[Placement] = []
        failed: dict[int, Failure] = {}
        failures: list[Failure] = []
        skipped: list[int] = []
        room_maker = self._room_maker(proposal_sequence)
        for task in batch.tasks:
            pod_class = self._replica.classes.get(task.class_id)
            if pod_class is None:
                skipped.append(task.ticket)
                continue
            placement = self._place(task, pod_class, proposal_sequence)
            if placement is not None:
                placements.append(placement)
            elif not len(self._replica.nodes.order):
                # Nobody rejected it, so no plugin is asked what would help (ErrNoNodesAvailable).
                failures.append(Failure([task.ticket], NO_NODES, [], [], False))
            elif task.class_id in failed and not task.uid:
                # Within a batch nodes only fill up: what fitted nowhere still does, and neither will
                # there be more that could go.
                failed[task.class_id].tickets.append(task.ticket)
            elif room_maker.is_tired:
                skipped.append(task.ticket)
            else:
                evaluation = self._evaluated(task, pod_class)
                failure = room_maker.failure(task, evaluation)
                failures.append(failure)
                if failure.preemption is None and not task.uid:
                    failed[task.class_id] = failure
        return Answers(placements, failures, skipped)

    def _room_maker(self, proposal_sequence: int) -> RoomMaker:
        return RoomMaker(self._engine, self._replica, self._seed, proposal_sequence, self._among)

    def _evaluated(self, task: PodTask, pod_class: ReplicaClass) -> ClassEvaluation:
        """Of the class, or for a nominated pod of the pod alone."""
        if task.uid:
            return self._engine.evaluate_alone(pod_class.info, pod_class.profile, task.uid)
        return self._engine.evaluate(task.class_id, pod_class.info, pod_class.profile)

    def _place(
        self, task: PodTask, pod_class: ReplicaClass, proposal_sequence: int
    ) -> Placement | None:
        choice = self._choice(task, pod_class)
        if choice is None:
            return None
        uid = ""
        if pod_class.info.takes_claims:
            uid = f"ticket {task.ticket}"
            self._reserve(pod_class, choice.row, uid)
        self._replica.place(task.class_id, choice.row, proposal_sequence, uid)
        if task.uid:
            self._replica.take_nomination(task.uid, proposal_sequence)
        evaluated = len(self._replica.nodes.order)
        return Placement(task.ticket, choice.row, choice.score, choice.feasible_count, evaluated)

    def _reserve(self, pod_class: ReplicaClass, row: int, uid: str) -> None:
        """Keeps the pods that follow from choosing the same volumes. A refusal is left to the owner,
        which asks again."""
        record = PodRecord(
            namespace=pod_class.info.namespace, name="", uid=uid, resource_version="",
            node_name="", phase="", created="", deleted="", started="", nominated_node_name="",
            template=_NO_TEMPLATE,
        )  # fmt: skip
        for plugin in self._reserves.get(pod_class.profile, ()):
            if not plugin.reserve(record, pod_class.info, self._replica.view, row).is_success:
                return

    def _choice(self, task: PodTask, pod_class: ReplicaClass) -> Choice | None:
        evaluation = self._engine.evaluate(task.class_id, pod_class.info, pod_class.profile)
        if task.uid:
            row = self._replica.view.nominations.row_of(task.uid)
            if self._engine.takes_nominated(evaluation, row, task.uid):
                return Choice(row, 0, 1)
            evaluation = self._evaluated(task, pod_class)
        return self._engine.choose(evaluation, lambda ties: self._among(ties, task.ticket))

    def _among(self, ties: Rows, ticket: int) -> int:
        if self._tie_break == BY_NAME:
            return first_by_name(ties, self._replica.nodes)
        return by_seed(ties, self._seed, ticket)
