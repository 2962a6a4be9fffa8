"""The order in which nodes are looked at: round-robin over zones, so that neighbours differ in zone.

Rules: pkg/scheduler/backend/cache/node_tree.go, v1.36.2. Zones stand in the order in which they
appeared, nodes of a zone in the order in which they were added.
"""

from typing import Final

import numpy as np

from shared.columns.schema import Rows

REGION_LABELS: Final = (
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
)
ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
)


def zone_key(labels: dict[str, str]) -> str:
    """Identifies region and zone of a node; empty where it states neither."""
    region = _first(labels, REGION_LABELS)
    zone = _first(labels, ZONE_LABELS)
    return f"{region}:\x00:{zone}" if region or zone else ""


def _first(labels: dict[str, str], keys: tuple[str, ...]) -> str:
    for key in keys:
        if key in labels:
            return labels[key]
    return ""


class NodeTree:
    """Node rows by zone."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[int, None]] = {}
        self._zone_of: dict[int, str] = {}
        self._order: Rows = np.zeros(0, np.intp)
        """As last asked for."""
        self._added: list[int] | None = []
        """Rows that came since, if nothing else happened to the tree; else None."""

    def add(self, row: int, labels: dict[str, str]) -> None:
        zone = zone_key(labels)
        self._zones.setdefault(zone, {})[row] = None
        self._zone_of[row] = zone
        if self._added is not None:
            self._added.append(row)

    def remove(self, row: int) -> None:
        zone = self._zone_of.pop(row)
        rows = self._zones[zone]
        del rows[row]
        if not rows:
            del self._zones[zone]
        self._added = None

    def update(self, row: int, labels: dict[str, str]) -> bool:
        """Moves a node whose zone changed to the end of its new zone; says whether it did."""
        if self._zone_of.get(row) == zone_key(labels):
            return False
        self.remove(row)
        self.add(row, labels)
        return True

    def ordered_rows(self) -> Rows:
        """All rows, one of each zone in turn. Read only.

        In a large cluster nodes come a few at a time, and a turn over all of them for each few is
        what takes longest; in a single zone those that came are simply the last.
        """
        if self._added is not None and len(self._zones) == 1:
            self._order = np.concatenate((self._order, np.array(self._added, np.intp)))
        else:
            self._order = _in_turn([np.fromiter(z, np.intp, len(z)) for z in self._zones.values()])
        self._added = []
        return self._order

    def __len__(self) -> int:
        return len(self._zone_of)


def _in_turn(zones: list[Rows]) -> Rows:
    """The first of each, the second of each that has two, and so on."""
    if len(zones) <= 1:
        return zones[0] if zones else np.zeros(0, np.intp)
    turns = np.concatenate([np.arange(len(rows)) for rows in zones])
    # Stable: within a turn, zones stay in their order.
    in_turn: Rows = np.concatenate(zones)[np.argsort(turns, kind="stable")]
    return in_turn
