"""The order in which nodes are looked at: round-robin over zones, so that neighbours differ in zone.

Rules: pkg/scheduler/backend/cache/node_tree.go, v1.36.2. Zones stand in the order in which they
appeared, nodes of a zone in the order in which they were added.
"""

from itertools import zip_longest
from typing import Final

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

    def add(self, row: int, labels: dict[str, str]) -> None:
        zone = zone_key(labels)
        self._zones.setdefault(zone, {})[row] = None
        self._zone_of[row] = zone

    def remove(self, row: int) -> None:
        zone = self._zone_of.pop(row)
        rows = self._zones[zone]
        del rows[row]
        if not rows:
            del self._zones[zone]

    def update(self, row: int, labels: dict[str, str]) -> bool:
        """Moves a node whose zone changed to the end of its new zone; says whether it did."""
        if self._zone_of.get(row) == zone_key(labels):
            return False
        self.remove(row)
        self.add(row, labels)
        return True

    def ordered_rows(self) -> list[int]:
        """All rows, one of each zone in turn."""
        rounds = zip_longest(*self._zones.values())
        return [row for turn in rounds for row in turn if row is not None]

    def __len__(self) -> int:
        return len(self._zone_of)
