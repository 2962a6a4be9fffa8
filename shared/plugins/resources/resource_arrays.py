"""Fit and resource scores over columns; of one node see `one_node`.

Arithmetic is kube-scheduler's: int64 with truncating division for Least- and MostAllocated, rounding
for RequestedToCapacityRatio, float64 in upstream's order of operations for the balance. Amounts are
not negative, so floor and truncation agree.

What is said of nodes with amounts near 2^63 is void: sums and products wrap around there, so those are
asked about one by one (`ScoringRule.rated`).

Rules: pkg/scheduler/framework/plugins/noderesources/{fit,least_allocated,most_allocated,
requested_to_capacity_ratio,balanced_allocation}.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.columns.rows import parts_of
from shared.columns.schema import Bools, Int64s
from shared.framework.normalize import SCORE_MAX, UTILIZATION_MAX
from shared.plugins.resources import one_node

Floats = NDArray[np.float64]

SUM_MAX: Final = 1 << 56
"""Up to here a hundred times an amount stays within int64."""

BLOCK: Final = 1 << 13
"""Rows at a time: what lies between one operation and the next stays in the processor's caches."""

FEW_ROWS: Final = 256
"""Up to so many, doing something for each row costs less than finding out that it is not needed."""

Columns = Sequence[Int64s]
"""One array of shape (n,) for each resource."""


def large_rows(columns: Columns, numbers: Sequence[int]) -> Bools | None:
    """Rows where int64 might wrap around: somewhere an amount is large, or negative, so wrapped already.
    None where there are none."""
    if max(numbers) > SUM_MAX:
        return np.ones(len(columns[0]), np.bool_)
    large: Bools | None = None
    for column in columns:
        amounts = column.view(np.uint64)  # What is negative is very large there.
        if amounts.max(initial=0) > SUM_MAX:
            found = amounts > SUM_MAX
            large = found if large is None else large | found
    return large


def fit_reasons(
    amounts: Sequence[int], requested: Columns, allocatable: Columns, *, is_full: Bools
) -> tuple[Int64s, Bools]:
    """Why a pod does not fit, as bits, and whether it never could; both of shape (n,).

    Bit 0: no room for one more pod (`is_full`); bit i + 1: not enough of resource i. `amounts` are
    above 0.
    """
    reasons = is_full.astype(np.int64)
    never = np.zeros(len(reasons), np.bool_)
    for i, amount in enumerate(amounts):
        short = allocatable[i] - requested[i] < amount
        if short.any():
            reasons |= short.astype(np.int64) << one_node.reason_bit(i)
            never |= short & (allocatable[i] < amount)
    return reasons, never


def least_allocated(requested: Columns, capacity: Columns, weights: Sequence[int]) -> Int64s:
    """Weighted mean of the free share, 0..100. `requested` includes the incoming pod."""
    if len(capacity[0]) <= BLOCK:
        return _least_allocated(requested, capacity, weights)
    found = np.empty(len(capacity[0]), np.int64)
    for block in parts_of(len(found), BLOCK):
        used = [column[block] for column in requested]
        sizes = [column[block] for column in capacity]
        found[block] = _least_allocated(used, sizes, weights)
    return found


def _least_allocated(requested: Columns, capacity: Columns, weights: Sequence[int]) -> Int64s:
    total: Int64s | None = None
    has_all = True
    for used, size, weight in zip(requested, capacity, weights, strict=True):
        free = size - used
        np.maximum(free, 0, out=free)
        free *= SCORE_MAX
        same = _same_number(size)
        has_all &= same > 0 or bool(size.all())
        free //= same or np.maximum(size, 1)
        if weight != 1:
            free *= weight
        total = free if total is None else np.add(total, free, out=total)
    assert total is not None, "asked about some resource"
    if has_all:
        total //= sum(weights)
        return total
    return _mean(total, capacity, weights)


def most_allocated(requested: Columns, capacity: Columns, weights: Sequence[int]) -> Int64s:
    """Weighted mean of the used share, 0..100; what is overcommitted counts as full."""
    total = np.zeros_like(capacity[0])
    for used, size, weight in zip(requested, capacity, weights, strict=True):
        total += np.minimum(used, size) * SCORE_MAX // np.maximum(size, 1) * weight
    return _mean(total, capacity, weights)


