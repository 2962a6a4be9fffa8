"""Versions, history and states of the past."""

import pytest

from bench.apiserver.served_resources import NODES, PODS, RESOURCES, Resource
from bench.apiserver.store import ChangeKind, HistoryGoneError, Store, StoredObject


def _store(history_limit: int = 100) -> Store:
    return Store(RESOURCES, history_limit=history_limit)


def _put(store: Store, name: str, value: int, resource: Resource = PODS) -> StoredObject:
    table = store.table(resource)
    obj = {"metadata": {"name": name, "uid": f"uid-{name}"}, "value": value}
    return store.put(table, obj, table.objects.get(name))


def test_one_sequence_of_versions_runs_through_all_resources() -> None:
    store = _store()
    versions = [
        _put(store, "a", 1).version,
        _put(store, "n", 1, NODES).version,
        _put(store, "a", 2).version,
    ]
    removed = store.remove(store.table(NODES), store.table(NODES).objects["n"])
    assert [*versions, removed] == [2, 3, 4, 5]
    assert store.version == 5


def test_a_stored_object_carries_its_version_and_metadata_first() -> None:
    stored = _put(_store(), "a", 1)
    assert stored.item.startswith(b'{"metadata":{')
    assert stored.decoded()["metadata"]["resourceVersion"] == str(stored.version)


def test_the_history_tells_what_happened_in_order() -> None:
    store = _store()
    table = store.table(PODS)
    _put(store, "a", 1)
    _put(store, "a", 2)
    store.remove(table, table.objects["a"])
    changes = [table.change_at(sequence) for sequence in range(table.next_sequence)]
    assert [change.kind for change in changes] == list(ChangeKind)
    assert [change.version for change in changes] == [2, 3, 4]
    assert changes[2].before is changes[1].now


def test_changes_after_a_version_begin_behind_it() -> None:
    store = _store()
    for value in range(5):
        _put(store, "a", value)
        _put(store, "n", value, NODES)
    table = store.table(PODS)
    # Pods were written at 2, 4, 6, 8 and 10.
    assert table.sequence_after(1) == 0
    assert table.sequence_after(2) == 1
    assert table.sequence_after(5) == 2
    assert table.sequence_after(10) == table.next_sequence
    assert table.sequence_after(11) == table.next_sequence


def test_what_fell_out_of_the_history_is_gone_and_what_is_left_is_not() -> None:
    store = _store(history_limit=3)
    for value in range(6):
        _put(store, "a", value)
    table = store.table(PODS)
    # Written at 2 to 7; 5, 6 and 7 are held, so whoever saw 4 can go on.
    assert table.oldest_version == 4
    assert table.change_at(table.sequence_after(4)).version == 5
    with pytest.raises(HistoryGoneError) as gone:
        table.sequence_after(3)
    assert (gone.value.wanted, gone.value.oldest) == (3, 4)


def test_a_quiet_resource_keeps_its_history_while_another_is_busy() -> None:
    store = _store(history_limit=2)
    _put(store, "n", 1, NODES)
    for value in range(10):
        _put(store, "a", value)
    assert store.table(NODES).sequence_after(1) == 0


def test_compaction_forgets_all_history_and_keeps_the_objects() -> None:
    store = _store()
    _put(store, "a", 1)
    version = store.compact()
    table = store.table(PODS)
    assert list(table.objects) == ["a"]
    assert table.sequence_after(version) == table.next_sequence
    with pytest.raises(HistoryGoneError):
        table.sequence_after(version - 1)


def test_differences_show_what_objects_were() -> None:
    store = _store()
    table = store.table(PODS)
    kept, changed, removed = (_put(store, name, 1) for name in ("kept", "changed", "removed"))
    version = store.version
    _put(store, "changed", 2)
    _put(store, "changed", 3)
    store.remove(table, removed)
    _put(store, "new", 1)
    was = table.differences_since(version)
    assert was == {"changed": changed, "removed": removed, "new": None}
    assert kept.key not in was


def test_sorted_keys_follow_creates_and_deletes() -> None:
    store = _store()
    table = store.table(PODS)
    for name in ("b", "a"):
        _put(store, name, 1)
    assert table.sorted_keys() == ["a", "b"]
    _put(store, "aa", 1)
    store.remove(table, table.objects["a"])
    assert table.sorted_keys() == ["aa", "b"]


def test_an_object_that_is_too_large_is_refused_and_changes_nothing() -> None:
    store = _store()
    table = store.table(PODS)
    huge = {"metadata": {"name": "a", "uid": "u"}, "blob": "x" * 2_000_000}
    with pytest.raises(ValueError, match="at most"):
        store.put(table, huge, None)
    assert (store.version, table.objects) == (1, {})
