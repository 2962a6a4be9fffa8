"""What plugins may read: the columns of nodes and pods, and the objects of the other kinds.

Plugins never write it. The owner has one over its cache, each scorer one over its copy.
"""

from typing import Any, Final, Protocol, TypeVar

from shared.columns.journal import Changes, Journal, PodChange
from shared.columns.nomination_columns import Nominations
from shared.columns.pod_table import PodTable
from shared.columns.rows import union_of
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


POD_CHANGES_MAX: Final = 4096
"""With more pods that came and went, counting all of them again is quicker than one by one."""
UNREAD: Final = -1
"""No log reaches back there."""


class Follower:
    """Of one view. Asks the logs that its owner needs; `note` says that all of them are taken in."""

    def __init__(self, cluster: ClusterView) -> None:
        self._usage_log, self._node_log = cluster.journal.usage, cluster.journal.node
        self._pod_log, self._pod_row_log = cluster.pods.log, cluster.journal.pods
        self._object_log = cluster.objects
        self._usage = self._node = self._pods = self._pod_rows = self._objects = UNREAD

    def note(self) -> None:
        """Everything up to now is taken in."""
        self._usage = self._usage_log.position
        self._node = self._node_log.position
        self._pods = self._pod_log.position
        self._pod_rows = self._pod_row_log.position
        self._objects = self._object_log.version

    def note_objects(self) -> None:
        """Every object up to now is."""
        self._objects = self._object_log.version

    # Whether nothing happened to: what pods take of nodes, Node objects, pods, objects of other kinds.

    @property
    def saw_usage(self) -> bool:
        return self._usage == self._usage_log.position

    @property
    def saw_nodes(self) -> bool:
        return self._node == self._node_log.position

    @property
    def saw_pods(self) -> bool:
        return self._pods == self._pod_log.position

    @property
    def saw_objects(self) -> bool:
        return self._objects == self._object_log.version

    @property
    def saw_all(self) -> bool:
        return (
            self._usage == self._usage_log.position
            and self._pods == self._pod_log.position
            and self._node == self._node_log.position
            and self._objects == self._object_log.version
        )

    @property
    def usage_count(self) -> int:
        """How often something happened to what pods take of nodes."""
        return self._usage_log.position - self._usage

    def usage_rows(self) -> Rows | None:
        """Rows to which pods came, or that pods left; each once, ascending."""
        return self._usage_log.since(self._usage)

    def node_rows(self) -> Rows | None:
        """Rows of which the Node object was written."""
        return self._node_log.since(self._node)

    def rows(self) -> Rows | None:
        """Either; each once, ascending."""
        usage_rows, node_rows = self.usage_rows(), self.node_rows()
        if usage_rows is None or node_rows is None:
            return None
        return union_of(usage_rows, node_rows)

    def changes(self) -> Changes | None:
        """All rows that were written, by group of columns."""
        usage, node, pods = self.usage_rows(), self.node_rows(), self.pod_rows()
        if usage is None or node is None or pods is None:
            return None
        return Changes(usage, node, pods)

    def pod_rows(self) -> Rows | None:
        """Rows of the table of pods that were written, each once, ascending; also where the pod there
        counts as before: it has started since, or is another, or was this scorer's own placement."""
        return self._pod_row_log.since(self._pod_rows)

    def pods(
        self, class_ids: set[int] | None = None, changes_max: int = POD_CHANGES_MAX
    ) -> list[PodChange] | None:
        """Pods of these classes that came and went (None: of all); None where more did, of any."""
        return self._pod_log.since(self._pods, changes_max, class_ids)

    def classes(self, changes_max: int = POD_CHANGES_MAX) -> set[int] | None:
        """The classes of these."""
        return self._pod_log.classes_since(self._pods, changes_max)

    def objects(self) -> list[tuple[str, str]] | None:
        """Kind and key of objects that changed, oldest first, each once."""
        changes = self._object_log.changes_since(self._objects)
        return None if changes is None else list(dict.fromkeys(changes))

    def concerns(self, kinds: frozenset[str] | None) -> bool:
        """Whether an object of one of these kinds may have changed; None: of any."""
        if self.saw_objects:
            return False
        changes = self._object_log.changes_since(self._objects)
        if kinds is None or changes is None:
            return kinds is None or bool(kinds)
        return any(kind in kinds for kind, _ in changes)
