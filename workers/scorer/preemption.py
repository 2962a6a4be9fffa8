"""What a worker says of a pod that fits nowhere: why, and which pods would have to go.

The search is the profile's PostFilter (`shared.framework.post_filter`). Here it is made part of a
batch: room that was found for one pod is kept from the next ones by a nomination of the worker's own,
until the owner has settled the proposal.
"""

from collections.abc import Callable
from typing import Final

from shared.columns.nominations import Nomination
from shared.columns.schema import Rows
from shared.framework.engine import ClassEvaluation, Engine
from shared.framework.preemption import Preemptor
from shared.messages.from_scorer import Failure, PreemptionProposal
from shared.messages.to_scorer import PodTask
from workers.scorer.replica import Replica

SEARCHES_MAX: Final = 16
"""In one batch. A search takes some 10 ms at 5,000 nodes; what more pods find on a copy that is so
much older is likely to be refused."""

AmongTies = Callable[[Rows, int], int]
"""Rows that are equally good, and the ticket -> one of the rows."""


class RoomMaker:
    """The preemptions of one batch."""

    def __init__(
        self,
        engine: Engine,
        replica: Replica,
        seed: int,
        proposal_sequence: int,
        among_ties: AmongTies,
    ) -> None:
        self._engine = engine
        self._replica = replica
        self._seed = seed
        self._proposal_sequence = proposal_sequence
        self._among_ties = among_ties
        self._found_count = 0

    @property
    def is_tired(self) -> bool:
        """So much was found that the owner should hear of it first."""
        return self._found_count >= SEARCHES_MAX

    def failure(self, task: PodTask, evaluation: ClassEvaluation) -> Failure:
        """Why the pod fits nowhere, and how room can be made for it."""
        fit_error = self._engine.failure(evaluation)
        plugins, pending = sorted(fit_error.plugins), sorted(fit_error.pending_plugins)
        if fit_error.error:
            return Failure([task.ticket], fit_error.error, plugins, pending, is_error=True)
        if not len(self._replica.nodes.order) or not evaluation.framework.post_filters:
            return Failure([task.ticket], fit_error.message(), plugins, pending, is_error=False)
        info = evaluation.info
        row = self._replica.view.nominations.row_of(task.uid)
        result = self._engine.post_filter(
            evaluation,
            Preemptor(info, task.uid, row, bool(task.uid)),
            lambda ties: self._among_ties(ties, task.ticket),
            # Another place to begin for each pod, so that they do not all meet on the same nodes.
            offset=(self._seed + task.ticket) * 7919,
        )
        preemption = result.preemption
        proposal = None
        if preemption is not None and preemption.best is not None:
            best = preemption.best
            proposal = PreemptionProposal(best.row, list(best.victims))
            self._found_count += 1
            self._replica.nominate(
                Nomination(
                    task.uid or f"ticket {task.ticket}", task.class_id, info.priority, best.row
                ),
                self._proposal_sequence,
            )
        return Failure(
            tickets=[task.ticket],
            message=fit_error.message(result.status.message),
            plugins=plugins,
            pending_plugins=pending,
            is_error=False,
            preemption=proposal,
            ends_nomination=preemption is not None and preemption.ends_nomination,
        )
