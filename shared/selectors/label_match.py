"""Which rows carry a label that meets a requirement, over columns of interned value ids.

A column holds the value id of one label key for each node; 0 stands for "no such label". Ids that
nobody has interned are -1 and match nothing.

Rules: staging/src/k8s.io/apimachinery/pkg/labels/selector.go `Requirement.Matches`, v1.36.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from shared.columns.schema import Bools, Int32s, Int64s

COMPARED_ONE_BY_ONE_MAX: Final = 8
"""Up to so many ids, comparing with each is cheaper than building a look-up table."""


def has_label(column: Int32s) -> Bools:
    """Rows that have the label, with whatever value."""
    found: Bools = column != 0
    return found


def value_in(column: Int32s, value_ids: Sequence[int]) -> Bools:
    """Rows whose label is there and has one of the values."""
    known = [value_id for value_id in value_ids if value_id > 0]
    if not known:
        return np.zeros(len(column), np.bool_)
    found: Bools = column == known[0]
    if len(known) <= COMPARED_ONE_BY_ONE_MAX:
        for value_id in known[1:]:
            found |= column == value_id
        return found
    table = np.zeros(max(*known, int(column.max(initial=0))) + 1, np.bool_)
    table[known] = True
    return table[column]


Numbers = tuple[Int64s, Bools]
"""The number that each value is, and whether it is one."""


def numbers_in(column: Int32s, number_of: Callable[[int], int | None]) -> Numbers:
    """What the values of a column are as numbers; asked once for each distinct id."""
    if len(column) <= COMPARED_ONE_BY_ONE_MAX:
        told = [number_of(value_id) if value_id else None for value_id in column.tolist()]
        numbers = np.array([number or 0 for number in told], np.int64)
        return numbers, np.array([number is not None for number in told], np.bool_)
    occurs = np.zeros(int(column.max()) + 1, np.bool_)
    occurs[column] = True
    occurs[0] = False
    numbers = np.zeros(len(occurs), np.int64)
    are_there = np.zeros_like(occurs)
    for value_id in np.flatnonzero(occurs).tolist():
        number = number_of(value_id)
        if number is not None:
            numbers[value_id], are_there[value_id] = number, True
    return numbers[column], are_there[column]
