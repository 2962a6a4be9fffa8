"""Pods counted for topology spread constraints, and what the counts say of each node.

One object holds the counts of one constraint for one class of pods. It is made from all pods, then
follows single changes: what a pod more or less costs does not grow with the number of nodes or pods,
but with the number of domains that its arrival changes something for.

Rules: pkg/scheduler/framework/plugins/podtopologyspread/{filtering,scoring}.go, v1.36.2.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shared.columns.rows import RowIndex
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.topology import NO_DOMAIN, Topology, sum_by_domain
from shared.framework.normalize import SCORE_MAX

Floats = NDArray[np.float64]


class HardCounts:
    """DoNotSchedule: no domain may exceed the emptiest one by more than `max_skew`."""

    __slots__ = ("_at_lowest", "_domains", "_eligible", "_is_lowest_stale", "_lowest", "_max_skew",
                 "_min_domains", "_self_match", "_touched", "counts", "is_full",
                 "topology")  # fmt: skip

    def __init__(
        self,
        topology: Topology,
        eligible: Bools,
        node_rows: Rows,
        *,
        max_skew: int,
        min_domains: int,
        self_match: bool,
    ) -> None:
        """`eligible`, shape (capacity,): nodes that make a domain and whose pods count; they have
        the label. `node_rows`: the node of each pod that the selector matches."""
        self.topology = topology
        self._eligible = eligible
        self._max_skew = max_skew
        self._min_domains = min_domains
        self._self_match = int(self_match)
        slots = topology.domain_count + 1
        is_domain = np.zeros(slots, np.bool_)
        is_domain[topology.domain_of_row[eligible]] = True
        self._domains: Rows = np.flatnonzero(is_domain)
        counted = node_rows[eligible[node_rows]]
        self.counts: Int64s = sum_by_domain(topology.domain_of_row[counted], slots)
        self.is_full: Bools = np.zeros(slots, np.bool_)
        """By domain: one more pod there would be too many. False in the slot for no domain."""
        self._lowest = 0
        self._at_lowest = 0
        """Domains with the lowest count: while there are any left, the lowest is what it was."""
        self._is_lowest_stale = False
        self._touched: set[int] = set()
        self._find_lowest()
        self._find_full()

    def add(self, node_row: int, count: int) -> None:
        """So many pods more (or fewer) that the selector matches; `settle` draws the conclusions."""
        if not self._eligible.item(node_row):
            return
        domain = self.topology.domain_of_row.item(node_row)
        before = self.counts.item(domain)
        after = before + count
        self.counts[domain] = after
        self._at_lowest += (after == self._lowest) - (before == self._lowest)
        self._is_lowest_stale |= after < self._lowest
        self._touched.add(domain)

    def settle(self) -> list[int]:
        """The domains in which `is_full` is another than before the latest changes."""
        if not self._touched:
            return []
        if (self._is_lowest_stale or self._at_lowest == 0) and self._find_lowest():
            before = self.is_full
            self._find_full()
            self._touched.clear()
            return np.flatnonzero(before != self.is_full).tolist()
        flipped: list[int] = []
        for domain in self._touched:
            is_full = self.room_in(domain) <= 0
            if self.is_full.item(domain) is not is_full:
                self.is_full[domain] = is_full
                flipped.append(domain)
        self._touched.clear()
        return flipped

    def _find_lowest(self) -> bool:
        """Says whether it is another than before."""
        self._is_lowest_stale = False
        if not len(self._domains):
            return False
        counts = self.counts[self._domains]
        before, self._lowest = self._lowest, int(counts.min())
        self._at_lowest = int(np.count_nonzero(counts == self._lowest))
        return before != self._lowest

    def is_full_without(self, rows: Rows, gone: Int64s) -> Bools:
        """As `is_full` of the domain of each of some rows, shape (n,), each as if so many counted pods
        were gone from that row and all others still there."""
        domains = self.topology.domain_of_row[rows]
        left = self.counts[domains] - np.where(self._eligible[rows], gone, 0)
        if len(self._domains) >= max(self._min_domains, 1):
            # Pods only go: no other domain can become the lowest but the row's own.
            lowest = np.full(len(rows), self.counts[self._domains].min(), np.int64)
            lowest = np.where(self._eligible[rows], np.minimum(lowest, left), lowest)
        else:
            lowest = np.zeros(len(rows), np.int64)
        is_full: Bools = left > lowest + self._max_skew - self._self_match
        is_full[domains == NO_DOMAIN] = False
        return is_full

    def room_in(self, domain: int) -> int:
        """So many pods that the selector matches until the domain is full."""
        return self._most() - self.counts.item(domain) + 1

    def _most(self) -> int:
        """A domain with more is full."""
        lowest = self._lowest if len(self._domains) >= self._min_domains else 0
        return lowest + self._max_skew - self._self_match

    def _find_full(self) -> None:
        self.is_full = self.counts > self._most()
        self.is_full[NO_DOMAIN] = False


def domain_weight(size: int) -> float:
    """The weight of a pod's count where a topology has `size` domains among the feasible nodes."""
    return math.log(size + 2)


