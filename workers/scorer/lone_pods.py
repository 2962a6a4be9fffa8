"""LonePods: the best node for a pod that has no like, from what other pods like it in part know.

A class of pods that has one pod pays for an evaluation of all nodes and gets nothing back; here most of
what it would say is that of the pod's family (`families.py`).
Not every pod can be placed so, nor every profile; then the caller evaluates the class. The choice is
the same either way.
"""

from typing import Final, NamedTuple

import numpy as np

from shared.columns.rows import row_index, rows_between, rows_where
from shared.columns.schema import Bools, Int64s, Rows
from shared.engine.evaluation import Alike
from shared.engine.families import Families, Family, passing_part
from shared.engine.score_range import INVALID
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.filter_outcomes import PreScoreError
from shared.framework.runtime.framework import Framework
from workers.scorer.engine import Choice, Engine, row_bytes_of
from workers.scorer.kept_rows import KeptRows, kept_rows
from workers.scorer.tie_break import TieBreak

KEPT_ROWS_A_FEASIBLE_MAX: Final = 8
"""What is kept is looked at for all rows. Where so few take a pod of the family, asking about these is
quicker."""


class _Best(NamedTuple):
    """The rows with the highest total, ascending."""

    score: int
    rows: Rows
    feasible_count: int


class LonePods:
    """Of one cluster; the families follow its journal."""

    def __init__(
        self, cluster: ClusterView, frameworks: dict[str, Framework], engine: Engine
    ) -> None:
        """`engine`: where pods are evaluated that are alike but for their claims."""
        self._cluster = cluster
        self._engine = engine
        self._states = engine.states
        row_bytes = row_bytes_of(frameworks.values())
        self._families = Families(cluster, frameworks, row_bytes, self._states)
        self._kept = {
            profile: kept_rows(cluster, parts) for profile, parts in self._families.parts.items()
        }

    def choose(
        self, class_id: int, info: PodInfo, profile: str, tie_break: TieBreak
    ) -> Choice | None:
        """The best node for a pod that nobody nominated; None: evaluate its class to know."""
        alike = self._families.alike(info, profile)
        family = self._families.of(class_id if alike is None else alike, info, profile)
        if isinstance(family, Alike):
            evaluation = self._engine.evaluate(family, info, profile)
            return self._engine.choose(evaluation, tie_break)
        if family is None or not family.shared.pod.outcome.status.is_success:
            return None
        if family.shared.pod.has_failed:
            return None
        feasible = family.shared.feasible[: self._cluster.nodes.row_count]
        count = family.shared.feasible_count
        if family.claims is not None:
            rows = rows_where(feasible)
            passes = passing_part(family.claims, info, self._cluster, rows)
            if passes is None:
                return None
            feasible = np.zeros(len(feasible), np.bool_)
            feasible[rows[passes]] = True
            count = int(np.count_nonzero(passes))
        if count < 2:
            return None
        kept = self._kept_worth(count, profile)
        found = None if kept is None else self._best_kept(family, info, kept, feasible, count)
        if found is None:
            found = self._best(family, info, feasible, count)
        if found is None or found.score >= INVALID:
            return None
        ties = found.rows
        row = ties.item(0) if len(ties) == 1 else tie_break(ties)
        return Choice(row, found.score, found.feasible_count)

    def _best(self, family: Family, info: PodInfo, feasible: Bools, count: int) -> _Best | None:
        """By asking about each of the `count` rows that are feasible without it."""
        is_all = count == self._cluster.nodes.row_count
        rows = rows_between(0, count) if is_all else rows_where(feasible)
        passes = passing_part(family.own, info, self._cluster, rows, self._states)
        if passes is None:
            return None
        rows = rows if passes.all() else rows[passes]
        if len(rows) < 2:
            return _Best(0, rows, 1) if len(rows) else None
        known = self._scores(family, info, rows)
        if known is None:
            return None
        try:
            active = family.own.prepare_scores(info, self._cluster, rows).active
        except PreScoreError:
            return None
        total = self._states.rated(active, info, rows) + known[row_index(rows)]
        best: int = total.max().item()
        return _Best(best, rows[(total == best).nonzero()[0]], len(rows))

    def _best_kept(
        self, family: Family, info: PodInfo, kept: KeptRows, among: Bools, among_count: int
    ) -> _Best | None:
        """From what is kept of all rows; None: to be found out in the other way."""
        asked = kept.asked_by(info)
        if asked is None:
            return None
        count = self._cluster.nodes.row_count
        feasible = kept.feasible(asked, None if among_count == count else among)
        rows = rows_between(0, count) if feasible is None else rows_where(feasible)
        known = self._scores(family, info, rows) if len(rows) > 1 else None
        found = None if known is None else kept.best(asked, known, feasible)
        return None if found is None else _Best(*found, len(rows))

    def _kept_worth(self, feasible_count: int, profile: str) -> KeptRows | None:
        """What is kept of all rows, where that is the quickest way."""
        kept = self._kept[profile]
        count = self._cluster.nodes.row_count
        if kept is None or feasible_count * KEPT_ROWS_A_FEASIBLE_MAX < count:
            return None
        if self._states.is_shared_by(feasible_count):
            return None
        kept.follow()
        return kept

    def _scores(self, family: Family, info: PodInfo, rows: Rows) -> Int64s | None:
        """What plugins that ignore requests say, by row, if these rows, of those that take the family,
        are all that take the pod; of no meaning for others. None where a plugin cannot make sense of
        the pod."""
        scores = family.shared.scored()
        if scores is None:
            return None
        is_all = len(rows) == family.shared.feasible_count
        total = scores.total if is_all else scores.among(rows)
        if family.claims is None or total is None:
            return total
        try:
            active = family.claims.prepare_scores(info, self._cluster, rows).active
        except PreScoreError:
            return None
        if not active:
            return total
        total = total.copy()
        total[rows] += family.claims.run_scores(info, self._cluster, active, rows)[2]
        return total
