"""What a scorer says of a pod that fits nowhere: why, and which pods would have to go.

The search is `evaluator.py`, by way of the profile's PostFilter. Here it is made part of a
batch: room that was found for one pod is kept from the next ones by a nomination of the scorer's own,
until the owner has settled the proposal.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from shared.columns.nomination_columns import NO_NODE, Nomination
from shared.columns.schema import NO_ROWS, Rows
from shared.engine.evaluation import Evaluation
from shared.extenders.extender_config import EXTENDER
from shared.faults import changing
from shared.framework.post_filter import PostFilterResult
from shared.framework.runtime.diagnosis import FitError, reasons_of
from shared.framework.runtime.filter_outcomes import told_of
from shared.messages.from_scorer import Failure, PreemptionProposal
from shared.messages.to_scorer import PodTask
from workers.scorer.evaluator import post_filter
from workers.scorer.replica import Replica
from workers.scorer.tie_break import RunTieBreak

SEARCHES_MAX: Final = 64
"""In one batch. A search takes about 1 ms at 5,000 nodes; what more pods find on a copy that is so much
older is likely to be refused."""
WIDE_SEARCH_WEIGHT: Final = 8
"""A search for a pod for which pods elsewhere count takes 6 to 30 ms, and is so many."""


class SearchLimits(NamedTuple):
    """What a batch may ask for."""

    searches_max: int = SEARCHES_MAX
    forbidden: str = ""
    """Why nobody has to go for its pods; empty: somebody may."""
    takes_room: bool = False
    """Who has others go counts as placed there for those that follow, which may need it near, or the
    devices that it takes (`podGroupPodSchedulingAlgorithm` in schedule_one_podgroup.go)."""


USUAL_LIMITS: Final = SearchLimits()


class Refusals(NamedTuple):
    """What extenders had against nodes. On those it is their word that counts, also where filters had
    something against them (findNodesThatPassExtenders in schedule_one.go)."""

    reasons: Counter[str]
    """Also of nodes that do not exist: kube-scheduler counts them."""
    named: Rows
    rows: Rows
    """Those of them that might be won by removing pods."""


class RoomSearch(NamedTuple):
    """What was found for a pod that fits nowhere."""

    fit_error: FitError
    result: PostFilterResult | None = None
    """None: nothing was looked for."""

    @property
    def is_open(self) -> bool:
        """No answer yet: less important pods that this scorer placed itself are in the way, and the
        owner has not confirmed them."""
        preemption = None if self.result is None else self.result.preemption
        return preemption is not None and preemption.is_open


class RoomMaker:
    """The preemptions of one batch."""

    def __init__(
        self,
        replica: Replica,
        seed: int,
        proposal_sequence: int,
        tie_break: RunTieBreak,
        reserve: Callable[[PodTask, int], str],
        limits: SearchLimits = USUAL_LIMITS,
    ) -> None:
        """`reserve` assumes what a pod takes on a row beside room (volumes, devices), under the uid that
        it returns."""
        self._replica = replica
        self._seed = seed
        self.proposal_sequence = proposal_sequence
        self._tie_break = tie_break
        self._reserve = reserve
        self._limits = limits
        self._found_count = 0

    @property
    def has_searched_enough(self) -> bool:
        """So much was looked for and found that the owner should hear of it first."""
        return self._found_count >= self._limits.searches_max

    def attempt(
        self, task: PodTask, evaluation: Evaluation, refusals: Refusals | None = None
    ) -> RoomSearch:
        """Looks for room, and takes none yet. `refusals`: what extenders had against nodes."""
        fit_error = evaluation.fit_error()
        filtered = None
        if refusals is not None:
            found = evaluation.filtered()
            # Their word counts, as if all nodes that they named had been looked at and had passed.
            everywhere = np.union1d(found.rows, refusals.named).astype(np.intp)
            filtered = told_of(everywhere, (found, told_of(refusals.named, ())))
            reasons = reasons_of(evaluation.pod, filtered, refusals.reasons.total())
            fit_error = fit_error._replace(
                reasons=reasons + refusals.reasons, plugins=fit_error.plugins | {EXTENDER}
            )
        has_search = evaluation.pod.framework.post_filters and self._replica.view.node_count
        if fit_error.error or not has_search:
            return RoomSearch(fit_error)
        result = post_filter(
            evaluation,
            lambda ties: self._tie_break(ties, task.ticket),
            # Another place to begin for each pod, so that they do not all meet on the same nodes.
            offset=(self._seed + task.ticket) * 7919,
            filtered=filtered,
            refused=NO_ROWS if refusals is None else refusals.rows,
            forbidden=self._limits.forbidden,
        )
        return RoomSearch(fit_error, result)

    def conclude(self, task: PodTask, evaluation: Evaluation, search: RoomSearch) -> Failure:
        """What the owner is told; the room that was found is kept from the pods that follow."""
        fit_error, result = search.fit_error, search.result
        plugins, pending = sorted(fit_error.plugins), sorted(fit_error.pending_plugins)
        if result is None:
            # Nobody looks for room: the pod keeps no claim to what was found for it earlier.
            told, is_error = fit_error.error or fit_error.message(), bool(fit_error.error)
            return Failure([task.ticket], told, plugins, pending, is_error, ends_nomination=True)
        preemption = result.preemption
        proposal = None
        if preemption is not None and preemption.best is not None:
            best, info = preemption.best, evaluation.pod.info
            proposal = PreemptionProposal(best.row, list(best.victims))
            is_wide = evaluation.pod.plan.is_wide
            self._found_count += WIDE_SEARCH_WEIGHT if is_wide else 1
            uid, kept_row = task.uid or f"ticket {task.ticket}", best.row
            takes_room = self._limits.takes_room
            assumed = self._reserve(task, best.row) if takes_room else ""
            with changing():
                if takes_room:
                    self._replica.place(task.class_id, best.row, self.proposal_sequence, assumed)
                    kept_row = NO_NODE
                own = Nomination(uid, task.class_id, info.priority, kept_row)
                self._replica.nominate(own, self.proposal_sequence)
        return Failure(
            tickets=[task.ticket],
            message=fit_error.message(result.status.message),
            plugins=plugins,
            pending_plugins=pending,
            is_error=False,
            preemption=proposal,
            ends_nomination=preemption is not None and preemption.ends_nomination,
            was_room_sought=preemption is not None,
            freed_claims=list(result.freed_claims),
        )
