"""Lists and watch lines, well formed and not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kube.api.core_v1 import ApiObject, Node, Pod
from shared.kube.api.meta_v1 import ObjectMeta
from shared.kube.api_errors import ApiError, Expired, ServerError
from shared.kube.decode import (
    Bookmark,
    KindDecoder,
    ObjectEvent,
    RejectedObject,
    UnreadableAnswerError,
)
from shared.kube.resources import ALL_KINDS, NODES, PODS, CustomObject, ResourceKind, custom_kind

PODS_DECODER = KindDecoder(PODS)


def page_of(*items: Any, **metadata: Any) -> bytes:
    return json.dumps(
        {"kind": "PodList", "metadata": {"resourceVersion": "9", **metadata}, "items": items}
    ).encode()


def line_of(event_type: str, item: Any) -> bytes:
    return json.dumps({"type": event_type, "object": item}).encode()


def pod(name: str, **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "5"}
    return {"metadata": meta, **fields}


def names_of(items: list[ApiObject | RejectedObject]) -> list[str]:
    return [
        item.where if isinstance(item, RejectedObject) else item.metadata.name for item in items
    ]


def test_a_page_is_decoded_with_its_continue_token() -> None:
    items, meta = PODS_DECODER.page(page_of(pod("a"), pod("b"), **{"continue": "next"}))
    assert names_of(items) == ["a", "b"]
    assert (meta.resource_version, meta.continue_token) == ("9", "next")


def test_an_empty_list_may_be_null() -> None:
    assert PODS_DECODER.page(b'{"metadata":{"resourceVersion":"3"},"items":null}')[0] == []


def meta_of(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}", resource_version="5")


def test_one_malformed_object_costs_itself_only() -> None:
    bad = pod("bad", spec={"priority": "high"})
    first, rejected, last = PODS_DECODER.page(page_of(pod("a"), bad, pod("b")))[0]
    assert names_of([first, last]) == ["a", "b"]
    problem = "Expected `int | null`, got `str` - at `$.spec.priority`"
    assert rejected == RejectedObject("ns/bad", problem, meta_of("bad"))


@pytest.mark.parametrize(
    ("item", "where"),
    [
        ("text", "item 0 of a list page"),
        (None, "item 0 of a list page"),
        ({"metadata": 7}, "item 0 of a list page"),
        ({"metadata": {"name": ["x"]}}, "item 0 of a list page"),
        ({"metadata": {"name": ["x"], "namespace": "ns"}}, "ns/"),
        ({"metadata": {"name": "x", "labels": 3}}, "x"),
    ],
)
def test_objects_are_named_as_far_as_can_be_told(item: Any, where: str) -> None:
    ((rejected,), _) = PODS_DECODER.page(page_of(item))
    assert isinstance(rejected, RejectedObject)
    assert rejected.where == where


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b'{"items":[]}', b'{"items":{},"metadata":{}}', b"\xff"]
)
def test_what_is_no_list_is_an_error(body: bytes) -> None:
    with pytest.raises(UnreadableAnswerError, match="list of pods"):
        PODS_DECODER.page(body)


@pytest.mark.parametrize("event_type", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_about_an_object(event_type: str) -> None:
    event = PODS_DECODER.line(line_of(event_type, pod("a")))
    assert isinstance(event, ObjectEvent)
    assert event.type == event_type
    assert isinstance(event.object, Pod)


def test_keys_may_come_in_any_order() -> None:
    event = KindDecoder(NODES).line(b'{"object":{"metadata":{"name":"n"}},"type":"ADDED"}')
    assert isinstance(event, ObjectEvent)
    assert isinstance(event.object, Node)


def test_a_bookmark_is_no_object_of_its_kind() -> None:
    # As kube-apiserver sends it: a pod without containers.
    bare = {"metadata": {"resourceVersion": "249"}, "spec": {"containers": None}, "status": {}}
    assert PODS_DECODER.line(line_of("BOOKMARK", bare)) == Bookmark("249", False)


def test_a_bookmark_without_a_version_says_nothing() -> None:
    event = PODS_DECODER.line(line_of("BOOKMARK", {"metadata": {}}))
    assert isinstance(event, RejectedObject)


def test_the_bookmark_that_ends_the_initial_events() -> None:
    meta = {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}
    assert PODS_DECODER.line(line_of("BOOKMARK", {"metadata": meta})) == Bookmark("7", True)


def test_an_error_in_the_stream_is_typed_by_its_reason() -> None:
    status = {"kind": "Status", "status": "Failure", "message": "too old", "reason": "Expired"}
    event = PODS_DECODER.line(line_of("ERROR", {**status, "code": 410}))
    assert isinstance(event, Expired)


def test_an_error_that_is_no_status_is_an_error_all_the_same() -> None:
    event = PODS_DECODER.line(line_of("ERROR", {"code": "x"}))
    assert isinstance(event, ServerError)


def test_a_malformed_object_in_a_watch_is_named_and_keeps_its_version() -> None:
    event = PODS_DECODER.line(line_of("MODIFIED", pod("a", status={"phase": 3})))
    problem = "Expected `str`, got `int` - at `$.status.phase`"
    assert event == RejectedObject("ns/a", problem, meta_of("a"))


@pytest.mark.parametrize(
    "damage", [{"spec": 7}, {"metadata": {"labels": 7}}, {"metadata": {"ownerReferences": "x"}}]
)
def test_an_object_that_is_gone_is_gone_whatever_else_cannot_be_read_of_it(damage: Any) -> None:
    """It was let in as it was before, and would stay for ever."""
    body = pod("a")
    body |= damage | {"metadata": body["metadata"] | damage.get("metadata", {})}
    event = PODS_DECODER.line(line_of("DELETED", body))
    assert isinstance(event, ObjectEvent)
    assert event.type == "DELETED"
    meta = event.object.metadata
    assert (meta.namespace, meta.name, meta.uid, meta.resource_version) == ("ns", "a", "uid-a", "5")


def test_an_unknown_event_type_is_reported() -> None:
    event = PODS_DECODER.line(line_of("RENAMED", pod("a")))
    assert event == RejectedObject("ns/a", "unknown watch event type 'RENAMED'", meta_of("a"))


@pytest.mark.parametrize("line", [b"{", b"[]", b"x", b'{"type":"ADDED"}', b"\xff\xfe"])
def test_a_line_that_cannot_be_read_says_so(line: bytes) -> None:
    with pytest.raises(UnreadableAnswerError, match="pods: a watch line of"):
        PODS_DECODER.line(line)


def test_text_that_is_not_utf8_costs_its_object_only() -> None:
    body = page_of(pod("a"), pod("b")).replace(b'"uid-a"', b'"\xff"')
    (rejected, kept), _ = PODS_DECODER.page(body)
    assert isinstance(rejected, RejectedObject)
    assert rejected.where == "ns/a"
    assert names_of([kept]) == ["b"]


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.plural)
def test_every_kind_decodes_a_bare_object(kind: Any) -> None:
    decoder = KindDecoder(kind)
    items, _ = decoder.page(page_of({"metadata": {"name": "x", "creationTimestamp": None}}))
    assert [type(item) for item in items] == [kind.struct_type]
    event = decoder.line(line_of("ADDED", {"metadata": {"name": "x"}}))
    assert isinstance(event, ObjectEvent)
    assert isinstance(event.object, kind.struct_type)


HALF = b'"\\ud83d"'
DEEP = b"[" * 5_000 + b"]" * 5_000
ENDLESS = b"[" * 20_000 + b"]" * 20_000


def odd(content: bytes) -> bytes:
    """An object that nobody but an API server can read, and all can name."""
    return b'{"metadata":{"name":"x","uid":"u","resourceVersion":"5"},"odd":{"of":%b}}' % content


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.plural)
@pytest.mark.parametrize("content", [HALF, DEEP], ids=["half a surrogate pair", "deep"])
def test_what_an_api_server_lets_pass_is_read(kind: ResourceKind, content: bytes) -> None:
    decoder, good = KindDecoder(kind), b'{"metadata":{"name":"good"}}'
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b]}' % (odd(content), good)
    items, meta = decoder.page(body)
    assert (names_of(items), meta.resource_version) == (["x", "good"], "9")
    for event_type in ("ADDED", "MODIFIED", "DELETED"):
        line = b'{"type":"%b","object":%b}' % (event_type.encode(), odd(content))
        event = decoder.line(line)
        assert isinstance(event, ObjectEvent)
        assert (event.type, event.object.metadata.name) == (event_type, "x")


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.plural)
def test_what_is_nested_without_end_costs_its_object_only(kind: ResourceKind) -> None:
    decoder, good = KindDecoder(kind), b'{"metadata":{"name":"good"}}'
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b]}' % (odd(ENDLESS), good)
    (rejected, kept), _ = decoder.page(body)
    added = decoder.line(b'{"type":"ADDED","object":' + odd(ENDLESS) + b"}")
    for left_out in (rejected, added):
        assert isinstance(left_out, RejectedObject)
        assert (left_out.where, left_out.meta.resource_version) == ("x", "5")
    assert names_of([kept]) == ["good"]
    gone = decoder.line(b'{"type":"DELETED","object":' + odd(ENDLESS) + b"}")
    assert isinstance(gone, ObjectEvent)
    assert gone.object.metadata.uid == "u"


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata":{},"items":[%b' % odd(ENDLESS),
        b'{"metadata":{},"items":[%b]}}' % odd(ENDLESS),
        b'{"metadata":{},"items":%b}' % odd(ENDLESS),
        b'{"metadata":7,"items":[%b]}' % odd(ENDLESS),
        b'{"items":[%b]}' % odd(ENDLESS),
    ],
)
def test_what_is_no_list_is_none_whatever_it_holds(body: bytes) -> None:
    with pytest.raises(UnreadableAnswerError, match="list of pods"):
        PODS_DECODER.page(body)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"ADDED","object":' + odd(ENDLESS),
        b'{"type":7,"object":' + odd(ENDLESS) + b"}",
        b'{"object":' + odd(ENDLESS) + b"}",
    ],
)
def test_a_line_that_is_none_is_none_whatever_it_holds(line: bytes) -> None:
    with pytest.raises(UnreadableAnswerError, match="pods: a watch line of"):
        PODS_DECODER.line(line)


def test_a_plugin_is_given_an_object_of_its_kind_as_go_reads_it() -> None:
    decoder = KindDecoder(custom_kind("foos.v1.example.com"))
    event = decoder.line(b'{"type":"ADDED","object":' + odd(HALF) + b"}")
    assert isinstance(event, ObjectEvent)
    assert isinstance(event.object, CustomObject)
    assert json.loads(event.object.content)["odd"] == {"of": "\ufffd"}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["metadata", "spec", "status", "name", "containers", "type", "object"]),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)


def event_or_reason(line: bytes) -> Any:
    try:
        return PODS_DECODER.line(line)
    except UnreadableAnswerError as error:
        return error


@given(json_values)
def test_whatever_is_sent_is_an_event_or_a_reason(value: Any) -> None:
    body = json.dumps(value).encode()
    for event_type in ("ADDED", "BOOKMARK", "ERROR", "ELSE"):
        event = PODS_DECODER.line(line_of(event_type, value))
        assert isinstance(event, ObjectEvent | Bookmark | ApiError | RejectedObject)
    assert event_or_reason(body)
    _, good = PODS_DECODER.page(page_of(value, pod("good")))[0]
    assert names_of([good]) == ["good"]


@given(st.binary(max_size=50))
def test_any_bytes_are_an_event_or_a_reason(line: bytes) -> None:
    assert event_or_reason(line)


def test_plugins_of_others_find_fields_that_no_plugin_of_ours_reads() -> None:
    spec = {
        "priorityClassName": "gold",
        "os": {"name": "linux"},
        "terminationGracePeriodSeconds": 5,
    }
    ((found,), _) = KindDecoder(PODS).page(page_of(pod("p", spec=spec)))
    assert isinstance(found, Pod)
    assert found.spec.priority_class_name == "gold"
    assert found.spec.os is not None
    assert found.spec.os.name == "linux"
    assert found.spec.termination_grace_period_seconds == 5
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}
    ((found_node,), _) = KindDecoder(NODES).page(page_of(node))
    assert isinstance(found_node, Node)
    assert found_node.status.capacity == {"cpu": "4"}
