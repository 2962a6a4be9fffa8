"""Raw scores to 0..100 by their maximum.

Rule: pkg/scheduler/framework/plugins/helper/normalize_score.go, v1.36.2.
"""

from typing import Any, ClassVar, Final

from shared.columns.schema import Int64s

SCORE_MAX: Final = 100
"""Scores after normalisation lie in 0..SCORE_MAX (MaxNodeScore upstream)."""


def highest(raw: Int64s) -> int:
    """The maximum that `by_maximum` divides by; 0 for no nodes. Raw scores are not negative."""
    return int(raw.max()) if len(raw) else 0


def by_maximum(raw: Int64s, maximum: int, *, is_reversed: bool) -> Int64s:
    """Scales so that `maximum` becomes 100, or 0 where fewer is better. All 0: 0, reversed 100."""
    if maximum == 0:
        return raw + SCORE_MAX if is_reversed else raw
    scaled = raw * SCORE_MAX // maximum
    return SCORE_MAX - scaled if is_reversed else scaled


class DefaultNormalizeScore:
    """Base of scores that are normalised by their maximum (DefaultNormalizeScore upstream)."""

    is_reversed: ClassVar[bool] = False
    """Fewer is better."""
    scores_within_range: ClassVar[bool] = True
    normalizes_by_extremes: ClassVar[bool] = True

    def normalization(self, state: Any, raw: Int64s) -> int:  # noqa: ARG002  # The extension point's.
        return highest(raw)

    def normalize(self, raw: Int64s, normalization: int) -> Int64s:
        return by_maximum(raw, normalization, is_reversed=self.is_reversed)
