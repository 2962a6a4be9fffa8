"""Fit and scores over columns, and of one node, against plain Python."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.columns.schema import Int64s
from shared.framework.normalize import ratio_table
from shared.plugins.resources import one_node
from shared.plugins.resources import resource_arrays as resources
from shared.plugins.resources.node_resources_fit import MOST_ALLOCATED
from shared.plugins.resources.resource_score import ScoringRule
from tests.support import slow_twins
from tests.support.slow_twins import Int64

LEAST = ScoringRule(resources.least_allocated, one_node.least_allocated)
BALANCE = ScoringRule(resources.balance_change, one_node.balance_change)
AMOUNTS = st.one_of(
    st.just(0),
    st.integers(0, 12),
    st.integers(0, 2**40),
    st.sampled_from([100, 1000, 209_715_200, 2**40]),
)
"""Small ones meet one another (equal, zero, one apart); large ones are bytes of memory."""


class Cluster(NamedTuple):
    """A few nodes with the same resources, one list a resource."""

    amounts: list[int]
    used: list[list[int]]
    capacity: list[list[int]]
    weights: list[int]

    def columns(self, rows: list[list[int]]) -> list[Int64s]:
        return [np.array(row, np.int64) for row in rows]

    def nodes(self) -> list[tuple[list[int], list[int]]]:
        """(used, capacity) of each node."""
        return [
            (list(used), list(capacity))
            for used, capacity in zip(
                zip(*self.used, strict=True), zip(*self.capacity, strict=True), strict=True
            )
        ]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    node_count = draw(st.integers(1, 5))
    resource_count = draw(st.integers(1, 4))
    matrix = st.lists(
        st.lists(AMOUNTS, min_size=node_count, max_size=node_count),
        min_size=resource_count,
        max_size=resource_count,
    )
    row = st.lists(AMOUNTS, min_size=resource_count, max_size=resource_count)
    weights = st.lists(st.integers(1, 100), min_size=resource_count, max_size=resource_count)
    return Cluster(draw(row), draw(matrix), draw(matrix), draw(weights))


@st.composite
def shapes(draw: st.DrawFn) -> list[tuple[int, int]]:
    points = sorted(draw(st.sets(st.integers(0, 100), min_size=1, max_size=5)))
    return [(point, 10 * draw(st.integers(0, 10))) for point in points]


@given(clusters(), st.data())
def test_fit_says_which_resources_fall_short_and_whether_for_ever(
    cluster: Cluster, data: st.DataObject
) -> None:
    amounts = [amount or 1 for amount in cluster.amounts]
    count = len(cluster.used[0])
    counts = st.lists(st.integers(0, 3), min_size=count, max_size=count)
    pods, allowed = data.draw(counts), data.draw(counts)
    reasons, never = resources.fit_reasons(
        amounts,
        cluster.columns(cluster.used),
        cluster.columns(cluster.capacity),
        is_full=np.array(pods) >= np.array(allowed),
    )
    for i, (used, capacity) in enumerate(cluster.nodes()):
        wanted_bits, wanted_never = slow_twins.fit(pods[i], allowed[i], amounts, used, capacity)
        mask = sum(1 << bit for bit in wanted_bits)
        assert (int(reasons[i]), bool(never[i])) == (mask, wanted_never)
        is_full = pods[i] >= allowed[i]
        one = one_node.fit_reasons(amounts, used, capacity, is_full=is_full)
        assert one == (mask, wanted_never)


@given(clusters())
def test_least_allocated_is_the_truncated_mean_of_what_is_free(cluster: Cluster) -> None:
    scores = resources.least_allocated(
        cluster.columns(cluster.used), cluster.columns(cluster.capacity), cluster.weights
    )
    for score, (used, capacity) in zip(scores.tolist(), cluster.nodes(), strict=True):
        wanted = slow_twins.least_allocated(used, capacity, cluster.weights)
        assert score == wanted
        assert one_node.least_allocated(used, capacity, cluster.weights) == wanted


@given(clusters())
def test_most_allocated_is_the_truncated_mean_of_what_is_used(cluster: Cluster) -> None:
    scores = resources.most_allocated(
        cluster.columns(cluster.used), cluster.columns(cluster.capacity), cluster.weights
    )
    for score, (used, capacity) in zip(scores.tolist(), cluster.nodes(), strict=True):
        wanted = slow_twins.most_allocated(used, capacity, cluster.weights)
        assert score == wanted
        assert one_node.most_allocated(used, capacity, cluster.weights) == wanted


@given(clusters(), shapes())
def test_requested_to_capacity_ratio_rounds_and_drops_what_scores_nothing(
    cluster: Cluster, shape: list[tuple[int, int]]
) -> None:
    table = ratio_table(shape)
    scores = resources.requested_to_capacity_ratio(
        cluster.columns(cluster.used), cluster.columns(cluster.capacity), cluster.weights, table
    )
    for score, (used, capacity) in zip(scores.tolist(), cluster.nodes(), strict=True):
        wanted = slow_twins.requested_to_capacity_ratio(used, capacity, cluster.weights, shape)
        assert score == wanted
        one = one_node.requested_to_capacity_ratio(used, capacity, cluster.weights, table)
        assert one == wanted


@given(shapes())
def test_the_ratio_table_holds_the_broken_line_at_every_percent(
    shape: list[tuple[int, int]],
) -> None:
    wanted = [slow_twins.broken_line(shape, percent) for percent in range(101)]
    assert ratio_table(shape).tolist() == wanted


@given(clusters())
def test_balance_compares_the_node_with_and_without_the_pod(cluster: Cluster) -> None:
    scores = resources.balance_change(
        cluster.columns(cluster.used), cluster.columns(cluster.capacity), cluster.amounts
    )
    for score, (used, capacity) in zip(scores.tolist(), cluster.nodes(), strict=True):
        wanted = slow_twins.balance_change(used, cluster.amounts, capacity)
        assert score == wanted
        assert one_node.balance_change(used, capacity, cluster.amounts) == wanted
        assert 0 <= score <= 100


ABSURD = st.one_of(
    st.integers(0, 12),
    st.integers(0, 2**63 - 1),
    st.sampled_from([4000, 2**33, 2**56, 2**56 + 1, 2**62, 2**63 - 1]),
)
WRAPPED = st.one_of(ABSURD, st.integers(-(2**63), -1), st.sampled_from([-1, -100, -(2**63)]))
"""What nodes have in use after sums beyond 64 bits."""


@st.composite
def absurd_clusters(draw: st.DrawFn) -> Cluster:
    node_count = draw(st.integers(1, 4))
    resource_count = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def matrix(numbers: st.SearchStrategy[int]) -> list[list[int]]:
        row = st.lists(numbers, min_size=node_count, max_size=node_count)
        return draw(st.lists(row, min_size=resource_count, max_size=resource_count))

    row = st.lists(ABSURD, min_size=resource_count, max_size=resource_count)
    weights = st.lists(st.integers(1, 100), min_size=resource_count, max_size=resource_count)
    return Cluster(draw(row), matrix(WRAPPED), matrix(ABSURD), draw(weights))


@given(absurd_clusters(), shapes())
def test_scores_are_those_of_go_where_sums_wrap_around(
    cluster: Cluster, shape: list[tuple[int, int]]
) -> None:
    used, capacity = cluster.columns(cluster.used), cluster.columns(cluster.capacity)
    weights, amounts = cluster.weights, cluster.amounts
    asked = [amount or 1 for amount in amounts]
    table = ratio_table(shape)
    none = np.zeros(len(used[0]), np.int64)
    reasons, never = resources.fit_reasons(asked, used, capacity, is_full=none > 0)
    least = LEAST.rated(used, capacity, weights)
    most = MOST_ALLOCATED.rated(used, capacity, weights)
    ratio = ScoringRule(
        partial(resources.requested_to_capacity_ratio, table=table),
        partial(one_node.requested_to_capacity_ratio, table=table),
    ).rated(used, capacity, weights)
    balance = BALANCE.rated(used, capacity, amounts)
    for i, (used_one, capacity_one) in enumerate(cluster.nodes()):
        one = (used_one, capacity_one, weights)
        slow = ([Int64(u) for u in used_one], [Int64(c) for c in capacity_one],
                [Int64(w) for w in weights])  # fmt: skip
        one_fits = one_node.fit_reasons(asked, used_one, capacity_one, is_full=False)
        assert (reasons[i], never[i]) == one_fits
        assert least[i] == slow_twins.least_allocated(*slow)
        assert least[i] == one_node.least_allocated(*one)
        assert most[i] == slow_twins.most_allocated(*slow)
        assert most[i] == one_node.most_allocated(*one)
        assert ratio[i] == slow_twins.requested_to_capacity_ratio(*slow, shape)
        assert ratio[i] == one_node.requested_to_capacity_ratio(*one, table)
        assert balance[i] == slow_twins.balance_change(
            slow[0], [Int64(a) for a in amounts], slow[1]
        )
        assert balance[i] == one_node.balance_change(used_one, capacity_one, amounts)


def test_a_score_may_come_out_of_its_range_where_sums_wrap_around() -> None:
    used, capacity = [np.array([-100, 5])], [np.array([10, 10])]
    assert LEAST.rated(used, capacity, [1]).tolist() == [1100, 50]
    assert MOST_ALLOCATED.rated(used, capacity, [1]).tolist() == [-1000, 50]


def test_array_functions_leave_their_columns_as_they_were() -> None:
    used = [np.array([3, 9]), np.array([5, 5])]
    capacity = [np.array([10, 10]), np.array([0, 7])]
    before = [column.copy() for column in (*used, *capacity)]
    resources.least_allocated(used, capacity, [1, 1])
    resources.most_allocated(used, capacity, [1, 1])
    resources.requested_to_capacity_ratio(used, capacity, [1, 1], ratio_table([(0, 0)]))
    resources.balance_change(used, capacity, [1, 1])
    resources.fit_reasons([8, 8], used, capacity, is_full=np.array([False, True]))
    for column, copy in zip((*used, *capacity), before, strict=True):
        assert column.tolist() == copy.tolist()


def test_reasons_beyond_the_last_bit_share_it() -> None:
    count = 70
    none = [np.zeros(1, np.int64)] * count
    reasons, _ = resources.fit_reasons([1] * count, none, none, is_full=np.array([False]))
    one, _ = one_node.fit_reasons([1] * count, [0] * count, [0] * count, is_full=False)
    assert int(reasons[0]) == one == (1 << 62) - 2


@pytest.mark.parametrize(
    ("used", "amounts", "capacity", "expected"),
    [
        ([0, 0], [10, 0], [10, 0], 75),
        ([0, 0, 0], [10, 0, 9], [10, 0, 0], 75),
        ([0, 0, 0], [10, 0, 9], [0, 0, 0], 75),
        # Two of three count: half their difference truncates to 64, the general formula to 65.
        ([1, 1, 0], [1, 7, 9], [20, 10, 0], 50 + (50 + 64 - 97) // 2),
    ],
)
def test_resources_without_capacity_do_not_unbalance_a_node(
    used: list[int], amounts: list[int], capacity: list[int], expected: int
) -> None:
    columns = [np.array([u]) for u in used]
    sizes = [np.array([c]) for c in capacity]
    assert resources.balance_change(columns, sizes, amounts).tolist() == [expected]
    assert one_node.balance_change(used, capacity, amounts) == expected
