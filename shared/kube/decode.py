"""Bytes of a list page or a watch line to typed objects; what cannot be understood is reported.

The fast way decodes a whole page, or a whole watch line, in one go into the structs of
`shared.kube.api`. Only when that fails is the page taken apart, so that one malformed object
costs itself and not the list: it comes back as a `RejectedObject` that says which object and which
field. Callers may rely on no other exception than `UnreadableListError`.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from shared.errors import UNDECODABLE, ObjectError
from shared.faults import reading
from shared.kube.api.core_v1 import ApiObject
from shared.kube.api.meta_v1 import NamedObject
from shared.kube.api_errors import ApiError, ApiStatus, error_from_status
from shared.kube.custom_resources import CustomObject, is_custom
from shared.kube.resources import ALL_KINDS, ResourceKind

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that closes the list part of a watch with sendInitialEvents."""


class UnreadableListError(ObjectError):
    """A list page that is no list at all; nothing of it can be used."""


class RejectedObject(msgspec.Struct, frozen=True):
    where: str
    """`namespace/name` as far as it can be told."""
    problem: str
    """What is wrong, and at which field."""
    resource_version: str
    """Empty if it cannot be told."""
    is_unreadable: bool = False
    """Not JSON at all: nobody can say which object this line was about."""


class ListPage(msgspec.Struct):
    items: list[ApiObject]
    rejected: list[RejectedObject]
    resource_version: str
    continue_token: str
    """Empty on the last page."""


class ObjectEvent(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: ApiObject


class Bookmark(msgspec.Struct, frozen=True):
    """Everything up to `resource_version` has been sent."""

    resource_version: str
    ends_initial_events: bool


class WatchFailure(msgspec.Struct, frozen=True):
    """The server ends the watch with an error inside the stream."""

    error: ApiError


WatchEvent = ObjectEvent | Bookmark | WatchFailure | RejectedObject


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class RawPage(msgspec.Struct):
    items: list[msgspec.Raw] | None
    """Windows on the answer."""
    metadata: _ListMeta


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct):
    metadata: _BookmarkMeta


raw_page_decoder: Final = msgspec.json.Decoder(RawPage)
raw_event_decoder: Final = msgspec.json.Decoder(_RawEvent)
_bookmark_decoder: Final = msgspec.json.Decoder(_BookmarkObject)
_status_decoder: Final = msgspec.json.Decoder(ApiStatus)


class _NamedMeta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct):
    """The part of an object that says which it is; what else may be there is not looked at."""

    metadata: _NamedMeta


_name_decoder: Final = msgspec.json.Decoder(_Named)


