"""PodLog: which pods came to and left nodes, with what they were, so that counts can follow.

A journal of rows (`journal.py`) is enough for somebody who copies rows. Somebody who counts pods
(so many of this class on that node) must also know what a row held before, and keeping the old
contents for each reader would cost each of them a copy of the table. Here every write leaves one
number for what went and one for what came, and a reader that adds them up gets the difference
between then and now; a pod that came and went meanwhile cancels out.

All tables of one view share one log: a scorer's tentative placement that comes back as the owner's
word is then no change at all.
"""

from array import array
from typing import Final, NamedTuple

import numpy as np

from shared.columns.journal import Log
from shared.columns.schema import Bools, Int32s, Int64s

FEW_ENTRIES: Final = 32
"""Up to so many are gone through quicker one by one."""

# A pod as one number: class id, node row, whether it is terminating. Class ids stay below 2^30 and
# rows below 2^32, so that the number fits an int64 with its sign free.
_CLASS_SHIFT: Final = 33
_ROW_MASK: Final = (1 << 32) - 1


class PodChange(NamedTuple):
    """How many more pods (fewer, if negative) of a class there are on a node."""

    class_id: int
    node_row: int
    is_terminating: bool
    difference: int


class PodLog(Log):
    """Pods that came (positive) and went (negative)."""

    def came(self, class_id: int, node_row: int, *, is_terminating: bool) -> None:
        self.append(_code(class_id, node_row, is_terminating))

    def went(self, class_id: int, node_row: int, *, is_terminating: bool) -> None:
        self.append(-_code(class_id, node_row, is_terminating))

    def many_came(self, class_ids: Int64s, node_rows: Int32s, is_terminating: Bools) -> None:
        self.extend(array("q", _codes(class_ids, node_rows, is_terminating).tobytes()))

    def many_went(self, class_ids: Int64s, node_rows: Int32s, is_terminating: Bools) -> None:
        self.extend(array("q", (-_codes(class_ids, node_rows, is_terminating)).tobytes()))

    def since(self, position: int, entries_max: int) -> list[PodChange] | None:
        """The difference since `position`, in no order that means anything.

        None where that is longer ago than the log reaches, or more than `entries_max` entries.
        """
        entries = self._entries_since(position, entries_max)
        if entries is None:
            return None
        if len(entries) == 1:
            entry = entries[0]
            return [_change(entry, 1) if entry > 0 else _change(-entry, -1)]
        counts: dict[int, int] = {}
        for entry in entries:
            if entry > 0:
                counts[entry] = counts.get(entry, 0) + 1
            else:
                counts[-entry] = counts.get(-entry, 0) - 1
        return [_change(code, count) for code, count in counts.items() if count]

    def classes_since(self, position: int, entries_max: int) -> set[int] | None:
        """The classes of pods that came or went since `position`; None as of `since`."""
        entries = self._entries_since(position, entries_max)
        if entries is None:
            return None
        if len(entries) <= FEW_ENTRIES:
            return {(abs(entry) - 1) >> _CLASS_SHIFT for entry in entries}
        codes = np.abs(np.frombuffer(entries, np.int64)) - 1
        return set((codes >> _CLASS_SHIFT).tolist())

    def _entries_since(self, position: int, entries_max: int) -> "array[int] | None":
        return None if self.position - position > entries_max else self._tail(position)


def _code(class_id: int, node_row: int, is_terminating: bool) -> int:
    # Plus 1, so that no pod is 0, which has no sign.
    return (class_id << _CLASS_SHIFT | node_row << 1 | is_terminating) + 1


def _codes(class_ids: Int64s, node_rows: Int32s, is_terminating: Bools) -> Int64s:
    codes: Int64s = class_ids << _CLASS_SHIFT
    codes |= node_rows.astype(np.int64) << 1
    codes |= is_terminating
    codes += 1
    return codes


def _change(code: int, count: int) -> PodChange:
    code -= 1
    return PodChange(code >> _CLASS_SHIFT, code >> 1 & _ROW_MASK, bool(code & 1), count)
