"""The watch adapter on what a real kube-apiserver v1.36.2 put on the wire, byte for byte.

`kube-apiserver.jsonl` holds the exchanges; a watch is kept as it came from the socket, with status
line, headers and chunk framing. What the adapter makes of it is compared with a plain reading of the
same bytes.
"""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.adapter.kind_feed import KindFeed
from shared.kube import api_errors
from shared.kube.api_errors import ApiError, error_from_answer
from shared.kube.decode import KindDecoder, RejectedObject
from shared.kube.http_connection import Answer, HttpConnection
from shared.kube.http_stream import HttpStream, LineSplitter
from shared.kube.pod_record import PodRecord, decode_template
from shared.kube.resources import ALL_KINDS, NODES, PODS, ResourceKind
from shared.messages.to_owner import (
    AdapterMessage,
    NodeChanged,
    NodeDeleted,
    PodChanged,
    PodDeleted,
    SyncFinished,
    SyncStarted,
)
from tests.support.fake_transport import FakeTransport

Exchange = dict[str, Any]

EXCHANGES: list[Exchange] = [
    json.loads(line)
    for line in (Path(__file__).parent / "kube-apiserver.jsonl").read_text().splitlines()
]
WATCHES = {exchange["name"]: exchange for exchange in EXCHANGES if "raw" in exchange}
ANSWERS = [exchange for exchange in EXCHANGES if "response" in exchange]


def raw_bytes(exchange: Exchange) -> bytes:
    return b"".join(text.encode() for _, text in exchange["raw"])


def kind_of(exchange: Exchange) -> ResourceKind:
    path = exchange["request"]["path"].partition("?")[0]
    return NODES if path.endswith("/nodes") else PODS


def plain_lines(exchange: Exchange) -> list[dict[str, Any]]:
    """The events in a recording, read without any of our code."""
    body = raw_bytes(exchange).partition(b"\r\n\r\n")[2]
    joined = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        joined += body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]
    return [json.loads(line) for line in joined.splitlines()]


async def read(
    exchange: Exchange, cuts: list[int], initial_version: str
) -> tuple[list[AdapterMessage], KindFeed, ApiError | None]:
    """Feed a recorded watch through connection, splitter and feed, cut at the given offsets."""
    raw = raw_bytes(exchange)
    connection = HttpConnection(lambda _: None, lambda *_: None)
    transport = FakeTransport(connection)
    connection.connection_made(transport)
    stream = HttpStream(connection)
    connection.send("GET", b"request", 0)
    messages: list[AdapterMessage] = []
    feed = KindFeed(kind_of(exchange), lambda message, _: messages.append(message))
    feed.resource_version = initial_version
    if not initial_version:
        feed.list_started()
    splitter = LineSplitter()
    edges = [0, *sorted(cuts), len(raw)]
    try:
        for start, end in itertools.pairwise(edges):
            if start == end:
                continue
            connection.data_received(raw[start:end])
            if not stream_has(stream):
                continue
            for chunk in await stream.chunks():
                for line in splitter.feed(chunk):
                    feed.line(line)
        transport.lose(None)
        if raw.endswith(b"0\r\n\r\n"):
            assert await stream.chunks() == []
        else:
            # The recorder hung up: for us the connection is lost, and what came before is good.
            with pytest.raises(api_errors.ConnectionLost):
                await stream.chunks()
        assert splitter.take_rest() == b""
    except ApiError as error:
        return messages, feed, error
    return messages, feed, None


def stream_has(stream: Any) -> bool:
    return bool(stream._chunks)


def record_matches(record: PodRecord, item: dict[str, Any]) -> bool:
    meta, spec = item["metadata"], item["spec"]
    template = decode_template(record.template)
    containers = [(c.name, c.image) for c in template.spec.containers]
    return (
        (record.namespace, record.name, record.uid)
        == (meta["namespace"], meta["name"], meta["uid"])
        and record.resource_version == meta["resourceVersion"]
        and record.node_name == spec.get("nodeName", "")
        and record.deleted == meta.get("deletionTimestamp", "")
        and (template.labels or {}) == meta.get("labels", {})
        and containers == [(c["name"], c["image"]) for c in spec["containers"]]
        and len(template.spec.tolerations or ()) == len(spec.get("tolerations", ()))
    )


def check_messages(exchange: Exchange, messages: list[AdapterMessage]) -> None:
    """The messages are those that a plain reading of the recording gives."""
    events = [e for e in plain_lines(exchange) if e["type"] in ("ADDED", "MODIFIED", "DELETED")]
    assert len(messages) == len(events)
    for message, event in zip(messages, events, strict=True):
        item = event["object"]
        match message:
            case PodChanged(pod):
                assert event["type"] != "DELETED"
                assert record_matches(pod, item)
            case PodDeleted(pod):
                assert event["type"] == "DELETED"
                assert record_matches(pod, item)
            case NodeChanged(node):
                assert node.metadata.name == item["metadata"]["name"]
                assert node.status.allocatable == item["status"]["allocatable"]
            case NodeDeleted(name):
                assert (event["type"], item["metadata"]["name"]) == ("DELETED", name)
            case _:
                raise AssertionError(f"unexpected {message}")


