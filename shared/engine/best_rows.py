"""BestRows: which rows share the best total, kept while totals move.

The simple way, a maximum over all rows for each pod, costs more than the rest of a placement once
there are many nodes. Here the rows of the best totals lie in sets by total. A row that moves changes
two sets; only when all sets are used up are the totals looked through again, for more rows each
time, so that a placement costs about the same at a thousand nodes and at a million.
"""

from array import array
from bisect import bisect_left
from typing import Final

import numpy as np

from shared.columns.schema import NO_ROWS, Int64s, Rows

BLOCK_BITS: Final = 14
"""Rows lie in blocks of 16,384 by number: an edit moves one block's numbers and no others, and at a
million rows the n-th is found by looking at 62 lengths at most."""
ROWS_SHARE: Final = 64
"""At most about one row in so many is looked up in advance."""
GROWTH: Final = 8


class RowSet:
    """Distinct rows in ascending order. The n-th, one more and one less each cost a microsecond or
    two, at a million rows as well."""

    def __init__(self, rows: Rows) -> None:
        """`rows` ascending and distinct; read only from now on."""
        self._size = len(rows)
        self._blocks: list[Rows | array[int]] = [rows]
        """By number, from the first edit on; those that were edited are arrays of their own. No lists:
        those would be five times as large."""
        self._is_split = False

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> int:
        if index < 0:
            index += self._size
        for block in self._blocks:
            if index < len(block):
                return int(block[index])
            index -= len(block)
        raise IndexError

    def tolist(self) -> list[int]:
        """All rows, ascending."""
        rows: list[int] = self.rows().tolist()
        return rows

    def rows(self) -> Rows:
        """The same as an array; read only."""
        return np.concatenate([np.asarray(block, np.intp) for block in self._blocks])

    def add(self, row: int) -> None:
        """A row that is not there."""
        block = self._edited(row)
        block.insert(bisect_left(block, row), row)
        self._size += 1

    def remove(self, row: int) -> None:
        """A row that is there."""
        block = self._edited(row)
        del block[bisect_left(block, row)]
        self._size -= 1

    def _edited(self, row: int) -> "array[int]":
        """The block in which the row is, or would be."""
        number = row >> BLOCK_BITS
        if not self._is_split:
            rows = np.asarray(self._blocks[0])
            last = rows.item(-1) if len(rows) else 0
            ends = np.arange(1, (last >> BLOCK_BITS) + 1) << BLOCK_BITS
            self._blocks = list(np.split(rows, np.searchsorted(rows, ends)))
            self._is_split = True
        self._blocks += [NO_ROWS] * (number + 1 - len(self._blocks))
        block = self._blocks[number]
        if not isinstance(block, array):
            block = self._blocks[number] = array("q", block.tobytes())
        return block


Ties = RowSet | Rows
"""Rows with equal totals, ascending."""


class BestRows:
    """The rows of `total` with the highest values that are not negative. Whoever writes to `total`
    says so here."""

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
