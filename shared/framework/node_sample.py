"""NodeSample: scoring some of the feasible nodes, where the configuration asks for it.

berth scores all nodes unless percentageOfNodesToScore is set. Where it is, nodes are looked at in
nodeTree order from where the search before ended, until enough of them take the pod, and only these
are scored.

Rules: findNodesThatPassFilters and numFeasibleNodesToFind in pkg/scheduler/schedule_one.go, v1.36.2.
Upstream looks at several nodes at a time and may note one or two more as looked at; of nodes that a
plugin named in PreFilter it takes them in the random order of a map, we in nodeTree order.
"""

from typing import Final

import numpy as np

from shared.columns.schema import Bools, Rows

FEASIBLE_MIN: Final = 100
"""minFeasibleNodesToFind: so many are looked for whatever the percentage."""
ALL: Final = 100


def is_sampling(percentage: int | None) -> bool:
    """0 and what is not set mean all nodes, here."""
    return percentage is not None and 0 < percentage < ALL


def count_to_find(percentage: int, node_count: int) -> int:
    """How many feasible nodes are enough."""
    if node_count < FEASIBLE_MIN:
        return node_count
    return max(FEASIBLE_MIN, node_count * percentage // ALL)


class NodeSample:
    """Where the next search begins; one for all profiles, as upstream."""

    def __init__(self) -> None:
        self._start = 0

    def take(self, order: Rows, candidates: Bools | None, feasible: Bools, percentage: int) -> Rows:
        """The rows to score, ascending. `order`: all nodes; `candidates` and `feasible` by row, None
        for all."""
        searched = order if candidates is None else order[candidates[order]]
        count = len(searched)
        if not count:
            return searched
        start = self._start % count
        searched = np.concatenate((searched[start:], searched[:start]))
        found = np.flatnonzero(feasible[searched])[: count_to_find(percentage, count)]
        is_enough = len(found) == count_to_find(percentage, count)
        looked_at = found.item(-1) + 1 if is_enough else count
        self._start = (self._start + looked_at) % len(order)
        return np.sort(searched[found])
