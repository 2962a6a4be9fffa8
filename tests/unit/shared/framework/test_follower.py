"""A follower is told what happened since it last took everything in, or that nobody remembers."""

import pytest

from daemon.core.cache import Cache
from shared.columns import journal
from shared.feature_gates import DEFAULT_GATES
from shared.framework import object_store
from shared.framework.cluster_view import Follower
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of


def followed() -> tuple[Cache, Follower]:
    cache = cluster_of([make_node("n0"), make_node("n1")])
    follower = Follower(cache.view)
    follower.note()
    return cache, follower


def test_who_has_read_nothing_makes_everything_anew() -> None:
    follower = Follower(Cache(DEFAULT_GATES).view)
    assert follower.usage_rows() is None
    assert follower.node_rows() is None
    assert follower.changes() is None
    assert follower.pods() is None
    assert follower.classes() is None
    assert follower.objects() is None
    assert follower.concerns(frozenset({"services"}))
    assert not follower.concerns(frozenset())
    assert not follower.saw_all


def test_each_log_tells_what_happened_since() -> None:
    cache, follower = followed()
    assert follower.saw_all
    cache.add_pod(make_pod("p", node_name="n1"))
    assert (follower.saw_usage, follower.saw_pods) == (False, False)
    assert (follower.saw_nodes, follower.saw_objects) == (True, True)
    rows, changes = follower.usage_rows(), follower.pods()
    assert rows is not None
    assert changes is not None
    assert rows.tolist() == [1]
    assert [(each.node_row, each.difference) for each in changes] == [(1, 1)]
    assert follower.classes() == {changes[0].class_id}
    follower.note()
    assert follower.saw_all
    cache.add_node(make_node("n0", cpu="9"))
    rows = follower.node_rows()
    assert rows is not None
    assert rows.tolist() == [0]
    assert not follower.saw_all


def test_objects_are_told_once_each_and_concern_who_reads_their_kind() -> None:
    cache, follower = followed()
    node = make_node("whatever")  # What is in the store does not matter here.
    cache.objects.put("csinodes", "n0", node)
    cache.objects.put("leases", "l", node)
    cache.objects.put("csinodes", "n0", node)
    assert follower.objects() == [("csinodes", "n0"), ("leases", "l")]
    assert follower.concerns(frozenset({"csinodes"}))
    assert not follower.concerns(frozenset({"services"}))
    assert follower.concerns(None), "who reads any kind"
    follower.note_objects()
    assert not follower.concerns(None)
    assert follower.saw_objects


def test_where_a_log_forgot_its_old_end_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, follower = followed()
    monkeypatch.setattr(journal, "ENTRIES_MAX", 8)
    monkeypatch.setattr(object_store, "CHANGES_MAX", 8)
    for number in range(20):
        cache.add_pod(make_pod(f"p{number}", node_name="n0"))
        cache.add_node(make_node("n1", cpu=f"{number}"))
        cache.objects.put("csinodes", f"{number}", make_node("whatever"))
    assert follower.usage_rows() is None
    assert follower.node_rows() is None
    assert follower.pods() is None
    assert follower.objects() is None
    assert follower.concerns(frozenset({"services"})), "nobody knows"
    follower.note()
    assert follower.pods() == []
    assert follower.objects() == []
