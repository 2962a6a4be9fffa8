"""The simulated API server answers as a kube-apiserver v1.36.2 did, exchange by exchange.

Compared: status code, every header's presence and the headers with a fixed value, framing (a length
or chunks), compact JSON with a newline at the end, and every member of the body: status, reason,
message, details, object fields, list metadata, event types and their order, bookmarks, the ERROR
event of a 410 inside a 200 stream, and the end of the stream.

Not compared: `metadata.managedFields`, which the simulated server does not keep. Uids,
resourceVersions and continue tokens are compared as names: the same one here for the same one
there; versions of bookmarks must not be older than the events before them. Timestamps that the
server set are compared in form. The order of members in an object is free, as in JSON. Periodic
bookmarks come by the clock, so they are compared in form and left out of the sequence of events; a
stream's events are compared and not how the server spread them over chunks, as that too depends on
timing.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.wire.replay import Chosen, Exchange, RawAnswer, Replayer, labels
from tests.wire.server_process import running_server

pytestmark = pytest.mark.integration

_TOKEN = "test-token"
# Recorded exchanges that are not replayed: name and reason. None is left out.
_OUT_OF_SCOPE: dict[str, str] = {}
# Exchanges whose answer describes the server itself, with the comparison that is made instead.
_ABOUT_THE_SERVER = {
    "00-version": "build details differ; form and Kubernetes version are compared",
    "01-api": "the server's own address differs",
    "02-apis": "only groups that are served are listed; they are compared",
    "03-api-v1": "only resources that are served are listed; they are compared",
    "05-readyz-verbose": "the checks are the server's own; the form is compared",
}
_FIXED_HEADERS = (
    "cache-control",
    "content-type",
    "retry-after",
    "x-content-type-options",
    "transfer-encoding",
)
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
# Go's net/http gives bodies up to this size a length and chunks larger ones.
_UNCHUNKED_BYTES_MAX = 2048
# Numbers in messages that are the server's current version.
_CURRENT_VERSION = re.compile(r"(?<=current: )\d+|(?<=too old resource version: 5 \()\d+(?=\))")
_SERVER_TIMES = ("creationTimestamp", "deletionTimestamp", "lastTransitionTime")


@pytest.fixture(scope="module")
def replayed() -> Iterator[tuple[dict[str, Exchange], Chosen]]:
    with running_server(
        f"--token={_TOKEN}",
        "--disable-admission-plugins=Priority",
        "--bookmark-interval-s=0.2",
    ) as server:
        replayer = Replayer(server.host, server.port, _TOKEN)
        exchanges = {exchange.label: exchange for exchange in replayer.replay()}
        yield exchanges, replayer.chosen


def test_every_recorded_exchange_is_replayed(
    replayed: tuple[dict[str, Exchange], Chosen],
) -> None:
    exchanges, _ = replayed
    assert len(labels()) == 77
    assert set(labels()) - set(exchanges) == set(_OUT_OF_SCOPE)
    assert set(_ABOUT_THE_SERVER) <= set(exchanges)


@pytest.mark.parametrize("label", [each for each in labels() if each not in _OUT_OF_SCOPE])
def test_the_answer_agrees(label: str, replayed: tuple[dict[str, Exchange], Chosen]) -> None:
    exchanges, chosen = replayed
    exchange = exchanges[label]
    differences = [
        *_head_differences(exchange.recorded, exchange.answered),
        *_framing_differences(exchange),
    ]
    if label in _ABOUT_THE_SERVER:
        differences += _ABOUT_SERVER_COMPARISONS[label](exchange.recorded, exchange.answered)
    elif exchange.is_watch and exchange.recorded.chunks is not None:
        differences += _stream_differences(exchange, chosen)
    else:
        differences += _body_differences(exchange.recorded, exchange.answered, chosen)
    assert differences == []


def _head_differences(recorded: RawAnswer, answered: RawAnswer) -> list[str]:
    differences = []
    if recorded.code != answered.code:
        differences.append(f"status: {answered.status_line}, recorded {recorded.status_line}")
    if recorded.status_line.count(" ") > 1 and recorded.status_line != answered.status_line:
        differences.append(f"status line: {answered.status_line!r}")
    framing = {"content-length", "transfer-encoding"}
    if recorded.headers.keys() - framing != answered.headers.keys() - framing:
        differences.append(f"header names: {sorted(answered.headers)}")
    for name in _FIXED_HEADERS:
        ours, theirs = answered.headers.get(name), recorded.headers.get(name)
        if name != "transfer-encoding" and ours != theirs:
            differences.append(f"header {name}: {ours!r}, recorded {theirs!r}")
    uuids = [answered.headers["audit-id"], answered.headers.get("x-kubernetes-pf-flowschema-uid")]
    differences += [f"{each!r} is no UUID" for each in uuids if each and not _UUID.match(each)]
    return differences


def _framing_differences(exchange: Exchange) -> list[str]:
    """A body's length decides its framing on both sides; a watch is always chunked."""
    differences = []
    for side, answer in (("recorded", exchange.recorded), ("answered", exchange.answered)):
        if exchange.is_watch:
            is_chunked = exchange.recorded.chunks is not None
        else:
            is_chunked = len(answer.body) > _UNCHUNKED_BYTES_MAX
        if (answer.chunks is not None) != is_chunked:
            differences.append(f"{side} framing of {len(answer.body)} bytes: {answer.chunks}")
    return differences


