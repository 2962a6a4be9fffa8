"""Scaling to 0..100 against plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.framework.normalize import by_maximum, highest
from tests.support import slow_twins

SCORES = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 10**6)), max_size=8)


@given(SCORES, st.booleans())
def test_scores_are_scaled_by_their_maximum(scores: list[int], is_reversed: bool) -> None:
    raw = np.array(scores, np.int64)
    got = by_maximum(raw, highest(raw), is_reversed=is_reversed)
    assert got.tolist() == slow_twins.default_normalize(scores, is_reversed=is_reversed)
    assert raw.tolist() == scores


@given(SCORES.filter(bool), st.booleans())
def test_one_row_scales_alone_as_among_all(scores: list[int], is_reversed: bool) -> None:
    raw = np.array(scores, np.int64)
    together = by_maximum(raw, highest(raw), is_reversed=is_reversed)
    alone = by_maximum(raw[-1:], highest(raw), is_reversed=is_reversed)
    assert alone.tolist() == together[-1:].tolist()