class SoftDomains:
    """ScheduleAnyway over any label but the host name: pods of the domain count."""

    __slots__ = ("_eligible", "_in_domain", "_max_skew", "_parts", "_scores", "_slot_of_row",
                 "_slots_changed", "_weight", "counts", "topology")  # fmt: skip

    def __init__(
        self,
        topology: Topology,
        eligible: Bools,
        node_rows: Rows,
        feasible: Rows,
        *,
        max_skew: int,
    ) -> None:
        """`eligible`, shape (capacity,): nodes whose pods count. `feasible`: rows that are rated.
        A node without the label counts as one with an empty value, but is not rated by it."""
        self.topology = topology
        self._eligible = eligible
        self._max_skew = max_skew
        self._slot_of_row = topology.domain_of_row
        if topology.empty_value_domain != NO_DOMAIN:
            lacks = topology.domain_of_row == NO_DOMAIN
            self._slot_of_row = np.where(lacks, topology.empty_value_domain, topology.domain_of_row)
        slots = topology.domain_count + 1
        counted = node_rows[eligible[node_rows]]
        self.counts: Int64s = sum_by_domain(self._slot_of_row[counted], slots)
        self._in_domain: Int64s = sum_by_domain(self._slot_of_row[feasible], slots)
        self._slots_changed: set[int] = set()
        self._weight = 0.0
        self._parts: Floats = np.zeros(slots)
        """What the constraint adds, by domain."""
        self._scores: Int64s = np.zeros(slots, np.int64)
        """The same rounded: the domain is, not each of its rows."""
        self.settle()

    def add(self, node_row: int, count: int) -> None:
        """So many pods more (or fewer) that the selector matches."""
        if self._eligible.item(node_row):
            slot = self._slot_of_row.item(node_row)
            self.counts[slot] += count
            self._slots_changed.add(slot)

    def flip(self, rows: Rows, signs: Int64s) -> None:
        """Rows that are rated now (1), or are no longer (-1)."""
        slots = len(self._in_domain)
        self._in_domain += sum_by_domain(self._slot_of_row[rows], slots, signs)

    def settle(self) -> Rows | None:
        """The rows whose part of the score may have changed; None: all."""
        weight = domain_weight(int(np.count_nonzero(self._in_domain)))
        if weight != self._weight:
            self._weight = weight
            self._slots_changed.clear()
            self._weigh(slice(None))
            self._parts[NO_DOMAIN] = self._scores[NO_DOMAIN] = 0
            return None
        domain_count = self.topology.domain_count
        changed = [slot for slot in self._slots_changed if 0 <= slot < domain_count]
        self._slots_changed.clear()
        self._weigh(np.array(changed, np.intp))
        return self.topology.rows_of_all(changed)

    def _weigh(self, slots: RowIndex) -> None:
        parts = self.counts[slots].astype(np.float64)
        parts *= self._weight
        parts += float(self._max_skew - 1)
        self._parts[slots] = parts
        self._scores[slots] = rounded(parts)

    def parts(self, index: RowIndex) -> Floats:
        """What the constraint adds to the score of each row."""
        found: Floats = self._parts[self.topology.domain_of_row[index]]
        return found

    def scores(self, index: RowIndex) -> Int64s:
        """The score of each row where there is no other constraint."""
        found: Int64s = self._scores[self.topology.domain_of_row[index]]
        return found


class SoftNodes:
    """ScheduleAnyway over the host name: pods of the node itself count, whatever the policies say. What
    is asked of it is what is asked of SoftDomains."""

    __slots__ = ("_has_label", "_max_skew", "_rated_count", "_rows_changed", "_weight", "counts",
                 "topology")  # fmt: skip

    def __init__(
        self, topology: Topology, node_rows: Rows, rated_count: int, *, max_skew: int
    ) -> None:
        self.topology = topology
        self._max_skew = max_skew
        self._rated_count = rated_count
        self._has_label: Bools = topology.domain_of_row != NO_DOMAIN
        capacity = len(topology.domain_of_row)
        self.counts: Int64s = np.bincount(node_rows, minlength=capacity).astype(np.int64)
        self._rows_changed: set[int] = set()
        self._weight = 0.0
        self.settle()

    def add(self, node_row: int, count: int) -> None:
        self.counts[node_row] += count
        self._rows_changed.add(node_row)

    def flip(self, rows: Rows, signs: Int64s) -> None:
        self._rated_count += int(signs.sum())

    def settle(self) -> Rows | None:
        weight = domain_weight(self._rated_count)
        changed = sorted(self._rows_changed)
        self._rows_changed.clear()
        if weight != self._weight:
            self._weight = weight
            return None
        return np.array(changed, np.intp)

    def parts(self, index: RowIndex) -> Floats:
        found: Floats = self.counts[index].astype(np.float64)
        found *= self._weight
        found += float(self._max_skew - 1)
        found *= self._has_label[index]
        return found

    def scores(self, index: RowIndex) -> Int64s:
        return rounded(self.parts(index))


def rounded(scores: Floats) -> Int64s:
    """To the nearest integer, halves up, as math.Round does for what is not negative."""
    whole: Int64s = scores.astype(np.int64)
    whole += scores - whole >= 0.5
    return whole


def by_range(raw: Int64s, lowest: int, highest: int) -> Int64s:
    """0..100, the fewer pods the more: `highest` becomes 100 x lowest / highest."""
    if highest == 0:
        return np.full(len(raw), SCORE_MAX, np.int64)
    scores = raw * -SCORE_MAX
    scores += SCORE_MAX * (highest + lowest)
    scores //= highest
    return scores
