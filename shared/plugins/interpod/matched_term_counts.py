"""Pods counted for affinity terms: by topology key and domain, for one class of pods.

A term says "in the same topology as"; what a pod on a node contributes is a weight in the domain of
its node, for each topology key of the terms in question. Terms with the same key add up in the same
place, as in upstream's maps of topology pairs.

Rules: pkg/scheduler/framework/plugins/interpodaffinity/{filtering,scoring}.go, v1.36.2.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Final, NamedTuple

import numpy as np

from shared.columns.rows import RowIndex
from shared.columns.schema import NO_ROWS, Int64s, Rows
from shared.columns.topology import NO_DOMAIN, DomainCounts, Topology
from shared.framework.normalize import SCORE_MAX

Key = tuple[int, str]
"""What a term is counted for, and its topology key."""


class Share(NamedTuple):
    """What one pod of a class adds for one key."""

    key: Key
    weight: int
    term_count: int
    """Terms that the weight is the sum of; they count even where their weights cancel out."""


Shares = tuple[Share, ...]
NO_SHARES: Final[Shares] = ()


def summed(parts: Iterable[tuple[Key, int]]) -> Shares:
    """The key and the weight of each term, added up by key."""
    sums: dict[Key, tuple[int, int]] = {}
    for key, weight in parts:
        before, count = sums.get(key, (0, 0))
        sums[key] = (before + weight, count + 1)
    return tuple(Share(key, weight, count) for key, (weight, count) in sums.items())


class MatchedTermCounts:
    """Weights of all pods that matter, by key and domain."""

    def __init__(self, topology_of: Callable[[str], Topology]) -> None:
        self._topology_of = topology_of
        self.by_key: dict[Key, DomainCounts] = {}
        self.entry_counts: dict[int, int] = defaultdict(int)
        """By the first half of keys: (pod, term) pairs whose node has the term's label. 0: all weights
        are, too."""

    def count(self, shares: Mapping[int, Shares], classes: Int64s, node_rows: Rows) -> None:
        """Adds many pods. `classes` and `node_rows`: of each pod; all classes are in `shares`."""
        by_key: dict[Key, dict[int, Share]] = {}
        for class_id, of_class in shares.items():
            for share in of_class:
                by_key.setdefault(share.key, {})[class_id] = share
        if not by_key or not len(classes):
            return
        ids, inverse = np.unique(classes, return_inverse=True)
        for key, of_key in by_key.items():
            found = [of_key.get(class_id) for class_id in ids.tolist()]
            weights = np.array([share.weight if share else 0 for share in found], np.int64)
            terms = np.array([share.term_count if share else 0 for share in found], np.int64)
            counts = self.of_key(key)
            counts.count(node_rows, weights[inverse])
            is_counted = counts.counted_in[node_rows] != NO_DOMAIN
            self.entry_counts[key[0]] += int(terms[inverse][is_counted].sum())

    def add(self, shares: Shares, node_row: int, count: int) -> None:
        """So many pods more (or fewer) with these shares on a node."""
        for key, weight, term_count in shares:
            counts = self.by_key.get(key) or self.of_key(key)
            if counts.add(node_row, weight * count):
                self.entry_counts[key[0]] += term_count * count

    def of_key(self, key: Key) -> DomainCounts:
        """The counts of a key, made now if nobody asked before."""
        found = self.by_key.get(key)
        if found is None:
            found = self.by_key[key] = DomainCounts(self._topology_of(key[1]))
        return found

    def settle(self, is_different: Callable[[int, int], bool]) -> Rows:
        """The rows of all domains whose count is now so different that it matters; a row may be named
        several times."""
        changed: list[Rows] = []
        for counts in self.by_key.values():
            changed += [
                counts.topology.rows_of(domain)
                for domain, before in counts.touched.items()
                if is_different(before, counts.by_domain.item(domain))
            ]
            counts.touched.clear()
        # One domain's rows are all that there are, often, and are handed on as they lie there.
        return changed[0] if len(changed) == 1 else np.concatenate((NO_ROWS, *changed))

    def is_current(self) -> bool:
        """Whether every topology is what it was."""
        return all(self._topology_of(key[1]) is each.topology for key, each in self.by_key.items())

    def sums(self, index: RowIndex, count: int) -> Int64s:
        """The weights of all keys added up for each row, shape (count,)."""
        found = [c.by_domain[c.topology.domain_of_row[index]] for c in self.by_key.values()]
        return reduce(np.add, found) if found else np.zeros(count, np.int64)


def crosses_zero(before: int, after: int) -> bool:
    """Whether there were some and now there are none, or the other way round."""
    return (before > 0) is not (after > 0)


def by_range(raw: Int64s, lowest: int, highest: int) -> Int64s:
    """Between the lowest and the highest to 0..100, truncated as float64 gives it."""
    if highest <= lowest:
        return np.zeros(len(raw), np.int64)
    share = (raw - lowest).astype(np.float64) / float(highest - lowest)
    share *= float(SCORE_MAX)
    return share.astype(np.int64)
