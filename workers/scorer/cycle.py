"""The scheduling cycle of a worker: a batch of pods, each placed on top of the one before.

Pure: a replica and a batch in, proposals out. START READING HERE.
"""

from typing import NamedTuple

from shared.columns.schema import Rows
from shared.framework.engine import Engine
from shared.framework.runtime import Framework
from shared.messages.from_scorer import Failure, Placement
from shared.messages.to_scorer import PodTask, SchedulePods
from workers.scorer.replica import Replica, ReplicaClass
from workers.scorer.tie_break import BY_NAME, BY_SEED, by_seed, first_by_name


class Answers(NamedTuple):
    """What became of a batch."""

    placements: list[Placement]
    """In task order."""
    failures: list[Failure]
    """One for all tickets of a class that fit nowhere."""
    skipped: list[int]
    """Tickets whose class is not known any more."""


class Cycle:
    """Places batches on a replica. `frameworks` by schedulerName; `seed` breaks ties."""

    def __init__(
        self,
        replica: Replica,
        frameworks: dict[str, Framework],
        seed: int,
        tie_break: str = BY_SEED,
    ) -> None:
        self._replica = replica
        self._frameworks = frameworks
        self._seed = seed
        self._tie_break = tie_break
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
        skipped: list[int] = []
        for task in batch.tasks:
            pod_class = self._replica.classes.get(task.class_id)
            if pod_class is None:
                skipped.append(task.ticket)
                continue
            placement = self._place(task, pod_class, proposal_sequence)
            if placement is not None:
                placements.append(placement)
            elif task.class_id in failed:
                # Within a batch nodes only fill up: what fitted nowhere still does.
                failed[task.class_id].tickets.append(task.ticket)
            else:
                failed[task.class_id] = self._failure(task, pod_class)
        return Answers(placements, list(failed.values()), skipped)

    def _place(
        self, task: PodTask, pod_class: ReplicaClass, proposal_sequence: int
    ) -> Placement | None:
        evaluation = self._engine.evaluate(task.class_id, pod_class.info, pod_class.profile)
        choice = self._engine.choose(evaluation, lambda ties: self._among(ties, task.ticket))
        if choice is None:
            return None
        self._replica.place(task.class_id, choice.row, proposal_sequence)
        evaluated = len(self._replica.nodes.order)
        return Placement(task.ticket, choice.row, choice.score, choice.feasible_count, evaluated)

    def _among(self, ties: Rows, ticket: int) -> int:
        if self._tie_break == BY_NAME:
            return first_by_name(ties, self._replica.nodes)
        return by_seed(ties, self._seed, ticket)

    def _failure(self, task: PodTask, pod_class: ReplicaClass) -> Failure:
        evaluation = self._engine.evaluate(task.class_id, pod_class.info, pod_class.profile)
        fit_error = self._engine.failure(evaluation)
        return Failure(
            tickets=[task.ticket],
            message=fit_error.error or fit_error.message(),
            plugins=sorted(fit_error.plugins),
            pending_plugins=sorted(fit_error.pending_plugins),
            is_error=bool(fit_error.error),
        )
