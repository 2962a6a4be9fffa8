"""What is kept of all rows says the same as asking about each."""

from typing import NamedTuple

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from shared.columns.schema import BASE_RESOURCES, CPU
from shared.columns.table import NodeTable
from shared.kube.api.meta_v1 import INT64_MAX
from shared.plugins.resources.kept_resources import (
    AMOUNT_MAX,
    KeptBalance,
    KeptLeastAllocated,
    KeptRoom,
    KeptScores,
)
from shared.plugins.resources.one_node import balance_change, fit_reasons, least_allocated

AMOUNTS = st.one_of(
    st.integers(0, 12),
    st.integers(0, 4000),
    st.integers(0, 2**36),
    st.integers(AMOUNT_MAX - 200, AMOUNT_MAX),
    st.integers(0, AMOUNT_MAX),
)
ANY_AMOUNTS = st.one_of(
    AMOUNTS, st.sampled_from([-1, 0, AMOUNT_MAX + 1, 2**53, 2**62, INT64_MAX, -INT64_MAX])
)
ROW = st.tuples(ANY_AMOUNTS, ANY_AMOUNTS, ANY_AMOUNTS, ANY_AMOUNTS)
"""Used and size of two resources."""
GOOD_ROW = st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
ASKED = st.tuples(AMOUNTS, AMOUNTS)


class Row(NamedTuple):
    used: tuple[int, int]
    sizes: tuple[int, int]

    @property
    def is_left_out(self) -> bool:
        return not (
            all(0 <= amount <= AMOUNT_MAX for amount in self.used)
            and all(0 < size <= AMOUNT_MAX for size in self.sizes)
        )


def row_of(row: tuple[int, int, int, int]) -> Row:
    return Row(row[:2], row[2:])


def written(kept: KeptScores, rows: list[Row], *, at_once: bool) -> None:
    """All rows written, one by one or together."""
    kept.reserve(len(rows) + 2)
    if at_once:
        used = [np.array(column) for column in zip(*(row.used for row in rows), strict=True)]
        sizes = [np.array(column) for column in zip(*(row.sizes for row in rows), strict=True)]
        kept.write(slice(0, len(rows)), used, sizes)
    else:
        for i, row in enumerate(rows):
            kept.write_one(i, row.used, row.sizes)
    assert kept.left_out[: len(rows)].tolist() == [row.is_left_out for row in rows]
    assert kept.has_left_out is any(row.is_left_out for row in rows)


ROWS = st.lists(st.one_of(GOOD_ROW, ROW), min_size=1, max_size=4)
# Just below a whole number, where the least rounding would show.
BORDERS = [(AMOUNT_MAX - 1, 0, AMOUNT_MAX, 3), (1, 2, 3, AMOUNT_MAX - 1), (5, 5, 7, 7)]


@example(BORDERS, (0, 0), (1, 1), True)
@example(BORDERS, (1, 1), (1, 1), False)
@given(ROWS, ASKED, st.tuples(st.integers(1, 100), st.integers(1, 100)), st.booleans())
def test_least_allocated_of_kept_rows_is_that_of_each(
    raw: list[tuple[int, int, int, int]],
    asked: tuple[int, int],
    weights: tuple[int, int],
    at_once: bool,
) -> None:
    rows = [row_of(row) for row in raw]
    kept = KeptLeastAllocated(("cpu", "memory"), weights)
    written(kept, rows, at_once=at_once)
    scores = kept.rated(asked, slice(0, len(rows))).tolist()
    for row, score in zip(rows, scores, strict=True):
        if not row.is_left_out:
            with_pod = [used + amount for used, amount in zip(row.used, asked, strict=True)]
            assert score == least_allocated(with_pod, row.sizes, weights)


@example(BORDERS, (0, 0), True)
@example(BORDERS, (1, 1), False)
@given(ROWS, ASKED, st.booleans())
def test_balance_of_kept_rows_is_that_of_each(
    raw: list[tuple[int, int, int, int]], asked: tuple[int, int], at_once: bool
) -> None:
    rows = [row_of(row) for row in raw]
    kept = KeptBalance(("cpu", "memory"), (1, 1))
    written(kept, rows, at_once=at_once)
    scores = kept.rated(asked, slice(0, len(rows))).tolist()
    for row, score in zip(rows, scores, strict=True):
        if not row.is_left_out:
            assert score == balance_change(row.used, row.sizes, asked)


