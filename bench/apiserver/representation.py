"""How a stored object is shown: in full, as its core v1 view (events), or as metadata only.

A representation turns the stored bytes into the bytes of an answer. The full one is a prefix and a
slice; the others decode. Watch frames are kept with the change by the representation's name, so
that any number of watchers costs one rendering.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import orjson

from bench.apiserver.event_forms import core_form
from bench.apiserver.json_objects import JsonObject
from bench.apiserver.served_resources import CORE_EVENTS, Resource
from bench.apiserver.store import Change, ChangeKind, StoredObject, item_at_version

_PARTIAL_HEAD: Final = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'
_PARTIAL_LIST_HEAD: Final = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",'


class Representation:
    """One way to show the objects of one resource."""

    def __init__(
        self,
        name: str,
        object_head: bytes,
        list_head: bytes,
        zero_value: bytes,
        convert: Callable[[bytes], bytes] | None,
        *,
        lists_kinds: bool,
    ) -> None:
        self.name = name
        self.list_head = list_head
        self._object_head = object_head
        self._zero_value = zero_value
        self._convert = convert
        self._lists_kinds = lists_kinds

    def object_bytes(self, item: bytes) -> bytes:
        """Show a stored object with its kind and apiVersion."""
        shown = item if self._convert is None else self._convert(item)
        return self._object_head + shown[1:]

    def list_item(self, item: bytes) -> bytes:
        """Show a stored object as it stands in a list."""
        if self._lists_kinds:
            return self.object_bytes(item)
        return item if self._convert is None else self._convert(item)

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        """Frame a BOOKMARK event: an empty object that carries a version."""
        annotation = (
            b',"annotations":{"k8s.io/initial-events-end":"true"}' if ends_initial_events else b""
        )
        zero_value = b"," + self._zero_value if self._zero_value else b""
        metadata = b'"metadata":{"resourceVersion":"%d"%b}%b}' % (version, annotation, zero_value)
        return watch_frame(b"BOOKMARK", self._object_head + metadata)

    def added(self, stored: StoredObject) -> bytes:
        """Frame the ADDED event of an object that was there before the watch."""
        return watch_frame(b"ADDED", self.object_bytes(stored.item))

    def frame(self, change: Change, kind: ChangeKind) -> bytes:
        """Frame a change as an event of the given type.

        A DELETED event shows the object as it was before, under the version of the change: so it is
        for deletions and for objects that leave a selection (cache_watcher.go, v1.36).
        """
        cached = change.frames.get((self.name, kind))
        if cached is not None:
            return cached
        if kind is ChangeKind.DELETED:
            assert change.before is not None
            item = item_at_version(change.before, change.version)
        else:
            assert change.now is not None
            item = change.now.item
        frame = watch_frame(kind.value, self.object_bytes(item))
        change.frames[self.name, kind] = frame
        return frame


def watch_frame(event_type: bytes, shown: bytes) -> bytes:
    """Make one watch event, already framed as an HTTP chunk."""
    event = b'{"type":"%b","object":%b}\n' % (event_type, shown)
    return b"%x\r\n%b\r\n" % (len(event), event)


def error_frame(status_object: JsonObject) -> bytes:
    """Frame an ERROR event."""
    return watch_frame(b"ERROR", orjson.dumps(status_object))


def _core_event(item: bytes) -> bytes:
    return orjson.dumps(core_form(orjson.loads(item)))


def _only_metadata(item: bytes) -> bytes:
    return orjson.dumps({"metadata": orjson.loads(item)["metadata"]})


@cache
def representation_of(resource: Resource, *, metadata_only: bool = False) -> Representation:
    """Return the representation that a request for a resource gets."""
    if metadata_only:
        return Representation(
            f"{resource.qualified}/metadata",
            _PARTIAL_HEAD,
            _PARTIAL_LIST_HEAD,
            b"",
            _only_metadata,
            lists_kinds=True,
        )
    return Representation(
        resource.qualified,
        resource.object_head,
        resource.list_head,
        resource.zero_value,
        _core_event if resource is CORE_EVENTS else None,
        lists_kinds=False,
    )
