"""Shapes: scores along a broken line over how full something is, as several plugins are told them.

Rule: pkg/scheduler/framework/plugins/helper/shape_score.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from shared.columns.schema import Int64s

UTILIZATION_MAX: Final = 100


def ratio_table(shape: Sequence[tuple[int, int]]) -> Int64s:
    """Score for each utilisation 0..100 of a broken line through (utilisation, score) points.

    Go's division truncates towards zero, which shows where the line falls.
    """
    scores = [_on_line(shape, utilization) for utilization in range(UTILIZATION_MAX + 1)]
    return np.array(scores, np.int64)


def _on_line(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    for i, (end, end_score) in enumerate(shape):
        if utilization <= end:
            if i == 0:
                return end_score
            start, start_score = shape[i - 1]
            rise = (end_score - start_score) * (utilization - start)
            quotient = abs(rise) // (end - start)
            return start_score + (quotient if rise >= 0 else -quotient)
    return shape[-1][1]
