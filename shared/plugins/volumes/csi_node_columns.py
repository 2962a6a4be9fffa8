"""CSINode objects as columns over nodes: limits by driver, which in-tree plugins are migrated.

Made for what is asked (a driver, a plugin), kept with the view, and brought up to date where a
CSINode object changed. A node without one has no limits, and nothing is migrated there.

Rules: getVolumeLimits in pkg/scheduler/framework/plugins/nodevolumelimits/csi.go and
isPluginMigratedToCSIOnNode in .../volumebinding/binder.go, v1.36.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.columns.schema import Bools, Int64s
from shared.framework.cluster_view import ClusterView, Follower
from shared.kube.api.storage_v1 import CsiNode

CSI_NODES: Final = "csinodes"
NO_LIMIT: Final = -1
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"


class _Column(NamedTuple):
    values: NDArray[Any]
    """Shape (capacity of the node table,)."""
    nothing: int
    """Of a node without a CSINode."""
    read: Callable[[CsiNode], Any]


class CsiNodeColumns:
    """Arrays have the node table's capacity."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._columns: dict[tuple[str, ...], _Column] = {}
        self._follower = Follower(cluster)
        self._nodes_version = (-1, -1)

    def limits(self, driver: str) -> Int64s:
        """How many volumes of the driver a node takes; NO_LIMIT where it does not say."""
        return self._column(
            ("limit", driver), lambda n: attach_limits(n).get(driver, NO_LIMIT), NO_LIMIT, np.int64
        )

    def have(self, driver: str) -> Bools:
        """Nodes on which the driver is installed."""
        return self._column(
            ("has", driver), lambda n: any(each.name == driver for each in n.spec.drivers or ())
        )

    def exist(self) -> Bools:
        """Nodes that have a CSINode object."""
        return self._column(("exists",), lambda _: True)

    def have_limits(self) -> Bools:
        """Nodes with a limit for any driver at all."""
        return self._column(("has limits",), lambda n: bool(attach_limits(n)))

    def migrated(self, plugin: str) -> Bools:
        """Nodes where the CSI driver serves the volumes of an in-tree plugin."""
        return self._column(("migrated", plugin), lambda n: plugin in migrated_plugins(n))

    def catch_up(self) -> None:
        """Brings the columns to the view's present state."""
        nodes = self._cluster.nodes
        nodes_version = (nodes.topology_version, nodes.capacity)
        if self._follower.saw_objects and nodes_version == self._nodes_version:
            return
        changed = self._follower.objects()
        if changed is None or nodes_version != self._nodes_version:
            self._columns.clear()
        else:
            names = [name for kind, name in changed if kind == CSI_NODES]
            for column in self._columns.values():
                self._write(column, names)
        self._follower.note()
        self._nodes_version = nodes_version

    def _column(
        self,
        what: tuple[str, ...],
        read: Callable[[CsiNode], Any],
        nothing: int = 0,
        dtype: type = np.bool_,
    ) -> NDArray[Any]:
        found = self._columns.get(what)
        if found is None:
            values: NDArray[Any] = np.full(self._cluster.nodes.capacity, nothing, dtype)
            found = self._columns[what] = _Column(values, nothing, read)
            self._write(found, self._cluster.objects.all(CSI_NODES))
        return found.values

    def _write(self, column: _Column, names: Iterable[str]) -> None:
        for name in names:
            row = self._cluster.nodes.row_of(name)
            if row >= 0:
                csi_node = self._cluster.objects.get(CSI_NODES, name)
                column.values[row] = column.nothing if csi_node is None else column.read(csi_node)


def attach_limits(csi_node: CsiNode) -> dict[str, int]:
    """How many volumes of a driver the node takes, of those that say."""
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def migrated_plugins(csi_node: CsiNode) -> list[str]:
    """In-tree plugins whose volumes the CSI driver serves on the node."""
    return (csi_node.metadata.annotations or {}).get(MIGRATED_PLUGINS, "").split(",")
