"""The order of nodes, by any sequence of changes: the same as written down directly."""

from itertools import zip_longest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.cache import Cache
from daemon.core.node_columns import NodeTree
from shared.columns.table import NodeTable
from shared.feature_gates import DEFAULT_GATES
from tests.support.builders import make_node

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add many", "remove", "update", "ask"]),
        st.integers(0, 30),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=60,
)
ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
CROWD = 3
"""Rows that are added at once, each to another zone."""


def in_turn(zones: dict[str, list[int]]) -> list[int]:
    turns = zip_longest(*zones.values())
    return [row for turn in turns for row in turn if row is not None]


class Model:
    """A tree and the same as lists."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.tree = NodeTree(self.table)
        self.zone_of: dict[int, str] = {}
        self.zones: dict[str, list[int]] = {}
        self.asked: list[int] = []
        """What the order was when it was last asked for."""

    def add(self, rows: list[int], zones: list[str]) -> None:
        index = np.array(rows, np.intp)
        self.table.reserve(max(rows) + 1)
        self.table.bind_names(index, [f"n{row}" for row in rows])
        self.table.set_present(index, is_present=True)
        self.tree.add(index, [{ZONE: zone} for zone in zones])
        for row, zone in zip(rows, zones, strict=True):
            self.put(row, zone)

    def remove(self, row: int) -> None:
        self.table.set_present(row, is_present=False)
        self.tree.remove(row)
        self.take_off(row)

    def update(self, row: int, zone: str) -> None:
        self.tree.update(row, {ZONE: zone})
        if self.zone_of[row] != zone:
            self.take_off(row)
            self.put(row, zone)

    def order(self) -> list[int]:
        """Made anew only where other nodes are there than before."""
        if set(self.asked) != set(self.zone_of):
            self.asked = in_turn(self.zones)
        return self.asked

    def put(self, row: int, zone: str) -> None:
        self.zone_of[row] = zone
        self.zones.setdefault(zone, []).append(row)

    def take_off(self, row: int) -> None:
        zone = self.zone_of.pop(row)
        self.zones[zone].remove(row)
        if not self.zones[zone]:
            del self.zones[zone]


def play(changes: list[tuple[str, int, str]], zones: str = "abc") -> None:
    model = Model()
    for change, row, zone in [*changes, ("ask", 0, "")]:
        is_there = row in model.zone_of
        if change == "ask":
            assert model.table.order.tolist() == model.order()
            assert len(model.tree) == len(model.zone_of)
        elif change == "add" and not is_there:
            model.add([row], [zone])
        elif change == "add many":
            rows = [row + i for i in range(CROWD) if row + i not in model.zone_of]
            if rows:
                model.add(rows, [zones[each % len(zones)] for each in rows])
        elif change == "remove" and is_there:
            model.remove(row)
        elif change == "update" and is_there:
            model.update(row, zone)


@given(CHANGES)
def test_that_zones_take_turns(changes: list[tuple[str, int, str]]) -> None:
    play(changes)


@given(CHANGES)
def test_that_the_nodes_of_a_single_zone_stand_as_they_came(
    changes: list[tuple[str, int, str]],
) -> None:
    play([(change, row, "a") for change, row, _ in changes], "a")


def test_a_node_stays_where_it_was_until_others_come_or_go() -> None:
    cache = Cache(DEFAULT_GATES)
    for name in "abcd":
        cache.add_node(make_node(name))

    def names() -> str:
        return "".join(cache.nodes.name_of(row) for row in cache.nodes.order.tolist())

    assert names() == "abcd"
    cache.add_node(make_node("a", labels={ZONE: "z"}))
    cache.remove_node("b")
    cache.add_node(make_node("b"))
    assert names() == "abcd"
    cache.nodes.compact_names()
    cache.nodes.forget_order()
    cache.remove_node("d")
    assert names() == "cab", "the zones take turns"


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({ZONE: "new"}, "new"),
        ({ZONE: "new", OLD_ZONE: "old"}, "old"),
        ({ZONE: "new", OLD_ZONE: ""}, ""),
    ],
)
def test_the_deprecated_label_counts_where_a_node_has_both(
    labels: dict[str, str], zone: str
) -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n", labels=labels))
    assert cache.tree.zone_names(cache.nodes.order) == [zone]
