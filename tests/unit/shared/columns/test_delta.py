"""Deltas that are damaged are refused with a reason, never half believed without notice."""

import msgspec
import pytest

from daemon.core.cache import Cache
from shared.columns.delta import NOTHING_SENT, apply_delta, decode_delta, make_delta
from shared.columns.journal import ENTRIES_MAX, Journal
from shared.columns.pod_table import PodTable
from shared.columns.table import Interner, NodeTable
from shared.errors import FrameError
from shared.feature_gates import DEFAULT_GATES
from tests.support.builders import make_node


def some_delta() -> tuple[bytes, list[memoryview]]:
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n0", labels={"a": "b"}))
    body, buffers, _ = make_delta(cache.nodes, cache.pod_table, cache.all_changes(), NOTHING_SENT)
    return body, [memoryview(b) for b in buffers]


def test_a_missing_buffer_is_an_error() -> None:
    body, buffers = some_delta()
    with pytest.raises(FrameError, match="missing"):
        apply_delta(NodeTable(), PodTable(), decode_delta(body), buffers[:-1])


def test_a_buffer_of_the_wrong_length_is_an_error() -> None:
    body, buffers = some_delta()
    buffers[1] = memoryview(b"\0" * 16)
    with pytest.raises(FrameError, match="shape"):
        apply_delta(NodeTable(), PodTable(), decode_delta(body), buffers)


def test_a_buffer_too_many_is_an_error() -> None:
    body, buffers = some_delta()
    with pytest.raises(FrameError, match="left over"):
        apply_delta(NodeTable(), PodTable(), decode_delta(body), [*buffers, memoryview(b"")])


def test_a_body_that_is_not_ours_is_an_error() -> None:
    with pytest.raises(FrameError):
        apply_delta(NodeTable(), PodTable(), decode_delta(b"\xc1"), [])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("row_count", -1), ("row_count", 2**40)),
        *(("pods_used_count", -1), ("pods_used_count", 2**40)),
    ],
)
def test_room_is_made_for_what_can_be_only(field: str, value: int) -> None:
    body, buffers = some_delta()
    delta = msgspec.structs.replace(decode_delta(body), **{field: value})
    with pytest.raises(FrameError, match="cannot be"):
        apply_delta(NodeTable(), PodTable(), delta, buffers)


@pytest.mark.parametrize("first", [-1, 7])
def test_ids_that_do_not_follow_on_are_an_error(first: int) -> None:
    body, buffers = some_delta()
    delta = decode_delta(body)
    delta.dictionaries.first[3] = first
    with pytest.raises(FrameError, match="ids"):
        apply_delta(NodeTable(), PodTable(), delta, buffers)


@pytest.mark.parametrize("row", [-1, 1, 2**62])
def test_a_row_that_is_none_is_an_error(row: int) -> None:
    body, buffers = some_delta()
    buffers[0] = memoryview(row.to_bytes(8, "little", signed=True))
    with pytest.raises(FrameError, match="none of 1"):
        apply_delta(NodeTable(), PodTable(), decode_delta(body), buffers)


def test_an_interner_takes_over_ids_that_overlap_equally() -> None:
    interner = Interner[str](["a", "b"])
    interner.extend(1, ["b", "c"])
    assert interner.values == ["a", "b", "c"]
    assert interner.find("c") == 2
    assert interner.find("d") == -1


def test_a_journal_tells_each_changed_row_once_and_in_order() -> None:
    journal = Journal()
    journal.usage.append(3)
    start = journal.usage.position
    for row in (5, 2, 5):
        journal.usage.append(row)
    journal.node.append(7)
    usage_rows, node_rows = journal.usage.since(start), journal.node.since(0)
    assert usage_rows is not None
    assert node_rows is not None
    assert usage_rows.tolist() == [2, 5]
    assert node_rows.tolist() == [7]


def test_a_reader_that_fell_behind_the_bound_is_told_to_start_over() -> None:
    log = Journal().usage
    start = log.position
    for _ in range(ENTRIES_MAX + 1):
        log.append(0)
    assert log.since(start) is None
    assert log.since(log.position) is not None
