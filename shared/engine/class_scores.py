"""ClassScores: how the pods of one class rate each node, kept up to date.

Scores fall into two groups. *Narrow* ones are computed from the row; the sum of what they give,
normalised and weighted, is kept in one array, and a placement changes one row of it. *Wide* ones
look at pods elsewhere and name the rows to rate again themselves (`UpdatableScore`); what each gives
is kept apart, so that a change of its range (which changes what it gives everywhere) costs that
plugin's arithmetic and a sum.
"""

from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from shared.columns.rows import parts_of, row_index, rows_where
from shared.columns.schema import Bools, Int64s, Rows
from shared.engine.best_rows import BestRows
from shared.engine.class_filters import Refiltered
from shared.engine.lookahead import Ahead
from shared.engine.row_states import RowStates, rated
from shared.framework.cluster_view import ClusterView
from shared.framework.outcomes import ActiveScore
from shared.framework.plans import MOVING
from shared.framework.plugin_api import Delta, PreScorePlugin, Reads, UpdatableScore
from shared.framework.pod_info import PodInfo
from shared.framework.runtime import Framework
from shared.framework.score_range import weighted
from shared.framework.status import Code

SHARE_LIKE_ALL: Final = 16
"""To write every sixteenth row costs about as much as to write all, which lie side by side."""
NOT_FEASIBLE: Final = -1
"""In place of a total."""


class _Column:
    """What one plugin says of all rows. Arrays have the table's capacity."""

    __slots__ = ("_even_raw", "_is_even", "_was_summarized", "entry", "is_moving", "normalization",
                 "raw", "weighted")  # fmt: skip

    def __init__(self, entry: ActiveScore, capacity: int) -> None:
        self.entry = entry
        self.is_moving = bool(entry.plugin.score_depends.reads & MOVING)
        """A placement changes what it says of the row."""
        self.raw: Int64s = np.zeros(capacity, np.int64)
        self.normalization: Hashable = None
        self.weighted: Int64s = _NOTHING
        """Normalised and weighted; of wide plugins only."""
        by_extremes = bool(getattr(entry.plugin, "normalizes_by_extremes", False))
        self._is_even: bool = by_extremes and not self.is_moving
        """All rows that were ever rated have the same raw score, and that says all of the summary."""
        self._even_raw: int | None = None
        self._was_summarized = False
        """With some row that is feasible."""

    def rate(self, pod: PodInfo, cluster: ClusterView, rows: Rows) -> None:
        plugin, _, state, _ = self.entry
        raw = plugin.score(state, pod, cluster, rows)
        if self._is_even and len(raw):
            if self._even_raw is None:
                self._even_raw = raw.item(0)
            self._is_even = bool((raw == self._even_raw).all())
        if not self._is_even or self._even_raw:  # Else: zeros where there is nothing but zeros.
            self.raw[row_index(rows)] = raw

    def weighed(self, index: Rows | slice) -> Int64s:
        """What it gives these rows, which were rated: for each, or one number for all."""
        even = self._even
        return self.weigh(self.raw[index] if even is None else even)

    @property
    def _even(self) -> Int64s | None:
        """The raw score of all rows that were rated, if it is the same."""
        if not self._is_even or self._even_raw is None:
            return None
        return np.array([self._even_raw])

    def weigh(self, raw: Int64s) -> Int64s:
        """Raw scores, normalised and weighted."""
        return self.weigh_by(raw, self.normalization)

    def weigh_by(self, raw: Int64s, normalization: Hashable) -> Int64s:
        """The same with another normalisation."""
        plugin, weight, _, normalizer = self.entry
        if normalizer is not None:
            raw = normalizer.normalize(raw, normalization)
        return weighted(plugin, raw, weight)

    def summarize(self, feasible: "_Feasible") -> bool:
        """Sums up the raw scores of feasible rows; says whether that is another than before."""
        normalizer = self.entry.normalizer
        if normalizer is None or (self._is_even and self._was_summarized and feasible.is_any):
            return False
        self._was_summarized = feasible.is_any
        even = self._even
        raw = self.raw if even is None else np.broadcast_to(even, self.raw.shape)
        summary = normalizer.normalization(self.entry.state, feasible.of(raw))
        is_other: bool = summary != self.normalization
        self.normalization = summary
        return is_other


_NOTHING: Final[Int64s] = np.zeros(0, np.int64)


class _Feasible:
    """Feasible rows, found once for as long as none flips."""

    __slots__ = ("_feasible", "_index", "is_any")

    def __init__(self, feasible: Bools) -> None:
        self._feasible = feasible
        self._index: Rows | slice | None = None
        """Found when first asked for: mostly nobody does."""
        self.is_any = bool(feasible.any())

    def of(self, column: Int64s) -> Int64s:
        index = self._index
        if index is None:
            index = self._index = row_index(rows_where(self._feasible))
        return column[index] if isinstance(index, slice) else column.take(index)


