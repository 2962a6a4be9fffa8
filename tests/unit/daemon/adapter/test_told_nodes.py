"""How much is remembered of nodes that were told."""

import pytest

from daemon.adapter import told_nodes
from daemon.adapter.told_nodes import ToldNodes
from tests.support.builders import make_node


def test_beyond_the_bound_nodes_are_told_always_and_those_within_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(told_nodes, "TOLD_NODES_MAX", 1)
    told = ToldNodes()
    for name in ("a", "b"):
        assert not told.is_known(make_node(name))
    assert told.is_known(make_node("a"))
    assert not told.is_known(make_node("b"))
    told.has_gone("a")
    assert not told.is_known(make_node("b"))
    assert told.is_known(make_node("b"))


def test_the_order_of_labels_says_nothing() -> None:
    told = ToldNodes()
    assert not told.is_known(make_node("a", labels={"x": "1", "y": "2"}))
    assert told.is_known(make_node("a", labels={"y": "2", "x": "1"}))
    assert not told.is_known(make_node("a", labels={"y": "2", "x": "2"}))


def test_the_version_stays_as_it_was() -> None:
    node = make_node("a")
    node.metadata.resource_version = "7"
    ToldNodes().is_known(node)
    assert node.metadata.resource_version == "7"
