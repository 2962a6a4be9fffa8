"""ClassScores: how the pods of one class rate each node, kept up to date.

What a plugin says of all rows is a column: raw scores, and what they come to normalised and weighted.
*Narrow* plugins compute from the row: a placement asks them again about one. *Wide* ones look at pods
elsewhere and name the rows to rate again themselves (`UpdatableScore`). A column whose range changed,
which changes what it gives everywhere, is weighed anew; the total is the sum. Plugins that a placement
changes and that do not normalise need no column of their own: they are added up as they are.
"""

from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from shared.columns.rows import parts_of, row_index, rows_where
from shared.columns.schema import NO_ROWS, Bools, Int64s, Rows
from shared.engine.best_rows import BestRows
from shared.engine.class_filters import Refiltered
from shared.engine.row_states import RowStates, rated
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Delta, PreScorePlugin, Reads, UpdatableScore
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import weighted
from shared.framework.runtime.plans import MOVING, ScoringPlugin
from shared.framework.runtime.prepared_pod import PreparedPod
from shared.framework.status import Code

SHARE_LIKE_ALL: Final = 16
"""To write every sixteenth row costs about as much as to write all, which lie side by side."""
NOT_FEASIBLE: Final = -1
"""In place of a total."""


class ScoreColumn:
    """What one plugin says of all rows. Arrays have the table's capacity."""

    def __init__(self, entry: ScoringPlugin, capacity: int) -> None:
        self.entry = entry
        self.follower = entry.follower
        """If it is wide; then what it gives is kept."""
        self.is_moving = bool(entry.plugin.score_depends.reads & MOVING)
        """A placement changes what it says of the row."""
        self.raw: Int64s = np.zeros(capacity, np.int64)
        self.normalization: Hashable = None
        self._weighted: Int64s = np.zeros(0 if self.follower is None else capacity, np.int64)
        by_extremes = bool(getattr(entry.plugin, "normalizes_by_extremes", False))
        is_fixed = entry.follower is None and not self.is_moving
        self._is_even: bool = is_fixed and (by_extremes or entry.normalizer is None)
        """All rows that were ever rated have the same raw score, and that says all of the summary."""
        self._even_raw: int | None = None
        self._was_summarized = False
        """With some row that is feasible."""

    def rate(self, pod: PodInfo, cluster: ClusterView, rows: Rows) -> None:
        plugin, _, state, *_ = self.entry
        raw = plugin.score(state, pod, cluster, rows)
        if self._is_even and len(raw):
            if self._even_raw is None:
                self._even_raw = raw.item(0)
            self._is_even = bool((raw == self._even_raw).all())
        if not self._is_even or self._even_raw:  # Else: zeros where there is nothing but zeros.
            self.raw[row_index(rows)] = raw

    @property
    def _even(self) -> Int64s | None:
        """The raw score of all rows that were rated, if it is the same."""
        if not self._is_even or self._even_raw is None:
            return None
        return np.array([self._even_raw])

    def weighted(self, index: Rows | slice) -> Int64s:
        """What it gives these rows, which were rated: for each, or one number for all."""
        if self.follower is not None:
            return self._weighted[index]
        even = self._even
        return self.weigh(self.raw[index] if even is None else even, self.normalization)

    def weigh(self, raw: Int64s, normalization: Hashable) -> Int64s:
        """Raw scores, normalised and weighted."""
        plugin, weight, _, normalizer, *_ = self.entry
        if normalizer is not None:
            raw = normalizer.normalize(raw, normalization)
        return weighted(plugin, raw, weight)

    def conclude(self, rows: Rows, feasible: "_Feasible", row_count: int) -> bool:
        """`rows` were rated, or others are feasible: weighs what changed by that. Says whether that may
        be anything."""
        is_other = self._summarize(feasible)
        if self.follower is None:
            return is_other
        if is_other:
            for part in parts_of(row_count):
                self._weighted[part] = self.weigh(self.raw[part], self.normalization)
        elif len(rows):
            self._weighted[rows] = self.weigh(self.raw[rows], self.normalization)
        return is_other

    def _summarize(self, feasible: "_Feasible") -> bool:
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


