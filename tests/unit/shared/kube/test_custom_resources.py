"""Objects of kinds that berth does not know: named, reached, and carried whole."""

import json
from typing import Any

import msgspec
import pytest

from daemon.adapter.api_source import watched_kinds
from daemon.adapter.kind_feed import KindFeed
from shared.kube.decode import decode_object
from shared.kube.resources import ALL_KINDS, CustomObject, custom_kind, is_custom, is_custom_name
from shared.messages.to_owner import (
    AdapterMessage,
    ObjectChanged,
    ObjectDeleted,
    ObjectRejected,
    SyncFinished,
    SyncStarted,
)
from shared.runtime_options import RuntimeOptions

FOOS = "foos.v1.example.com"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (FOOS, "/apis/example.com/v1/foos"),
        ("bars.v1beta1.a.b.c", "/apis/a.b.c/v1beta1/bars"),
        ("configmaps.v1.", "/api/v1/configmaps"),
    ],
)
def test_a_name_says_the_path(name: str, path: str) -> None:
    kind = custom_kind(name)
    assert is_custom_name(name)
    assert f"{kind.api_path}/{kind.path_name}" == path
    assert watched_kinds(RuntimeOptions(custom_kinds=(name,)))[-1] == kind
    assert not kind.is_required


@pytest.mark.parametrize(
    "name", ["", "foos", "foos.v1", "Foos.v1.example.com", "foos..example.com", "a/b.v1.c", ".v1.c"]
)
def test_what_is_no_name(name: str) -> None:
    assert not is_custom_name(name)


def test_no_known_kind_is_taken_for_one() -> None:
    assert not any(is_custom(kind.plural) for kind in ALL_KINDS)


def body(name: str, **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5"}
    return {"metadata": {**meta, **fields.pop("meta", {})}, **fields}


def told(*lines: Any, page: Any = ()) -> list[AdapterMessage]:
    messages: list[AdapterMessage] = []
    feed = KindFeed(custom_kind(FOOS), lambda message, _: messages.append(message))
    feed.list_started()
    listed = {"metadata": {"resourceVersion": "9"}, "items": list(page)}
    feed.page(json.dumps(listed).encode())
    feed.list_finished()
    for event_type, item in lines:
        feed.line(json.dumps({"type": event_type, "object": item}).encode())
    return messages


def test_an_object_is_told_whole_with_or_without_a_namespace() -> None:
    wide = body("wide", content="not ours", spec={"size": 3}, more=[1, None])
    near = body("near", meta={"namespace": "ns"})
    start, first, end, second = told(("ADDED", near), page=[wide])
    assert (start, end) == (SyncStarted(FOOS), SyncFinished(FOOS, "9"))
    for message, key, said in ((first, "wide", wide), (second, "ns/near", near)):
        assert isinstance(message, ObjectChanged)
        assert (message.kind, message.key) == (FOOS, key)
        value = decode_object(message.kind, message.body)
        assert isinstance(value, CustomObject)
        assert value.metadata.name == said["metadata"]["name"]
        assert value.decoded() == said


class Size(msgspec.Struct):
    size: int = 0


class Foo(msgspec.Struct):
    spec: Size


def test_whoever_asks_has_an_object_decoded_as_a_struct() -> None:
    value = CustomObject(content=b'{"spec":{"size":3,"more":4}}')
    assert value.decoded(Foo) == Foo(Size(3))


def test_deletions_bookmarks_and_what_is_no_object_are_told_as_of_other_kinds() -> None:
    bookmark = {"metadata": {"resourceVersion": "12"}}
    messages = told(
        ("DELETED", body("gone")), ("BOOKMARK", bookmark), ("ADDED", {"metadata": {"name": 1}})
    )
    assert messages[2] == ObjectDeleted(FOOS, "gone")
    assert isinstance(messages[3], ObjectRejected)
