"""How unevenly the resources of one node are used, in Go's order of operations.

Rule: balancedResourceScorer in pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go,
v1.36.2.
"""

import math
from collections.abc import Sequence


def deviation_of(shares: Sequence[float]) -> float:
    """Standard deviation of the used shares, 0..1 each; two have a short way of their own."""
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
