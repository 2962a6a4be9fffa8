"""LonePods: the best node for a pod that has no like, from what other pods like it in part know.

A class of pods that has one pod pays for an evaluation of all nodes and gets nothing back; here most of
what it would say is that of the pod's family (`families.py`). Not every pod can be placed so, nor every
profile; then the caller evaluates the class. The choice is the same either way.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from shared.columns.rows import row_index, rows_between, rows_where
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.usage import requested_and_allocatable, requested_and_allocatable_one
from shared.engine.evaluation import Alike
from shared.engine.families import Families, Family, FrameworkParts, passing_part, rooms_asked
from shared.framework.cluster_view import ClusterView, Follower
from shared.framework.plugin_api import RoomAsked, RoomFilter, ScoreKeeper
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import INVALID, Framework, weighted
from shared.framework.runtime.plans import PreScoreError
from shared.plugins.resources.kept_resources import AMOUNT_MAX, KeptRoom, KeptScores
from shared.plugins.resources.resource_arrays import BLOCK, Floats
from workers.scorer.engine import Choice, Engine, TieBreak, row_bytes_of

FEW_ROWS: Final = 8
"""So many are written one by one in plain numbers, which is quicker."""


class _KeptScore(NamedTuple):
    plugin: ScoreKeeper
    weight: int
    scores: KeptScores


class Asked(NamedTuple):
    """What a pod asks for, of each filter and of each score that has a say."""

    rooms: Sequence[RoomAsked]
    scores: Sequence[tuple[_KeptScore, Sequence[int]]]


class KeptRows:
    """What plugins know of every row whatever pod is asked about, for pods that have no like. A plugin
    that looks at requests says something else for each pod, but computes most of it from the row: free
    shares, how well a node is balanced as it is. Of plugins that can tell the two apart (`RoomFilter`,
    `ScoreKeeper`) the one half is kept here, and follows the journal. Nothing is approximate: where a
    row matters that a plugin cannot keep, there is no answer here."""

    def __init__(
        self, cluster: ClusterView, filters: Sequence[RoomFilter], scores: Sequence[_KeptScore]
    ) -> None:
        self._cluster = cluster
        self._filters = filters
        self._room = KeptRoom()
        self._scores = scores
        self._follower = Follower(cluster)
        self._total: Floats = np.zeros(0)

    def follow(self) -> None:
        """Takes in what changed. To be called before anything is asked."""
        rows = self._follower.rows()
        if rows is None or len(self._total) != self._cluster.nodes.capacity:
            self._start_over()
        else:
            self._write(rows)
        self._follower.note()

    def _start_over(self) -> None:
        nodes = self._cluster.nodes
        self._total = np.zeros(nodes.capacity)
        self._room.reserve(nodes.capacity)
        for kept in self._scores:
            kept.scores.reserve(nodes.capacity)
        self._write(rows_between(0, nodes.row_count))

    def _write(self, rows: Rows) -> None:
        nodes = self._cluster.nodes
        if len(rows) > FEW_ROWS:
            index = row_index(rows)
            self._room.write(nodes, index)
            for _, _, scores in self._scores:
                names, is_nonzero = scores.names, scores.is_nonzero
                of_rows = requested_and_allocatable(nodes, names, index, is_nonzero=is_nonzero)
                scores.write(index, *of_rows)
            return
        for row in rows.tolist():
            self._room.write_one(nodes, row)
            for _, _, scores in self._scores:
                names, is_nonzero = scores.names, scores.is_nonzero
                of_row = requested_and_allocatable_one(nodes, names, row, is_nonzero=is_nonzero)
                scores.write_one(row, *of_row)

    def asked_by(self, pod: PodInfo) -> Asked | None:
        """None where the plugins have to be asked about each row."""
        rooms = rooms_asked(self._filters, pod, self._cluster)
        if rooms is None:
            return None
        scores: list[tuple[_KeptScore, Sequence[int]]] = []
        for kept in self._scores:
            amounts = kept.plugin.amounts_asked(pod)
            if amounts is not None:
                if max(amounts) > AMOUNT_MAX:
                    return None
                scores.append((kept, amounts))
        return Asked(rooms, scores)

    def feasible(self, asked: Asked, among: Bools | None) -> Bools | None:
        """Those of these rows that take the pod, shape (rows,). None: all rows of the table."""
        nodes, feasible = self._cluster.nodes, among
        for names, amounts in asked.rooms:
            passes = self._room.passing(nodes, names, amounts, nodes.row_count)
            if passes is not None:
                feasible = passes if feasible is None else feasible & passes
        return feasible

    def best(self, asked: Asked, more: Int64s, feasible: Bools | None) -> tuple[int, Rows] | None:
        """The highest of the totals of what the plugins say of a row, weighted, and of `more`, with its
        rows, ascending. `feasible`: only these count, of which there are some; None: all do. None where
        the plugins have to be asked about each row."""
        count = self._cluster.nodes.row_count
        if not asked.scores:
            return None
        for (_, _, scores), _ in asked.scores:
            if scores.has_left_out:
                out = scores.left_out[:count]
                if (out if feasible is None else out & feasible).any():
                    return None
        total = self._total[:count]
        for start in range(0, count, BLOCK):
            block = slice(start, min(start + BLOCK, count))
            sums = more[block]
            for (_, weight, scores), amounts in asked.scores:
                score = scores.rated(amounts, block)
                if weight != 1:
                    score *= weight
                sums = np.add(sums, score, out=total[block])
        if feasible is not None:
            np.copyto(total, -1.0, where=~feasible)
        best = total.max()
        return int(best), (total == best).nonzero()[0]


def kept_rows(cluster: ClusterView, parts: FrameworkParts) -> KeptRows | None:
    """Of the plugins that look at requests; None where some have to be asked about each row."""
    if parts.room_filters is None:
        return None
    scores: list[_KeptScore] = []
    for plugin, weight, *_ in parts.own.scores:
        if not isinstance(plugin, ScoreKeeper):
            return None
        kept = plugin.keep_score()
        if kept is None:
            return None
        scores.append(_KeptScore(plugin, weight, kept))
    return KeptRows(cluster, parts.room_filters, scores)


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
        self,
        class_id: int,
        info: PodInfo,
        profile: str,
        tie_break: TieBreak,
        *,
        is_single: bool = True,
    ) -> Choice | None:
        """The best node for a pod that nobody nominated; None: evaluate its class to know. `is_single`
        as of `Families.of`."""
        key = self._families.key_of(class_id, info, profile)
        family = self._families.of(key, info, profile, is_single=is_single)
        if isinstance(family, Alike):
            evaluation = self._engine.evaluate(family, info, profile)
            return self._engine.choose(evaluation, tie_break)
        if family is None:
            return None
        shared = family.shared
        if shared.pod.has_failed or not shared.pod.outcome.status.is_success:
            return None
        feasible, count = shared.feasible[: self._cluster.nodes.row_count], shared.feasible_count
        if family.each is not None:
            rows = rows_where(feasible)
            passes = passing_part(family.each, info, self._cluster, rows)
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
        are all that take the pod; of no meaning for others. INVALID or more where a score is out of
        range. None where a plugin cannot make sense of the pod."""
        scores = family.shared.scored()
        if scores is None:
            return None
        is_all = len(rows) == family.shared.feasible_count
        total = scores.total if is_all else scores.among(rows)
        if family.each is None or total is None:
            return total
        try:
            active = family.each.prepare_scores(info, self._cluster, rows).active
        except PreScoreError:
            return None
        if not active:
            return total
        total = total.copy()
        _, normalized, _ = family.each.run_scores(info, self._cluster, active, rows)
        for entry, score in zip(active, normalized, strict=True):
            total[rows] += weighted(entry.plugin, score, entry.weight)
        return total
