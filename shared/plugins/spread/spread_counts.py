"""Pods counted for topology spread constraints, and what the counts say of each node.

One object holds the counts of one constraint for one class of pods. It is made from all pods, then
follows single changes: what a pod more or less costs does not grow with the number of nodes or pods,
but with the number of domains that its arrival changes something for.

Rules: pkg/scheduler/framework/plugins/podtopologyspread/{filtering,scoring}.go, v1.36.2.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shared.columns.rows import RowIndex, rows_between
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.topology import NO_DOMAIN, DomainCounts, Topology, sum_by_domain
from shared.framework.normalize import SCORE_MAX
from shared.plugins.spread.spread_constraints import SpreadConstraint

Floats = NDArray[np.float64]


class HardCounts(DomainCounts):
    """DoNotSchedule: no domain may exceed the emptiest one by more than `max_skew`."""

    __slots__ = ("_at_lowest", "_domains", "_lowest", "_max_skew", "_min_domains", "_self_match",
                 "is_full")  # fmt: skip

    def __init__(
        self,
        constraint: SpreadConstraint,
        topology: Topology,
        eligible: Bools,
        node_rows: Rows,
        *,
        self_match: bool,
    ) -> None:
        """`eligible`, shape (capacity,): nodes that make a domain and whose pods count; they have
        the label. `node_rows`: the node of each pod that the selector matches."""
        super().__init__(topology, np.where(eligible, topology.domain_of_row, NO_DOMAIN))
        self.count(node_rows)
        self._max_skew, self._min_domains = constraint.max_skew, constraint.min_domains
        self._self_match = int(self_match)
        is_domain = np.zeros(len(self.by_domain), np.bool_)
        is_domain[topology.domain_of_row[eligible]] = True
        self._domains: Rows = np.flatnonzero(is_domain)
        self._lowest = 0
        self._at_lowest = 0
        """Domains with the lowest count: while there are any left, the lowest is what it was."""
        self._find_lowest()
        self._find_full()

    def settle(self) -> list[int]:
        """The domains in which `is_full` is another than before the latest changes."""
        touched, self.touched = self.touched, {}
        is_lower = False
        for domain, before in touched.items():
            after = self.by_domain.item(domain)
            self._at_lowest += (after == self._lowest) - (before == self._lowest)
            is_lower |= after < self._lowest
        if (is_lower or self._at_lowest == 0) and self._find_lowest():
            were_full = self.is_full
            self._find_full()
            return np.flatnonzero(were_full != self.is_full).tolist()
        flipped: list[int] = []
        for domain in touched:
            is_full = self.room_in(domain) <= 0
            if self.is_full.item(domain) is not is_full:
                self.is_full[domain] = is_full
                flipped.append(domain)
        return flipped

    def is_full_without(self, rows: Rows, gone: Int64s) -> Bools:
        """As `is_full` of the domain of each of some rows, shape (n,), each as if so many counted pods
        were gone from that row and all others still there."""
        domains = self.topology.domain_of_row[rows]
        is_counted = self.counted_in[rows] != NO_DOMAIN
        left = self.by_domain[domains] - np.where(is_counted, gone, 0)
        lowest = np.full(len(rows), self._compared_with(), np.int64)
        if len(self._domains) >= self._min_domains:
            # Pods only go: no other domain can become the lowest but the row's own.
            lowest = np.where(is_counted, np.minimum(lowest, left), lowest)
        is_full: Bools = left > lowest + self._max_skew - self._self_match
        is_full[domains == NO_DOMAIN] = False
        return is_full

    def room_in(self, domain: int) -> int:
        """So many pods that the selector matches until the domain is full."""
        return self._most() - self.by_domain.item(domain) + 1

    def _most(self) -> int:
        """A domain with more is full."""
        return self._compared_with() + self._max_skew - self._self_match

    def _compared_with(self) -> int:
        """The lowest count; 0 as long as there are too few domains."""
        return self._lowest if len(self._domains) >= self._min_domains else 0

    def _find_lowest(self) -> bool:
        """Says whether it is another than before."""
        if not len(self._domains):
            return False
        counts = self.by_domain[self._domains]
        before, self._lowest = self._lowest, int(counts.min())
        self._at_lowest = int(np.count_nonzero(counts == self._lowest))
        return before != self._lowest

    def _find_full(self) -> None:
        self.is_full: Bools = self.by_domain > self._most()
        """By domain: one more pod there would be too many. False in the slot for no domain."""
        self.is_full[NO_DOMAIN] = False


class _SoftCounts(DomainCounts):
    """ScheduleAnyway: the more domains the feasible nodes are in, the more a pod weighs."""

    __slots__ = ("_max_skew", "_weight")

    def __init__(
        self, topology: Topology, counted_in: Rows, node_rows: Rows, max_skew: int
    ) -> None:
        super().__init__(topology, counted_in)
        self.count(node_rows)
        self._max_skew = max_skew
        self._weight = 0.0

    def _has_other_weight(self, size: int) -> bool:
        """Than before, with so many domains among the feasible nodes."""
        before, self._weight = self._weight, math.log(size + 2)
        return before != self._weight

    def _parts_of(self, domains: RowIndex) -> Floats:
        """What the constraint adds to the score of a node in each domain."""
        parts: Floats = self.by_domain[domains].astype(np.float64)
        parts *= self._weight
        parts += float(self._max_skew - 1)
        return parts


class SoftDomains(_SoftCounts):
    """Over any label but the host name: pods of the domain count."""

    __slots__ = ("_parts", "_rated", "_rated_in", "_scores")

    def __init__(
        self, topology: Topology, eligible: Bools, node_rows: Rows, feasible: Rows, *, max_skew: int
    ) -> None:
        """`eligible`, shape (capacity,): nodes whose pods count. `feasible`: rows that are rated.
        A node without the label counts as one with an empty value, but is not rated by it."""
        self._rated_in = topology.domain_of_row
        if topology.empty_value_domain != NO_DOMAIN:
            lacks = topology.domain_of_row == NO_DOMAIN
            self._rated_in = np.where(lacks, topology.empty_value_domain, topology.domain_of_row)
        counted_in = np.where(eligible, self._rated_in, NO_DOMAIN)
        super().__init__(topology, counted_in, node_rows, max_skew)
        self._rated = sum_by_domain(self._rated_in[feasible], len(self.by_domain))
        """Feasible nodes by domain."""
        self._parts: Floats = np.zeros(len(self.by_domain))
        """What the constraint adds, by domain."""
        self._scores = topology.by_domain()
        """The same rounded: the domain is, not each of its rows."""
        self.settle()

    def flip(self, rows: Rows, signs: Int64s) -> None:
        """Rows that are rated now (1), or are no longer (-1)."""
        self._rated += sum_by_domain(self._rated_in[rows], len(self._rated), signs)

    def settle(self) -> Rows | None:
        """The rows whose part of the score may have changed; None: all."""
        touched, self.touched = self.touched, {}
        if self._has_other_weight(int(np.count_nonzero(self._rated))):
            self._weigh(slice(0, self.topology.domain_count))
            return None
        self._weigh(np.array(list(touched), np.intp))
        return self.topology.rows_of_all(touched)

    def _weigh(self, domains: RowIndex) -> None:
        parts = self._parts[domains] = self._parts_of(domains)
        self._scores[domains] = rounded(parts)

    def parts(self, index: RowIndex) -> Floats:
        """What the constraint adds to the score of each row."""
        found: Floats = self._parts[self.topology.domain_of_row[index]]
        return found

    def scores(self, index: RowIndex) -> Int64s:
        """The score of each row where there is no other constraint."""
        found: Int64s = self._scores[self.topology.domain_of_row[index]]
        return found


class SoftNodes(_SoftCounts):
    """Over the host name: pods of the node itself count, whatever the policies say. What is asked of it
    is what is asked of SoftDomains."""

    __slots__ = ("_has_label", "_rated_count")

    def __init__(
        self, topology: Topology, node_rows: Rows, rated_count: int, *, max_skew: int
    ) -> None:
        capacity = len(topology.domain_of_row)
        rows = rows_between(0, capacity)
        super().__init__(Topology(rows, capacity, NO_DOMAIN), rows, node_rows, max_skew)
        self._has_label: Bools = topology.domain_of_row != NO_DOMAIN
        self._rated_count = rated_count
        self.settle()

    def flip(self, rows: Rows, signs: Int64s) -> None:
        self._rated_count += int(signs.sum())

    def settle(self) -> Rows | None:
        touched, self.touched = self.touched, {}
        if self._has_other_weight(self._rated_count):
            return None
        return np.array(sorted(touched), np.intp)

    def parts(self, index: RowIndex) -> Floats:
        found = self._parts_of(index)
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
