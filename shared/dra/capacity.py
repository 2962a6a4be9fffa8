"""Shared devices: how much of a capacity a request takes, and whether that much is left.

Rules: structured/internal/incubating/consumable_capacity.go of
staging/src/k8s.io/dynamic-resource-allocation, v1.36. Amounts are nanos unless they are written back.
"""

from collections.abc import Mapping

from shared.dra.resource_slices import Capacity
from shared.kube.quantity import NANOS_PER_UNIT, ExactQuantity, QuantityFormat, value_of_nanos

Consumed = Mapping[str, int]
"""Capacity -> amount in 1e-9."""
Requested = Mapping[str, ExactQuantity]


def fits(
    requested: Requested, capacities: Mapping[str, Capacity], used: Consumed, taking: Consumed
) -> bool:
    """Whether the request can be met beside what others `used` and what this pod is `taking`."""
    if any(name not in capacities for name in requested):
        return False
    for name, capacity in capacities.items():
        consumed = consumed_by(requested.get(name), capacity)
        if _violates(consumed, capacity):
            return False
        total = consumed.nanos + used.get(name, 0) + taking.get(name, 0)
        if total > capacity.value.nanos:
            return False
    return True


def consumed_by(requested: ExactQuantity | None, capacity: Capacity) -> ExactQuantity:
    """What is taken of one capacity; without being asked for, the default or all of it."""
    if requested is None:
        return capacity.value if capacity.default is None else capacity.default
    if capacity.low is not None:
        return _up_to_step(requested, capacity.low, capacity.step)
    return next((v for v in capacity.values if requested.nanos <= v.nanos), requested)


def _up_to_step(
    requested: ExactQuantity, low: ExactQuantity, step: ExactQuantity | None
) -> ExactQuantity:
    if requested.nanos < low.nanos:
        return low
    if step is None:
        return requested
    base, width = value_of_nanos(low.nanos), value_of_nanos(step.nanos)
    if width <= 0:
        return requested
    above = value_of_nanos(requested.nanos) - base
    total = base + -(-above // width) * width
    return ExactQuantity(total * NANOS_PER_UNIT, QuantityFormat.BINARY_SI)


def _violates(consumed: ExactQuantity, capacity: Capacity) -> bool:
    if consumed == capacity.default:
        return False
    if capacity.high is not None and consumed.nanos > capacity.high.nanos:
        return True
    if capacity.step is not None and capacity.low is not None:
        width = value_of_nanos(capacity.step.nanos)
        above = value_of_nanos(consumed.nanos) - value_of_nanos(capacity.low.nanos)
        return width > 0 and above % width != 0
    allowed = [value.nanos for value in capacity.values]
    return bool(allowed) and consumed.nanos not in allowed
