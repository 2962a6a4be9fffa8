"""Scaling to 0..100 against plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.framework.normalize import DefaultNormalizeScore
from tests.support import slow_twins

SCORES = st.lists(
    st.one_of(st.integers(-3, 3), st.integers(0, 10**6), st.integers(-(10**6), 0)), max_size=8
)


class Reversed(DefaultNormalizeScore):
    is_reversed = True


def scorer(*, is_reversed: bool) -> DefaultNormalizeScore:
    return Reversed() if is_reversed else DefaultNormalizeScore()


@given(SCORES, st.booleans())
def test_scores_are_scaled_by_their_maximum(scores: list[int], is_reversed: bool) -> None:
    raw = np.array(scores, np.int64)
    score = scorer(is_reversed=is_reversed)
    got = score.normalize(raw, score.normalization(None, raw))
    assert got.tolist() == slow_twins.default_normalize(scores, is_reversed=is_reversed)
    assert raw.tolist() == scores


@given(SCORES.filter(bool), st.booleans())
def test_one_row_scales_alone_as_among_all(scores: list[int], is_reversed: bool) -> None:
    raw = np.array(scores, np.int64)
    score = scorer(is_reversed=is_reversed)
    together = score.normalize(raw, score.normalization(None, raw))
    alone = score.normalize(raw[-1:], score.normalization(None, raw))
    assert alone.tolist() == together[-1:].tolist()


def test_negative_scores_stay_so_and_no_range_is_promised() -> None:
    assert not getattr(DefaultNormalizeScore(), "scores_within_range", False)
    raw = np.array([-5, 7], np.int64)
    assert scorer(is_reversed=False).normalize(raw, 7).tolist() == [-71, 100]
