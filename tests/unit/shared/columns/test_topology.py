"""Nodes by topology, and pods counted by it, against plain Python."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.columns.pod_table import NEVER_STARTED, PodTable
from shared.columns.table import NodeTable
from shared.columns.topology import NO_DOMAIN, make_topology, pods_of_classes, sum_by_domain

NODES = st.lists(st.tuples(st.sampled_from(("a", "b", "", None)), st.booleans()), max_size=12)


def table_of(nodes: list[tuple[str | None, bool]]) -> NodeTable:
    table = NodeTable()
    table.reserve(len(nodes))
    for row, (value, is_present) in enumerate(nodes):
        labels = {"other": "x"} if value is None else {"zone": value}
        table.write_labels(np.array([row]), [labels])
        table.set_present(row, is_present=is_present)
    return table


@given(NODES)
def test_rows_are_grouped_by_the_value_of_the_label(nodes: list[tuple[str | None, bool]]) -> None:
    topology = make_topology(table_of(nodes), "zone")
    groups: dict[int, set[str]] = {}
    for row, (value, is_present) in enumerate(nodes):
        domain = topology.domain_of_row.item(row)
        if value is None or not is_present:
            assert domain == NO_DOMAIN
            continue
        groups.setdefault(domain, set()).add(value)
        assert (value == "") is (domain == topology.empty_value_domain)
    assert sorted(groups) == list(range(topology.domain_count))
    assert all(len(values) == 1 for values in groups.values())
    assert (topology.domain_of_row[len(nodes) :] == NO_DOMAIN).all()


@given(NODES)
def test_the_rows_of_a_domain_are_those_that_say_so(nodes: list[tuple[str | None, bool]]) -> None:
    topology = make_topology(table_of(nodes), "zone")
    domains = list(range(topology.domain_count))
    for domain in domains:
        wanted = np.flatnonzero(topology.domain_of_row == domain).tolist()
        assert topology.rows_of(domain).tolist() == wanted
    rows = topology.rows_of_all(domains).tolist()
    assert sorted(rows) == np.flatnonzero(topology.domain_of_row != NO_DOMAIN).tolist()


def test_a_label_that_no_node_has_makes_no_domain() -> None:
    topology = make_topology(table_of([("a", True)]), "rack")
    assert topology.domain_count == 0
    assert topology.rows_of_all([]).tolist() == []


@given(NODES, NODES)
def test_topologies_are_equal_when_every_row_is_where_it_was(
    one: list[tuple[str | None, bool]], other: list[tuple[str | None, bool]]
) -> None:
    first, second = make_topology(table_of(one), "zone"), make_topology(table_of(other), "zone")
    same = (
        first.domain_of_row.tolist() == second.domain_of_row.tolist()
        and first.domain_count == second.domain_count
        and first.empty_value_domain == second.empty_value_domain
    )
    assert first.is_equal(second) is same


def test_the_version_rises_only_when_a_label_or_a_presence_changes() -> None:
    table = table_of([("a", True)])
    version = table.topology_version
    table.write_labels(np.array([0]), [{"zone": "a"}])
    table.set_present(0, is_present=True)
    assert table.topology_version == version
    table.write_labels(np.array([0]), [{"zone": "b"}])
    assert table.topology_version == version + 1
    table.set_present(0, is_present=False)
    assert table.topology_version == version + 2


PODS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.booleans()), max_size=20)


@given(PODS, st.sets(st.integers(0, 12)), st.booleans())
def test_pods_of_classes_are_found_in_all_tables(
    pods: list[tuple[int, int, bool]], wanted: set[int], with_terminating: bool
) -> None:
    tables = PodTable(), PodTable()
    for number, (class_id, node_row, is_terminating) in enumerate(pods):
        table, row = tables[number % 2], number // 2
        table.reserve(row + 1)
        table.write(row, class_id, node_row, NEVER_STARTED, is_terminating=is_terminating)
    if pods:
        tables[0].clear(0)
    classes, node_rows = pods_of_classes(tables, sorted(wanted), with_terminating=with_terminating)
    expected = Counter(
        (class_id, node_row)
        for class_id, node_row, is_terminating in pods[1:]
        if class_id in wanted and (with_terminating or not is_terminating)
    )
    assert Counter(zip(classes.tolist(), node_rows.tolist(), strict=True)) == expected


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-5, 5)), max_size=20))
def test_sums_by_domain_keep_the_last_slot_for_no_domain(pairs: list[tuple[int, int]]) -> None:
    domains = np.array([domain for domain, _ in pairs], np.intp)
    weights = np.array([weight for _, weight in pairs], np.int64)
    sums = sum_by_domain(domains, 5, weights)
    for domain in (-1, 0, 1, 2, 3):
        assert sums[domain] == sum(weight for d, weight in pairs if d == domain)
