"""Node selectors matched against columns.

Not part of a plugin, because volumes, topology spread and device pools select nodes by the same
terms (`node_terms.py`).
"""

from collections.abc import Sequence
from typing import assert_never

import numpy as np

from shared.columns.rows import RowIndex
from shared.columns.schema import Bools, Int32s
from shared.columns.table import NodeTable
from shared.selectors.label_match import Numbers, has_label, numbers_in, value_in
from shared.selectors.node_terms import LabelRequirement, Operator, Term, Terms, parse_int64


def match_any(terms: Terms, nodes: NodeTable, index: RowIndex, count: int) -> Bools:
    """Rows that one of the terms matches, shape (count,); without terms none."""
    columns = SelectedColumns(nodes, index, count)
    found = np.zeros(count, np.bool_)
    for term in terms:
        matched = columns.matched(term)
        if matched is not None:
            found |= matched
    return found


def match_term(term: Term, nodes: NodeTable, index: RowIndex, count: int) -> Bools:
    """Rows for which every requirement of the term holds, shape (count,)."""
    matched = SelectedColumns(nodes, index, count).matched(term)
    return np.zeros(count, np.bool_) if matched is None else matched


class SelectedColumns:
    """Labels of some rows, as the terms of one selector ask for them: what several ask for is taken
    out of the table once, and its numbers are read once."""

    __slots__ = ("_count", "_index", "_nodes", "_numbers", "_values")

    def __init__(self, nodes: NodeTable, index: RowIndex, count: int) -> None:
        self._nodes = nodes
        self._index = index
        self._count = count
        self._values: dict[str, Int32s | None] = {}
        self._numbers: dict[str, Numbers] = {}

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
            found = np.ones(self._count, np.bool_)
        for name in term.names:
            is_it = self._nodes.name_id[self._index] == self._nodes.names.find(name.name)
            found &= is_it if name.is_equal else ~is_it
        return found

    def _matched_by(self, requirement: LabelRequirement) -> Bools | None:
        values = self._values_of(requirement.key)
        if values is None:
            is_absence_asked = requirement.operator in (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
            return np.ones(self._count, np.bool_) if is_absence_asked else None
        match requirement.operator:
            case Operator.IN:
                known = self._known(requirement.values)
                return value_in(values, known) if known else None
            case Operator.NOT_IN:
                return ~value_in(values, self._known(requirement.values))
            case Operator.EXISTS:
                return has_label(values)
            case Operator.DOES_NOT_EXIST:
                return ~has_label(values)
            case Operator.GREATER:
                numbers, are_there = self._numbers_of(requirement.key, values)
                return (numbers > requirement.bound) & are_there
            case Operator.LESS:
                numbers, are_there = self._numbers_of(requirement.key, values)
                return (numbers < requirement.bound) & are_there
            case _:
                assert_never(requirement.operator)

    def _known(self, values: Sequence[str]) -> list[int]:
        ids = [self._nodes.find_value_id(value) for value in values]
        return [value_id for value_id in ids if value_id > 0]

    def _values_of(self, key: str) -> Int32s | None:
        if key not in self._values:
            column = self._nodes.label_column(key)
            self._values[key] = None if column is None else column[self._index]
        return self._values[key]

    def _numbers_of(self, key: str, values: Int32s) -> Numbers:
        found = self._numbers.get(key)
        if found is None:
            text_of = self._nodes.value_text
            found = numbers_in(values, lambda value_id: parse_int64(text_of(value_id)))
            self._numbers[key] = found
        return found
