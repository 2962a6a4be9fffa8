"""What removing pods comes to on each node, kept for the pods of a class that follow.

Preemptors come in crowds: a crowd of equal pods asks the same of thousands of nodes, and each of them
changes the answer of one. So what a node's dry run came to is kept, as long as nothing on that node
changes: neither its pods, nor the pods nominated to it, nor the Node object. Only for pods of which
all filters look at the node alone; where pods elsewhere count, every answer is as old as the last pod.
"""

from typing import Final

import numpy as np

from shared.columns.pod_table import NO_NODE
from shared.columns.schema import Bools, Int32s, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.follower import Follower
from shared.framework.post_filter import Candidates
from shared.plugins.preemption.potential_victims import BUDGETS

VICTIMS_WIDTH: Final = 4
"""Room for so many victims a node at first."""
_KINDS: Final = frozenset({BUDGETS})


class DryRuns:
    """Of one class of pods, in one state of everything but nodes, pods and nominations. Arrays have
    the node table's capacity."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._follower = Follower(cluster)
        self._victims: Int32s = np.zeros((0, VICTIMS_WIDTH), np.int32)
        """Shape (capacity, the most victims of a node)."""
        self._forget_all()

    def catch_up(self) -> None:
        """Forgets the nodes on which something changed."""
        follower = self._follower
        rows, pod_rows = follower.rows(), follower.pod_rows()
        if (
            rows is None
            or pod_rows is None
            or len(self._known) != self._cluster.nodes.capacity
            or follower.concerns(_KINDS)
        ):
            self._forget_all()
        else:
            self._known[rows] = False
            on_rows = self._cluster.pods.node_row[pod_rows]
            self._known[on_rows[on_rows != NO_NODE]] = False
        follower.note()

    def unknown(self, rows: Rows) -> Rows:
        """Those of the nodes that are to be tried."""
        unknown: Rows = rows[~self._known[rows]]
        return unknown

    def learn(self, rows: Rows, found: Candidates) -> None:
        """`rows` were tried, and `found` are those of them where it helps."""
        self._known[rows] = True
        self._helps[rows] = False
        self._helps[found.rows] = True
        self._violations[found.rows] = found.violations
        self._counts[found.rows] = found.counts
        widest = int(found.counts.max(initial=0))
        if widest > self._victims.shape[1]:
            more = widest - self._victims.shape[1]
            self._victims = np.pad(self._victims, ((0, 0), (0, more)))
        victims = self._victims[found.rows]
        victims[self._is_used(found.counts)] = found.victims
        self._victims[found.rows] = victims

    def candidates(self, rows: Rows) -> Candidates:
        """Of the nodes, which are known, those where it helps, in their order."""
        rows = rows[self._helps[rows]]
        counts = self._counts[rows]
        victims: Rows = self._victims[rows][self._is_used(counts)].astype(np.intp)
        return Candidates(rows, self._violations[rows], counts, victims)

    def _is_used(self, counts: Int64s) -> Bools:
        is_used: Bools = np.arange(self._victims.shape[1]) < counts[:, np.newaxis]
        return is_used

    def _forget_all(self) -> None:
        capacity = self._cluster.nodes.capacity
        self._known = np.zeros(capacity, np.bool_)
        self._helps = np.zeros(capacity, np.bool_)
        self._violations = np.zeros(capacity, np.int64)
        self._counts = np.zeros(capacity, np.int64)
        self._victims = np.zeros((capacity, VICTIMS_WIDTH), np.int32)
