"""The order of nodes, by any sequence of changes: the same as written down directly."""

from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from daemon.core.node_tree import NodeTree

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "update", "ask"]),
        st.integers(0, 30),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=60,
)
ZONE = "topology.kubernetes.io/zone"


def in_turn(zones: dict[str, list[int]]) -> list[int]:
    turns = zip_longest(*zones.values())
    return [row for turn in turns for row in turn if row is not None]


def take_off(zones: dict[str, list[int]], zone: str, row: int) -> None:
    zones[zone].remove(row)
    if not zones[zone]:
        del zones[zone]


def play(changes: list[tuple[str, int, str]]) -> None:
    tree = NodeTree()
    zone_of: dict[int, str] = {}
    zones: dict[str, list[int]] = {}
    for change, row, zone in [*changes, ("ask", 0, "")]:
        if change == "ask":
            assert tree.ordered_rows().tolist() == in_turn(zones)
        elif change == "add" and row not in zone_of:
            tree.add(row, {ZONE: zone})
        elif change == "remove" and row in zone_of:
            tree.remove(row)
            take_off(zones, zone_of.pop(row), row)
            continue
        elif change == "update" and row in zone_of:
            has_moved = zone_of[row] != zone
            assert tree.update(row, {ZONE: zone}) is has_moved
            if not has_moved:
                continue
            take_off(zones, zone_of[row], row)
        else:
            continue
        if change != "ask":
            zone_of[row] = zone
            zones.setdefault(zone, []).append(row)


@given(CHANGES)
def test_that_zones_take_turns(changes: list[tuple[str, int, str]]) -> None:
    play(changes)


@given(CHANGES)
def test_that_the_nodes_of_a_single_zone_stand_as_they_came(
    changes: list[tuple[str, int, str]],
) -> None:
    play([(change, row, "a") for change, row, _ in changes])
