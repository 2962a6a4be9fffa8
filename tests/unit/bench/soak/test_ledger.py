"""Every fault that the ledger is there for is found, and what is right is left alone."""

import pytest

from bench.soak.ledger import CLOSED_S_MAX, Ledger
from bench.soak.soak_pods import APART_GROUPS, NODE_CPU_MILLI, NODE_PODS


def bound(ledger: Ledger, name: str, node: str, cpu_milli: int = 100, now_s: float = 1.0) -> None:
    ledger.created(name, cpu_milli, 0.0)
    assert not ledger.saw(name, name, "", now_s, is_finished=False)
    assert ledger.saw(name, name, node, now_s, is_finished=False)


def test_pods_come_and_go_and_nothing_is_left() -> None:
    ledger = Ledger()
    bound(ledger, "soak-plain-1", "n")
    assert ledger.on_node == {"n": {"soak-plain-1"}}
    ledger.gone("soak-plain-1")
    assert (ledger.pods, ledger.on_node, ledger.problems) == ({}, {}, [])
    assert (ledger.bound_count, list(ledger.latencies_s)) == (1, [1.0])


def test_a_pod_on_a_second_node_is_a_fault() -> None:
    ledger = Ledger()
    bound(ledger, "soak-plain-1", "n")
    ledger.saw("soak-plain-1", "u", "n", 2.0, is_finished=False)
    assert ledger.problems == []
    ledger.saw("soak-plain-1", "u", "m", 2.0, is_finished=False)
    assert ledger.problems == ["pod soak-plain-1 was bound to n and then to m"]


def test_a_node_may_be_full_and_not_more() -> None:
    ledger = Ledger()
    bound(ledger, "soak-plain-1", "n", NODE_CPU_MILLI - 100)
    bound(ledger, "soak-plain-2", "n", 100)
    assert ledger.problems == []
    bound(ledger, "soak-plain-3", "n", 1)
    assert len(ledger.problems) == 1
    assert "overcommitted by pod soak-plain-3: 4001m of 4000m CPU" in ledger.problems[0]


def test_the_number_of_pods_counts_too() -> None:
    ledger = Ledger()
    for number in range(NODE_PODS + 1):
        bound(ledger, f"soak-plain-{number}", "n", 1)
    assert ledger.problem_count == 1


@pytest.mark.parametrize("way", ["deleted", "finished"])
def test_room_that_was_given_back_may_be_used_again(way: str) -> None:
    ledger = Ledger()
    bound(ledger, "soak-plain-1", "n", NODE_CPU_MILLI)
    if way == "finished":
        ledger.saw("soak-plain-1", "u", "n", 2.0, is_finished=True)
        ledger.saw("soak-plain-1", "u", "n", 2.0, is_finished=True)
    ledger.gone("soak-plain-1")
    bound(ledger, "soak-plain-2", "n", NODE_CPU_MILLI)
    assert ledger.problems == []


def test_a_binding_long_after_its_node_was_closed_is_a_fault() -> None:
    ledger = Ledger()
    ledger.closed_s["n"] = 100.0
    bound(ledger, "soak-plain-1", "n", now_s=100.0 + CLOSED_S_MAX)
    assert ledger.problems == []
    bound(ledger, "soak-plain-2", "n", now_s=101.0 + CLOSED_S_MAX)
    assert ledger.problems == ["pod soak-plain-2 was bound to n, closed for 16 s"]


def test_pods_that_keep_away_from_one_another_on_one_node_are_a_fault() -> None:
    ledger = Ledger()
    bound(ledger, "soak-apart-1", "n")
    bound(ledger, "soak-apart-2", "n")
    bound(ledger, f"soak-apart-{1 + APART_GROUPS}", "m")
    assert ledger.problems == []
    bound(ledger, f"soak-apart-{1 + 2 * APART_GROUPS}", "n")
    assert ledger.problems == ["pod soak-apart-41 was bound to n, where soak-apart-1 keeps it away"]


def test_a_pod_without_a_node_is_lost_only_if_there_is_room_for_it() -> None:
    ledger = Ledger()
    ledger.created("soak-plain-1", 100, 0.0)
    ledger.created("soak-huge-2", 1_000_000, 0.0)
    ledger.created("soak-plain-3", 100, 9.0)
    bound(ledger, "soak-plain-4", "n")
    assert ledger.lost(older_than_s=5.0) == ["soak-plain-1"]
    assert ledger.pending_count() == 3


def test_a_pod_that_waits_while_nothing_is_bound_is_not_lost() -> None:
    ledger = Ledger()
    ledger.created("soak-plain-1", 100, 0.0)
    assert ledger.lost(older_than_s=5.0, bound_since=2) == []
    bound(ledger, "soak-plain-2", "n")
    assert ledger.lost(older_than_s=5.0, bound_since=2) == []
    bound(ledger, "soak-plain-3", "n")
    assert ledger.lost(older_than_s=5.0, bound_since=2) == ["soak-plain-1"]