def _body_differences(recorded: RawAnswer, answered: RawAnswer, chosen: Chosen) -> list[str]:
    if not recorded.headers["content-type"].startswith("application/json"):
        same = recorded.body == answered.body
        return [] if same else [f"body: {answered.body!r}, recorded {recorded.body!r}"]
    return [
        *_form_differences(answered.body),
        *_differences(json.loads(recorded.body), json.loads(answered.body), chosen, ""),
    ]


def _form_differences(body: bytes) -> list[str]:
    value = json.loads(body)
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    return [] if compact == body else [f"not compact JSON with one newline: {body[:100]!r}"]


def _differences(recorded: Any, answered: Any, chosen: Chosen, path: str) -> list[str]:
    if isinstance(recorded, dict) and isinstance(answered, dict):
        names = recorded.keys() - {"managedFields"}
        differences = [
            f"{path}.{name}: {'missing' if name in names else 'not in the recording'}"
            for name in sorted(names ^ answered.keys())
        ]
        for name in sorted(names & answered.keys()):
            differences += _member_differences(
                name, recorded[name], answered[name], chosen, f"{path}.{name}"
            )
        return differences
    if isinstance(recorded, list) and isinstance(answered, list):
        if len(recorded) != len(answered):
            return [f"{path}: {len(answered)} elements, recorded {len(recorded)}"]
        return [
            difference
            for index, (one, other) in enumerate(zip(recorded, answered, strict=True))
            for difference in _differences(one, other, chosen, f"{path}[{index}]")
        ]
    same = type(recorded) is type(answered) and recorded == answered
    return [] if same else [f"{path}: {answered!r}, recorded {recorded!r}"]


def _member_differences(
    name: str, recorded: Any, answered: Any, chosen: Chosen, path: str
) -> list[str]:
    if recorded == answered:
        return []
    wrong = [f"{path}: {answered!r}, recorded {recorded!r}"]
    if not isinstance(recorded, str) or not isinstance(answered, str):
        return _differences(recorded, answered, chosen, path)
    if name in ("uid", "resourceVersion", "continue"):
        return [] if chosen.agrees(name, recorded, answered) else wrong
    if name in _SERVER_TIMES:
        return [] if _TIME.match(recorded) and _TIME.match(answered) else wrong
    if name == "message":
        expected = _CURRENT_VERSION.sub("N", chosen.in_text(recorded))
        return [] if expected == _CURRENT_VERSION.sub("N", answered) else wrong
    return wrong


