"""Repeated events are noticed by equality alone, and what is remembered is bounded."""

import pytest

from daemon.adapter import recent_events
from daemon.adapter.recent_events import RecentEvents, ToldObjects
from tests.support.builders import make_node


def test_the_same_version_of_the_same_object_is_a_repetition() -> None:
    recent = RecentEvents()
    assert not recent.is_repetition("a", "7", is_deletion=False)
    assert not recent.is_repetition("a", "x9", is_deletion=False)
    assert recent.is_repetition("a", "7", is_deletion=False)
    assert recent.is_repetition("a", "x9", is_deletion=False)


def test_a_deletion_is_another_event_than_the_change_of_that_version() -> None:
    recent = RecentEvents()
    assert not recent.is_repetition("a", "7", is_deletion=False)
    assert not recent.is_repetition("a", "7", is_deletion=True)
    assert recent.is_repetition("a", "7", is_deletion=True)


def test_a_deleted_uid_never_comes_back_and_one_that_was_made_anew_is_another() -> None:
    recent = RecentEvents()
    assert not recent.is_repetition("a", "7", is_deletion=True)
    recent.has_gone("a")
    assert recent.is_repetition("a", "6", is_deletion=False)
    assert not recent.is_repetition("b", "6", is_deletion=False)


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_events, "RECENT_EVENTS_MAX", 2)
    monkeypatch.setattr(recent_events, "RECENT_DELETIONS_MAX", 1)
    recent = RecentEvents()
    for version in ("1", "2", "3"):
        recent.is_repetition("a", version, is_deletion=False)
    assert recent.is_repetition("a", "2", is_deletion=False)
    assert not recent.is_repetition("a", "1", is_deletion=False)
    recent.has_gone("a")
    recent.has_gone("b")
    assert not recent.is_repetition("a", "9", is_deletion=False)
    assert recent.is_repetition("b", "9", is_deletion=False)


def test_beyond_the_bound_nodes_are_told_always_and_those_within_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent_events, "TOLD_OBJECTS_MAX", 1)
    told = ToldObjects()
    for name in ("a", "b"):
        assert not told.is_known(make_node(name))
    assert told.is_known(make_node("a"))
    assert not told.is_known(make_node("b"))
    told.has_gone("a")
    assert not told.is_known(make_node("b"))
    assert told.is_known(make_node("b"))


def test_the_order_of_labels_says_nothing() -> None:
    told = ToldObjects()
    assert not told.is_known(make_node("a", labels={"x": "1", "y": "2"}))
    assert told.is_known(make_node("a", labels={"y": "2", "x": "1"}))
    assert not told.is_known(make_node("a", labels={"y": "2", "x": "2"}))


def test_the_version_stays_as_it_was() -> None:
    node = make_node("a")
    node.metadata.resource_version = "7"
    ToldObjects().is_known(node)
    assert node.metadata.resource_version == "7"
