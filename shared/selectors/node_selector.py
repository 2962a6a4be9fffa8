"""Nodes by their labels, over columns: what volumes, topology spread, node affinity and device pools
select them by (`node_terms.py`).

A column holds the value id of one label key for each node; 0 stands for "no such label". Ids that
nobody has interned are -1 and match nothing.

Rules: staging/src/k8s.io/apimachinery/pkg/labels/selector.go `Requirement.Matches`, v1.36.2.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from shared.columns.rows import row_index
from shared.columns.schema import Bools, Int32s, Int64s, Rows
from shared.columns.table import NodeTable
from shared.kube.api.core_v1 import PodSpec
from shared.selectors.node_terms import Term, Terms, parse_selector
from shared.selectors.requirement import Requirement, equal_to, parse_int64

COMPARED_ONE_BY_ONE_MAX: Final = 8
"""Up to so many ids, comparing with each is cheaper than a look-up."""


def match_any(terms: Terms, columns: "SelectedColumns") -> Bools:
    """Rows that one of the terms matches, shape (count,); without terms none."""
    found: Bools | None = None
    for term in terms:
        matched = columns.matched(term)
        if matched is not None:
            found = matched if found is None else found | matched
    return np.zeros(columns.count, np.bool_) if found is None else found


def match_all(each: Iterable[Terms], columns: "SelectedColumns") -> Bools:
    """Rows that one of the terms of each matches, shape (count,)."""
    found = np.ones(columns.count, np.bool_)
    for terms in each:
        found &= match_any(terms, columns)
    return found


class SelectedColumns:
    """Labels of some rows, as selectors ask for them: what several ask for is taken out of the table
    once, and its numbers are read once, as a pod may have thousands of terms. For one question: the
    table may change after it."""

    __slots__ = ("_numbers", "_values", "count", "index", "nodes")

    def __init__(self, nodes: NodeTable, rows: Rows) -> None:
        self.nodes = nodes
        self.index = row_index(rows)
        self.count = len(rows)
        self._values: dict[str, Int32s | None] = {}
        self._numbers: dict[str, tuple[Int64s, Bools]] = {}

    def matched(self, term: Term) -> Bools | None:
        """Rows for which every requirement of the term holds, shape (count,); None: there is none."""
        if term.errors:
            return None
        found: Bools | None = None
        for requirement in term.labels:
            part = self._matched_by(requirement)
            if part is None:
                return None
            found = part if found is None else found & part
        if found is None:
            found = np.ones(self.count, np.bool_)
        for name in term.names:
            is_it = self.nodes.name_id[self.index] == self.nodes.names.find(name.name)
            found &= is_it if name.is_equal else ~is_it
        return found

    def _matched_by(self, requirement: Requirement) -> Bools | None:
        values = self.values_of(requirement.key)
        if values is None:
            return None if requirement.is_wanted else np.ones(self.count, np.bool_)
        among = requirement.numbers
        if among is not None:
            numbers, are_there = self._numbers_of(requirement.key, values)
            return (numbers >= among.start) & (numbers < among.stop) & are_there
        wanted = requirement.values
        having = values != 0 if wanted is None else self._having(values, wanted)
        if requirement.is_wanted:
            return having
        return np.ones(self.count, np.bool_) if having is None else ~having

    def _numbers_of(self, key: str, values: Int32s) -> tuple[Int64s, Bools]:
        """The number that each value is, and whether it is one."""
        if key not in self._numbers:
            ids, of_row = np.unique(values, return_inverse=True)
            read = [parse_int64(self.nodes.value_text(i)) if i else None for i in ids.tolist()]
            numbers = np.array([number or 0 for number in read], np.int64)
            are_there = np.array([number is not None for number in read], np.bool_)
            self._numbers[key] = numbers[of_row], are_there[of_row]
        return self._numbers[key]

    def _having(self, column: Int32s, values: Iterable[str]) -> Bools | None:
        """Rows whose label is there and has one of the values; None: there is none."""
        ids = [value_id for value_id in map(self.nodes.find_value_id, values) if value_id > 0]
        if len(ids) > COMPARED_ONE_BY_ONE_MAX:
            return np.isin(column, ids)
        found: Bools | None = None
        for value_id in ids:
            found = column == value_id if found is None else found | (column == value_id)
        return found

    def values_of(self, key: str) -> Int32s | None:
        """Value ids of a label, shape (count,); None: no node has it."""
        if key not in self._values:
            column = self.nodes.label_column(key)
            self._values[key] = None if column is None else column[self.index]
        return self._values[key]


def required_nodes(spec: PodSpec) -> tuple[Terms, ...]:
    """What a pod demands of its node: by nodeSelector, and by required node affinity."""
    found: list[Terms] = []
    if spec.node_selector:  # Every label must be there with exactly this value.
        found.append((Term(equal_to(spec.node_selector), (), ()),))
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None:
        selector = affinity.required_during_scheduling_ignored_during_execution
        if selector is not None:
            found.append(parse_selector(selector))
    return tuple(found)