def _stream_differences(exchange: Exchange, chosen: Chosen) -> list[str]:
    recorded, answered = _events(exchange.recorded), _events(exchange.answered)
    differences = []
    for line in exchange.answered.body.splitlines(keepends=True):
        differences += _form_differences(line)
    is_ended_by_client = not exchange.recorded.is_complete
    if exchange.answered.is_complete is is_ended_by_client:
        differences.append(f"stream ended by server: {exchange.answered.is_complete}")
    marks, our_marks = _periodic(recorded), _periodic(answered)
    if marks and not our_marks:
        differences.append("no periodic bookmark came")
    if our_marks and "allowWatchBookmarks" not in exchange.request["path"]:
        differences.append("a bookmark came that the client did not allow")
    for mark in our_marks if marks else ():
        differences += _differences(_without_version(marks[0]), _without_version(mark), chosen, "")
    events = [_comparable(each) for each in recorded if each not in marks]
    our_events = [_comparable(each) for each in answered if each not in our_marks]
    return [
        *differences,
        *_bookmark_version_differences(answered),
        *_differences(events, our_events, chosen, "event"),
    ]


def _comparable(event: dict[str, Any]) -> dict[str, Any]:
    # A bookmark's version is the server's newest, which writes of others moved in the recording.
    return _without_version(event) if event["type"] == "BOOKMARK" else event


def _bookmark_version_differences(events: list[dict[str, Any]]) -> list[str]:
    """Check that no bookmark is older than what came before it."""
    newest, differences = 0, []
    for event in events:
        version = int(event["object"]["metadata"].get("resourceVersion", "0"))
        if event["type"] == "BOOKMARK" and version < newest:
            differences.append(f"a bookmark at {version} after an event at {newest}")
        newest = max(newest, version)
    return differences


def _events(answer: RawAnswer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.body.splitlines()]


def _periodic(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        event
        for event in events
        if event["type"] == "BOOKMARK" and "annotations" not in event["object"]["metadata"]
    ]


def _without_version(bookmark: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(bookmark["object"]["metadata"])
    assert metadata.pop("resourceVersion").isdigit()
    return {**bookmark, "object": {**bookmark["object"], "metadata": metadata}}


def _compare_version(recorded: RawAnswer, answered: RawAnswer) -> list[str]:
    theirs, ours = json.loads(recorded.body), json.loads(answered.body)
    differences = [] if theirs.keys() == ours.keys() else [f"members: {sorted(ours)}"]
    same = ("major", "minor", "emulationMinor", "minCompatibilityMinor", "platform")
    differences += [f"{name}: {ours[name]}" for name in same if theirs[name] != ours[name]]
    if answered.body != json.dumps(ours, indent=2).encode():
        differences.append("not indented by two, without a newline at the end")
    return differences


def _compare_api(recorded: RawAnswer, answered: RawAnswer) -> list[str]:
    theirs, ours = json.loads(recorded.body), json.loads(answered.body)
    for side in (theirs, ours):
        address = side["serverAddressByClientCIDRs"][0].pop("serverAddress")
        assert re.match(r"^127\.0\.0\.1:\d+$", address)
    return _form_differences(answered.body) + _differences(theirs, ours, Chosen(), "")


def _compare_restricted(member: str) -> Any:
    def compare(recorded: RawAnswer, answered: RawAnswer) -> list[str]:
        theirs, ours = json.loads(recorded.body), json.loads(answered.body)
        served = {entry["name"] for entry in ours[member]}
        assert served, "nothing is served"
        theirs[member] = [entry for entry in theirs[member] if entry["name"] in served]
        return _form_differences(answered.body) + _differences(theirs, ours, Chosen(), "")

    return compare


def _compare_health(recorded: RawAnswer, answered: RawAnswer) -> list[str]:
    form = re.compile(rb"^(\[\+\]\S+ ok\n)+readyz check passed\n$")
    assert form.match(recorded.body)
    return [] if form.match(answered.body) else [f"body: {answered.body!r}"]


_ABOUT_SERVER_COMPARISONS = {
    "00-version": _compare_version,
    "01-api": _compare_api,
    "02-apis": _compare_restricted("groups"),
    "03-api-v1": _compare_restricted("resources"),
    "05-readyz-verbose": _compare_health,
}
