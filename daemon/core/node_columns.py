"""A Node object as one row of the columns.

Rules: `NodeInfo.SetNode` in pkg/scheduler/framework/types.go, v1.36.2.
"""

from shared.columns.schema import CPU, EPHEMERAL_STORAGE, MEMORY
from shared.columns.table import NodeTable
from shared.errors import ObjectError
from shared.kube.node_resources import node_allocatable
from shared.kube.objects import Node
from shared.kube.quantity import QuantityError


def write_node_columns(table: NodeTable, row: int, node: Node) -> None:
    """Writes all node columns but `present`. ObjectError, and nothing written, on bad quantities."""
    try:
        allocatable = node_allocatable(node)
    except QuantityError as error:
        where = f"node {node.metadata.name}: status.allocatable"
        raise ObjectError(where, f"{error}; write a quantity such as 4, 500m or 16Gi") from error
    scalar_rows = {table.resource_id(name): amount for name, amount in allocatable.scalars.items()}
    amounts = [0] * len(table.allocatable)
    amounts[CPU] = allocatable.milli_cpu
    amounts[MEMORY] = allocatable.memory_bytes
    amounts[EPHEMERAL_STORAGE] = allocatable.ephemeral_storage_bytes
    for resource, amount in scalar_rows.items():
        amounts[resource] = amount
    table.allocatable[:, row] = amounts
    table.allowed_pod_count[row] = allocatable.pods
    table.unschedulable[row] = node.spec.unschedulable
    taints = tuple((t.key, t.value, t.effect) for t in node.spec.taints or ())
    table.taints_id[row] = table.taints.id_of(taints)
    images = frozenset(name for image in node.status.images or () for name in image.names or ())
    table.images_id[row] = table.images.id_of(images)
    features = frozenset(node.status.declared_features or ())
    table.features_id[row] = table.features.id_of(features)
    table.write_labels(row, node.metadata.labels or {})
