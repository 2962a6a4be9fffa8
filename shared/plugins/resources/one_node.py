"""What the functions of `resource_arrays` say, of one node in plain integers: Go's arithmetic.

After each placement one row is evaluated again, and for one row numpy's cost per call (about 0.5 us) is
ten times that of the sum itself. Rows are asked about here as well whose amounts are so large that int64
wraps around. Sums and products near 2^63 wrap, division truncates, and a score may come out of its
range, with which the attempt then fails (`shared.framework.normalize`). Nodes like that are rare and
none of them is real; what upstream makes of them decides all the same whether a pod is refused with an
error. Floats that int64 does not hold become its lowest number, as on amd64.

Rules: pkg/scheduler/framework/plugins/noderesources/{fit,least_allocated,most_allocated,
requested_to_capacity_ratio,balanced_allocation}.go, v1.36.2.
"""

import math
from collections.abc import Sequence
from typing import Final

from shared.columns.schema import Int64s, wrap_int64
from shared.framework.normalize import SCORE_MAX
from shared.kube.api.meta_v1 import INT64_MAX

_INT64_MIN: Final = -(1 << 63)
REASON_BIT_MAX: Final = 61
"""Resources beyond share this bit: a mask is an int64 (`shared.framework.status.REASONS_MAX`)."""


def fit_reasons(
    amounts: Sequence[int], requested: Sequence[int], allocatable: Sequence[int], *, is_full: bool
) -> tuple[int, bool]:
    """Why a pod does not fit, as bits, and whether it never could."""
    reasons = int(is_full)
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


def least_allocated(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int]
) -> int:
    """Weighted mean of the free share."""
    total = weight = 0
    for amount, size, resource_weight in zip(requested, capacity, weights, strict=True):
        if size != 0:
            used = wrap_int64(amount)
            if used < size:
                total += _quotient(wrap_int64((size - used) * SCORE_MAX), size) * resource_weight
            weight += resource_weight
    return _quotient(wrap_int64(total), weight) if weight else 0


def most_allocated(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int]
) -> int:
    """Weighted mean of the used share."""
    total = weight = 0
    for used, size, resource_weight in zip(requested, capacity, weights, strict=True):
        if size != 0:
            total += _used_share(used, size) * resource_weight
            weight += resource_weight
    return _quotient(wrap_int64(total), weight) if weight else 0


def requested_to_capacity_ratio(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int], table: Int64s
) -> int:
    """Weighted mean of `table` at each utilisation, rounded; a resource that scores 0 drops out."""
    total = weight = 0
    for used, size, resource_weight in zip(requested, capacity, weights, strict=True):
        if size != 0:
            utilization = SCORE_MAX if wrap_int64(used) > size else _used_share(used, size)
            score = table.item(min(max(utilization, 0), SCORE_MAX))
            if score > 0:
                total += score * resource_weight
                weight += resource_weight
    return (2 * total + weight) // (2 * weight) if weight else 0


def balance_change(used: Sequence[int], capacity: Sequence[int], amounts: Sequence[int]) -> int:
    """How much better balanced a node is with the pod than without; 75 is no change."""
    with_pod = [wrap_int64(u + amount) for u, amount in zip(used, amounts, strict=True)]
    half = SCORE_MAX // 2
    change = balance_of_node(with_pod, capacity) - balance_of_node(used, capacity)
    return wrap_int64(half + _quotient(wrap_int64(half + change), 2))


def balance_of_node(requested: Sequence[int], capacity: Sequence[int]) -> int:
    """How evenly the resources that the node has are used: 100 x (1 - standard deviation of the used
    shares), truncated, in Go's order of operations."""
    present = zip(requested, capacity, strict=True)
    shares = [min(float(used) / float(size), 1.0) for used, size in present if size != 0]
    balance = (1.0 - _deviation(shares)) * float(SCORE_MAX)
    return int(balance) if balance > _INT64_MIN else _INT64_MIN


def _deviation(shares: Sequence[float]) -> float:
    if len(shares) == 2:
        return abs((shares[0] - shares[1]) / 2)
    if len(shares) < 2:
        return 0.0
    # A plain loop: sum() adds floats with compensation from Python 3.12 on.
    total = 0.0
    for share in shares:
        total += share
    mean = total / len(shares)
    squares = 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
    return math.sqrt(squares / len(shares))


def _used_share(used: int, size: int) -> int:
    """In hundredths, of a resource that the node has; what is overcommitted counts as full."""
    return _quotient(wrap_int64(min(wrap_int64(used), size) * SCORE_MAX), size)


def _quotient(dividend: int, divisor: int) -> int:
    """Go's division of what is not the lowest number by -1."""
    if dividend >= 0 < divisor:
        return dividend // divisor
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient
