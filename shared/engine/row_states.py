"""RowStates: nodes that are alike in all that resource plugins read, so that these ask once for each.

In a large cluster few nodes differ in what is allocatable and what is requested; a new class of pods
asks the same of hundreds of equal nodes. Here equal rows share a *state*, and the states form a
table of their own: a plugin that promises to read nothing else (`ResourceReader`) is asked about the
rows of that table, and every node gets the answer of its state.

The simple way, a key for each row at each question, costs more than it saves; states follow the
journal instead.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.columns.pod_table import PodTable
from shared.columns.rows import RowIndex, row_index, rows_between
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.table import NodeTable
from shared.columns.usage import PodUsage, add_usage
from shared.framework.cluster_view import ClusterView
from shared.framework.filter_outcomes import ActiveScore, PreFilterOutcome
from shared.framework.follower import Follower
from shared.framework.plugin_api import FilterPlugin, ScorePlugin
from shared.framework.pod_info import PodInfo
from shared.framework.runtime import Framework
from shared.framework.score_range import weighted

ROWS_A_STATE_MIN: Final = 2
"""Below, looking up the answers costs what is saved."""
ROWS_MIN = 2048
"""With fewer nodes, asking about each costs little."""
NEW_STATES_MIN: Final = 4096
"""So many states may be added before those that no row has any more are dropped."""
FEW_ROWS: Final = 8
LARGE_GROUP_MIN: Final = 256
LARGE_GROUP_SHARE: Final = 64
"""A group of at least one row in so many is found sooner by comparing than by sorting."""
_OTHERS: Final = struct.Struct("=4q")
"""The last columns of a key, as bytes."""
_MULTIPLIERS: Final = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class RowStates:
    """Of one table; caught up at each `view`."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._follower = Follower(cluster)
        self.version = 0
        """Counts how often states got new numbers."""
        self._ids: dict[bytes, int] = {}
        self._built_count = 0
        self._shape = (0, 0)
        self.of_row: Rows = np.zeros(0, np.intp)
        """Shape (capacity,): the row of the node's state in `view().nodes`."""
        self._view: ClusterView | None = None

    def view(self) -> ClusterView | None:
        """A view with one node for each state, of which only columns of resources are filled; None
        where there is little to share. Valid until the next change of the real nodes."""
        if self._cluster.nodes.row_count < ROWS_MIN:
            return None
        self._follow()
        assert self._view is not None, "made when caught up"
        return self._view

    def _follow(self) -> None:
        follower = self._follower
        if not (follower.saw_usage and follower.saw_nodes) or self._shape != self._shape_now():
            self._catch_up()
            follower.note()

    def of(self, rows: list[int]) -> list[int]:
        """The states of some rows, by number."""
        self._follow()
        of_row = self.of_row
        return [of_row.item(row) for row in rows]

    @property
    def followed(self) -> ClusterView:
        """As `view`, after `of`, however little there is to share."""
        assert self._view is not None, "made when followed"
        return self._view

    @property
    def count(self) -> int:
        return len(self._ids)

    def passing(
        self,
        framework: Framework,
        indices: Sequence[int],
        pod: PodInfo,
        outcome: PreFilterOutcome,
        rows: Rows,
    ) -> Bools:
        """As `Framework.passing_of`."""
        view = self._view_worth(rows)
        if view is None:
            return framework.passing_of(indices, pod, self._cluster, outcome, rows)
        by_state = [i for i in indices if reads_resources_only(framework.filters[i])]
        others = [i for i in indices if i not in by_state]
        passes = framework.passing_of(others, pod, self._cluster, outcome, rows)
        if by_state:
            of_states = framework.passing_of(
                by_state, pod, view, outcome, rows_between(0, self.count)
            )
            passes &= of_states[self.of_row[row_index(rows)]]
        return passes

    def rated(self, entries: Sequence[ActiveScore], pod: PodInfo, rows: Rows) -> Int64s:
        """What these plugins, none of which normalises, say of each row: weighted and added up."""
        view = self._view_worth(rows)
        if view is None:
            return rated(entries, pod, self._cluster, rows)
        by_state = [entry for entry in entries if reads_resources_only(entry.plugin)]
        others = [entry for entry in entries if not reads_resources_only(entry.plugin)]
        total = rated(by_state, pod, view, rows_between(0, self.count))[
            self.of_row[row_index(rows)]
        ]
        if others:
            total += rated(others, pod, self._cluster, rows)
        return total

    def _view_worth(self, rows: Rows) -> ClusterView | None:
        """The view, if there are enough rows to share its answers."""
        return self.view() if self.is_shared_by(len(rows)) else None

    def is_shared_by(self, row_count: int) -> bool:
        """Whether so many rows are many more than their states."""
        if row_count < ROWS_MIN or self.are_many:
            return False
        return self.view() is not None and self.count * ROWS_A_STATE_MIN <= row_count

    @property
    def are_many(self) -> bool:
        """Too many to be of use even with all nodes, lately: then following changes is not worth it."""
        nodes = self._cluster.nodes
        if self._shape != self._shape_now() or self.count * ROWS_A_STATE_MIN <= nodes.row_count:
            return False
        return self._follower.usage_count < max(NEW_STATES_MIN, nodes.row_count // 4)

    @contextmanager
    def one_more(
        self, rows: Rows, usage: PodUsage, plugins: Sequence[FilterPlugin | ScorePlugin]
    ) -> Iterator[None]:
        """As if there were one more pod on each of the rows, distinct, to these plugins and for as long
        as this lasts."""
        view = self._view_worth(rows)
        if view is None:
            with _one_more(self._cluster.nodes, rows, usage):
                yield
            return
        with _one_more(view.nodes, rows_between(0, self.count), usage):
            if all(map(reads_resources_only, plugins)):
                yield  # None of them looks at the rows themselves.
                return
            with _one_more(self._cluster.nodes, rows, usage):
                yield

    def _shape_now(self) -> tuple[int, int]:
        nodes = self._cluster.nodes
        return len(nodes.requested), nodes.capacity

    def _catch_up(self) -> None:
        nodes = self._cluster.nodes
        rows, node_rows = self._follower.usage_rows(), self._follower.node_rows()
        most = self._built_count + max(NEW_STATES_MIN, nodes.row_count // 16)
        is_other = self._shape != self._shape_now() or self.count > most
        if rows is None or node_rows is None or is_other:
            self._start_over()
            return
        if len(node_rows):
            rows = np.union1d(rows, node_rows)
        if len(rows) <= FEW_ROWS:
            for row in rows.tolist():
                self._assign_one(row)
        elif len(rows) > nodes.row_count // 8:
            self._start_over()
        else:
            self._assign(rows, _keys(nodes, rows))

    def _start_over(self) -> None:
        nodes = self._cluster.nodes
        table = NodeTable()
        table.resources = nodes.resources
        table.reserve_resources(len(nodes.requested))
        cluster = self._cluster
        self._view = ClusterView(
            table, cluster.objects, PodTable(), cluster.classes, cluster.journal
        )
        self._shape = self._shape_now()
        self._ids.clear()
        self.version += 1
        self.of_row = np.zeros(nodes.capacity, np.intp)
        firsts, group_of_row = _grouped(_key_columns(nodes, slice(0, nodes.row_count)))
        self._assign(firsts, _keys(nodes, firsts))
        self.of_row[: nodes.row_count] = self.of_row[firsts][group_of_row]
        self._built_count = self.count

    def _assign(self, rows: Rows, keys: Int64s) -> None:
        """Gives each row its state, with new states where there is none yet."""
        width = keys.shape[1] * keys.itemsize
        data = keys.tobytes()
        new: list[int] = []
        first_new = self.count
        for at, row in enumerate(rows.tolist()):
            key = data[at * width : (at + 1) * width]
            state = self._ids.get(key)
            if state is None:
                state = self._ids[key] = len(self._ids)
                new.append(row)
            self.of_row[row] = state
        if new:
            self._fill(first_new, np.array(new, np.intp))

    def _assign_one(self, row: int) -> None:
        """`_assign` of one row: in plain numbers, which is quicker for a few."""
        nodes = self._cluster.nodes
        key = b"".join(
            (
                nodes.requested[:, row].tobytes(),
                nodes.allocatable[:, row].tobytes(),
                _OTHERS.pack(*[column.item(row) for column in _other_columns(nodes)]),
            )
        )
        state = self._ids.get(key)
        if state is None:
            state = self._ids[key] = len(self._ids)
            self._fill(state, np.array([row], np.intp))
        self.of_row[row] = state

    def _fill(self, first: int, rows: Rows) -> None:
        """States from `first` on look like these rows."""
        assert self._view is not None, "made before"
        nodes, table = self._cluster.nodes, self._view.nodes
        end = first + len(rows)
        table.reserve(end)
        table.requested[:, first:end] = nodes.requested[:, rows]
        table.allocatable[:, first:end] = nodes.allocatable[:, rows]
        table.nonzero_cpu_milli[first:end] = nodes.nonzero_cpu_milli[rows]
        table.nonzero_memory_bytes[first:end] = nodes.nonzero_memory_bytes[rows]
        table.pod_count[first:end] = nodes.pod_count[rows]
        table.allowed_pod_count[first:end] = nodes.allowed_pod_count[rows]


def reads_resources_only(plugin: FilterPlugin | ScorePlugin) -> bool:
    """Whether the plugin is a `ResourceReader`, found out quicker."""
    return bool(getattr(plugin, "reads_resources_only", False))


def rated(entries: Sequence[ActiveScore], pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
    """What these plugins, none of which normalises, say of each row: weighted and added up."""
    total: Int64s | None = None
    for plugin, weight, state, _ in entries:
        score = weighted(plugin, plugin.score(state, pod, cluster, rows), weight)
        total = score if total is None else total + score
    return np.zeros(len(rows), np.int64) if total is None else total


@contextmanager
def _one_more(nodes: NodeTable, rows: Rows, usage: PodUsage) -> Iterator[None]:
    """One more pod on each of the rows, for as long as this lasts."""
    if len(rows) == 1:
        add_usage(nodes, rows.item(0), usage)
        try:
            yield
        finally:
            add_usage(nodes, rows.item(0), usage, -1)
        return
    index = row_index(rows)
    resources = usage.amounts.nonzero()[0].tolist()
    columns = [nodes.requested[resource] for resource in resources]
    columns += [nodes.nonzero_cpu_milli, nodes.nonzero_memory_bytes, nodes.pod_count]
    before = [column[index].copy() for column in columns]
    amounts = [usage.amounts.item(resource) for resource in resources]
    amounts += [usage.nonzero_cpu_milli, usage.nonzero_memory_bytes, 1]
    for column, old, amount in zip(columns, before, amounts, strict=True):
        column[index] = old + amount
    try:
        yield
    finally:
        for column, old in zip(columns, before, strict=True):
            column[index] = old


def _keys(nodes: NodeTable, rows: Rows) -> Int64s:
    """What resource plugins read of each row, shape (n, numbers)."""
    return np.stack(_key_columns(nodes, row_index(rows)), axis=1)


def _key_columns(nodes: NodeTable, index: RowIndex) -> list[Int64s]:
    """The same, one array for each of the numbers."""
    columns = (*nodes.requested, *nodes.allocatable, *_other_columns(nodes))
    return [column[index] for column in columns]


def _other_columns(nodes: NodeTable) -> tuple[Int64s, ...]:
    return (
        nodes.nonzero_cpu_milli, nodes.nonzero_memory_bytes, nodes.pod_count,
        nodes.allowed_pod_count,
    )  # fmt: skip


def _grouped(columns: Sequence[Int64s]) -> tuple[Rows, Rows]:
    """The first row of each group of rows that are equal in all columns, and the group of each row.

    Grouped by a sum that mixes the numbers, since sorting by all of them takes many times longer. Two
    keys may have the same sum: this is checked, and rows that are not what they seemed to be become
    groups of their own.
    """
    count = len(columns[0])
    varying = [column for column in columns if bool((column != column[:1]).any())]
    if not varying:
        return rows_between(0, min(1, count)), np.zeros(count, np.intp)
    sums = np.zeros(count, np.uint64)
    for column in varying:
        sums ^= sums >> np.uint64(29)
        sums *= np.uint64(_MULTIPLIERS[0])
        sums += column.view(np.uint64) * np.uint64(_MULTIPLIERS[1])
        sums ^= sums >> np.uint64(32)
        sums *= np.uint64(_MULTIPLIERS[2])
    firsts, groups = _numbered(sums)
    differs = np.zeros(count, np.bool_)
    for column in varying:
        differs |= column != column[firsts][groups]
    apart = np.flatnonzero(differs)
    groups[apart] = len(firsts) + np.arange(len(apart))
    return np.concatenate((firsts, apart)), groups


def _numbered(sums: NDArray[np.uint64]) -> tuple[Rows, Rows]:
    """The first row of each group of equal sums, and the group of each row. Large groups are taken out
    one by one: sorting is for what is left."""
    groups = np.zeros(len(sums), np.intp)
    firsts: list[int] = []
    left = rows_between(0, len(sums))
    while len(left) >= LARGE_GROUP_MIN:
        same = sums == sums[0]
        if int(np.count_nonzero(same)) * LARGE_GROUP_SHARE < len(left):
            break
        groups[left[same]] = len(firsts)
        firsts.append(left.item(0))
        left, sums = left[~same], sums[~same]
    _, of_left, groups_left = np.unique(sums, return_index=True, return_inverse=True)
    groups[left] = len(firsts) + groups_left
    return np.concatenate((np.array(firsts, np.intp), left[of_left])), groups
