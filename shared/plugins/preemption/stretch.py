"""Stretch: some nodes, and the pods that could go from each of them so that another one fits."""

from typing import NamedTuple

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.plugins.preemption.budgets import Budgets


class Stretch(NamedTuple):
    """Arrays of shape (m,) unless stated, a node's pods together, in the order in which they are put
    back: those whose budget would be violated first, then the others, each the most important first.
    There is a pod at least on each node."""

    rows: Rows
    """The nodes, shape (n,)."""
    starts: Rows
    """Where each node's pods begin, shape (n + 1,)."""
    pods: Rows
    """Rows of the pod table."""
    importance: Rows
    """Each pod's place on its node when budgets do not matter; 0 is the most important."""
    violates: Bools

    @property
    def counts(self) -> Int64s:
        """Pods of each node, shape (n,)."""
        return np.diff(self.starts)

    def part(self, first: int, end: int) -> "Stretch":
        """Some nodes that follow one another."""
        starts = self.starts[first : end + 1]
        pods = slice(starts[0], starts[-1])
        return Stretch(
            self.rows[first:end],
            starts - starts[0],
            self.pods[pods],
            self.importance[pods],
            self.violates[pods],
        )

    def kept(self, is_kept: Bools) -> "Stretch":
        """Some of the nodes."""
        counts = self.counts
        pods = np.repeat(is_kept, counts)
        return Stretch(
            self.rows[is_kept],
            _starts(counts[is_kept]),
            self.pods[pods],
            self.importance[pods],
            self.violates[pods],
        )


def stretch_of(
    cluster: ClusterView, budgets: Budgets, rows: Rows, priority: int
) -> tuple[Stretch, Rows]:
    """The pods on some nodes that are less important than `priority`; and the nodes without any."""
    pods = cluster.pods
    position = np.full(cluster.nodes.capacity + 1, -1, np.int64)  # Last: pods on no node.
    position[rows] = np.arange(len(rows))
    found = np.flatnonzero(position[pods.node_row[: pods.row_count]] >= 0)
    priorities = cluster.usages.priorities(pods.class_id[found])
    is_lower = priorities < priority
    found, priorities = found[is_lower], priorities[is_lower]
    at = position[pods.node_row[found]]
    order = np.lexsort((found, pods.start_s[found], -priorities, at))
    found, at = found[order], at[order]
    counts = np.bincount(at, minlength=len(rows))
    kept = counts > 0
    starts = _starts(counts[kept])
    importance = np.arange(len(found)) - np.repeat(starts[:-1], counts[kept])
    violates = budgets.violations(found, starts)
    if violates.any():
        order = np.lexsort((importance, ~violates, at))
        found, importance, violates = found[order], importance[order], violates[order]
    return Stretch(rows[kept], starts, found, importance, violates), rows[~kept]


def _starts(counts: Int64s) -> Rows:
    return np.concatenate((np.zeros(1, np.intp), np.cumsum(counts)))
