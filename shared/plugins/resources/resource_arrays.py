"""Fit and resource scores over columns, and the same for one node in plain integers.

Arithmetic is kube-scheduler's: int64 with truncating division for Least- and MostAllocated, rounding
for RequestedToCapacityRatio, float64 in upstream's order of operations for the balance. Amounts are
not negative, so floor and truncation agree.

`..._one` functions take Python ints. After each placement one row is evaluated again, and for one
row numpy's cost per call (about 0.5 us) is ten times that of the sum itself.

Scores are within 0..SCORE_MAX but for nodes with amounts near 2^63: those are left to
`large_amounts`, one by one, as sums and products wrap around there.

Rules: pkg/scheduler/framework/plugins/noderesources/{fit,least_allocated,most_allocated,
requested_to_capacity_ratio,balanced_allocation}.go, v1.36.2.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.columns.schema import INT64_MAX, Bools, Int64s, wrap_int64
from shared.framework.score_shape import UTILIZATION_MAX
from shared.plugins.resources import large_amounts
from shared.plugins.resources.deviation import deviation_of

SCORE_MAX: Final = 100
REASON_BIT_MAX: Final = 61
"""Resources beyond share this bit: a mask is an int64 (`shared.framework.status.REASONS_MAX`)."""

SUM_MAX: Final = 1 << 56
"""Up to here a hundred times an amount stays within int64."""

BLOCK: Final = 1 << 13
"""Rows at a time: what lies between one operation and the next stays in the processor's caches."""

FEW_ROWS: Final = 256
"""Up to so many, doing something for each row costs less than finding out that it is not needed."""

Floats = NDArray[np.float64]
Columns = Sequence[Int64s]
"""One array of shape (n,) for each resource."""


# Fit ----------------------------------------------------------------------------------------------


def fit_reasons(
    pod_count: Int64s,
    allowed_pod_count: Int64s,
    amounts: Sequence[int],
    requested: Columns,
    allocatable: Columns,
) -> tuple[Int64s, Bools]:
    """Why a pod does not fit, as bits, and whether it never could; both of shape (n,).

    Bit 0: no room for one more pod; bit i + 1: not enough of resource i. `amounts` are above 0.
    """
    reasons = (pod_count >= allowed_pod_count).astype(np.int64)
    never = np.zeros(len(reasons), np.bool_)
    for i, amount in enumerate(amounts):
        short = allocatable[i] - requested[i] < amount
        if short.any():
            reasons |= short.astype(np.int64) << reason_bit(i)
            never |= short & (allocatable[i] < amount)
    return reasons, never


def fit_reasons_one(
    pod_count: int,
    allowed_pod_count: int,
    amounts: Sequence[int],
    requested: Sequence[int],
    allocatable: Sequence[int],
) -> tuple[int, bool]:
    """`fit_reasons` of one node."""
    reasons = 1 if pod_count >= allowed_pod_count else 0
    never = False
    for i, amount in enumerate(amounts):
        # What is more than int64 holds is negative, so not enough.
        if not amount <= allocatable[i] - requested[i] <= INT64_MAX:
            reasons |= 1 << reason_bit(i)
            never = never or allocatable[i] < amount
    return reasons, never


def reason_bit(resource_index: int) -> int:
    """The bit for the resource at this place among the pod's."""
    return min(resource_index + 1, REASON_BIT_MAX)


# Strategies of NodeResourcesFit's score -------------------------------------------------------------


def least_allocated(requested: Columns, capacity: Columns, weights: Sequence[int]) -> Int64s:
    """Weighted mean of the free share, 0..100. `requested` includes the incoming pod."""
    large = _large_rows((*requested, *capacity))
    if large is not None:
        return _apart(large, least_allocated, large_amounts.least_allocated,
                      requested, capacity, weights)  # fmt: skip
    if len(capacity[0]) <= BLOCK:
        return _least_allocated(requested, capacity, weights)
    found = np.empty(len(capacity[0]), np.int64)
    for block in _blocks(len(found)):
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


def least_allocated_one(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int]
) -> int:
    """`least_allocated` of one node."""
    total = weight = 0
    for used, size, resource_weight in zip(requested, capacity, weights, strict=True):
        if not 0 <= used <= SUM_MAX or size > SUM_MAX:
            return large_amounts.least_allocated(_wrapped(requested), capacity, weights)
        if size == 0:
            continue
        if used < size:
            total += (size - used) * SCORE_MAX // size * resource_weight
        weight += resource_weight
    return total // weight if weight else 0


def most_allocated(requested: Columns, capacity: Columns, weights: Sequence[int]) -> Int64s:
    """Weighted mean of the used share, 0..100; what is overcommitted counts as full."""
    large = _large_rows((*requested, *capacity))
    if large is not None:
        return _apart(large, most_allocated, large_amounts.most_allocated,
                      requested, capacity, weights)  # fmt: skip
    total = _zeros(capacity)
    for used, size, weight in zip(requested, capacity, weights, strict=True):
        total += _share(np.minimum(used, size), size) * weight
    return _mean(total, capacity, weights)


