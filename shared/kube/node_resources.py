"""What a node has to give: allocatable amounts in the integers of the columns.

Rules: pkg/scheduler/framework/types.go NewResource and NodeInfo.SetNode, v1.36.
"""

import msgspec

from shared.kube import quantity
from shared.kube.api.core_v1 import Node
from shared.kube.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_scalar


class NodeAllocatable(msgspec.Struct, frozen=True):
    """`status.allocatable` of a node."""

    pods: int
    amounts: dict[str, int]
    """By resource, cpu in milli units; cpu, memory and ephemeral storage are always there."""


def node_allocatable(node: Node) -> NodeAllocatable:
    """The node's allocatable amounts; raises `QuantityError` for an unreadable quantity."""
    stated = node.status.allocatable or {}
    scalars = {name: quantity.value(amount) for name, amount in stated.items() if is_scalar(name)}
    amounts = {
        CPU: quantity.milli_value(stated.get(CPU, 0)),
        MEMORY: quantity.value(stated.get(MEMORY, 0)),
        EPHEMERAL_STORAGE: quantity.value(stated.get(EPHEMERAL_STORAGE, 0)),
        **scalars,
    }
    return NodeAllocatable(quantity.value(stated.get(PODS, 0)), amounts)
