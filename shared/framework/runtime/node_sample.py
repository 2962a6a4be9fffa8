"""NodeSample: scoring some of the feasible nodes, where the configuration asks for it.

berth scores all nodes unless percentageOfNodesToScore is set. Where it is, nodes are looked at in
nodeTree order from where the search before ended, until enough of them take the pod, and only these
are scored. A *compatible* sample is kube-scheduler's own in all cases, 0 and not set included, so that
its placements can be compared pod by pod; ties then go to whom its heap has first.

Rules: findNodesThatPassFilters, numFeasibleNodesToFind and nodeScoreHeap in
pkg/scheduler/schedule_one.go, v1.36.2, with `parallelism: 1`; else it looks at several nodes at a time,
and in which order they come to its heap is chance. Of nodes that a plugin named in PreFilter it takes
them in the random order of a map, we in nodeTree order.
"""

from typing import Final, NamedTuple

import numpy as np

from shared.columns.schema import Bools, Rows

FEASIBLE_MIN: Final = 100
"""minFeasibleNodesToFind: so many are looked for whatever the percentage."""
ADAPTIVE: Final = 0
"""The percentage that falls as the cluster grows."""
ADAPTIVE_MAX: Final = 50
ADAPTIVE_MIN: Final = 5
NODES_A_PERCENT: Final = 125
ALL: Final = 100


class Sampling(NamedTuple):
    """How a profile chooses the nodes that it scores."""

    percentage: int
    is_compatible: bool = False
    """As kube-scheduler, ties and nodes that are all looked at included."""


def sampling_of(percentage: int | None, *, is_compatible: bool = False) -> Sampling | None:
    """None: all nodes are scored. 0 and what is not set mean that here, unless `is_compatible`."""
    if is_compatible:
        return Sampling(percentage or ADAPTIVE, is_compatible=True)
    return Sampling(percentage) if percentage is not None and 0 < percentage < ALL else None


def count_to_find(percentage: int, node_count: int) -> int:
    """How many feasible nodes are enough."""
    if node_count < FEASIBLE_MIN:
        return node_count
    if percentage == ADAPTIVE:
        percentage = max(ADAPTIVE_MIN, ADAPTIVE_MAX - node_count // NODES_A_PERCENT)
    return max(FEASIBLE_MIN, node_count * percentage // ALL)


class NodeSample:
    """Where the next search begins; one for all profiles, as upstream."""

    def __init__(self) -> None:
        self._start = 0

    def take(self, order: Rows, candidates: Bools | None, feasible: Bools, percentage: int) -> Rows:
        """The rows to score, in the order in which they were looked at. `order`: all nodes;
        `candidates` and `feasible` by row, None for all."""
        searched = order if candidates is None else order[candidates[order]]
        count = len(searched)
        if not count:
            return searched
        start = self._start % count
        searched = np.concatenate((searched[start:], searched[:start]))
        found = np.flatnonzero(feasible[searched])
        enough = count_to_find(percentage, count)
        # That it has enough is noticed at the next one that takes the pod.
        looked_at = found.item(enough) if len(found) > enough else count
        self._start = (self._start + looked_at) % len(order)
        return searched[found[:enough]]


def first_in_heap(is_best: Bools) -> int:
    """Which of those with the best score a binary heap has at its root that was made of the list as it
    is: the first of them in pre-order, as an element gives its place up to greater ones only, and of
    two equal children the left one moves up."""
    places = np.flatnonzero(is_best) + 1
    depth = np.floor(np.log2(places)).astype(np.int64)
    # In pre-order those come first whose subtree begins further left, and of a subtree its root.
    leftmost = places << (depth.max() - depth)
    return int(places[np.lexsort((depth, leftmost))[0]]) - 1
