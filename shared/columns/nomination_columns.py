"""Nominations: pending pods that preemption gave a node to, as columns.

Whoever filters a node counts the pods nominated to it that matter at least as much as the pod at
hand. The owner decides on nominations (`daemon.core.nominations`); scorers get them with the
snapshots. Rows are recycled; a free one has `node_row` -1.

Rules: pkg/scheduler/backend/queue/nominator.go, v1.36.2.
"""

from typing import Final, NamedTuple

import numpy as np

from shared.columns.schema import NO_NODE, Bools, Int64s, Rows, Table
from shared.grouped import Grouped

FIRST_CAPACITY: Final = 64
FEW_ROWS: Final = 16
"""Up to so many nodes are looked up one by one, which costs less than the columns' overhead."""


class Nomination(NamedTuple):
    """One pod that waits for room on one node."""

    uid: str
    class_id: int
    priority: int
    node_row: int
    """-1 in a message: the nomination has ended."""


class Nominations(Table):
    """At most one for each pod, in the order in which they were made for each node."""

    node_row: Int64s
    class_id: Int64s
    priority: Int64s

    def __init__(self) -> None:
        super().__init__(FIRST_CAPACITY, unused={"node_row": NO_NODE})
        self._by_uid: dict[str, Nomination] = {}
        self._slot_by_uid: dict[str, int] = {}
        self._uids_by_row = Grouped[int, str, None]()
        self._free: list[int] = []
        """Rows that were used."""

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Nomination | None:
        return self._by_uid.get(uid)

    def row_of(self, uid: str) -> int:
        """The node that a pod is nominated to, or -1."""
        found = self._by_uid.get(uid)
        return NO_NODE if found is None else found.node_row

    def on(self, node_row: int) -> list[Nomination]:
        """The pods nominated to a node, in the order of their nomination."""
        return [self._by_uid[uid] for uid in self._uids_by_row.get(node_row, ())]

    def all(self) -> list[Nomination]:
        return list(self._by_uid.values())

    def put(self, nomination: Nomination) -> None:
        """Nominates a pod, in place of its earlier nomination."""
        self.remove(nomination.uid)
        if not self._free:
            self._free.append(self.row_count)
            self.reserve(self.row_count + 1)
        slot = self._free.pop()
        self.node_row[slot] = nomination.node_row
        self.class_id[slot] = nomination.class_id
        self.priority[slot] = nomination.priority
        self._slot_by_uid[nomination.uid] = slot
        self._by_uid[nomination.uid] = nomination
        self._uids_by_row.put(nomination.node_row, nomination.uid, None)

    def remove(self, uid: str) -> Nomination | None:
        """Ends a pod's nomination, if it has one."""
        nomination = self._by_uid.pop(uid, None)
        if nomination is None:
            return None
        slot = self._slot_by_uid.pop(uid)
        self.node_row[slot] = NO_NODE
        self._free.append(slot)
        self._uids_by_row.drop(nomination.node_row, uid)
        return nomination

    def slots_on(self, rows: Rows, priority_min: int, own_uid: str = "") -> Rows:
        """Where in the columns the nominations to `rows` stand that a pod of `priority_min` has to
        respect; its own, if `own_uid` names it, is none of them."""
        if len(rows) <= FEW_ROWS:
            found = [
                self._slot_by_uid[uid]
                for row in dict.fromkeys(rows.tolist())
                for uid in self._uids_by_row.get(row, ())
                if uid != own_uid and self._by_uid[uid].priority >= priority_min
            ]
            return np.array(found, np.intp)
        counts: Bools = (self.node_row != NO_NODE) & (self.priority >= priority_min)
        own = self._slot_by_uid.get(own_uid)
        if own is not None:
            counts[own] = False
        slots = np.flatnonzero(counts)
        wanted = np.zeros(int(max(rows.max(), self.node_row.max())) + 1, np.bool_)
        wanted[rows] = True
        relevant: Rows = slots[wanted[self.node_row[slots]]]
        return relevant
