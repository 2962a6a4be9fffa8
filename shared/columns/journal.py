"""Journal: which rows changed, in order, so that each reader catches up on what it has not seen.

The simple way is a generation per row and a scan for newer ones; at a million rows the scan costs
more than the work. Here a change appends one number, a reader keeps its position, and catching up
costs what changed. The journal is bounded: a reader that fell too far behind gets None and starts
from the whole table, which is cheaper by then anyway.
"""

from typing import Final

import numpy as np

from shared.columns.schema import Rows

ENTRIES_MAX: Final = 1 << 18
"""At 8 bytes each 2 MB; 262,144 changes are more than one full evaluation is worth."""


class Changes:
    """Rows that changed since a position, each once, ascending."""

    __slots__ = ("node_rows", "usage_rows")

    def __init__(self, usage_rows: Rows, node_rows: Rows) -> None:
        self.usage_rows = usage_rows
        """Rows whose usage columns changed (a row may be in both)."""
        self.node_rows = node_rows
        """Rows whose node columns changed."""


class Journal:
    """An append-only list of changed rows, cut off at the old end."""

    __slots__ = ("_base", "_entries")

    def __init__(self) -> None:
        self._base = 0
        self._entries: list[int] = []

    @property
    def position(self) -> int:
        """Where a reader stands that has seen everything."""
        return self._base + len(self._entries)

    def usage_changed(self, row: int) -> None:
        self._entries.append(row << 1)
        if len(self._entries) > ENTRIES_MAX:
            self._cut()

    def node_changed(self, row: int) -> None:
        self._entries.append(row << 1 | 1)
        if len(self._entries) > ENTRIES_MAX:
            self._cut()

    def since(self, position: int) -> Changes | None:
        """What changed after `position`; None if that is longer ago than the journal reaches."""
        start = position - self._base
        if start < 0:
            return None
        tail = self._entries[start:]
        usage = sorted({entry >> 1 for entry in tail if not entry & 1})
        node = sorted({entry >> 1 for entry in tail if entry & 1})
        return Changes(np.array(usage, np.intp), np.array(node, np.intp))

    def _cut(self) -> None:
        dropped = len(self._entries) // 2
        del self._entries[:dropped]
        self._base += dropped