def _mean(total: Int64s, capacity: Columns, weights: Sequence[int]) -> Int64s:
    """`total` by the weight of those resources that a node has at all, truncated."""
    present = [size != 0 for size in capacity]
    if all(has.all() for has in present):
        return total // sum(weights)  # By one number, numpy divides several times faster.
    weight = np.zeros_like(capacity[0])
    for has, resource_weight in zip(present, weights, strict=True):
        weight += has * resource_weight
    return total // np.maximum(weight, 1)


def requested_to_capacity_ratio(
    requested: Columns, capacity: Columns, weights: Sequence[int], table: Int64s
) -> Int64s:
    """Weighted mean of `table` at each utilisation, rounded; a resource that scores 0 drops out."""
    total, weight = np.zeros_like(capacity[0]), np.zeros_like(capacity[0])
    for used, size, resource_weight in zip(requested, capacity, weights, strict=True):
        divisor = np.maximum(size, 1)
        utilization = np.minimum(used, size) * UTILIZATION_MAX // divisor
        score = table[utilization] * (size != 0)
        total += score * resource_weight
        weight += (score > 0) * resource_weight
    weight = np.maximum(weight, 1)
    return (2 * total + weight) // (2 * weight)  # Half up, as math.Round does.


def _same_number(column: Int64s) -> int:
    """What stands in all rows; 0 where it is not the same, or they are few. By one number, numpy
    divides several times faster than by as many as there are rows, and most clusters have few kinds
    of nodes."""
    if len(column) <= FEW_ROWS:
        return 0
    first: int = column.item(0)
    return first if (column == first).all() else 0


def balance_change(used: Columns, capacity: Columns, amounts: Sequence[int]) -> Int64s:
    """How much better balanced a node is with the pod than without, 0..100; 75 is no change."""
    found = np.empty(len(capacity[0]), np.int64)
    half = SCORE_MAX // 2
    for block in parts_of(len(found), BLOCK):
        sizes = [column[block] for column in capacity]
        before = [column[block] for column in used]
        present = [size != 0 for size in sizes]
        has_all = len(sizes) == 2 and all(has.all() for has in present)
        divisors = [_same_number(size) or np.maximum(size, 1).astype(np.float64) for size in sizes]
        with_pod = [column + amount for column, amount in zip(before, amounts, strict=True)]
        change = _balance(with_pod, divisors, None if has_all else present)
        change -= _balance(before, divisors, None if has_all else present)
        change += half
        change *= 0.5
        np.trunc(change, out=change)
        change += half
        found[block] = change
    return found


def _balance(
    used: Columns, sizes: Sequence[Floats | int], present: Sequence[Bools] | None
) -> Floats:
    """`present`: whether a node has the resource; None: there are two, and every node has both."""
    shares: list[Floats] = [amount / size for amount, size in zip(used, sizes, strict=True)]
    for share in shares:
        if len(share) <= FEW_ROWS or share.max() > 1.0:
            np.minimum(share, 1.0, out=share)
    if present is None:
        return balance_of_two(*shares)
    return np.floor((1.0 - _deviation_of_present(shares, present)) * float(SCORE_MAX))


def balance_of_two(share: Floats, other: Floats) -> Floats:
    """Of nodes that have both resources. Takes `share` over. The deviation is half the difference; as
    taking half of a float is exact, so is taking the whole from two and half of what comes of it."""
    share -= other
    np.abs(share, out=share)
    np.subtract(2.0, share, out=share)
    share *= SCORE_MAX / 2
    return np.floor(share, out=share)


def _deviation_of_present(shares: Sequence[Floats], present: Sequence[Bools]) -> Floats:
    """Deviation over those shares that count, which differ from node to node.

    Adding 0.0 for the others changes no sum, so the order of additions is upstream's.
    """
    count = np.zeros(len(shares[0]), np.int64)
    total = np.zeros(len(shares[0]))
    for share, counts in zip(shares, present, strict=True):
        count += counts
        total += share * counts
    divisor = np.maximum(count, 1)
    mean = total / divisor
    squares = np.zeros(len(total))
    highest = np.zeros(len(total))
    lowest = np.full(len(total), np.inf)
    for share, counts in zip(shares, present, strict=True):
        difference = share - mean
        squares += difference * difference * counts
        highest = np.where(counts, np.maximum(highest, share), highest)
        lowest = np.where(counts, np.minimum(lowest, share), lowest)
    deviation = np.sqrt(squares / divisor)
    # With two, upstream takes half the difference, which rounds otherwise. With one it is 0.
    return np.where(count == 2, np.abs((highest - lowest) / 2), deviation)
