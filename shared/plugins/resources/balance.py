"""How evenly a node's resources are used: 100 x (1 - standard deviation of the used shares), truncated.

In Go's order of operations. Of two shares the deviation is half their difference; as taking half of a
float is exact, so is taking the whole from two and half of what comes of it.

Rule: balancedResourceScorer in pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go,
v1.36.2.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.columns.schema import Bools
from shared.framework.normalize import SCORE_MAX

Floats = NDArray[np.float64]
_INT64_MIN: Final = -(1 << 63)


def balance_of_node(requested: Sequence[int], capacity: Sequence[int]) -> int:
    """Over those resources that the node has."""
    present = zip(requested, capacity, strict=True)
    shares = [min(float(used) / float(size), 1.0) for used, size in present if size != 0]
    balance = (1.0 - _deviation(shares)) * float(SCORE_MAX)
    return int(balance) if balance > _INT64_MIN else _INT64_MIN


def balance_of_two(share: Floats, other: Floats) -> Floats:
    """Of nodes that have both resources. Takes `share` over."""
    share -= other
    np.abs(share, out=share)
    np.subtract(2.0, share, out=share)
    share *= SCORE_MAX / 2
    return np.floor(share, out=share)


def balance_of_any(shares: Sequence[Floats], present: Sequence[Bools]) -> Floats:
    """Over those resources that each node has. Takes `shares` over."""
    if len(shares) == 2:
        balance = balance_of_two(shares[0], shares[1])
        balance[~(present[0] & present[1])] = SCORE_MAX
        return balance
    return np.floor((1.0 - _deviation_of_present(shares, present)) * float(SCORE_MAX))


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
