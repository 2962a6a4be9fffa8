"""Weights by topology key and domain that follow changes, against summing all up again."""

import operator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.columns.topology import NO_DOMAIN, Topology
from shared.plugins.interpod.matched_term_counts import (
    Key,
    MatchedTermCounts,
    Share,
    Shares,
    by_range,
    crosses_zero,
    summed,
)

HOST, ZONE, OTHER = (0, "host"), (0, "zone"), (1, "zone")
TOPOLOGIES = {
    "host": Topology(np.array([0, 1, 2, NO_DOMAIN], np.intp), 3, NO_DOMAIN),
    "zone": Topology(np.array([0, 0, 1, 1], np.intp), 2, NO_DOMAIN),
}
ROWS = 4
SHARES = st.lists(
    st.tuples(st.sampled_from([HOST, ZONE, OTHER]), st.integers(-3, 3)), max_size=4
).map(summed)
PODS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, ROWS - 1)), max_size=12)


def slow_sums(
    pods: list[tuple[int, int]], shares: list[Shares]
) -> tuple[dict[tuple[Key, int], int], list[int]]:
    sums: dict[tuple[Key, int], int] = {}
    entries = [0, 0]
    for class_id, row in pods:
        for key, weight, terms in shares[class_id]:
            domain = TOPOLOGIES[key[1]].domain_of_row.item(row)
            if domain != NO_DOMAIN:
                sums[key, domain] = sums.get((key, domain), 0) + weight
                entries[key[0]] += terms
    return sums, entries


@given(st.lists(SHARES, min_size=3, max_size=3), PODS, PODS, st.integers(0, 12))
def test_counts_follow_and_name_the_rows_that_matter(
    shares: list[Shares], pods: list[tuple[int, int]], more: list[tuple[int, int]], fewer: int
) -> None:
    counts = MatchedTermCounts(lambda key: TOPOLOGIES[key])
    of_class = dict(enumerate(shares))
    classes = np.array([class_id for class_id, _ in pods], np.int64)
    counts.count(of_class, classes, np.array([row for _, row in pods], np.intp))
    before, _ = slow_sums(pods, shares)
    assert [counts.entry_counts[what] for what in (0, 1)] == slow_sums(pods, shares)[1]
    for class_id, row in more:
        counts.add(shares[class_id], row, 1)
    for class_id, row in pods[:fewer]:
        counts.add(shares[class_id], row, -1)
    left = [*pods[fewer:], *more]
    after, entries = slow_sums(left, shares)
    assert [counts.entry_counts[what] for what in (0, 1)] == entries
    named = set(counts.settle(operator.ne).tolist())
    for key in (HOST, ZONE, OTHER):
        topology = TOPOLOGIES[key[1]]
        for domain in range(topology.domain_count):
            now = after.get((key, domain), 0)
            if key in counts.by_key:
                assert counts.by_key[key].by_domain[domain] == now
            if now != before.get((key, domain), 0):
                assert named >= set(topology.rows_of(domain).tolist())
    assert not len(counts.settle(operator.ne))
    sums = counts.sums(slice(0, ROWS), ROWS).tolist()
    for row in range(ROWS):
        pairs = [(key, TOPOLOGIES[key[1]].domain_of_row.item(row)) for key in (HOST, ZONE, OTHER)]
        assert sums[row] == sum(after.get(pair, 0) for pair in pairs)


def test_terms_of_one_key_add_up_and_are_still_counted() -> None:
    assert summed([(ZONE, 2), (ZONE, -2), (HOST, 1)]) == (Share(ZONE, 0, 2), Share(HOST, 1, 1))


def test_crossing_zero_is_about_some_and_none() -> None:
    assert crosses_zero(0, 1)
    assert crosses_zero(2, 0)
    assert not crosses_zero(1, 2)


def test_a_topology_that_changed_is_noticed() -> None:
    topologies = dict(TOPOLOGIES)
    counts = MatchedTermCounts(lambda key: topologies[key])
    counts.add((Share(ZONE, 1, 1),), 0, 1)
    assert counts.is_current()
    topologies["zone"] = topologies["host"]
    assert not counts.is_current()


@given(st.lists(st.integers(-1000, 1000), min_size=1))
def test_normalisation_is_that_of_floats_truncated(raw: list[int]) -> None:
    lowest, highest = min(raw), max(raw)
    wanted = [
        int(100.0 * (float(score - lowest) / float(highest - lowest))) if highest > lowest else 0
        for score in raw
    ]
    assert by_range(np.array(raw, np.int64), lowest, highest).tolist() == wanted