def _share(amount: Int64s, size: Int64s) -> Int64s:
    """`amount` in hundredths of `size`, truncated. Takes `amount` over."""
    amount *= SCORE_MAX
    amount //= np.maximum(size, 1)
    return amount


def _mean(total: Int64s, capacity: Columns, weights: Sequence[int]) -> Int64s:
    """`total` by the weight of those resources that a node has at all, truncated."""
    present = [size != 0 for size in capacity]
    if all(has.all() for has in present):
        return total // sum(weights)  # By one number, numpy divides several times faster.
    weight = _zeros(capacity)
    for has, resource_weight in zip(present, weights, strict=True):
        weight += has * resource_weight
    return total // np.maximum(weight, 1)


def most_allocated_one(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int]
) -> int:
    """`most_allocated` of one node."""
    total = weight = 0
    for used, size, resource_weight in zip(requested, capacity, weights, strict=True):
        if not 0 <= used <= SUM_MAX or size > SUM_MAX:
            return large_amounts.most_allocated(_wrapped(requested), capacity, weights)
        if size == 0:
            continue
        total += min(used, size) * SCORE_MAX // size * resource_weight
        weight += resource_weight
    return total // weight if weight else 0


def requested_to_capacity_ratio(
    requested: Columns, capacity: Columns, weights: Sequence[int], table: Int64s
) -> Int64s:
    """Weighted mean of `table` at each utilisation, rounded; a resource that scores 0 drops out."""
    large = _large_rows((*requested, *capacity))
    if large is not None:
        scores = table.tolist()
        return _apart(
            large,
            lambda used, sizes, weights: requested_to_capacity_ratio(used, sizes, weights, table),
            lambda used, sizes, weights: large_amounts.requested_to_capacity_ratio(
                used, sizes, weights, scores
            ),
            requested,
            capacity,
            weights,
        )
    total, weight = _zeros(capacity), _zeros(capacity)
    for used, size, resource_weight in zip(requested, capacity, weights, strict=True):
        divisor = np.maximum(size, 1)
        utilization = np.minimum(used, size) * UTILIZATION_MAX // divisor
        score = table[utilization] * (size != 0)
        total += score * resource_weight
        weight += (score > 0) * resource_weight
    return _rounded(total, np.maximum(weight, 1))


def _rounded(dividend: Int64s, divisor: Int64s) -> Int64s:
    """The quotient rounded half up, as math.Round does for what is not negative."""
    return (2 * dividend + divisor) // (2 * divisor)


