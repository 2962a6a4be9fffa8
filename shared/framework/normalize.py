"""Scores from 0 to 100: how raw ones come to that, by their maximum or along a shape.

Rules: pkg/scheduler/framework/plugins/helper/{normalize_score,shape_score}.go, v1.36.2.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np

from shared.columns.schema import Int64s, quotients
from shared.framework.plugin_args import ArgsStruct, out_of_range

SCORE_MAX: Final = 100
"""Scores after normalisation lie in 0..SCORE_MAX (MaxNodeScore upstream)."""


class DefaultNormalizeScore:
    """Base of scores that are normalised by their maximum (DefaultNormalizeScore upstream): it becomes
    100, or 0 where fewer is better. All 0: 0, reversed 100. Of negative raw scores, and of such that a
    hundred times as much does not fit into 64 bits, there may come a score out of range: who has none
    says so by `scores_within_range`."""

    is_reversed: ClassVar[bool] = False
    """Fewer is better."""
    normalizes_by_extremes: ClassVar[bool] = True

    def normalization(self, state: Any, raw: Int64s) -> int:  # noqa: ARG002  # The extension point's.
        return int(raw.max(initial=0))

    def normalize(self, raw: Int64s, normalization: int) -> Int64s:
        if normalization == 0:
            return np.full_like(raw, SCORE_MAX) if self.is_reversed else raw
        scaled = quotients(raw * SCORE_MAX, normalization)
        return SCORE_MAX - scaled if self.is_reversed else scaled


UTILIZATION_MAX: Final = 100
SHAPE_SCORE_MAX: Final = 10
"""MaxCustomPriorityScore upstream: shape scores are 0..10 and are scaled to 0..100."""


class UtilizationShapePoint(ArgsStruct):
    utilization: int = 0
    """Percent of the capacity in use."""
    score: int = 0
    """0..10."""


def shape_problems(shape: list[UtilizationShapePoint], path: str) -> list[str]:
    """What is wrong with a shape that stands at `path`."""
    if not shape:
        return [f"{path}: at least one point is needed"]
    problems = []
    for i, point in enumerate(shape):
        if i and shape[i - 1].utilization >= point.utilization:
            problems.append(f"{path}[{i}].utilization: must be above that of the point before")
        where = f"{path}[{i}]"
        problems += out_of_range(f"{where}.utilization", point.utilization, 0, UTILIZATION_MAX)
        problems += out_of_range(f"{where}.score", point.score, 0, SHAPE_SCORE_MAX)
    return problems


def score_table(points: Sequence[UtilizationShapePoint]) -> Int64s:
    """`ratio_table` of a shape, scores 0..100."""
    scale = SCORE_MAX // SHAPE_SCORE_MAX
    return ratio_table([(point.utilization, point.score * scale) for point in points])


def ratio_table(shape: Sequence[tuple[int, int]]) -> Int64s:
    """Score for each utilisation 0..100 of a broken line through (utilisation, score) points. Go's
    division truncates towards zero, which shows where the line falls."""
    (first, score), *_ = shape
    scores = [score] * (first + 1)
    for (start, low), (end, high) in pairwise(shape):
        rises = (high - low) * np.arange(1, end - start + 1)
        scores += (low + quotients(rises, end - start)).tolist()
    scores += [scores[-1]] * (UTILIZATION_MAX + 1 - len(scores))
    return np.array(scores, np.int64)
