"""What a node has to give: allocatable amounts in the integers of the columns.

Rules: pkg/scheduler/framework/types.go NewResource and NodeInfo.SetNode, v1.36.
"""

import msgspec

from shared.kube import quantity
from shared.kube.api.core_v1 import Node
from shared.kube.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_scalar


class NodeAllocatable(msgspec.Struct, frozen=True):
    """`status.allocatable` of a node; what it does not state is 0."""

    milli_cpu: int
    memory_bytes: int
    ephemeral_storage_bytes: int
    pods: int
    scalars: dict[str, int]


def node_allocatable(node: Node) -> NodeAllocatable:
    """The node's allocatable amounts; raises `QuantityError` for an unreadable quantity."""
    stated = node.status.allocatable or {}
    return NodeAllocatable(
        milli_cpu=quantity.milli_value(stated.get(CPU, 0)),
        memory_bytes=quantity.value(stated.get(MEMORY, 0)),
        ephemeral_storage_bytes=quantity.value(stated.get(EPHEMERAL_STORAGE, 0)),
        pods=quantity.value(stated.get(PODS, 0)),
        scalars={
            name: quantity.value(amount) for name, amount in stated.items() if is_scalar(name)
        },
    )