class ClassScores:
    """`total` has the table's capacity, NOT_FEASIBLE where the pod does not fit; INVALID or more where
    some score is out of range (`score_range`)."""

    def __init__(
        self,
        framework: Framework,
        pod: PodInfo,
        cluster: ClusterView,
        static_ok: Bools,
        feasible: Bools,
        states: RowStates | None = None,
    ) -> None:
        """Raises PreScoreError. The arrays are ClassFilters' own, read at each update."""
        self._pod = pod
        self._cluster = cluster
        self._static_ok = static_ok
        self._feasible_mask = feasible
        self._feasible = _Feasible(feasible)
        rows = rows_where(feasible)
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
        plain = [c for c in self._narrow if c.is_moving and c.entry.normalizer is None]
        self._narrow = [column for column in self._narrow if column not in plain]
        """Narrow ones of which each has a column; the others are only ever added up."""
        self._plain = [column.entry for column in plain]
        self._plain_sum: Int64s = np.zeros(capacity, np.int64)
        """Of those narrow plugins that do not normalise and rate otherwise after a placement."""
        self._fixed: Int64s = np.zeros(capacity, np.int64)
        """What those narrow plugins give together that no placement changes."""
        self._is_moving = bool(plain) or any(column.is_moving for column in self._narrow)
        """A placement changes what some narrow plugin gives the row."""
        self._minds_feasible = bool(self.stale_by & _USAGE) or any(
            _minds_feasible(plugin) for _, plugin in self._wide
        )
        """PreScore of some plugin would say something else if other nodes were feasible."""
        self._skipped_for_feasible = [
            plugin
            for plugin, _ in self._skipped
            if _minds_feasible(plugin) and isinstance(plugin, PreScorePlugin)
        ]
        self._base: Int64s = np.zeros(capacity, np.int64)
        """What all narrow plugins give together."""
        self.total: Int64s = np.full(capacity, NOT_FEASIBLE, np.int64)
        self.best = BestRows(self.total)
        self.ahead: Ahead | None = None
        """What is known of rows with one more pod of this class; made by the first run of pods."""
        self._start(states)

    def _start(self, states: RowStates | None) -> None:
        # A node that is not feasible is still rated, as it may become so without a change of what
        # it is rated by; it does not take part in normalisation until then.
        rows = rows_where(self._static_ok)
        for column in self._narrow:
            for part in parts_of(len(rows)):
                column.rate(self._pod, self._cluster, rows[part])
            column.summarize(self._feasible)
        for column, _ in self._wide:
            column.rate(self._pod, self._cluster, rows)
            column.summarize(self._feasible)
        self._plain_sum[row_index(rows)] = (
            rated(self._plain, self._pod, self._cluster, rows)
            if states is None
            else states.rated(self._plain, self._pod, rows)
        )
        self._sum_up_narrow()
        for column, _ in self._wide:
            self._weigh_all(column)
        self._write_all()

    def update(self, usage_rows: Rows, delta: Delta, refiltered: Refiltered) -> bool:
        """Rates again what changed, as `usage_rows` and `delta` say, and takes over what became of
        the filters. False where that takes a new start."""
        node_rows = delta.node_rows
        if not self._is_moving and not len(node_rows) and not len(refiltered.rows):
            return self._follow(delta, refiltered, is_rated_again=False)
        rows = np.union1d(usage_rows, node_rows) if len(node_rows) else usage_rows
        rows = rows[self._static_ok[rows]]
        for column in self._narrow:
            if len(rows) and (column.is_moving or len(node_rows)):
                column.rate(self._pod, self._cluster, rows)
        if len(rows):
            self._plain_sum[rows] = rated(self._plain, self._pod, self._cluster, rows)
        if len(node_rows):
            self._fixed[rows] = self._weighed(rows, len(rows), is_moving=False)
        total = self._weighed(rows, len(rows), is_moving=True)
        total += self._fixed[rows]
        self._base[rows] = total
        if self.ahead is not None:
            self.ahead.forget(rows)
        return self._follow(delta, refiltered, is_rated_again=len(rows) > 0)

    def place(self, row: int, ahead: Ahead, delta: Delta, refiltered: Refiltered) -> bool:
        """As `update` where a pod of this class came to `row`, of which `ahead` knows what the moving
        plugins say now. None of them normalises."""
        self._base[row] = self._taken_over(row, ahead.moving.item(row))
        return self._follow(delta, refiltered, is_rated_again=False)

    def shift(self, row: int, moving: int) -> None:
        """The same where the row goes on being feasible, or not feasible, and no plugin minds pods
        elsewhere. `moving`: what the moving plugins say now, together."""
        base = self._taken_over(row, moving)
        change = base - self._base.item(row)
        if change:
            self._base[row] = base
            before = self.total.item(row)
            if before != NOT_FEASIBLE:
                self.total[row] = before + change
                self.best.moved(row, before, before + change)

    def _taken_over(self, row: int, moving: int) -> int:
        self._plain_sum[row] = moving
        return self._fixed.item(row) + moving

    def among(self, rows: Rows) -> Int64s | None:
        """As `total` if no more than these rows, some of those that are feasible, were: read only, and
        of no meaning for other rows. None where that takes a new start."""
        if self._minds_feasible:
            return None
        for plugin in self._skipped_for_feasible:
            again = plugin.pre_score(self._pod, self._cluster, rows)
            if again.status.code is not Code.SKIP:
                return None
        total = self.total
        for column in (*self._narrow, *(column for column, _ in self._wide)):
            normalizer = column.entry.normalizer
            if normalizer is None:
                continue
            summary = normalizer.normalization(column.entry.state, column.raw[rows])
            if summary != column.normalization:
                total = total + (column.weigh_by(column.raw, summary) - column.weigh(column.raw))
        return total

    @property
    def moving(self) -> list[ActiveScore]:
        """The narrow plugins that rate a row otherwise after a placement."""
        normalized = [column.entry for column in self._narrow if column.is_moving]
        return [*self._plain, *normalized]

    @property
    def followers(self) -> list[tuple[UpdatableScore, Any]]:
        """The plugins that look at pods elsewhere, with their state."""
        return [*((plugin, column.entry.state) for column, plugin in self._wide), *self._skipped]

    def _follow(self, delta: Delta, refiltered: Refiltered, *, is_rated_again: bool) -> bool:
        """Narrow plugins have rated; wide ones follow, and normalisation and totals."""
        flipped = refiltered.flipped
        touched = self._update_wide(delta, flipped)
        if touched is None:
            return False
        is_news = is_rated_again or len(delta.node_rows) or len(refiltered.rows)
        if not is_news and not any(map(len, touched)):
            return True
        if len(flipped):
            self._feasible = _Feasible(self._feasible_mask)
        writes_all = self._normalize_narrow(
            is_new=len(flipped) > 0 or len(delta.node_rows) > 0, is_rated_again=is_rated_again
        )
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
        count = self._cluster.nodes.row_count
        if writes_all or sum(len(some) for some in dirty) > count // SHARE_LIKE_ALL:
            self._write_all()
        else:
            for some in dirty:
                if len(some):
                    self._write(some)
        return True

    def _normalize_narrow(self, *, is_new: bool, is_rated_again: bool) -> bool:
        """Sums up all rows, and says so, where a normalisation changed. `is_new`: other rows are
        feasible, or fixed plugins have rated some again; `is_rated_again`: moving ones have."""
        is_any_other = False
        for column in self._narrow:
            if is_new or (is_rated_again and column.is_moving):
                is_any_other |= column.summarize(self._feasible)
        if is_any_other:
            self._sum_up_narrow()
        return is_any_other

    def _weigh_all(self, column: _Column) -> None:
        if not len(column.weighted):
            column.weighted = np.zeros(len(self.total), np.int64)
        for part in parts_of(self._cluster.nodes.row_count):
            column.weighted[part] = column.weigh(column.raw[part])

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

    def _weighed(self, index: Rows | slice, count: int, *, is_moving: bool) -> Int64s:
        """The sum over one half of the narrow plugins."""
        total = self._plain_sum[index].copy() if is_moving else np.zeros(count, np.int64)
        for column in self._narrow:
            if column.is_moving is is_moving:
                total += column.weighed(index)
        return total

    def _sum_up_narrow(self) -> None:
        for part in parts_of(self._cluster.nodes.row_count):
            count = part.stop - part.start
            fixed = self._weighed(part, count, is_moving=False)
            self._fixed[part] = fixed
            total = self._weighed(part, count, is_moving=True)
            total += fixed
            self._base[part] = total

    def _write(self, rows: Rows) -> None:
        total = self._base[rows]
        for column, _ in self._wide:
            total += column.weighted[rows]
        np.putmask(total, ~self._feasible_mask[rows], NOT_FEASIBLE)
        before = self.total[rows]
        self.total[rows] = total
        self.best.wrote(rows, before)

    def _write_all(self) -> None:
        count = self._cluster.nodes.row_count
        total = self.total[:count]
        np.copyto(total, self._base[:count])
        for column, _ in self._wide:
            total += column.weighted[:count]
        np.putmask(total, ~self._feasible_mask[:count], NOT_FEASIBLE)
        self.best.forget()


def _minds_feasible(plugin: UpdatableScore) -> bool:
    """What depends on which nodes are feasible reads all that filters do."""
    depends = getattr(plugin, "pre_score_depends", None)
    return depends is not None and bool(depends.reads & Reads.USAGE)


_USAGE: Final = Reads.USAGE.value
