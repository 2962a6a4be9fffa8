"""BestRows: which rows share the best total, kept while totals move.

The simple way, a maximum over all rows for each pod, costs more than the rest of a placement once
there are many nodes. Here the rows of the best totals lie in sets by total. A row that moves changes
two sets; only when all sets are used up are the totals looked through again, for more rows each
time, so that a placement costs about the same at a thousand nodes and at a million.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np

from shared.columns.schema import Int64s, Rows

BLOCK_BITS: Final = 10
"""Rows lie in blocks of 1,024 by number: an edit moves one block's numbers and no others."""
GROUP_BITS: Final = 5
"""Blocks are counted in groups of 32, so that finding the n-th row looks at few numbers."""
ROWS_SHARE: Final = 64
"""At most about one row in so many is looked up in advance."""
GROWTH: Final = 8


class Ties(Protocol):
    """Rows with equal totals, ascending: a `RowSet`, or an array."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> int: ...

    def tolist(self) -> list[int]: ...


TieBreak = Callable[[Ties], int]
"""Chooses one of the rows (at least two) that are equally good."""
RunTieBreak = Callable[[Ties, int], int]
"""The same for the attempt with this ticket."""


class RowSet:
    """Distinct rows in ascending order. The n-th, one more and one less each cost a microsecond or
    two, at a million rows as well."""

    __slots__ = ("_block_sizes", "_edited", "_group_sizes", "_rows", "_size", "_starts")

    def __init__(self, rows: Rows) -> None:
        """`rows` ascending and distinct; read only from now on."""
        self._rows = rows
        self._size = len(rows)
        self._starts: list[int] = []
        """Where each block begins in `_rows`; made at the first edit."""
        self._block_sizes: list[int] = []
        self._group_sizes: list[int] = []
        self._edited: dict[int, array[int]] = {}
        """Blocks that are no longer as in `_rows`. No lists: those would be five times as large."""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> int:
        if index < 0:
            index += self._size
        if not self._starts:
            return int(self._rows.item(index))
        group = 0
        for size in self._group_sizes:
            if index < size:
                break
            index -= size
            group += 1
        block = group << GROUP_BITS
        sizes = self._block_sizes
        while index >= sizes[block]:
            index -= sizes[block]
            block += 1
        edited = self._edited.get(block)
        if edited is not None:
            return edited[index]
        return int(self._rows.item(self._starts[block] + index))

    def tolist(self) -> list[int]:
        """All rows, ascending."""
        rows: list[int] = self.rows().tolist()
        return rows

    def rows(self) -> Rows:
        """The same as an array; read only."""
        if not self._starts:
            return self._rows
        edited, starts = self._edited, self._starts
        return np.concatenate(
            [
                np.array(edited[block], np.intp)
                if block in edited
                else self._rows[starts[block] : starts[block + 1]]
                for block in range(len(self._block_sizes))
            ]
        )

    def add(self, row: int) -> None:
        """A row that is not there."""
        block = self._edit(row >> BLOCK_BITS)
        block.insert(bisect_left(block, row), row)
        self._resize(row >> BLOCK_BITS, 1)

    def remove(self, row: int) -> None:
        """A row that is there."""
        block = self._edit(row >> BLOCK_BITS)
        del block[bisect_left(block, row)]
        self._resize(row >> BLOCK_BITS, -1)

    def _resize(self, block: int, change: int) -> None:
        self._block_sizes[block] += change
        self._group_sizes[block >> GROUP_BITS] += change
        self._size += change

    def _edit(self, block: int) -> "array[int]":
        if not self._starts:
            self._split()
        missing = block + 1 - len(self._block_sizes)
        if missing > 0:
            self._starts += [len(self._rows)] * missing
            self._block_sizes += [0] * missing
            self._group_sizes += [0] * ((block >> GROUP_BITS) + 1 - len(self._group_sizes))
        found = self._edited.get(block)
        if found is None:
            rows = self._rows[self._starts[block] : self._starts[block + 1]]
            found = self._edited[block] = array("q", rows.tobytes())
        return found

    def _split(self) -> None:
        """Finds the blocks."""
        count = (self._rows.item(-1) >> BLOCK_BITS) + 1 if len(self._rows) else 1
        starts = np.searchsorted(self._rows, np.arange(count + 1) << BLOCK_BITS)
        self._starts = starts.tolist()
        sizes = np.diff(starts)
        self._block_sizes = sizes.tolist()
        groups = np.arange(0, count, 1 << GROUP_BITS)
        self._group_sizes = np.add.reduceat(sizes, groups).tolist()


class BestRows:
    """The rows of `total` with the highest values that are not negative. Whoever writes to `total`
    says so here."""

    __slots__ = ("_best", "_by_total", "_floor", "_total", "_wanted_count")

    def __init__(self, total: Int64s) -> None:
        self._total = total
        self._by_total: dict[int, RowSet] = {}
        """For each total from `_floor` on; those without rows may be missing."""
        self._floor: int | None = None
        """None: nothing is known."""
        self._best = -1
        """No total is higher."""
        self._wanted_count = 1

    def forget(self) -> None:
        """Anything may have changed."""
        self._by_total.clear()
        self._floor = None
        self._wanted_count = 1

    def wrote(self, rows: Rows, before: Int64s) -> None:
        """`rows` (some perhaps several times) had the totals `before`."""
        if self._floor is None:
            return
        after = self._total[rows]
        moved = (before != after).nonzero()[0]
        if len(moved) > max(ROWS_SHARE, len(self._total) // ROWS_SHARE):
            self.forget()
            return
        changes = zip(before[moved].tolist(), after[moved].tolist(), strict=True)
        for row, (old, new) in dict(zip(rows[moved].tolist(), changes, strict=True)).items():
            self.moved(row, old, new)

    def moved(self, row: int, before: int, after: int) -> None:
        """The total of one row is another."""
        floor = self._floor
        if floor is None:
            return
        if before >= floor:
            self._by_total[before].remove(row)
        if after >= floor:
            found = self._by_total.get(after)
            if found is None:
                self._by_total[after] = RowSet(np.array([row], np.intp))
            else:
                found.add(row)
            self._best = max(self._best, after)

    def best(self) -> tuple[int, RowSet] | None:
        """The highest total and its rows, of which there are some; None where no total is 0 or more.
        The set follows later changes."""
        if self._floor is not None:
            found = self._by_total.get(self._best)
            if found:
                return self._best, found
            while self._by_total:
                self._best = max(self._by_total)
                found = self._by_total[self._best]
                if found:
                    return self._best, found
                del self._by_total[self._best]
        return self._look_through()

    def _look_through(self) -> tuple[int, RowSet] | None:
        total = self._total
        best = int(total.max())
        if best < 0:
            self._floor = 0
            return None
        self._best = self._floor = best
        rows = (total == best).nonzero()[0]
        if len(rows) < self._wanted_count:
            self._look_further(rows)
        else:
            self._by_total[best] = RowSet(rows)
        self._wanted_count = min(GROWTH * self._wanted_count, len(total) // ROWS_SHARE + 1)
        return best, self._by_total[best]

    def _look_further(self, rows: Rows) -> None:
        """Takes in lower totals too: these rows would soon be used up."""
        total = self._total
        last = len(total) - self._wanted_count
        self._floor = max(0, int(np.partition(total, last)[last]))
        rows = (total >= self._floor).nonzero()[0]
        totals = total[rows]
        order = np.argsort(totals, kind="stable")
        rows, totals = rows[order], totals[order]
        starts = np.flatnonzero(np.diff(totals, prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            self._by_total[totals.item(start)] = RowSet(rows[start:end])
