"""Topologies: nodes grouped by the value of one label, and pods counted by these groups.

A domain is a value of the label that some present node has; domains are numbered 0, 1, ... for one
topology. Rows without a node or without the label are in domain -1. Arrays by domain have one slot
more than there are domains: index -1 reaches it, so a look-up by a column of domains needs no mask.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from shared.columns.pod_table import PodTable
from shared.columns.schema import NO_NODE, NO_ROWS, Bools, Int32s, Int64s, Rows
from shared.columns.table import NodeTable

NO_DOMAIN: Final = -1
CLASSES_COMPARED_MAX: Final = 4
"""Up to so many classes, comparing the column with each is cheaper than a look-up table."""


class Topology:
    """The nodes of a table by one label. Immutable: valid for one `topology_version`."""

    def __init__(self, domain_of_row: Rows, domain_count: int, empty_value_domain: int) -> None:
        self.domain_of_row = domain_of_row
        """Shape (capacity,)."""
        self.domain_count = domain_count
        self.empty_value_domain = empty_value_domain
        """Of nodes that have the label with an empty value; NO_DOMAIN where none has."""
        self._order: Rows | None = None
        self._starts: list[int] = []

    def rows_of(self, domain: int) -> Rows:
        """The rows in a domain, ascending. Read only."""
        if self._order is None:
            # Sorted once, so that the rows of a domain are one run from then on.
            self._order = np.argsort(self.domain_of_row, kind="stable")
            sizes = np.bincount(self.domain_of_row + 1, minlength=self.domain_count + 1)
            self._starts = np.cumsum(sizes).tolist()
        return self._order[self._starts[domain] : self._starts[domain + 1]]

    def rows_of_all(self, domains: Iterable[int]) -> Rows:
        """The rows in any of the domains, which are distinct."""
        return np.concatenate([NO_ROWS, *map(self.rows_of, domains)])

    def is_equal(self, other: "Topology") -> bool:
        """Whether every row is in the same domain there."""
        return (
            self.domain_count == other.domain_count
            and self.empty_value_domain == other.empty_value_domain
            and np.array_equal(self.domain_of_row, other.domain_of_row)
        )

    def by_domain(self) -> Int64s:
        """Zeros, one for each domain and the slot for none."""
        return np.zeros(self.domain_count + 1, np.int64)


def make_topology(nodes: NodeTable, key: str) -> Topology:
    """The present nodes by the label `key`."""
    domain_of_row = np.full(nodes.capacity, NO_DOMAIN, np.intp)
    column = nodes.label_column(key)
    if column is None:
        return Topology(domain_of_row, 0, NO_DOMAIN)
    count = nodes.row_count
    values = column * nodes.present[:count]
    occurs = np.zeros(len(nodes.label_values), np.bool_)
    occurs[values] = True
    occurs[0] = False
    domain_of_value = np.cumsum(occurs) - 1
    domain_of_value[~occurs] = NO_DOMAIN
    domain_of_row[:count] = domain_of_value[values]
    empty = nodes.find_value_id("")
    empty_domain = int(domain_of_value[empty]) if empty >= 0 else NO_DOMAIN
    return Topology(domain_of_row, int(np.count_nonzero(occurs)), empty_domain)


# Counting pods --------------------------------------------------------------------------------------


def pods_of_classes(
    tables: Sequence[PodTable], class_ids: Sequence[int], *, with_terminating: bool
) -> tuple[Int64s, Int32s]:
    """Class and node row of each pod of these classes, in no order that means anything."""
    # One of none at first, so that there is something to put together.
    classes, nodes = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for table in tables if class_ids else ():
        count = table.row_count
        if not count:
            continue
        column, node_row = table.class_id[:count], table.node_row[:count]
        picked = _is_among(column, class_ids)
        picked &= node_row != NO_NODE
        if not with_terminating:
            picked &= ~table.is_terminating[:count]
        rows = np.flatnonzero(picked)
        classes.append(column[rows])
        nodes.append(node_row[rows])
    return np.concatenate(classes), np.concatenate(nodes)


def _is_among(column: Int64s, class_ids: Sequence[int]) -> Bools:
    if len(class_ids) <= CLASSES_COMPARED_MAX:
        found: Bools = column == class_ids[0]
        for class_id in class_ids[1:]:
            found |= column == class_id
        return found
    table = np.zeros(max(int(column.max()), *class_ids) + 1, np.bool_)
    table[class_ids] = True
    return table[column]


class DomainCounts:
    """What the pods of each domain come to: counted once, then following those that come and go."""

    __slots__ = ("by_domain", "counted_in", "topology", "touched")

    def __init__(self, topology: Topology, counted_in: Rows | None = None) -> None:
        """`counted_in`: the domain in which the pods of each row count, shape (capacity,), if that is
        not the row's own; NO_DOMAIN: they do not."""
        self.topology = topology
        self.counted_in = topology.domain_of_row if counted_in is None else counted_in
        self.by_domain = topology.by_domain()
        """0 in the slot for none."""
        self.touched: dict[int, int] = {}
        """Domain -> what it held before the changes that nobody has looked at yet."""

    def count(self, node_rows: Rows, weights: Int64s | None = None) -> None:
        """Adds many pods: the row of each, and what it weighs (None: 1)."""
        domains = self.counted_in[node_rows]
        self.by_domain += sum_by_domain(domains, len(self.by_domain), weights)
        self.by_domain[NO_DOMAIN] = 0

    def add(self, node_row: int, weight: int) -> bool:
        """Adds a pod, or takes one off; says whether it counts in some domain."""
        domain = self.counted_in.item(node_row)
        if domain == NO_DOMAIN:
            return False
        before = self.by_domain.item(domain)
        self.by_domain[domain] = before + weight
        self.touched.setdefault(domain, before)
        return True


def sum_by_domain(domains: Rows, slots: int, weights: Int64s | None = None) -> Int64s:
    """Weights (1 each, if None) summed up by domain, shape (slots,); NO_DOMAIN is the last slot. Sums
    go through float64, which is exact below 2^53."""
    sums = np.bincount(domains + 1, weights, slots)
    by_domain = np.empty(slots, np.int64)
    by_domain[:-1] = sums[1:]
    by_domain[-1] = sums[0]
    return by_domain
