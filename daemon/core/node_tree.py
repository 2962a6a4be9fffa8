"""The zones of the nodes, numbered in the order in which they appeared, and the nodes of each as they
came: what `shared.columns.table` orders by.

Rules: pkg/scheduler/backend/cache/node_tree.go, v1.36.2.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from shared.columns.schema import Rows
from shared.columns.table import NodeTable

REGION_LABELS: Final = (
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
)
ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
)


def zone_key(labels: Mapping[str, str]) -> str:
    """Identifies region and zone of a node; empty where it states neither."""
    region = _first(labels, REGION_LABELS)
    zone = _first(labels, ZONE_LABELS)
    return f"{region}:\x00:{zone}" if region or zone else ""


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    for key in keys:
        if key in labels:
            return labels[key]
    return ""


class NodeTree:
    """Writes the columns of zones; the table's order follows from them."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._numbers: dict[str, int] = {}
        """By the keys of zones with nodes."""
        self._keys: dict[int, str] = {}
        self._node_counts: Counter[int] = Counter()
        """By the numbers of zones."""
        self._next_number = 0
        self._next_place = 0
        self._node_count = 0

    def add(self, rows: Rows, labels: Sequence[Mapping[str, str]]) -> None:
        """Rows of nodes, in the order in which they came, with the labels of each."""
        table, count = self._table, len(rows)
        table.zone_number[rows] = [self._joined(zone_key(own)) for own in labels]
        table.zone_place[rows] = np.arange(self._next_place, self._next_place + count)
        self._next_place += count
        self._node_count += count
        table.forget_order()

    def _joined(self, key: str) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._next_number
            self._keys[number] = key
            self._next_number += 1
        self._node_counts[number] += 1
        return number

    def remove(self, row: int) -> None:
        number = self._table.zone_number.item(row)
        self._node_count -= 1
        self._node_counts[number] -= 1
        if not self._node_counts[number]:
            del self._node_counts[number], self._numbers[self._keys.pop(number)]
        self._table.forget_order()

    def update(self, row: int, labels: Mapping[str, str]) -> None:
        """Moves a node whose zone changed to the end of its new zone."""
        if self._keys[self._table.zone_number.item(row)] != zone_key(labels):
            self.remove(row)
            self.add(np.array([row], np.intp), [labels])

    def zone_names(self, rows: Rows) -> list[str]:
        """Of the rows of nodes, as people call zones: with the region where a node states both."""
        names = {n: key.replace(":\x00:", "/").strip("/") for n, key in self._keys.items()}
        return [names[number] for number in self._table.zone_number[rows].tolist()]

    def __len__(self) -> int:
        return self._node_count
