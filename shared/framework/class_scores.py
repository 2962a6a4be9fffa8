"""ClassScores: how the pods of one class rate each node, kept up to date.

Scores fall into two groups. *Narrow* ones are computed from the row; the sum of what they give,
normalised and weighted, is kept in one array, and a placement changes one row of it. *Wide* ones
look at pods elsewhere and name the rows to rate again themselves (`UpdatableScore`); what each gives
is kept apart, so that a change of its range (which changes what it gives everywhere) costs that
plugin's arithmetic and a sum.
"""

from collections.abc import Hashable
from typing import Final

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.class_filters import Refiltered
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Delta, UpdatableScore
from shared.framework.pod_info import PodInfo
from shared.framework.runtime import MOVING, ActiveScore, Framework

NOT_FEASIBLE: Final = -1
"""In place of a total."""


class _Column:
    """What one plugin says of all rows. Arrays have the table's capacity."""

    __slots__ = ("entry", "is_moving", "normalization", "raw", "weighted")

    def __init__(self, entry: ActiveScore, capacity: int) -> None:
        self.entry = entry
        self.is_moving = bool(entry.plugin.score_depends.reads & MOVING)
        """A placement changes what it says of the row."""
        self.raw: Int64s = np.zeros(capacity, np.int64)
        self.normalization: Hashable = None
        self.weighted: Int64s = _NOTHING
        """Normalised and weighted; of wide plugins only."""

    def rate(self, pod: PodInfo, cluster: ClusterView, rows: Rows) -> None:
        plugin, _, state, _ = self.entry
        self.raw[rows] = plugin.score(state, pod, cluster, rows)

    def weigh(self, raw: Int64s) -> Int64s:
        """Raw scores, normalised and weighted."""
        normalizer = self.entry.normalizer
        if normalizer is not None:
            raw = normalizer.normalize(raw, self.normalization)
        return raw * self.entry.weight

    def summarize(self, feasible: "_Feasible") -> bool:
        """Sums up the raw scores of feasible rows; says whether that is another than before."""
        normalizer = self.entry.normalizer
        if normalizer is None:
            return False
        summary = normalizer.normalization(self.entry.state, feasible.of(self.raw))
        is_other: bool = summary != self.normalization
        self.normalization = summary
        return is_other


_NOTHING: Final[Int64s] = np.zeros(0, np.int64)


class _Feasible:
    """Feasible rows, found once for as long as none flips."""

    __slots__ = ("index",)

    def __init__(self, feasible: Bools) -> None:
        rows = np.flatnonzero(feasible)
        self.index: Rows | slice = rows
        if len(rows) and rows.item(-1) - rows.item(0) == len(rows) - 1:
            self.index = slice(rows.item(0), rows.item(-1) + 1)

    def of(self, column: Int64s) -> Int64s:
        if isinstance(self.index, slice):
            return column[self.index]
        return column.take(self.index)


