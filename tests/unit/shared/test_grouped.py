"""Nothing empty is kept, and what is not there cannot be taken out."""

import pytest

from shared.grouped import Grouped, tally, tally_in


def test_a_group_goes_with_its_last_member() -> None:
    groups = Grouped[str, int, str]()
    groups.put("a", 1, "one")
    groups.put("a", 2, "two")
    groups.put("a", 1, "another")
    assert groups == {"a": {1: "another", 2: "two"}}
    groups.drop("a", 1)
    assert groups == {"a": {2: "two"}}
    groups.drop("a", 2)
    assert not groups
    with pytest.raises(KeyError):
        groups.drop("a", 2)


def test_a_number_goes_when_it_comes_to_nothing() -> None:
    counts: dict[str, dict[int, int]] = {}
    for change in (2, -3, 1):
        tally_in(counts, "a", 1, change)
        tally_in(counts, "a", 2, change)
    assert counts == {}
    tally_in(counts, "a", 1, -1)
    tally(counts["a"], 2, 1)
    assert counts == {"a": {1: -1, 2: 1}}