LIVE = [
    "watch-pods",
    "watch-nodes-from-list",
    "watch-unscheduled",
    "watch-bookmarks",
    "watch-future-rv",
    "watch-old-rv",
]


@pytest.mark.parametrize("size", [1, 3, 1000, 10**6])
@pytest.mark.parametrize("name", LIVE)
def test_a_recorded_watch_is_told_event_by_event(name: str, size: int) -> None:
    exchange = WATCHES[name]
    cuts = list(range(size, len(raw_bytes(exchange)), size))
    messages, feed, error = asyncio.run(read(exchange, cuts, "228"))
    assert error is None
    check_messages(exchange, messages)
    versions = [event["object"]["metadata"]["resourceVersion"] for event in plain_lines(exchange)]
    assert feed.resource_version == (versions[-1] if versions else "228")


@given(data=st.data())
def test_it_does_not_matter_where_the_bytes_are_cut(data: st.DataObject) -> None:
    exchange = WATCHES[data.draw(st.sampled_from(LIVE))]
    offsets = st.integers(0, len(raw_bytes(exchange)))
    cuts = data.draw(st.lists(offsets, max_size=40))
    messages, _, error = asyncio.run(read(exchange, cuts, "228"))
    assert error is None
    check_messages(exchange, messages)


def test_initial_events_are_a_list_that_ends_with_its_bookmark() -> None:
    exchange = WATCHES["watch-send-initial-events"]
    messages, feed, error = asyncio.run(read(exchange, [], ""))
    assert error is None
    end = plain_lines(exchange)[-1]["object"]["metadata"]["resourceVersion"]
    assert messages[0] == SyncStarted("pods")
    assert messages[-1] == SyncFinished("pods", end)
    check_messages(exchange, messages[1:-1])
    assert feed.resource_version == end


@pytest.mark.parametrize("name", ["watch-410-compacted", "watch-410-bookmarks"])
def test_410_inside_a_stream_of_status_200(name: str) -> None:
    messages, _, error = asyncio.run(read(WATCHES[name], [], "5"))
    assert messages == []
    assert isinstance(error, api_errors.Expired)
    assert "too old resource version: 5" in error.message


def test_a_watch_that_is_refused_is_no_stream() -> None:
    async def main() -> Answer:
        connection = HttpConnection(lambda _: None, lambda *_: None)
        connection.connection_made(FakeTransport(connection))
        HttpStream(connection)
        head = connection.send("GET", b"request", 0)
        connection.data_received(raw_bytes(WATCHES["watch-invalid-rv"]))
        return await head

    answer = asyncio.run(main())
    error = error_from_answer(answer.status, answer.body, answer.retry_after_s)
    assert isinstance(error, api_errors.ServerError)


LISTED = {kind.struct_type.__name__.replace("Csi", "CSI") + "List": kind for kind in ALL_KINDS}


def test_recorded_lists_are_decoded_whole() -> None:
    checked = 0
    for exchange in ANSWERS:
        body = exchange["response"]["body"]
        try:
            plain = json.loads(body)
        except ValueError:
            continue
        kind = LISTED.get(plain.get("kind", ""))
        if kind is None:
            continue
        items, meta = KindDecoder(kind).page(body.encode())
        found = [item.metadata.name for item in items if not isinstance(item, RejectedObject)]
        assert found == [item["metadata"]["name"] for item in plain["items"] or ()]
        assert meta.resource_version == plain["metadata"]["resourceVersion"]
        assert meta.continue_token == plain["metadata"].get("continue", "")
        checked += 1
    assert checked >= 8


EXPECTED_ERRORS = {
    "create-pod-invalid": api_errors.Invalid,
    "create-pod-again": api_errors.AlreadyExists,
    "bind-again-other-node": api_errors.Conflict,
    "bind-again-same-node": api_errors.Conflict,
    "bind-uid-mismatch": api_errors.Conflict,
    "bind-gated": api_errors.Conflict,
    "bind-missing-pod": api_errors.NotFound,
    "bind-empty-node": api_errors.ServerError,
    "bind-malformed": api_errors.BadRequest,
    "patch-bad-content-type": ApiError,
    "event-invalid": api_errors.Invalid,
    "lease-update-conflict": api_errors.Conflict,
    "list-bad-continue": api_errors.BadRequest,
    "get-404": api_errors.NotFound,
    "get-unknown-path": api_errors.NotFound,
    "unauthorized": api_errors.Unauthorized,
    "list-410-exact": api_errors.Expired,
    "list-future-rv": api_errors.ServerError,
}


def test_every_recorded_refusal_has_its_type() -> None:
    seen = {}
    for exchange in ANSWERS:
        response = exchange["response"]
        if response["status"] >= 300:
            retry_after = response["headers"].get("Retry-After")
            error = error_from_answer(
                response["status"],
                response["body"].encode(),
                float(retry_after) if retry_after else None,
            )
            seen[exchange["name"]] = type(error)
            if exchange["name"] == "list-future-rv":
                assert error.retry_after_s == 1
    assert seen == EXPECTED_ERRORS
