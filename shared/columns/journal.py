"""Journal: which rows changed, in order, so that each reader catches up on what it has not seen.

The simple way is a generation per row and a scan for newer ones; at a million rows the scan costs
more than the work. Here a change appends one number, a reader keeps its position, and catching up
costs what changed. The journal is bounded: a reader that fell too far behind gets None and starts
from the whole table, which is cheaper by then anyway.
"""

from array import array
from typing import Any, Final, NamedTuple

import numpy as np

from shared.columns.schema import NO_ROWS, Rows

ENTRIES_MAX: Final = 1 << 18
"""At 8 bytes each 2 MB; 262,144 changes are more than one full evaluation is worth."""


class Log:
    """An append-only list of numbers, cut off at the old end."""

    def __init__(self) -> None:
        # No list: a number of its own in memory would make each entry 40 bytes.
        self._entries: array[int] = array("q")
        self.position = 0
        """Where a reader stands that has seen everything."""

    def append(self, number: int) -> None:
        self._entries.append(number)
        self.position += 1
        if len(self._entries) > ENTRIES_MAX:
            del self._entries[: len(self._entries) // 2]

    def extend(self, numbers: "list[int] | array[int]") -> None:
        """The same as `append` for each."""
        self._entries.extend(numbers)
        self.position += len(numbers)
        if len(self._entries) > ENTRIES_MAX:
            del self._entries[: len(self._entries) // 2]

    def _tail(self, position: int) -> "array[int] | None":
        """What came after `position`; None where the log does not reach back."""
        start = position - (self.position - len(self._entries))
        return None if start < 0 else self._entries[start:]


class RowLog(Log):
    """Of rows."""

    def since(self, position: int) -> Rows | None:
        """Rows after `position`, each once, ascending; None where the log does not reach back."""
        if position == self.position:
            return NO_ROWS
        tail = self._tail(position)
        if tail is None:
            return None
        return np.array(sorted(set(tail)) if len(tail) > 1 else tail, np.intp)


class Changes(NamedTuple):
    """Rows that changed, by group of columns. A row may be in both of a node's."""

    usage_rows: Rows
    node_rows: Rows
    pod_rows: Rows
    """Rows of the pod table. The node of each is in `usage_rows` as well."""


class Journal:
    """Changes of a table, by group of columns."""

    def __init__(self) -> None:
        self.usage = RowLog()
        self.node = RowLog()
        self.pods = RowLog()


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
    """Which pods (`pod_code`) came to nodes (positive) and left them (negative). Who counts pods must
    know what a row held before, and would else need a copy of the table. A pod that came and went
    meanwhile cancels out. All tables of one view share one log: a scorer's tentative placement that
    comes back as the owner's word is then no change at all."""

    def since(
        self, position: int, entries_max: int, class_ids: set[int] | None = None
    ) -> list[PodChange] | None:
        """The difference since `position`, in no order that means anything; of these classes, or of all.
        None where that is longer ago than the log reaches, or more than `entries_max` entries of any."""
        entries = self._entries_since(position, entries_max)
        if entries is None:
            return None
        counts: dict[int, int] = {}
        for entry in entries:
            if class_ids is not None and _class_of(entry) not in class_ids:
                continue
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
            return {_class_of(entry) for entry in entries}
        codes = np.abs(np.frombuffer(entries, np.int64)) - 1
        return set((codes >> _CLASS_SHIFT).tolist())

    def _entries_since(self, position: int, entries_max: int) -> "array[int] | None":
        return None if self.position - position > entries_max else self._tail(position)


def pod_code(class_id: Any, node_row: Any, is_terminating: Any) -> Any:
    """One pod as the log has it, or many in arrays."""
    # Plus 1, so that no pod is 0, which has no sign.
    return (class_id << _CLASS_SHIFT | node_row << 1 | is_terminating) + 1


def _class_of(entry: int) -> int:
    return (abs(entry) - 1) >> _CLASS_SHIFT


def _change(code: int, count: int) -> PodChange:
    code -= 1
    return PodChange(code >> _CLASS_SHIFT, code >> 1 & _ROW_MASK, bool(code & 1), count)
