"""Resource scores of one node where amounts are so large that int64 wraps around: Go's arithmetic.

Sums and products near 2^63 wrap, division truncates, and a score may come out of its range, with which
the attempt then fails (`shared.framework.normalize`). Nodes like that are rare and none of them is
real; what upstream makes of them decides all the same whether a pod is refused with an error. Floats
that int64 does not hold become its lowest number, as on amd64.

Rules: pkg/scheduler/framework/plugins/noderesources/{least_allocated,most_allocated,
requested_to_capacity_ratio,balanced_allocation}.go, v1.36.2.
"""

from collections.abc import Sequence

from shared.columns.schema import wrap_int64
from shared.framework.normalize import SCORE_MAX
from shared.plugins.resources.balance import balance_of_node


def least_allocated(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int]
) -> int:
    """Weighted mean of the free share."""
    return _mean([_free_share(*of) for of in zip(requested, capacity, strict=True)],
                 capacity, weights)  # fmt: skip


def most_allocated(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int]
) -> int:
    """Weighted mean of the used share."""
    return _mean([_used_share(*of) for of in zip(requested, capacity, strict=True)],
                 capacity, weights)  # fmt: skip


def requested_to_capacity_ratio(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int], table: Sequence[int]
) -> int:
    """Weighted mean of `table` at each utilisation, rounded; a resource that scores 0 drops out."""
    total = weight = 0
    for used, size, resource_weight in zip(requested, capacity, weights, strict=True):
        if size == 0:
            continue
        utilization = SCORE_MAX if used > size else _used_share(used, size)
        score = table[min(max(utilization, 0), SCORE_MAX)]
        if score > 0:
            total += score * resource_weight
            weight += resource_weight
    return (2 * total + weight) // (2 * weight) if weight else 0


def balance_change(used: Sequence[int], amounts: Sequence[int], capacity: Sequence[int]) -> int:
    """How much better balanced a node is with the pod than without; 75 is no change."""
    with_pod = [wrap_int64(u + amount) for u, amount in zip(used, amounts, strict=True)]
    half = SCORE_MAX // 2
    change = wrap_int64(
        half + balance_of_node(with_pod, capacity) - balance_of_node(used, capacity)
    )
    return wrap_int64(half + _quotient(change, 2))


def _free_share(used: int, size: int) -> int:
    """In hundredths; whatever for a resource that the node does not have."""
    if size == 0 or used > size:
        return 0
    return _quotient(wrap_int64(wrap_int64(size - used) * SCORE_MAX), size)


def _used_share(used: int, size: int) -> int:
    """The same of what is used."""
    return _quotient(wrap_int64(min(used, size) * SCORE_MAX), size) if size else 0


def _mean(shares: Sequence[int], capacity: Sequence[int], weights: Sequence[int]) -> int:
    """Over those resources that the node has."""
    total = weight = 0
    for share, size, resource_weight in zip(shares, capacity, weights, strict=True):
        if size != 0:
            total = wrap_int64(total + wrap_int64(share * resource_weight))
            weight += resource_weight
    return _quotient(total, weight) if weight else 0


def _quotient(dividend: int, divisor: int) -> int:
    """Go's division of what is not the lowest number by -1."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient
