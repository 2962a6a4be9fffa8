"""LonePods: the best node for a pod that has no like, from what other pods like it in part know.

A class of pods that has one pod pays for an evaluation of all nodes and gets nothing back. But where
every pod asks for another amount, nearly all else about them is equal. Here pods that differ in their
requests alone form a *family*: what the plugins say that ignore requests is kept for the family as it
is for a class, and for the pod itself only the others are asked.

Not every pod can be placed so, nor every profile; then the caller evaluates the class. The choice is
the same either way.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from shared.columns.journal import Journal
from shared.columns.schema import Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.engine import Choice, ClassEvaluation, Engine, TieBreak
from shared.framework.families import Families
from shared.framework.kept_rows import KeptRows, kept_rows
from shared.framework.outcomes import ActiveScore, PreScoreError
from shared.framework.pod_info import PodInfo
from shared.framework.row_states import RowStates, rated
from shared.framework.runtime import Framework
from shared.framework.score_range import INVALID
from shared.kernels.rows import row_index, rows_between, rows_where

SHARING_MIN: Final = 1 << 14
"""With fewer rows, asking about each costs less than keeping track of which are alike: of pods that
differ, each makes another row unlike all others."""
KEPT_ROWS_A_FEASIBLE_MAX: Final = 8
"""What is kept is looked at for all rows. Where so few take a pod of the family, asking about these is
quicker."""
KEPT_BYTES_MAX: Final = 16 << 20
"""Of all families: nobody says when the last pod of one is gone, and where pods have labels of their own
(a batch, a release) new families come for ever. 50 of them at 5,000 nodes."""


class _Best(NamedTuple):
    """The rows with the highest total, ascending."""

    score: int
    rows: Rows
    feasible_count: int


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
        self._kept = {
            profile: kept_rows(cluster, journal, halves.own)
            for profile, halves in self._families.halves.items()
        }

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
        kept = self._kept_worth(family, profile)
        found = None if kept is None else self._best_kept(family, kept, info)
        if found is None:
            found = self._best(family, self._families.halves[profile].own, info)
        if found is None or found.score >= INVALID:
            return None
        ties = found.rows
        row = ties.item(0) if len(ties) == 1 else tie_break(ties)
        return Choice(row, found.score, found.feasible_count)

    def _best(self, family: ClassEvaluation, own: Framework, info: PodInfo) -> _Best | None:
        """By asking about each row."""
        rows = self._passing(family, own, info)
        if len(rows) < 2:
            return _Best(0, rows, 1) if len(rows) else None
        shared = self._shared(family, rows)
        if shared is None:
            return None
        try:
            prepared = own.prepare_scores(info, self._cluster, rows)
        except PreScoreError:
            return None
        total = self._rated(prepared.active, info, rows) + shared[row_index(rows)]
        best: int = total.max().item()
        return _Best(best, rows[(total == best).nonzero()[0]], len(rows))

    def _best_kept(self, family: ClassEvaluation, kept: KeptRows, info: PodInfo) -> _Best | None:
        """From what is kept of all rows; None: to be found out in the other way."""
        asked = kept.asked_by(info)
        if asked is None:
            return None
        count = self._cluster.nodes.row_count
        among = None if family.feasible_count == count else family.feasible[:count]
        feasible = kept.feasible(asked, among)
        rows = rows_between(0, count) if feasible is None else rows_where(feasible)
        shared = self._shared(family, rows) if len(rows) > 1 else None
        found = None if shared is None else kept.best(asked, shared, feasible)
        return None if found is None else _Best(*found, len(rows))

    def _shared(self, family: ClassEvaluation, rows: Rows) -> Int64s | None:
        """What plugins that ignore requests say if these rows, of those that take the family, are all
        that take the pod; of no meaning for others."""
        scores = self._engine.scores_of(family)
        if scores is None or len(rows) == family.feasible_count:
            return None if scores is None else scores.total
        return scores.among(rows)

    def _kept_worth(self, family: ClassEvaluation, profile: str) -> KeptRows | None:
        """What is kept of all rows, where that is the quickest way."""
        kept = self._kept[profile]
        count = self._cluster.nodes.row_count
        if kept is None or family.feasible_count * KEPT_ROWS_A_FEASIBLE_MAX < count:
            return None
        if count >= SHARING_MIN and self._states.is_shared_by(family.feasible_count):
            return None
        kept.follow()
        return kept

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
        filters = own.plan(outcome).active
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
