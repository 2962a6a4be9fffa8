"""RowStates: nodes that are alike in all that resource plugins read, so that these ask once for each.

In a large cluster few nodes differ in what is allocatable and what is requested; a new class of pods
asks the same of hundreds of equal nodes. Here equal rows share a *state*, and the states form a
table of their own: a plugin that promises to read nothing else (`reads_resources_only`) is asked about
the rows of that table, and every node gets the answer of its state.

The simple way, a key for each row at each question, costs more than it saves; states follow the
journal instead.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shared.columns.pod_table import PodTable
from shared.columns.rows import parts_of, row_index, rows_between
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.table import NodeTable
from shared.columns.usage import PodUsage
from shared.framework.cluster_view import ClusterView, Follower
from shared.framework.plugin_api import FilterPlugin, ScorePlugin
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import weighted
from shared.framework.runtime.plans import ScoringPlugin
from shared.framework.runtime.prepared_pod import PreparedPod

ROWS_A_STATE_MIN: Final = 2
"""Below, looking up the answers costs what is saved."""
ROWS_A_STATE_OF_ALL: Final = 8
"""From here on answers of all states cost less than a look at which of them rows are in."""
ROWS_MIN = 1 << 14
"""With fewer, asking about each costs less than keeping track of which are alike: of pods that differ,
each makes another row unlike all others."""
NEW_STATES_MIN: Final = 4096
"""So many states may be added before those that no row has any more are dropped."""
AHEAD_MIN: Final = 1 << 15
"""The same of states that rows were not in when somebody asked."""
FEW_ROWS: Final = 8


class RowStates:
    """Of one table."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._follower = Follower(cluster)
        self.version = 0
        """Counts how often states got new numbers."""
        self._ids: dict[bytes, int] = {}
        self._built_count = self._used_count = 0
        """States there were when they were numbered, and with those that rows came to be in since."""
        self._shape = (0, 0)
        self.of_row: Rows = np.zeros(0, np.intp)
        """Shape (capacity,): the row of the node's state in `view.nodes`."""
        self.view = cluster
        """After `follow`: one node for each state, of which only columns of resources are filled."""

    def follow(self) -> None:
        """Takes in what became of the rows."""
        follower = self._follower
        if not (follower.saw_usage and follower.saw_nodes) or self._shape != self._shape_now():
            self._catch_up()
            follower.note()

    def placed(self) -> None:
        """What happened last is in `of_row` already."""
        self._follower.note()

    @property
    def count(self) -> int:
        return len(self._ids)

    def passing(self, pod: PreparedPod, indices: Sequence[int], rows: Rows) -> Bools:
        """As `PreparedPod.passing_of`."""
        filters = pod.framework.filters
        by_state = [i for i in indices if self.can_answer(filters[i], pod.info)]
        if not by_state or not self.is_shared_by(len(rows)):
            return pod.passing_of(indices, rows)
        others = [i for i in indices if i not in by_state]
        passes: Bools = self._spread(rows, partial(self.asked, pod, by_state))
        return passes & pod.passing_of(others, rows) if others else passes

    def asked(self, pod: PreparedPod, indices: Sequence[int], states: Rows) -> Bools:
        """Which states pass these filters, for which it is enough to know the state."""
        return pod._replace(cluster=self.view).passing_of(indices, states)

    def rated(self, entries: Sequence[ScoringPlugin], pod: PodInfo, rows: Rows) -> Int64s:
        """What these plugins, none of which normalises, say of each row: weighted and added up."""
        by_state = [entry for entry in entries if self.can_answer(entry.plugin, pod)]
        if not by_state or not self.is_shared_by(len(rows)):
            return rated(entries, pod, self._cluster, rows)
        others = [entry for entry in entries if not self.can_answer(entry.plugin, pod)]
        total: Int64s = self._spread(rows, partial(rated, by_state, pod, self.view))
        return total + rated(others, pod, self._cluster, rows) if others else total

    def can_answer(self, plugin: FilterPlugin | ScorePlugin, pod: PodInfo) -> bool:
        """Whether it is enough to ask the plugin about states: it reads resources only."""
        says = getattr(plugin, "reads_resources_only", False)
        return bool(says(pod, self._cluster) if callable(says) else says)

    def _spread(self, rows: Rows, ask: Callable[[Rows], NDArray[Any]]) -> NDArray[Any]:
        """For each row what is said of its state. Of all states is asked where there are so few that
        this costs less than to find out in which ones the rows are."""
        of_row = self.of_row[row_index(rows)]
        if self.count * ROWS_A_STATE_OF_ALL <= len(rows):
            return ask(rows_between(0, self.count))[of_row]
        is_used = np.zeros(self.count, np.bool_)
        is_used[of_row] = True
        states = is_used.nonzero()[0]
        said = ask(states)
        of_state = np.zeros(self.count, said.dtype)
        of_state[states] = said
        return of_state[of_row]

    def is_shared_by(self, row_count: int) -> bool:
        """Whether so many rows are many more than their states."""
        if row_count < ROWS_MIN or self.are_many:
            return False
        self.follow()
        return self._used_count * ROWS_A_STATE_MIN <= row_count

    @property
    def are_many(self) -> bool:
        """Too many to be of use even with all nodes, lately: then following changes is not worth it."""
        nodes = self._cluster.nodes
        if self._shape != self._shape_now():
            return False
        if self._used_count * ROWS_A_STATE_MIN <= nodes.row_count:
            return False
        return self._follower.usage_count < max(NEW_STATES_MIN, nodes.row_count // 4)

    def _shape_now(self) -> tuple[int, int]:
        nodes = self._cluster.nodes
        return len(nodes.requested), nodes.capacity

    def _catch_up(self) -> None:
        nodes = self._cluster.nodes
        rows = self._follower.rows()
        more = max(NEW_STATES_MIN, nodes.row_count // 16)
        ahead = max(AHEAD_MIN, nodes.row_count)
        is_other = (
            self._shape != self._shape_now()
            or self._used_count > self._built_count + more
            or self.count > self._built_count + ahead
        )
        if rows is None or is_other:
            self._start_over()
            return
        before = self.count
        self.of_row[rows] = self._numbers(_keys(nodes, rows))
        self._used_count += self.count - before

    def _start_over(self) -> None:
        nodes = self._cluster.nodes
        table = NodeTable()
        table.resources = nodes.resources
        table.reserve_resources(len(nodes.requested))
        cluster = self._cluster
        self.view = ClusterView(
            table, cluster.objects, PodTable(), cluster.classes, cluster.journal, cluster.gates
        )
        self._shape = self._shape_now()
        self._ids.clear()
        self.version += 1
        self.of_row = np.zeros(nodes.capacity, np.intp)
        for part in parts_of(nodes.row_count):
            self.of_row[part] = self._numbers(_keys(nodes, rows_between(part.start, part.stop)))
        self._built_count = self._used_count = self.count

    def with_one_more(self, states: Rows, usage: PodUsage) -> Rows:
        """What rows in these states come to be in with one more pod each that takes `usage`."""
        table, count = self.view.nodes, len(usage.amounts)
        keys = _keys(table, states)
        keys[:, :count] += usage.amounts
        keys[:, 2 * len(table.requested) :] += (
            usage.nonzero_cpu_milli, usage.nonzero_memory_bytes, 1, 0,
        )  # fmt: skip
        return self._numbers(keys)

    def _numbers(self, keys: Int64s) -> Rows:
        """The state of each key: a new one where there is none yet."""
        each: list[bytes] = keys.view(f"V{keys.shape[1] * keys.itemsize}").ravel().tolist()
        ids, first_new = self._ids, self.count
        new: list[int] = []
        states = list(map(ids.get, each))
        for at, state in enumerate(states):
            if state is None:
                if each[at] not in ids:
                    ids[each[at]] = len(ids)
                    new.append(at)
                states[at] = ids[each[at]]
        if new:
            self._fill(first_new, keys[new])
        return np.array(states, np.intp)

    def _fill(self, first: int, keys: Int64s) -> None:
        """States from `first` on look like this."""
        table, end = self.view.nodes, first + len(keys)
        table.reserve(end)
        for column, numbers in zip(_columns(table), keys.T, strict=True):
            column[first:end] = numbers


def rated(
    entries: Sequence[ScoringPlugin], pod: PodInfo, cluster: ClusterView, rows: Rows
) -> Int64s:
    """What these plugins, none of which normalises, say of each row: weighted and added up."""
    total: Int64s | None = None
    for plugin, weight, state, *_ in entries:
        score = weighted(plugin, plugin.score(state, pod, cluster, rows), weight)
        total = score if total is None else total + score
    return np.zeros(len(rows), np.int64) if total is None else total


def _keys(nodes: NodeTable, rows: Rows) -> Int64s:
    """What resource plugins read of each row, shape (n, numbers)."""
    columns = _columns(nodes)
    if len(rows) <= FEW_ROWS:  # In plain numbers, which is quicker.
        numbers = [column.item(row) for row in rows.tolist() for column in columns]
        return np.array(numbers, np.int64).reshape(len(rows), len(columns))
    index = row_index(rows)
    return np.stack([column[index] for column in columns], axis=1)


def _columns(nodes: NodeTable) -> tuple[Int64s, ...]:
    """The same, an array for each of the numbers."""
    return (
        *nodes.requested, *nodes.allocatable, nodes.nonzero_cpu_milli, nodes.nonzero_memory_bytes,
        nodes.pod_count, nodes.allowed_pod_count,
    )  # fmt: skip