@given(st.integers(1, AMOUNT_MAX), st.integers(0, 100), st.integers(-1, 1))
def test_the_floor_of_a_quotient_is_exact_next_to_whole_hundredths(
    size: int, hundredths: int, off: int
) -> None:
    used = min(size, max(0, size - size * hundredths // 100 + off))
    kept = KeptLeastAllocated(("cpu",), (1,))
    kept.reserve(1)
    kept.write_one(0, (used,), (size,))
    assert kept.rated((0,), slice(0, 1)).tolist() == [(size - used) * 100 // size]


def test_rows_written_again_count_as_they_are_now() -> None:
    kept = KeptLeastAllocated(("cpu", "memory"), (1, 1))
    kept.reserve(2)
    kept.write(slice(0, 2), [np.array([0, 90]), np.array([0, 90])], [np.array([100, 100])] * 2)
    assert kept.rated((20, 20), slice(0, 2)).tolist() == [80, 0]
    kept.write_one(1, (10, 30), (100, 100))
    kept.write_one(0, (-1, 0), (100, 100))
    assert kept.left_out.tolist() == [True, False]
    assert kept.rated((20, 20), slice(1, 2)).tolist() == [60]


class NodeRow(NamedTuple):
    is_present: bool
    pods: int
    allowed: int
    used: tuple[int, ...]
    sizes: tuple[int, ...]


SIZES = st.sampled_from([0, 1, 5, 6, 2**40, INT64_MAX])
USED = st.one_of(SIZES, st.just(-INT64_MAX))
"""Sums may have wrapped around."""
NODE_ROWS = st.builds(
    NodeRow,
    st.booleans(),
    st.integers(0, 2),
    st.integers(0, 2),
    st.tuples(USED, USED, USED, USED),
    st.tuples(SIZES, SIZES, SIZES, SIZES),
)
NAMES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "example.com/none")


@given(
    st.lists(NODE_ROWS, min_size=1, max_size=4),
    st.lists(NODE_ROWS, min_size=1, max_size=4),
    st.lists(
        st.dictionaries(
            st.sampled_from(NAMES), st.sampled_from([1, 5, 6, 2**40, INT64_MAX]), max_size=3
        ),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_kept_room_is_that_of_each_node(
    before: list[NodeRow], after: list[NodeRow], pods: list[dict[str, int]], at_once: bool
) -> None:
    nodes, kept = NodeTable(), KeptRoom()
    nodes.add_resources(["example.com/gpu"])
    count = max(len(before), len(after))
    nodes.reserve(count)
    kept.reserve(nodes.capacity)
    for rows in (before, after):
        for i, row in enumerate(rows):
            nodes.present[i] = row.is_present
            nodes.pod_count[i], nodes.allowed_pod_count[i] = row.pods, row.allowed
            nodes.requested[:, i], nodes.allocatable[:, i] = row.used, row.sizes
        if at_once:
            kept.write(nodes, slice(0, count))
        else:
            for i in range(count):
                kept.write_one(nodes, i)
        for asked in pods:
            passes = kept.passing(nodes, list(asked), list(asked.values()), count)
            for i in nodes.present_rows().tolist():
                assert (passes is None or bool(passes[i])) is takes(nodes, i, asked)


def takes(nodes: NodeTable, row: int, asked: dict[str, int]) -> bool:
    """`one_node.fit_reasons`, with resources by name."""
    requested, allocatable = [], []
    for name in asked:
        resource = nodes.resources.find(name)
        requested.append(nodes.requested.item(resource, row) if resource >= 0 else 0)
        allocatable.append(nodes.allocatable.item(resource, row) if resource >= 0 else 0)
    is_full = nodes.pod_count.item(row) >= nodes.allowed_pod_count.item(row)
    reasons, _ = fit_reasons(list(asked.values()), requested, allocatable, is_full=is_full)
    return not reasons


def test_room_that_a_pod_left_is_found_again() -> None:
    nodes, kept = NodeTable(), KeptRoom()
    nodes.reserve(2)
    kept.reserve(nodes.capacity)
    nodes.present[:2] = True
    nodes.allowed_pod_count[:2] = 9
    nodes.allocatable[:2, :2] = 10  # Of cpu and of memory.
    nodes.requested[CPU, :2] = 10, 2
    kept.write(nodes, slice(0, 2))
    passes = kept.passing(nodes, ["cpu"], [5], 2)
    assert passes is not None
    assert passes.tolist() == [False, True]
    nodes.requested[CPU, 0] = 1
    kept.write_one(nodes, 0)
    assert kept.passing(nodes, ["cpu"], [5], 2) is None
    assert kept.passing(nodes, ["cpu"], [5], 2) is None
    assert BASE_RESOURCES[CPU] == "cpu"