class _Feasible:
    """Feasible rows, found once for as long as none flips."""

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
    some score is out of range (`INVALID`)."""

    def __init__(
        self, pod: PreparedPod, static_ok: Bools, feasible: Bools, states: RowStates | None = None
    ) -> None:
        """Raises PreScoreError. The arrays are ClassFilters' own, read at each update."""
        self.pod = pod.info
        """Who is asked about."""
        self._cluster = pod.cluster
        self._static_ok = static_ok
        self._feasible_mask = feasible
        self._feasible = _Feasible(feasible)
        rows = rows_where(feasible)
        prepared = pod.framework.prepare_scores(pod.info, pod.cluster, rows)
        self.stale_by: int = prepared.stale_by.value
        """Changes after which to start anew, as bits of Reads."""
        self.object_kinds = prepared.object_kinds
        """The same for objects; None: of any kind."""
        capacity = len(feasible)
        columns = [ScoreColumn(entry, capacity) for entry in prepared.active]
        self._wide = [column for column in columns if column.follower is not None]
        self.followers: list[tuple[Any, Any]] = [(c.follower, c.entry.state) for c in self._wide]
        """The plugins that look at pods elsewhere, with their state: those that have a column, then
        those that have no say and may come to have one."""
        self.followers += prepared.skipped_updatable
        self._narrow = [c for c in columns if c.follower is None and not _is_plain(c)]
        self._plain = [column.entry for column in columns if _is_plain(column)]
        self._narrow_sum: Int64s = np.zeros(capacity, np.int64)
        self._plain_sum: Int64s = np.zeros(capacity, np.int64)
        """What these give together."""
        self._minds_feasible = bool(self.stale_by & Reads.USAGE.value) or any(
            _minds_feasible(column.follower) for column in self._wide
        )
        """PreScore of some plugin would say something else if other nodes were feasible."""
        self._skipped_for_feasible = [
            plugin
            for plugin, _ in prepared.skipped_updatable
            if _minds_feasible(plugin) and isinstance(plugin, PreScorePlugin)
        ]
        self.total: Int64s = np.full(capacity, NOT_FEASIBLE, np.int64)
        self.best = BestRows(self.total)
        self._start(states)

    def _start(self, states: RowStates | None) -> None:
        # A node that is not feasible is still rated, as it may become so without a change of what
        # it is rated by; it does not take part in normalisation until then.
        rows = rows_where(self._static_ok)
        count = self._cluster.nodes.row_count
        for column in (*self._narrow, *self._wide):
            for part in (slice(None),) if column.follower else parts_of(len(rows)):
                column.rate(self.pod, self._cluster, rows[part])
            column.conclude(rows, self._feasible, count)
        self._sum_narrow()
        self._plain_sum[row_index(rows)] = (
            rated(self._plain, self.pod, self._cluster, rows)
            if states is None
            else states.rated(self._plain, self.pod, rows)
        )
        self._write_all()

    def update(self, usage_rows: Rows, delta: Delta, refiltered: Refiltered) -> bool:
        """Rates again what changed, as `usage_rows` and `delta` say, and takes over what became of
        the filters. False where that takes a new start."""
        node_rows = delta.node_rows
        rows = np.union1d(usage_rows, node_rows) if len(node_rows) else usage_rows
        rows = rows[self._static_ok[rows]]
        if self._plain and len(rows):
            self._plain_sum[rows] = rated(self._plain, self.pod, self._cluster, rows)
        return self._follow(rows, delta, refiltered)

    def place(self, row: int, rating: int, delta: Delta, refiltered: Refiltered) -> bool:
        """As `update` where a pod of this class came to `row`. `rating`: what the moving plugins say
        now, together; none of them normalises."""
        self._plain_sum[row] = rating
        return self._follow(NO_ROWS, delta, refiltered)

    def take_over(self, row: int, rating: int) -> None:
        """The same where the row goes on being feasible, or not feasible, and pods elsewhere matter
        to no plugin."""
        change = rating - self._plain_sum.item(row)
        if change:
            self._plain_sum[row] = rating
            before = self.total.item(row)
            if before != NOT_FEASIBLE:
                self.total[row] = before + change
                self.best.moved(row, before, before + change)

    def among(self, rows: Rows) -> Int64s | None:
        """As `total` if no more than these rows, some of those that are feasible, were: read only, and
        of no meaning for other rows. None where that takes a new start."""
        if self._minds_feasible:
            return None
        for plugin in self._skipped_for_feasible:
            again = plugin.pre_score(self.pod, self._cluster, rows)
            if again.status.code is not Code.SKIP:
                return None
        total = self.total
        for column in (*self._narrow, *self._wide):
            normalizer = column.entry.normalizer
            if normalizer is None:
                continue
            before, raw = column.normalization, column.raw
            summary = normalizer.normalization(column.entry.state, raw[rows])
            if summary != before:
                total = total + (column.weigh(raw, summary) - column.weigh(raw, before))
        return total

    @property
    def moving(self) -> list[ScoringPlugin]:
        """The narrow plugins that rate a row otherwise after a placement."""
        return [*self._plain, *(column.entry for column in self._narrow if column.is_moving)]

    def _follow(self, rows: Rows, delta: Delta, refiltered: Refiltered) -> bool:
        """`rows` are to be rated again by narrow plugins that read what changed; wide ones follow, and
        normalisation and totals."""
        flipped, node_rows = refiltered.flipped, delta.node_rows
        touched: list[Rows] = []
        for plugin, state in self.followers:
            named: Rows | None = plugin.update_score(
                state, self.pod, self._cluster, delta, self._feasible_mask, flipped
            )
            if named is None:
                return False
            touched.append(np.concatenate((named, node_rows)) if len(node_rows) else named)
        del touched[len(self._wide) :]
        if len(flipped):
            self._feasible = _Feasible(self._feasible_mask)
        count = self._cluster.nodes.row_count
        writes_all = self._follow_narrow(
            rows, is_new=len(flipped) > 0, is_edited=len(node_rows) > 0
        )
        for column, again in zip(self._wide, touched, strict=True):
            if len(again):
                column.rate(self.pod, self._cluster, again)
            if len(again) or len(flipped):
                writes_all |= column.conclude(again, self._feasible, count)
        dirty = [some for some in (refiltered.rows, *touched) if len(some)]
        if writes_all or sum(map(len, dirty)) > count // SHARE_LIKE_ALL:
            self._write_all()
        else:
            for some in dirty:
                self._write(some)
        return True

    def _follow_narrow(self, rows: Rows, *, is_new: bool, is_edited: bool) -> bool:
        """Says whether what they give changed everywhere. `is_new`: other rows are feasible;
        `is_edited`: Node objects changed."""
        is_other = False
        is_any = False
        for column in self._narrow:
            is_rated = len(rows) > 0 and (is_edited or column.is_moving)
            if is_rated:
                column.rate(self.pod, self._cluster, rows)
                is_any = True
            if is_rated or is_new:
                is_other |= column.conclude(rows, self._feasible, 0)
        if is_other:
            self._sum_narrow()
        elif is_any:
            self._narrow_sum[rows] = sum(column.weighted(rows) for column in self._narrow)
        return is_other

    def _sum_narrow(self) -> None:
        for part in parts_of(self._cluster.nodes.row_count):
            total = self._narrow_sum[part]
            total.fill(0)
            for column in self._narrow:
                total += column.weighted(part)

    def _write(self, rows: Rows) -> None:
        total = self._plain_sum[rows] + self._narrow_sum[rows]
        for column in self._wide:
            total += column.weighted(rows)
        np.putmask(total, ~self._feasible_mask[rows], NOT_FEASIBLE)
        before = self.total[rows]
        self.total[rows] = total
        self.best.wrote(rows, before)

    def _write_all(self) -> None:
        for part in parts_of(self._cluster.nodes.row_count):
            total = np.add(self._plain_sum[part], self._narrow_sum[part], out=self.total[part])
            for column in self._wide:
                total += column.weighted(part)
            np.putmask(total, ~self._feasible_mask[part], NOT_FEASIBLE)
        self.best.forget()


def _is_plain(column: ScoreColumn) -> bool:
    return column.follower is None and column.is_moving and column.entry.normalizer is None


def _minds_feasible(plugin: UpdatableScore | None) -> bool:
    """What depends on which nodes are feasible reads all that filters do."""
    depends = getattr(plugin, "pre_score_depends", None)
    return depends is not None and bool(depends.reads & Reads.USAGE)