def requested_to_capacity_ratio_one(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int], table: Sequence[int]
) -> int:
    """`requested_to_capacity_ratio` of one node."""
    total = weight = 0
    for used, size, resource_weight in zip(requested, capacity, weights, strict=True):
        if not 0 <= used <= SUM_MAX or size > SUM_MAX:
            return large_amounts.requested_to_capacity_ratio(
                _wrapped(requested), capacity, weights, table
            )
        if size == 0:
            continue
        score = table[min(used, size) * UTILIZATION_MAX // size]
        if score > 0:
            total += score * resource_weight
            weight += resource_weight
    return (2 * total + weight) // (2 * weight) if weight else 0


def _large_rows(columns: Iterable[Int64s]) -> Bools | None:
    """The rows where int64 might wrap around, as somewhere an amount is large, or negative, so wrapped
    already. None where there are none."""
    large: Bools | None = None
    for column in columns:
        amounts = column.view(np.uint64)  # What is negative is very large there.
        if amounts.max(initial=0) > SUM_MAX:
            found = amounts > SUM_MAX
            large = found if large is None else large | found
    return large


def _apart(
    large: Bools,
    many: Callable[[Columns, Columns, Sequence[int]], Int64s],
    one: Callable[[Sequence[int], Sequence[int], Sequence[int]], int],
    used: Columns,
    capacity: Columns,
    numbers: Sequence[int],
) -> Int64s:
    """What `many` says of all rows but the `large` ones, which `one` is asked about."""
    others = ~large
    found = np.empty(len(large), np.int64)
    if others.any():
        found[others] = many(
            [u[others] for u in used], [size[others] for size in capacity], numbers
        )
    for row in large.nonzero()[0].tolist():
        found[row] = one(
            [u.item(row) for u in used], [size.item(row) for size in capacity], numbers
        )
    return found


def _wrapped(amounts: Sequence[int]) -> list[int]:
    return [wrap_int64(amount) for amount in amounts]


def _same_number(column: Int64s) -> int:
    """What stands in all rows; 0 where it is not the same, or they are few. By one number, numpy
    divides several times faster than by as many as there are rows, and most clusters have few kinds
    of nodes."""
    if len(column) <= FEW_ROWS:
        return 0
    first: int = column.item(0)
    return first if (column == first).all() else 0


def _blocks(count: int) -> Iterator[slice]:
    """Parts of `count` rows."""
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


def _zeros(columns: Columns) -> Int64s:
    return np.zeros(len(columns[0]), np.int64)


# Balance --------------------------------------------------------------------------------------------


def balance_change(used: Columns, amounts: Sequence[int], capacity: Columns) -> Int64s:
    """How much better balanced a node is with the pod than without, 0..100; 75 is no change."""
    large = _large_rows((*used, *capacity))
    if max(amounts) > SUM_MAX:
        large = np.ones(len(capacity[0]), np.bool_)
    if large is not None:
        return _apart(
            large,
            lambda columns, sizes, amounts: balance_change(columns, amounts, sizes),
            lambda columns, sizes, amounts: large_amounts.balance_change(columns, amounts, sizes),
            used,
            capacity,
            amounts,
        )
    found = np.empty(len(capacity[0]), np.int64)
    for block in _blocks(len(found)):
        sizes = [column[block] for column in capacity]
        before = [column[block] for column in used]
        if len(sizes) == 2 and all(_same_number(size) or size.all() for size in sizes):
            found[block] = _balance_change_of_two(before, amounts, sizes)
        else:
            found[block] = _balance_change_of_any(before, amounts, sizes)
    return found


def _balance_change_of_two(used: Columns, amounts: Sequence[int], capacity: Columns) -> Floats:
    """The usual case: two resources that every node has."""
    first, second = (_same_number(size) or size.astype(np.float64) for size in capacity)
    after = _balanced_of_two(used[0] + amounts[0], used[1] + amounts[1], first, second)
    before = _balanced_of_two(used[0], used[1], first, second)
    after -= before
    after += SCORE_MAX // 2
    after *= 0.5
    np.floor(after, out=after)
    after += SCORE_MAX // 2
    return after


def _balanced_of_two(
    first_used: Int64s, second_used: Int64s, first: Floats | int, second: Floats | int
) -> Floats:
    """As `_balanced`, in whole numbers that are still floats."""
    share: Floats = first_used / first
    other: Floats = second_used / second
    for each in (share, other):
        if len(each) <= FEW_ROWS or each.max() > 1.0:
            np.minimum(each, 1.0, out=each)
    share -= other
    share *= 0.5  # Exact, as by two.
    np.abs(share, out=share)
    np.subtract(1.0, share, out=share)
    share *= float(SCORE_MAX)
    return np.floor(share, out=share)


def _balance_change_of_any(used: Columns, amounts: Sequence[int], capacity: Columns) -> Int64s:
    with_pod = [column + amount for column, amount in zip(used, amounts, strict=True)]
    present = [size != 0 for size in capacity]
    sizes = [np.maximum(size, 1).astype(np.float64) for size in capacity]
    change = _balanced(with_pod, sizes, present)
    change -= _balanced(used, sizes, present)
    change += SCORE_MAX // 2
    change -= change >> 63  # Truncated, as Go does: shifting rounds down.
    change >>= 1
    change += SCORE_MAX // 2
    return change


def _balanced(requested: Columns, sizes: Sequence[Floats], present: Sequence[Bools]) -> Int64s:
    """100 x (1 - standard deviation of the used shares), truncated; over resources present."""
    shares: list[Floats] = []
    for used, size in zip(requested, sizes, strict=True):
        share = used / size
        np.minimum(share, 1.0, out=share)
        shares.append(share)
    if len(shares) == 2:  # The usual case. In place, as memory costs more than sums.
        deviation = shares[0]
        deviation -= shares[1]
        deviation /= 2
        np.abs(deviation, out=deviation)
        deviation[~(present[0] & present[1])] = 0.0
    elif len(shares) > 2:
        deviation = _deviation_of_present(shares, present)
    else:
        deviation = np.zeros(len(shares[0]))
    np.subtract(1.0, deviation, out=deviation)
    deviation *= float(SCORE_MAX)
    return deviation.astype(np.int64)


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


def balance_change_one(used: Sequence[int], amounts: Sequence[int], capacity: Sequence[int]) -> int:
    """`balance_change` of one node."""
    with_pod: list[int] = []
    for before, amount, size in zip(used, amounts, capacity, strict=True):
        after = before + amount
        with_pod.append(after)
        if before < 0 or after > SUM_MAX or size > SUM_MAX:
            return large_amounts.balance_change(used, amounts, capacity)
    half = SCORE_MAX // 2
    change = _balanced_one(with_pod, capacity) - _balanced_one(used, capacity)
    return half + (half + change) // 2


def _balanced_one(requested: Sequence[int], capacity: Sequence[int]) -> int:
    """`_balanced` of one node."""
    shares: list[float] = []
    for used, size in zip(requested, capacity, strict=True):
        if size:
            share = float(used) / float(size)
            shares.append(min(share, 1.0))
    return int((1.0 - deviation_of(shares)) * float(SCORE_MAX))
