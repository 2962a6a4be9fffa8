"""LonePods: the best node for a pod that has no like, from what other pods like it in part know.

A class of pods that has one pod pays for an evaluation of all nodes and gets nothing back. But where
every pod asks for another amount, nearly all else about them is equal. Here pods that differ in their
requests alone form a *family*: what the plugins say that ignore requests is kept for the family as it
is for a class, and for the pod itself only the others are asked.

Not every pod can be placed so, nor every profile; then the caller evaluates the class. The choice is
the same either way.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from shared.columns.journal import Journal
from shared.columns.schema import Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.engine import Choice, ClassEvaluation, Engine, TieBreak
from shared.framework.families import Families
from shared.framework.pod_info import PodInfo
from shared.framework.row_states import RowStates, rated
from shared.framework.runtime import ActiveScore, Framework, PreScoreError
from shared.kernels.rows import row_index, rows_between, rows_where

SHARING_MIN: Final = 1 << 14
"""With fewer rows, asking about each costs less than keeping track of which are alike: of pods that
differ, each makes another row unlike all others."""
KEPT_BYTES_MAX: Final = 16 << 20
"""Of all families: nobody says when the last pod of one is gone, and where pods have labels of their own
(a batch, a release) new families come for ever. 50 of them at 5,000 nodes."""


class LonePods:
    """Of one cluster; the families follow its journal."""

    def __init__(
        self,
        cluster: ClusterView,
        journal: Journal,
        frameworks: dict[str, Framework],
        states: RowStates,
    ) -> None:
        self._cluster = cluster
        self._states = states
        self._families = Families(frameworks)
        self._engine = Engine(cluster, journal, self._families.shared, states, KEPT_BYTES_MAX)

    def choose(
        self, class_id: int, info: PodInfo, profile: str, tie_break: TieBreak
    ) -> Choice | None:
        """The best node for a pod that nobody nominated; None: evaluate its class to know."""
        family_id = self._families.of(class_id, info, profile, self._cluster)
        if family_id is None:
            return None
        family = self._engine.evaluate(family_id, info, profile)
        if not family.outcome.status.is_success or family.framework.has_failed(family.outcome):
            return None
        if family.feasible_count < 2:
            return None
        own = self._families.halves[profile].own
        return self._best(family, own, info, tie_break)

    def _best(
        self, family: ClassEvaluation, own: Framework, info: PodInfo, tie_break: TieBreak
    ) -> Choice | None:
        rows = self._passing(family, own, info)
        if len(rows) < 2:
            return Choice(rows.item(0), 0, 1) if len(rows) else None
        scores = self._engine.scores_of(family)
        if scores is None:
            return None
        shared = scores.total if len(rows) == family.feasible_count else scores.among(rows)
        if shared is None:
            return None
        try:
            prepared = own.prepare_scores(info, self._cluster, rows)
        except PreScoreError:
            return None
        total = self._rated(prepared.active, info, rows)
        total = total + shared[row_index(rows)]
        best = total.max().item()
        ties = rows[(total == best).nonzero()[0]]
        row = ties.item(0) if len(ties) == 1 else tie_break(ties)
        return Choice(row, best, len(rows))

    def _passing(self, family: ClassEvaluation, own: Framework, info: PodInfo) -> Rows:
        """Rows that take the pod; none as well where its plugins have something against all of it."""
        cluster = self._cluster
        outcome = own.run_pre_filters(info, cluster)
        if not outcome.status.is_success or outcome.node_names is not None:
            return _NO_ROWS
        if family.feasible_count == cluster.nodes.row_count:
            rows = rows_between(0, family.feasible_count)
        else:
            rows = rows_where(family.feasible)
        filters = own.active_filters(outcome)
        if len(rows) < SHARING_MIN:
            passes = own.passing_of(filters, info, cluster, outcome, rows)
        else:
            passes = self._states.passing(own, filters, info, outcome, rows)
        return rows if passes.all() else rows[passes]

    def _rated(self, active: Sequence[ActiveScore], info: PodInfo, rows: Rows) -> Int64s:
        if len(rows) >= SHARING_MIN:
            return self._states.rated(active, info, rows)
        return rated(active, info, self._cluster, rows)


_NO_ROWS: Final[Rows] = np.zeros(0, np.intp)
