"""What plugins may read: the columns of nodes and pods, and the objects of the other kinds.

Plugins never write it. The owner has one over its cache, each scorer one over its copy.
"""

from typing import Any, Protocol, TypeVar

from shared.columns.journal import Journal
from shared.columns.nomination_columns import Nominations
from shared.columns.pod_table import PodTable
from shared.columns.schema import Rows
from shared.columns.table import NodeTable
from shared.columns.topology import Topology, make_topology
from shared.feature_gates import FeatureGates
from shared.framework.class_index import ClassIndex, ClassUsages
from shared.framework.object_store import ObjectStore
from shared.framework.pod_info import PodInfo


class Derived(Protocol):
    """What a plugin works out of a view, and keeps."""

    def __init__(self, cluster: "ClusterView") -> None: ...

    def catch_up(self) -> None:
        """Brings it to the view's present state."""


D = TypeVar("D", bound=Derived)


class ClusterView:
    """One consistent state of the cluster."""

    def __init__(
        self,
        nodes: NodeTable,
        objects: ObjectStore,
        pods: PodTable,
        classes: dict[int, PodInfo],
        journal: Journal,
        gates: FeatureGates,
    ) -> None:
        self.gates = gates
        self.nodes = nodes
        self.journal = journal
        """Which rows changed."""
        self.objects = objects
        self.pods = pods
        """Pods on nodes, assumed ones included."""
        self.pod_log = pods.log
        """What came to and left nodes, of all pods that count."""
        self.tentative = PodTable(pods.log)
        """Placements of this scorer that the owner has not settled yet; empty in the owner."""
        self.nominations = Nominations()
        """Pending pods that preemption gave a node to; they are on no node."""
        self.usages = ClassUsages(nodes, classes)
        self.classes = classes
        """Class id -> what the pods of the class have in common; for every pod in the tables."""
        self.class_index = ClassIndex(classes)
        self._topologies: dict[str, tuple[tuple[int, int], Topology]] = {}
        """Label key -> the version of the nodes for which it was last looked at, and the answer."""
        self.placement: Rows | None = None
        """The nodes that a pod may go to at this moment; None: all. Who counts pods counts them all."""
        self._derived: dict[type[Any], Any] = {}

    def forget_derived(self) -> None:
        """Ids of the tables have changed their meaning, or a class has another usage."""
        self.usages.start_over()
        self._derived.clear()
        self._topologies.clear()

    def derived(self, kind: type[D]) -> D:
        """The one of its kind that is derived from this view, up to date. Never a source: it may be
        dropped at any time."""
        found = self._derived.get(kind)
        if found is None:
            found = self._derived[kind] = kind(self)
        found.catch_up()
        return found

    @property
    def node_count(self) -> int:
        """Of those that a pod may go to."""
        return len(self.nodes.order if self.placement is None else self.placement)

    @property
    def pod_tables(self) -> tuple[PodTable, PodTable]:
        """All pods that count."""
        return self.pods, self.tentative

    def topology(self, key: str) -> Topology:
        """The nodes by one label; the same object as long as the same nodes share a value."""
        version = (self.nodes.topology_version, self.nodes.capacity)
        found = self._topologies.get(key)
        if found is not None and found[0] == version:
            return found[1]
        topology = make_topology(self.nodes, key)
        if found is not None and found[1].is_equal(topology):
            topology = found[1]
        self._topologies[key] = (version, topology)
        return topology
