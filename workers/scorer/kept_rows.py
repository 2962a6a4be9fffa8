"""KeptRows: what plugins know of every row whatever pod is asked about, for pods that have no like.

A plugin that looks at requests says something else for each pod. But most of what it computes it
computes from the row: free shares, how well a node is balanced as it is. Plugins that can tell the two
apart (`RoomFilter`, `ScoreKeeper`) have the one half kept here, where it follows the journal row by row,
and are asked for the other alone: a few operations over all rows.

Nothing is approximate. Rows that a plugin cannot keep it leaves out, and where one of these matters
there is no answer here.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from shared.columns.resource_columns import requested_and_allocatable, requested_and_allocatable_one
from shared.columns.rows import row_index, rows_between
from shared.columns.schema import Bools, Int64s, Rows
from shared.engine.families import FrameworkParts, rooms_asked
from shared.framework.cluster_view import ClusterView
from shared.framework.follower import Follower
from shared.framework.plugin_api import RoomAsked, RoomFilter, ScoreKeeper
from shared.framework.pod_info import PodInfo
from shared.plugins.resources.balance import Floats
from shared.plugins.resources.kept_resources import AMOUNT_MAX, KeptRoom, KeptScores
from shared.plugins.resources.resource_arrays import BLOCK

FEW_ROWS: Final = 8
"""So many are written one by one in plain numbers, which is quicker."""


class _KeptScore(NamedTuple):
    plugin: ScoreKeeper
    weight: int
    scores: KeptScores


class _ScoreAsked(NamedTuple):
    scores: KeptScores
    weight: int
    amounts: Sequence[int]


class Asked(NamedTuple):
    """What a pod asks for, of each filter and of each score that has a say."""

    rooms: Sequence[RoomAsked]
    scores: Sequence[_ScoreAsked]


class KeptRows:
    """Of one cluster and some plugins."""

    def __init__(
        self, cluster: ClusterView, filters: Sequence[RoomFilter], scores: Sequence[_KeptScore]
    ) -> None:
        self._cluster = cluster
        self._filters = filters
        self._room = KeptRoom()
        self._scores = scores
        self._follower = Follower(cluster)
        self._capacity = -1
        self._total: Floats = np.zeros(0)

    def follow(self) -> None:
        """Takes in what changed. To be called before anything is asked."""
        rows = self._follower.rows()
        if rows is None or self._capacity != self._cluster.nodes.capacity:
            self._start_over()
        else:
            self._write(rows)
        self._follower.note()

    def _start_over(self) -> None:
        nodes = self._cluster.nodes
        self._capacity = nodes.capacity
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
        scores: list[_ScoreAsked] = []
        for keeper, weight, kept in self._scores:
            amounts = keeper.amounts_asked(pod)
            if amounts is not None:
                if max(amounts) > AMOUNT_MAX:
                    return None
                scores.append(_ScoreAsked(kept, weight, amounts))
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
        for scores, _, _ in asked.scores:
            if scores.has_left_out:
                out = scores.left_out[:count]
                if (out if feasible is None else out & feasible).any():
                    return None
        total = self._total[:count]
        for start in range(0, count, BLOCK):
            block = slice(start, min(start + BLOCK, count))
            sums = more[block]
            for scores, weight, amounts in asked.scores:
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
        keeper: ScoreKeeper = plugin
        kept = keeper.keep_score()
        if kept is None:
            return None
        scores.append(_KeptScore(keeper, weight, kept))
    return KeptRows(cluster, parts.room_filters, scores)
