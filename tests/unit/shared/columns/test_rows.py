"""Rows as slices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.columns.rows import row_index


@given(st.lists(st.integers(0, 9), unique=True))
def test_an_index_picks_exactly_the_rows_in_their_order(rows: list[int]) -> None:
    column = np.arange(100, 110)
    index = row_index(np.array(rows, np.intp))
    assert column[index].tolist() == [100 + row for row in rows]


@given(st.integers(0, 5), st.integers(1, 5))
def test_neighbouring_rows_are_not_copied(first: int, count: int) -> None:
    assert row_index(np.arange(first, first + count)) == slice(first, first + count)
