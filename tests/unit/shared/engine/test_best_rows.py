"""The rows with the best total, kept while totals move, are those that looking at all would find."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.engine.best_rows import BestRows, RowSet

ROWS = st.integers(0, 150_000)
"""Over several blocks."""


@given(st.sets(ROWS, max_size=50), st.lists(st.tuples(st.booleans(), ROWS), max_size=60), st.data())
def test_a_row_set_is_a_sorted_set(
    first: set[int], edits: list[tuple[bool, int]], data: st.DataObject
) -> None:
    rows = RowSet(np.array(sorted(first), np.intp))
    expected = set(first)
    for adds, row in edits:
        if adds and row not in expected:
            rows.add(row)
            expected.add(row)
        elif not adds and expected:
            gone = data.draw(st.sampled_from(sorted(expected)))
            rows.remove(gone)
            expected.remove(gone)
    assert len(rows) == len(expected)
    assert rows.tolist() == sorted(expected) == rows.rows().tolist()
    assert [rows[i] for i in range(len(rows))] == sorted(expected)
    assert not expected or rows[-1] == max(expected)


@given(
    st.lists(st.integers(-1, 6), min_size=1, max_size=200),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(-1, 9)), max_size=80),
    st.lists(st.booleans(), min_size=80, max_size=80),
)
def test_the_best_rows_are_those_with_the_highest_total(
    totals: list[int], moves: list[tuple[int, int]], asked: list[bool]
) -> None:
    total = np.array(totals, np.int64)
    best = BestRows(total)
    for (pick, after), asks in zip(moves, asked, strict=False):
        row = pick % len(total)
        before = total.item(row)
        total[row] = after
        best.moved(row, before, after)
        if asks:
            check(best, total)
    check(best, total)


@given(st.lists(st.integers(-1, 3), min_size=30, max_size=400))
def test_placing_until_nothing_is_left(totals: list[int]) -> None:
    """Each look through the totals takes in more of them than the last."""
    total = np.array(totals, np.int64)
    best = BestRows(total)
    while (found := best.best()) is not None:
        check(best, total)
        row, before = found[1][0], found[0]
        total[row] -= 1
        best.moved(row, before, before - 1)
    assert total.max() < 0


def test_many_rows_written_at_once() -> None:
    """Some of them twice."""
    total = np.array([5, 5, 4, -1], np.int64)
    best = BestRows(total)
    check(best, total)
    rows = np.array([1, 3, 1], np.intp)
    before = total[rows]
    total[rows] = [3, 7, 3]
    best.wrote(rows, before)
    check(best, total)


def check(best: BestRows, total: np.ndarray) -> None:
    found = best.best()
    highest = int(total.max())
    if highest < 0:
        assert found is None
        return
    assert found is not None
    assert found[0] == highest
    assert found[1].tolist() == np.flatnonzero(total == highest).tolist()
