"""Node objects as rows of the columns, many at a time.

Most nodes of a cluster are like others in all but their names, labels and images. What they have in
common is their *shape*: quantities are parsed, and the objects kept, once for each.

Rules: `NodeInfo.SetNode` in pkg/scheduler/framework/types.go, v1.36.2.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from shared.columns.schema import BASE_RESOURCES, Rows
from shared.columns.table import NodeTable, TaintTuple
from shared.errors import ObjectError
from shared.faults import reading
from shared.kube.api.core_v1 import Node, NodeSpec, NodeStatus
from shared.kube.api.meta_v1 import ObjectMeta
from shared.kube.pod_resources import NodeAllocatable, node_allocatable
from shared.kube.quantity import QuantityError
from shared.limits import NODE_LABELS_MAX, NODE_SHAPES_MAX, RESOURCES_MAX

REGION_LABELS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_encoder: Final = msgspec.msgpack.Encoder()


class NodeShape(NamedTuple):
    spec: NodeSpec
    status: NodeStatus
    """Without images."""
    allocatable: NodeAllocatable
    taints: tuple[TaintTuple, ...]
    features: frozenset[str]


class ShapedNode(NamedTuple):
    """A node that shares what others have too."""

    node: Node
    """As far as anybody reads it."""
    shape: NodeShape


class NodeShapes:
    """Shapes that were seen lately, by what makes them up."""

    def __init__(self) -> None:
        self._by_bytes: dict[bytes, NodeShape] = {}

    def of(self, node: Node) -> ShapedNode:
        """ObjectError on bad quantities."""
        status, images = node.status, node.status.images
        if images is not None:
            status = msgspec.structs.replace(status, images=None)
        key = _encoder.encode((node.spec, status))
        shape = self._by_bytes.get(key)
        if shape is None:
            if len(self._by_bytes) >= NODE_SHAPES_MAX:
                self._by_bytes.clear()
            with reading("node", node.metadata.name):
                shape = _shape(node, status)
            self._by_bytes[key] = shape
        status, meta = shape.status, node.metadata
        if images is not None:
            status = msgspec.structs.replace(status, images=images)
        _check_count(node, "metadata.labels", len(meta.labels or ()), NODE_LABELS_MAX)
        kept = ObjectMeta(name=meta.name, labels=meta.labels, annotations=meta.annotations)
        return ShapedNode(Node(metadata=kept, spec=shape.spec, status=status), shape)


def _shape(node: Node, status: NodeStatus) -> NodeShape:
    try:
        allocatable = node_allocatable(node)
    except QuantityError as error:
        where = f"node {node.metadata.name}: status.allocatable"
        raise ObjectError(where, f"{error}; write a quantity such as 4, 500m or 16Gi") from error
    count = len(allocatable.amounts) - len(BASE_RESOURCES)
    _check_count(node, "status.allocatable", count, RESOURCES_MAX)
    taints = tuple((t.key, t.value, t.effect) for t in node.spec.taints or ())
    features = frozenset(status.declared_features or ())
    return NodeShape(node.spec, status, allocatable, taints, features)


def _check_count(node: Node, field: str, count: int, count_max: int) -> None:
    if count > count_max:
        where = f"node {node.metadata.name}: {field}"
        raise ObjectError(where, f"has {count} names, and {count_max} at most are read")


def write_node_columns(table: NodeTable, rows: Rows, nodes: Sequence[ShapedNode]) -> None:
    """Writes all node columns but `present`, and those of zones, of these rows, distinct."""
    numbers: dict[int, int] = {}
    at = [numbers.setdefault(id(node.shape), len(numbers)) for node in nodes]
    shapes = list({id(node.shape): node.shape for node in nodes}.values())
    table.add_resources(name for shape in shapes for name in shape.allocatable.amounts)
    table.allocatable[:, rows] = np.array([_amounts(table, s) for s in shapes], np.int64).T[:, at]
    table.allowed_pod_count[rows] = np.array([s.allocatable.pods for s in shapes], np.int64)[at]
    table.unschedulable[rows] = np.array([s.spec.unschedulable for s in shapes])[at]
    table.taints_id[rows] = np.array([table.taints.id_of(s.taints) for s in shapes])[at]
    table.features_id[rows] = np.array([table.features.id_of(s.features) for s in shapes])[at]
    table.images_id[rows] = table.images.ids_of(
        frozenset(name for image in node.status.images or () for name in image.names or ())
        for node, _ in nodes
    )
    table.write_labels(rows, [each.node.metadata.labels or {} for each in nodes])


def _amounts(table: NodeTable, shape: NodeShape) -> list[int]:
    amounts = [0] * len(table.allocatable)
    for name, amount in shape.allocatable.amounts.items():
        amounts[table.resources.find(name)] = amount
    return amounts


def _zone_key(labels: Mapping[str, str]) -> str:
    """Identifies region and zone of a node; empty where it states neither. Of two labels the deprecated
    one counts, even if it is empty (GetZoneKey in staging/src/k8s.io/component-helpers/node/topology/
    helpers.go, v1.36.2)."""
    region, zone = (
        next((labels[key] for key in keys if key in labels), "")
        for keys in (REGION_LABELS, ZONE_LABELS)
    )
    return f"{region}:\x00:{zone}" if region or zone else ""


class NodeTree:
    """Zones, numbered in the order in which they appeared, and the nodes of each as they came: what
    `shared.columns.table` orders by (pkg/scheduler/backend/cache/node_tree.go, v1.36.2)."""

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
        table.zone_number[rows] = [self._joined(_zone_key(own)) for own in labels]
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
        if self._keys[self._table.zone_number.item(row)] != _zone_key(labels):
            self.remove(row)
            self.add(np.array([row], np.intp), [labels])

    def zone_names(self, rows: Rows) -> list[str]:
        """Of the rows of nodes, as people call zones: with the region where a node states both."""
        names = {n: key.replace(":\x00:", "/").strip("/") for n, key in self._keys.items()}
        return [names[number] for number in self._table.zone_number[rows].tolist()]

    def __len__(self) -> int:
        return self._node_count