class ClassScores:
    """`total` has the table's capacity, NOT_FEASIBLE where the pod does not fit."""

    def __init__(
        self,
        framework: Framework,
        pod: PodInfo,
        cluster: ClusterView,
        static_ok: Bools,
        feasible: Bools,
    ) -> None:
        """Raises PreScoreError. The arrays are ClassFilters' own, read at each update."""
        self._pod = pod
        self._cluster = cluster
        self._static_ok = static_ok
        self._feasible_mask = feasible
        self._feasible = _Feasible(feasible)
        rows = np.flatnonzero(feasible)
        prepared = framework.prepare_scores(pod, cluster, rows)
        self.stale_by: int = prepared.stale_by.value
        """Changes after which to start anew, as bits of Reads."""
        self.object_kinds = prepared.object_kinds
        """The same for objects; None: of any kind."""
        self._skipped = prepared.skipped_updatable
        capacity = len(feasible)
        self._narrow = [
            _Column(entry, capacity)
            for entry, updatable in zip(prepared.active, prepared.updatable, strict=True)
            if updatable is None
        ]
        self._wide: list[tuple[_Column, UpdatableScore]] = [
            (_Column(entry, capacity), updatable)
            for entry, updatable in zip(prepared.active, prepared.updatable, strict=True)
            if updatable is not None
        ]
        self._fixed: Int64s = np.zeros(capacity, np.int64)
        """What those narrow plugins give together that no placement changes."""
        self._base: Int64s = np.zeros(capacity, np.int64)
        """What all narrow plugins give together."""
        self.total: Int64s = np.full(capacity, NOT_FEASIBLE, np.int64)
        self._start()

    def _start(self) -> None:
        # A node that is not feasible is still rated, as it may become so without a change of what
        # it is rated by; it does not take part in normalisation until then.
        rows = np.flatnonzero(self._static_ok)
        for column in (*self._narrow, *(column for column, _ in self._wide)):
            column.rate(self._pod, self._cluster, rows)
            column.summarize(self._feasible)
        self._sum_up_narrow()
        for column, _ in self._wide:
            self._weigh_all(column)
        self._write_all()

    def update(self, usage_rows: Rows, delta: Delta, refiltered: Refiltered) -> bool:
        """Rates again what changed, as `usage_rows` and `delta` say, and takes over what became of
        the filters. False where that takes a new start."""
        flipped = refiltered.flipped
        touched = self._update_wide(delta, flipped)
        if touched is None:
            return False
        if len(flipped):
            self._feasible = _Feasible(self._feasible_mask)
        writes_all = self._rescore_narrow(usage_rows, delta.node_rows, len(flipped) > 0)
        dirty = [refiltered.rows]
        for (column, _), changed in zip(self._wide, touched, strict=True):
            if len(delta.node_rows):
                changed = np.concatenate((changed, delta.node_rows))
            if len(changed):
                column.rate(self._pod, self._cluster, changed)
            if (len(changed) or len(flipped)) and column.summarize(self._feasible):
                self._weigh_all(column)
                writes_all = True
            elif len(changed):
                column.weighted[changed] = column.weigh(column.raw[changed])
                dirty.append(changed)
        if writes_all:
            self._write_all()
        else:
            for some in dirty:
                self._write(some)
        return True

    def _weigh_all(self, column: _Column) -> None:
        if not len(column.weighted):
            column.weighted = np.zeros(len(self.total), np.int64)
        count = self._cluster.nodes.row_count
        column.weighted[:count] = column.weigh(column.raw[:count])

    def _update_wide(self, delta: Delta, flipped: Rows) -> list[Rows] | None:
        """Of each wide plugin, the rows that it wants to rate again."""
        cluster, pod, feasible = self._cluster, self._pod, self._feasible_mask
        touched: list[Rows] = []
        for column, plugin in self._wide:
            state = column.entry.state
            rows = plugin.update_score(state, pod, cluster, delta, feasible, flipped)
            if rows is None:
                return None
            touched.append(rows)
        for plugin, state in self._skipped:
            if plugin.update_score(state, pod, cluster, delta, feasible, flipped) is None:
                return None
        return touched

    def _rescore_narrow(self, usage_rows: Rows, node_rows: Rows, has_flipped: bool) -> bool:
        """Rates these rows again; sums up all rows, and says so, where a normalisation changed."""
        rows = np.union1d(usage_rows, node_rows) if len(node_rows) else usage_rows
        rows = rows[self._static_ok[rows]]
        is_any_other = False
        for column in self._narrow:
            is_stale = column.is_moving or len(node_rows) > 0
            if is_stale and len(rows):
                column.rate(self._pod, self._cluster, rows)
            if is_stale or has_flipped:
                is_any_other |= column.summarize(self._feasible)
        if is_any_other:
            self._sum_up_narrow()
            return True
        if len(node_rows):
            self._fixed[rows] = self._weighed(rows, len(rows), is_moving=False)
        total = self._weighed(rows, len(rows), is_moving=True)
        total += self._fixed[rows]
        self._base[rows] = total
        return False

    def _weighed(self, index: Rows | slice, count: int, *, is_moving: bool) -> Int64s:
        """The sum over one half of the narrow plugins."""
        total = np.zeros(count, np.int64)
        for column in self._narrow:
            if column.is_moving is is_moving:
                total += column.weigh(column.raw[index])
        return total

    def _sum_up_narrow(self) -> None:
        count = self._cluster.nodes.row_count
        everything = slice(0, count)
        self._fixed[everything] = self._weighed(everything, count, is_moving=False)
        self._base[everything] = self._weighed(everything, count, is_moving=True)
        self._base[everything] += self._fixed[everything]

    def _write(self, rows: Rows) -> None:
        total = self._base[rows]
        for column, _ in self._wide:
            total += column.weighted[rows]
        np.putmask(total, ~self._feasible_mask[rows], NOT_FEASIBLE)
        self.total[rows] = total

    def _write_all(self) -> None:
        count = self._cluster.nodes.row_count
        total = self.total[:count]
        np.copyto(total, self._base[:count])
        for column, _ in self._wide:
            total += column.weighted[:count]
        np.putmask(total, ~self._feasible_mask[:count], NOT_FEASIBLE)
