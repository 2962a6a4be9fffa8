"""Counts of spread constraints that follow changes, against counting all again."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.columns.schema import Bools, Rows
from shared.columns.topology import NO_DOMAIN, Topology
from shared.plugins.spread.spread_constraints import SpreadConstraint
from shared.plugins.spread.spread_counts import (
    HardCounts,
    SoftDomains,
    SoftNodes,
    by_range,
    rounded,
)
from shared.selectors.label_selector import EVERYTHING

ROWS = 8
DOMAINS = 3
DOMAIN_OF_ROW = st.lists(st.integers(-1, DOMAINS - 1), min_size=ROWS, max_size=ROWS).map(
    lambda domains: Topology(np.array(domains, np.intp), DOMAINS, NO_DOMAIN)
)
MASK = st.lists(st.booleans(), min_size=ROWS, max_size=ROWS).map(lambda m: np.array(m, np.bool_))
STEPS = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(-1, 2)), max_size=12)


def rows_of(counts: list[int]) -> Rows:
    """The node of each pod, where so many are on each row."""
    return np.repeat(np.arange(ROWS), counts)


@given(
    DOMAIN_OF_ROW,
    MASK,
    st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS),
    st.lists(STEPS, max_size=4),
    st.integers(1, 3),
    st.integers(1, 4),
    st.booleans(),
)
def test_hard_counts_follow_and_name_every_domain_that_fills_or_empties(
    topology: Topology,
    mask: Bools,
    pods: list[int],
    batches: list[list[tuple[int, int]]],
    max_skew: int,
    min_domains: int,
    self_match: bool,
) -> None:
    eligible = mask & (topology.domain_of_row != NO_DOMAIN)

    def fresh() -> HardCounts:
        constraint = SpreadConstraint("zone", max_skew, min_domains, EVERYTHING, True, False)
        return HardCounts(constraint, topology, eligible, rows_of(pods), self_match=self_match)

    kept = fresh()
    for batch in batches:
        before = kept.is_full.copy()
        for row, count in batch:
            count = max(count, -pods[row])
            pods[row] += count
            kept.add(row, count)
        flipped = kept.settle()
        again = fresh()
        assert kept.by_domain.tolist() == again.by_domain.tolist()
        assert kept.is_full.tolist() == again.is_full.tolist()
        assert sorted(flipped) == np.flatnonzero(before != kept.is_full).tolist()


@given(
    DOMAIN_OF_ROW,
    MASK,
    MASK,
    st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS),
    st.lists(st.tuples(STEPS, st.sets(st.integers(0, ROWS - 1))), max_size=4),
    st.integers(1, 3),
    st.booleans(),
)
def test_soft_counts_follow_and_name_every_row_whose_part_changes(
    topology: Topology,
    eligible: Bools,
    rated: Bools,
    pods: list[int],
    batches: list[tuple[list[tuple[int, int]], set[int]]],
    max_skew: int,
    by_node: bool,
) -> None:
    everything = slice(0, ROWS)

    def fresh() -> SoftDomains | SoftNodes:
        feasible = np.flatnonzero(rated)
        if by_node:
            return SoftNodes(topology, rows_of(pods), len(feasible), max_skew=max_skew)
        return SoftDomains(topology, eligible, rows_of(pods), feasible, max_skew=max_skew)

    kept = fresh()
    for steps, flips in batches:
        before = kept.parts(everything)
        for row, count in steps:
            count = max(count, -pods[row])
            pods[row] += count
            kept.add(row, count)
        flipped = np.array(sorted(flips), np.intp)
        rated[flipped] = ~rated[flipped]
        kept.flip(flipped, np.where(rated[flipped], 1, -1))
        changed = kept.settle()
        after = kept.parts(everything)
        assert after.tolist() == fresh().parts(everything).tolist()
        assert kept.scores(everything).tolist() == rounded(after).tolist()
        named = set(range(ROWS)) if changed is None else set(changed.tolist())
        assert set(np.flatnonzero(before != after).tolist()) <= named


def test_a_node_without_the_label_counts_as_one_with_an_empty_value() -> None:
    # Rows 0 and 1 have the label, row 0 with an empty value; row 2 has none.
    topology = Topology(np.array([0, 1, NO_DOMAIN], np.intp), 2, 0)
    everyone = np.ones(3, np.bool_)
    counts = SoftDomains(topology, everyone, np.array([0, 2, 2]), np.arange(3), max_skew=1)
    parts = counts.parts(slice(0, 3))
    assert parts[0] == 3 * np.log(2 + 2)
    assert parts[1] == 0.0
    assert parts[2] == 0.0, "it is not rated by a label that it does not have"


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_rounding_is_half_up(scores: list[float]) -> None:
    for score, whole in zip(scores, rounded(np.array(scores)).tolist(), strict=True):
        assert abs(whole - score) <= 0.5
        assert whole - score != -0.5
    assert rounded(np.array([0.49999999999999994, 0.5, 1.5, 2.5])).tolist() == [0, 1, 2, 3]


@given(st.lists(st.integers(0, 1000), min_size=1))
def test_fewer_pods_are_better(raw: list[int]) -> None:
    lowest, highest = min(raw), max(raw)
    scores = by_range(np.array(raw, np.int64), lowest, highest).tolist()
    wanted = [100 * (highest + lowest - s) // highest if highest else 100 for s in raw]
    assert scores == wanted