class KindDecoder:
    """Decodes answers about one kind. Holds no state between calls."""

    def __init__(self, kind: ResourceKind) -> None:
        self._kind = kind
        self._keeps_content = kind.struct_type is CustomObject
        struct_type = NamedObject if self._keeps_content else kind.struct_type
        self._object_decoder: msgspec.json.Decoder[ApiObject] = msgspec.json.Decoder(struct_type)
        self._page_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            msgspec.defstruct(
                "Page",
                [
                    ("items", list[struct_type] | None),  # type: ignore[valid-type]  # Made at run time.
                    ("metadata", _ListMeta),
                ],
            )
        )
        self._event_decoder: msgspec.json.Decoder[ObjectEvent] = msgspec.json.Decoder(
            msgspec.defstruct("Event", [("object", struct_type)], bases=(ObjectEvent,))
        )

    def page(self, body: bytes) -> ListPage:
        """The objects of one list page; raises `UnreadableListError` when it is not a list."""
        if self._keeps_content:
            return self._page_one_by_one(body)
        try:
            page = self._page_decoder.decode(body)
        except UNDECODABLE:
            return self._page_one_by_one(body)
        meta = page.metadata
        return ListPage(page.items or [], [], meta.resource_version, meta.continue_token)

    def _page_one_by_one(self, body: bytes) -> ListPage:
        try:
            page = raw_page_decoder.decode(body)
        except UNDECODABLE as error:
            raise UnreadableListError(f"list of {self._kind.plural}", str(error)) from error
        items: list[ApiObject] = []
        rejected: list[RejectedObject] = []
        for index, raw in enumerate(page.items or ()):
            decoded = self._one(raw, unnamed=f"item {index} of a list page")
            if isinstance(decoded, RejectedObject):
                rejected.append(decoded)
            else:
                items.append(decoded)
        meta = page.metadata
        return ListPage(items, rejected, meta.resource_version, meta.continue_token)

    def line(self, line: bytes) -> WatchEvent:
        """One line of a watch. Never raises: what cannot be read is `RejectedObject`."""
        if self._keeps_content:
            return self._unusual_line(line)
        try:
            return self._event_decoder.decode(line)
        except UNDECODABLE:
            return self._unusual_line(line)

    def _unusual_line(self, line: bytes) -> WatchEvent:
        """Bookmarks and errors, which are no objects of the kind, and what is malformed."""
        try:
            event = raw_event_decoder.decode(line)
        except UNDECODABLE as error:
            return RejectedObject(f"a watch line of {len(line)} bytes", str(error), "", True)
        match event.type:
            case "BOOKMARK":
                return _bookmark(event.object)
            case "ERROR":
                return _failure(event.object)
            case "ADDED" | "MODIFIED" | "DELETED":
                decoded = self._one(event.object, unnamed="an object of a watch")
                if isinstance(decoded, RejectedObject) and event.type == "DELETED":
                    decoded = self._named_only(event.object) or decoded
                if isinstance(decoded, RejectedObject):
                    return decoded
                return ObjectEvent(event.type, decoded)
            case _:
                where, version = _identity(event.object, "an object of a watch")
                return RejectedObject(where, f"unknown watch event type {event.type!r}", version)

    def _named_only(self, raw: msgspec.Raw) -> ApiObject | None:
        """An object that is gone, without what cannot be read of it: it was let in as it was before."""
        try:
            meta = _name_decoder.decode(raw).metadata
        except UNDECODABLE:
            return None
        gone = self._kind.struct_type()
        for field in meta.__struct_fields__:
            setattr(gone.metadata, field, getattr(meta, field))
        return gone

    def _one(self, raw: msgspec.Raw, unnamed: str) -> ApiObject | RejectedObject:
        try:
            item = self._object_decoder.decode(raw)
        except UNDECODABLE as error:
            where, version = _identity(raw, unnamed)
            return RejectedObject(where, str(error), version)
        if self._keeps_content and isinstance(item, NamedObject):
            return CustomObject(metadata=item.metadata, content=bytes(raw))
        return item


def _bookmark(raw: msgspec.Raw) -> Bookmark | RejectedObject:
    try:
        meta = _bookmark_decoder.decode(raw).metadata
    except UNDECODABLE as error:
        return RejectedObject("a bookmark", str(error), "")
    annotations = meta.annotations or {}
    return Bookmark(meta.resource_version, annotations.get(INITIAL_EVENTS_END) == "true")


def _failure(raw: msgspec.Raw) -> WatchFailure:
    try:
        status = _status_decoder.decode(raw)
    except UNDECODABLE as error:
        status = ApiStatus(code=500, message=f"an ERROR event that is no Status ({error})")
    return WatchFailure(error_from_status(status, 500, None))


def _identity(raw: msgspec.Raw, unnamed: str) -> tuple[str, str]:
    """`namespace/name` and resource version of an object that does not decode."""
    try:
        decoded = msgspec.json.decode(raw)
    except UNDECODABLE:
        return unnamed, ""
    meta = decoded.get("metadata") if isinstance(decoded, dict) else None
    if not isinstance(meta, dict):
        return unnamed, ""
    name, namespace, version = meta.get("name"), meta.get("namespace"), meta.get("resourceVersion")
    where = "/".join(str(part) for part in (namespace, name) if part)
    return where or unnamed, version if isinstance(version, str) else ""


# What travels between our processes --------------------------------------------------------------

_decoders: Final[dict[str, Callable[[msgspec.Raw], Any]]] = {
    kind.plural: msgspec.msgpack.Decoder(kind.struct_type).decode for kind in ALL_KINDS
}
_decode_custom: Final = msgspec.msgpack.Decoder(CustomObject).decode


def decode_object(kind: str, body: msgspec.Raw) -> Any:
    """The object of a kind (plural) from its msgpack. ObjectError for an unknown kind or bad bytes."""
    decode = _decode_custom if is_custom(kind) else _decoders.get(kind)
    if decode is None:
        raise ObjectError(kind, "a kind that berth does not know; see shared/kube/resources.py")
    with reading(kind):
        return decode(body)
