"""What plugins may read: the columns of nodes and pods, and the objects of the other kinds.

Plugins never write it. The owner has one over its cache, each scoring worker one over its copy.
"""

from collections.abc import Mapping
from typing import Any

from shared.columns.pods import PodTable
from shared.columns.table import NodeTable
from shared.framework.pod_info import PodInfo


class ObjectStore:
    """Objects of every kind but pods and nodes, by kind (plural) and key (`namespace/name`)."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, Any]] = {}
        self.version = 0
        """Raised by each change; what was computed from objects is valid for one version."""

    def put(self, kind: str, key: str, value: Any) -> None:
        self._by_kind.setdefault(kind, {})[key] = value
        self.version += 1

    def remove(self, kind: str, key: str) -> None:
        if self._by_kind.get(kind, {}).pop(key, None) is not None:
            self.version += 1

    def get(self, kind: str, key: str) -> Any | None:
        return self._by_kind.get(kind, {}).get(key)

    def all(self, kind: str) -> dict[str, Any]:
        """Objects of a kind by key, in the order they came; read only."""
        return self._by_kind.get(kind, {})


class ClusterView:
    """One consistent state of the cluster."""

    def __init__(
        self,
        nodes: NodeTable,
        objects: ObjectStore,
        pods: PodTable,
        classes: Mapping[int, PodInfo],
    ) -> None:
        self.nodes = nodes
        self.objects = objects
        self.pods = pods
        """Pods on nodes, assumed ones included."""
        self.tentative = PodTable()
        """Placements of this worker that the owner has not settled yet; empty in the owner."""
        self.classes = classes
        """Class id -> what the pods of the class have in common; for every pod in the tables."""

    @property
    def pod_tables(self) -> tuple[PodTable, PodTable]:
        """All pods that count."""
        return self.pods, self.tentative
