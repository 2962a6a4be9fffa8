"""Node objects as rows of the columns, many at a time.

Most nodes of a cluster are like others in all but their names, labels and images. What they have in
common is their *shape*: quantities are parsed, and the objects kept, once for each.

Rules: `NodeInfo.SetNode` in pkg/scheduler/framework/types.go, v1.36.2.
"""

from collections.abc import Sequence
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
        if images is not None:
            status = msgspec.structs.replace(shape.status, images=images)
        else:
            status = shape.status
        meta = node.metadata
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
