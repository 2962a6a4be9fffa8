"""The nodes' half of the cache: a row of columns for each node, and what is held beside them.

A node's row exists as long as the node or a pod on it does; a row without a Node object is a ghost,
which no snapshot shows (`present` is False). Whoever writes a row touches it: that gives it a generation
and brings it into the journal, and so into the next delta. Of pods this half knows only that they are
there; `cache.py` puts them on nodes and takes them off.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from daemon.core.node_columns import NodeShapes, NodeTree, ShapedNode, write_node_columns
from daemon.core.pod_classes import PodClass
from shared.columns.journal import Journal
from shared.columns.schema import Rows
from shared.columns.table import NodeTable, PortTuple
from shared.errors import ObjectError
from shared.framework.queueing_hints import PodView
from shared.kube.api.core_v1 import Node
from shared.kube.pod_record import PodRecord

LINES_LOOKED_AT: Final = 64
"""With so many resources and label keys (clusters have about thirty) it is seen how many nodes have."""
DICTIONARY_WASTE_MAX: Final = 4096
"""A set of 50 image names takes about 4 kB: at most some 16 MB are kept for nothing."""

_NO_PORTS: Final[frozenset[PortTuple]] = frozenset()
NO_CLAIMS: Final[Mapping[str, int]] = {}


class CachedPod(msgspec.Struct, eq=False, gc=False):
    """A pod that counts on a node. Nothing that it holds leads back to it: no need of a collector."""

    record: PodRecord
    pod_class: PodClass
    node_name: str
    row: int = -1
    """Of the pod table."""
    attached_at: int = 0
    """Generation at which it took that row."""
    is_binding_finished: bool = False
    is_evicted: bool = False
    """Ordered to go by preemption; the API server may not have heard yet."""

    @property
    def view(self) -> PodView:
        return PodView(self.record, self.pod_class.info)


class NodeInfo(msgspec.Struct, eq=False, gc=False):
    """What the cache holds of one node beside its row of the table. Small, as there may be a million;
    the collector need not look through them, for the reason that `CachedPod` gives."""

    name: str
    row: int
    node: Node | None = None
    """What scheduling reads of it. None for a ghost: the API server shows none, but pods are on it."""
    pods: dict[str, CachedPod] = {}
    """By uid."""
    ports: frozenset[PortTuple] = _NO_PORTS
    """Host ports in use. A set as in kube-scheduler (HostPortInfo): where two pods of a node came
    to share a port, the first to leave frees it."""
    pvc_refs: Mapping[str, int] = NO_CLAIMS
    """`namespace/claim` -> pods on this node that use it."""


NodeUpdate = tuple[Node | None, Node]
"""A node before (None: it is new) and after, as far as scheduling reads it."""


class CachedNodes:
    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.journal = Journal()
        self.generation = 0
        self.new_image_sizes: dict[str, int] = {}
        """Since somebody last took them."""
        self._node_infos: dict[str, NodeInfo] = {}
        self.node_info: Callable[[str], NodeInfo | None] = self._node_infos.get
        """By name; ghosts included."""
        self._value_look = DICTIONARY_WASTE_MAX
        """With so many label values it is time to see how many are in use."""
        self._line_look = LINES_LOOKED_AT
        """The same with resources and label keys together."""
        self._free_rows: list[int] = []
        self.tree = NodeTree(self.nodes)
        self._shapes = NodeShapes()
        self._image_nodes: Counter[str] = Counter()

    def _count_new_resources(self, first_new: int) -> None:
        """Some node has brought resources, `first_new` and on: what pods ask of them counts now."""
        raise NotImplementedError

    def add_node(self, node: Node) -> None:
        """A node appeared or changed. Raises ObjectError for quantities that cannot be read."""
        self._put_nodes([self._shapes.of(node)])

    def add_nodes(
        self, nodes: Iterable[Node], refuse: Callable[[ObjectError], None]
    ) -> list[NodeUpdate]:
        """The same as `add_node` for each, but that errors are handed to `refuse`."""
        shaped: list[ShapedNode] = []
        for node in nodes:
            try:
                shaped.append(self._shapes.of(node))
            except ObjectError as error:
                refuse(error)
        return self._put_nodes(shaped)

    def remove_node(self, name: str) -> Node | None:
        """A node is gone; with pods still on it, it stays as a ghost. None if it was not here."""
        info = self._node_infos.get(name)
        if info is None or info.node is None:
            return None
        node = info.node
        self._forget_images(node)
        info.node = None
        self.nodes.set_present(info.row, is_present=False)
        self.tree.remove(info.row)
        self._touch_nodes(np.array([info.row], np.intp))
        self._free_if_empty(info)
        return node

    def node_infos(self) -> list[NodeInfo]:
        return list(self._node_infos.values())

    def node_count(self) -> int:
        """Nodes that the API server shows."""
        return len(self.tree)

    def shows(self, row: int) -> bool:
        """Whether the row, any number, is that of a node which the API server shows."""
        return 0 <= row < self.nodes.row_count and bool(self.nodes.present[row])

    def touch_row(self, row: int) -> None:
        """Makes the next delta carry this row, if there is one, for a scorer whose copy of it is off."""
        if 0 <= row < self.nodes.row_count:
            self._touch_usage(row)

    def compact(self) -> bool:
        """Drops dictionary entries that nothing uses, once they are many; says whether it did so.
        Whoever keeps ids of the columns must then start over."""
        if self.nodes.dictionary_waste() < DICTIONARY_WASTE_MAX:
            return False
        self.nodes.compact_dictionaries()
        return True

    def compact_names(self) -> bool:
        """The same for names of nodes, resources, keys and values of labels, whose ids all processes
        share: if it says yes, every copy must be made anew. It does so when at least half of one of
        them are of no use."""
        nodes = self.nodes
        value_count = len(nodes.label_values)
        line_count = len(nodes.resources) + len(nodes.label_keys)
        wasted = len(nodes.names) - len(self._node_infos)
        is_worth_it = wasted >= DICTIONARY_WASTE_MAX and 2 * wasted >= len(nodes.names)
        # The others are counted each time that their number has doubled: that is seldom enough.
        if not is_worth_it and value_count >= self._value_look:
            wasted = nodes.value_waste()
            is_worth_it = wasted >= DICTIONARY_WASTE_MAX and 2 * wasted >= value_count
            self._value_look = 2 * value_count
        if not is_worth_it and line_count >= self._line_look:
            is_worth_it = 2 * nodes.line_waste() >= line_count
            self._line_look = 2 * line_count
        if is_worth_it:
            nodes.compact_names()
            self._value_look = 2 * len(nodes.label_values) + DICTIONARY_WASTE_MAX
            line_count = len(nodes.resources) + len(nodes.label_keys)
            self._line_look = 2 * line_count + LINES_LOOKED_AT
        return is_worth_it

    def _new_node_infos(self, names: Sequence[str]) -> list[NodeInfo]:
        """Of nodes, distinct, of which nothing is known."""
        count = len(names)
        rows = take_rows(self._free_rows, self.nodes.row_count, count)
        self.nodes.reserve(max(rows, default=-1) + 1)
        infos = [NodeInfo(name, row) for name, row in zip(names, rows, strict=True)]
        self._node_infos.update(zip(names, infos, strict=True))
        index = np.array(rows, np.intp)
        self.nodes.bind_names(index, names)
        self._touch_nodes(index)
        self.nodes.incarnation[index] = self.nodes.generation[index]
        return infos

    def _put_nodes(self, nodes: Iterable[ShapedNode]) -> list[NodeUpdate]:
        """Nodes in the order in which they came or changed."""
        updates: list[NodeUpdate] = []
        new: dict[str, ShapedNode] = {}
        for shaped in nodes:
            node = shaped.node
            name = node.metadata.name
            if name in new:
                self._put_new_nodes(new)
            info = self._node_infos.get(name)
            old = None if info is None else info.node
            updates.append((old, node))
            if info is None or old is None:
                new[name] = shaped
            elif _columns_of(old) == _columns_of(node):
                info.node = node  # A heartbeat: conditions and the like, which no plugin reads.
            else:
                self._put_new_nodes(new)
                self._forget_images(old)
                rows = self._write_nodes([info], [shaped])
                self.tree.update(info.row, node.metadata.labels or {})
                self._touch_nodes(rows)
        self._put_new_nodes(new)
        return updates

    def _put_new_nodes(self, new: dict[str, ShapedNode]) -> None:
        """Nodes that are not here, or as ghosts, by name; `new` is empty then."""
        if not new:
            return
        self._new_node_infos([name for name in new if name not in self._node_infos])
        infos, shaped = [self._node_infos[name] for name in new], list(new.values())
        rows = self._write_nodes(infos, shaped)
        self.nodes.set_present(rows, is_present=True)
        self.tree.add(rows, [node.metadata.labels or {} for node, _ in shaped])
        self._touch_nodes(rows)
        new.clear()

    def _write_nodes(self, infos: Sequence[NodeInfo], shaped: Sequence[ShapedNode]) -> Rows:
        rows = np.array([info.row for info in infos], np.intp)
        resource_count = len(self.nodes.resources)
        write_node_columns(self.nodes, rows, shaped)
        self._count_new_resources(resource_count)
        for info, (node, _) in zip(infos, shaped, strict=True):
            info.node = node
            self._remember_images(node)
        return rows

    def _remember_images(self, node: Node) -> None:
        for image in node.status.images or ():
            for name in image.names or ():
                self._image_nodes[name] += 1
                if self._image_nodes[name] == 1:
                    self.nodes.image_sizes[name] = image.size_bytes
                    self.new_image_sizes[name] = image.size_bytes

    def _forget_images(self, node: Node) -> None:
        for image in node.status.images or ():
            for name in image.names or ():
                self._image_nodes[name] -= 1
                if self._image_nodes[name] <= 0:
                    del self._image_nodes[name]
                    del self.nodes.image_sizes[name]

    def _write_ports(self, info: NodeInfo) -> None:
        self.nodes.ports_id[info.row] = self.nodes.ports.id_of(info.ports)

    def _free_if_empty(self, info: NodeInfo) -> None:
        """Gives the row back once neither node nor pods need it."""
        if info.node is not None or info.pods:
            return
        del self._node_infos[info.name]
        self.nodes.unbind_name(info.row)
        self._free_rows.append(info.row)

    def _touch_usage(self, row: int) -> None:
        self.generation += 1
        self.nodes.generation[row] = self.generation
        self.journal.usage.append(row)

    def _touch_nodes(self, rows: Rows) -> None:
        self._number_rows(rows)
        self.journal.node.extend(rows.tolist())

    def _number_rows(self, rows: Rows) -> None:
        """Gives each row a generation of its own, in order."""
        first = self.generation + 1
        self.generation += len(rows)
        self.nodes.generation[rows] = np.arange(first, first + len(rows))


def take_rows(free: list[int], first: int, count: int) -> list[int]:
    """Rows as one by one would be taken: from the end of `free`, then unused ones from `first` on."""
    taken = free[: -count - 1 : -1]
    del free[len(free) - len(taken) :]
    taken.extend(range(first, first + count - len(taken)))
    return taken


def _columns_of(node: Node) -> tuple[object, ...]:
    """All that the columns of a node are written from."""
    status = node.status
    labels, features = node.metadata.labels, status.declared_features
    return node.spec, labels, status.allocatable, status.images, features
