"""Row indices as numpy takes them fastest."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from shared.columns.schema import Bools, Rows

PART: Final = 1 << 16
"""Rows: half a megabyte for each array of numbers."""
RowIndex = slice | Rows
"""Picks rows out of a column: a view where they lie side by side, else a copy."""

_counting: Rows = np.arange(1 << 12)
"""0, 1, 2, ...; parts of it are recognised as rows that lie side by side."""
_counting.flags.writeable = False


def row_index(rows: Rows) -> RowIndex:
    """The same rows, as a slice where possible. All nodes and a single node are the usual cases, and
    for them a slice costs no copy: gathering 5,000 values takes about as long as the arithmetic on
    them."""
    count = len(rows)
    if count == 0:
        return slice(0, 0)
    first = rows.item(0)
    if count == 1:
        return slice(first, first + 1)
    if rows.item(-1) - first == count - 1 and (
        (rows.base is _counting and rows.strides == _counting.strides)
        or bool((rows[1:] > rows[:-1]).all())
    ):
        return slice(first, first + count)
    return rows


def rows_between(first: int, end: int) -> Rows:
    """`first` to `end` - 1. Read only."""
    global _counting  # noqa: PLW0603  # Grows; arrays made from the old one stay right.
    if end > len(_counting):
        _counting = np.arange(1 << end.bit_length())
        _counting.flags.writeable = False
    return _counting[first:end]


def union_of(some: Rows, others: Rows) -> Rows:
    """Each row of either once, ascending, as both are."""
    if not len(some) or not len(others):
        return others if not len(some) else some
    if len(some) == len(others) == 1 and some.item(0) == others.item(0):
        return some
    return np.union1d(some, others)


def parts_of(count: int, size: int | None = None) -> Iterator[slice]:
    """0 to `count` - 1 in parts that the caches hold (None: `PART`): with more rows at once, what is
    computed on the way goes through memory that is new each time, which takes longer than the
    arithmetic."""
    size = PART if size is None else size
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def rows_where(mask: Bools) -> Rows:
    """The rows where `mask` is True, ascending. Read only: where they lie side by side, this costs a
    tenth of looking for each."""
    count = int(np.count_nonzero(mask))
    if count == 0:
        return mask.nonzero()[0]
    first = int(mask.argmax())
    if first + count <= len(mask) and bool(mask[first : first + count].all()):
        return rows_between(first, first + count)
    return mask.nonzero()[0]
