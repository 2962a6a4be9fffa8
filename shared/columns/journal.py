"""Journal: which rows changed, in order, so that each reader catches up on what it has not seen.

The simple way is a generation per row and a scan for newer ones; at a million rows the scan costs
more than the work. Here a change appends one number, a reader keeps its position, and catching up
costs what changed. The journal is bounded: a reader that fell too far behind gets None and starts
from the whole table, which is cheaper by then anyway.
"""

from array import array
from typing import Final, NamedTuple

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


class Position(NamedTuple):
    """Where a reader of a journal stands."""

    usage: int
    node: int
    pods: int


class Changes(NamedTuple):
    """Rows that changed since a position. A row may be in both."""

    usage_rows: Rows
    """Rows whose usage columns changed."""
    node_rows: Rows
    """Rows whose node columns changed."""
    pod_rows: Rows
    """Rows of the pod table. The node of each is in `usage_rows` as well."""


class Journal:
    """Changes of a table, by group of columns."""

    def __init__(self) -> None:
        self.usage = RowLog()
        self.node = RowLog()
        self.pods = RowLog()

    @property
    def position(self) -> Position:
        """Where a reader stands that has seen everything."""
        return Position(self.usage.position, self.node.position, self.pods.position)

    def since(self, position: Position) -> Changes | None:
        """What changed after `position`; None if that is longer ago than the journal reaches."""
        usage = self.usage.since(position.usage)
        node = self.node.since(position.node)
        pods = self.pods.since(position.pods)
        if usage is None or node is None or pods is None:
            return None
        return Changes(usage, node, pods)


START: Final = Position(0, 0, 0)
