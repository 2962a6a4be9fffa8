"""PodTable: the pods on nodes, as columns, so that counting them is a group-by and not a loop.

A row is one pod that counts on a node: its class (which holds labels, namespace, affinity terms,
requests, priority, volumes), the node's row, whether it is being deleted, when it started, and a hash
of its name (budgets name the pods that they have let go; nothing else asks for names). What
depends on the class alone is computed once for each class and looked up for all pods by an index.

Rows are recycled; `node_row` is -1 for a free one.
"""

import zlib
from array import array
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shared.columns.journal import PodLog, pod_code
from shared.columns.schema import NO_NODE, PodColumns, Rows, Table, names_of
from shared.kube.pod_record import PodRecord
from shared.kube.timestamps import seconds_since_1970

FIRST_CAPACITY: Final = 256
_COLUMNS: Final = names_of(PodColumns)
NEVER_STARTED: Final = 1 << 62
"""A pod that kubelet has not seen yet counts as the youngest (GetPodStartTime upstream)."""


def start_time_s(text: str) -> int:
    """RFC 3339 as the API writes it, to seconds since 1970; NEVER_STARTED for an empty text. ObjectError
    for any other."""
    return seconds_since_1970(text) if text else NEVER_STARTED


def name_hash(name: str) -> int:
    """What the table holds of a pod's name: 32 bits."""
    return zlib.crc32(name.encode())


@lru_cache(1 << 14)
def group_id(key: str) -> int:
    """What the table holds of a pod's group (`namespace/name`), which nobody takes for another one's."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) >> 1


def group_id_of(record: PodRecord) -> int:
    """The same of a pod; 0 for one that is in no group."""
    return group_id(record.group_key) if record.group else 0


class PodTable(Table, PodColumns):
    """Written by its methods only: they keep the log."""

    def __init__(self, log: PodLog | None = None) -> None:
        super().__init__(FIRST_CAPACITY, unused={"node_row": NO_NODE})
        self.log = log if log is not None else PodLog()

    def write(
        self,
        row: int,
        class_id: int,
        node_row: int,
        start_s: int,
        *,
        is_terminating: bool,
        is_preempted: bool = False,
        name_hash: int = 0,
        group_id: int = 0,
    ) -> None:
        self._note(row, -1)
        self.class_id[row] = class_id
        self.node_row[row] = node_row
        self.start_s[row] = start_s
        self.is_terminating[row] = is_terminating
        self.is_preempted[row] = is_preempted
        self.name_hash[row] = name_hash
        self.group_id[row] = group_id
        self._note(row, 1)

    def write_rows(self, rows: Rows, *columns: NDArray[Any]) -> None:
        """Writes many rows at once, in the order of the columns; what is left out at the end stays as it
        is. Rows whose `node_row` is NO_NODE become free."""
        self._note_all(rows, -1)
        for name, values in zip(_COLUMNS, columns, strict=False):
            getattr(self, name)[rows] = values
        self._note_all(rows, 1)

    def clear(self, row: int) -> None:
        self._note(row, -1)
        self.node_row[row] = NO_NODE

    def put_back(self, row: int, node_row: int) -> None:
        """Undoes `clear` of a row that nobody wrote since."""
        self.node_row[row] = node_row
        self._note(row, 1)

    def clear_all(self) -> None:
        """Frees all rows, and counts none as used any more."""
        if not self.row_count:
            return
        self._note_all(np.arange(self.row_count), -1)
        self.node_row[: self.row_count] = NO_NODE
        self.row_count = 0

    def _note(self, row: int, sign: int) -> None:
        """The pod of a row came (1) or left (-1); nothing of a free row."""
        node_row = self.node_row.item(row)
        if node_row != NO_NODE:
            class_id, is_terminating = self.class_id.item(row), self.is_terminating.item(row)
            self.log.append(sign * pod_code(class_id, node_row, is_terminating))

    def _note_all(self, rows: Rows, sign: int) -> None:
        used = rows[self.node_row[rows] != NO_NODE]
        node_rows = self.node_row[used].astype(np.int64)
        codes = sign * pod_code(self.class_id[used], node_rows, self.is_terminating[used])
        self.log.extend(array("q", codes.tobytes()))

    def used_rows(self) -> Rows:
        """Rows that hold a pod, ascending."""
        return np.flatnonzero(self.node_row[: self.row_count] != NO_NODE)

    def rows_on(self, node_row: int) -> Rows:
        """Rows of the pods on one node, ascending."""
        return np.flatnonzero(self.node_row[: self.row_count] == node_row)
