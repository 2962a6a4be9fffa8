"""Bytes of a list page or a watch line to typed objects; what cannot be understood is reported.

A malformed object costs itself and not the list: it comes back as a `RejectedObject` that says which
object and which field. Callers may rely on no other exception than `UnreadableAnswerError`.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from shared.errors import UNDECODABLE, ObjectError
from shared.faults import reading
from shared.kube.api.core_v1 import ApiObject
from shared.kube.api.meta_v1 import NamedObject, ObjectMeta
from shared.kube.api_errors import ApiError, ApiStatus, error_from_status
from shared.kube.go_json import decoded, elements, members, mended
from shared.kube.resources import ALL_KINDS, CustomObject, ResourceKind, is_custom

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that closes the list part of a watch with sendInitialEvents."""
_UNNAMED: Final = "an object of a watch"


class UnreadableAnswerError(ObjectError):
    """A list page or a line of a watch that is none at all: which objects it was about is lost, so only
    a new list helps."""


class RejectedObject(msgspec.Struct, frozen=True):
    where: str
    """`namespace/name` as far as it can be told."""
    problem: str
    """What is wrong, and at which field."""
    meta: ObjectMeta
    """Which it is and of what version; empty as far as that cannot be told."""


class ObjectEvent(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: ApiObject


class Bookmark(msgspec.Struct, frozen=True):
    """Everything up to `resource_version` has been sent."""

    resource_version: str
    ends_initial_events: bool


WatchEvent = ObjectEvent | Bookmark | ApiError | RejectedObject
"""An `ApiError` is that with which the server ends the watch."""


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    """Empty on the last page."""


class RawPage(msgspec.Struct):
    items: list[msgspec.Raw] | None
    """Windows on the answer."""
    metadata: ListMeta
    body: bytes = b""
    """The answer, for whoever is to keep it."""


class RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_page_decoder: Final = msgspec.json.Decoder(RawPage)
_raw_event_decoder: Final = msgspec.json.Decoder(RawEvent)
_list_meta_decoder: Final = msgspec.json.Decoder(ListMeta)
_text_decoder: Final = msgspec.json.Decoder(str)
_bookmark_decoder: Final = msgspec.json.Decoder(NamedObject)
_status_decoder: Final = msgspec.json.Decoder(ApiStatus)


def raw_page(body: bytes, what: str) -> RawPage:
    """A page with its items as they came, whatever is in them; `UnreadableAnswerError` for what is no
    list of `what`."""
    try:
        return decoded(_page_decoder, body)
    except UNDECODABLE as error:
        problem = error
    try:
        found = members(body)
        items = [msgspec.Raw(item) for item in elements(found[b"items"])]
        return RawPage(items, _list_meta_decoder.decode(found[b"metadata"]))
    except (*UNDECODABLE, KeyError):
        raise UnreadableAnswerError(f"list of {what}", str(problem)) from problem


def raw_event(line: bytes, what: str) -> RawEvent:
    """A line of a watch likewise; `UnreadableAnswerError` for what is none."""
    try:
        return decoded(_raw_event_decoder, line)
    except UNDECODABLE as error:
        problem = error
    try:
        found = members(line)
        return RawEvent(_text_decoder.decode(found[b"type"]), msgspec.Raw(found[b"object"]))
    except (*UNDECODABLE, KeyError):
        where = f"{what}: a watch line of {len(line)} bytes"
        raise UnreadableAnswerError(where, str(problem)) from problem


class KindDecoder:
    """Decodes answers about one kind. Holds no state between calls."""

    def __init__(self, kind: ResourceKind) -> None:
        self._kind = kind
        self._keeps_content = kind.struct_type is CustomObject
        struct_type = NamedObject if self._keeps_content else kind.struct_type
        self._object_decoder: msgspec.json.Decoder[ApiObject] = msgspec.json.Decoder(struct_type)
        self._event_decoder: msgspec.json.Decoder[ObjectEvent] = msgspec.json.Decoder(
            msgspec.defstruct("Event", [("object", struct_type)], bases=(ObjectEvent,))
        )

    def page(self, body: bytes) -> tuple[list[ApiObject | RejectedObject], ListMeta]:
        """The objects of one list page; raises `UnreadableAnswerError` when it is not a list."""
        page = raw_page(body, self._kind.plural)
        raws = enumerate(page.items or ())
        return [self._one(raw, f"item {at} of a list page") for at, raw in raws], page.metadata

    def line(self, line: bytes) -> WatchEvent:
        """One line of a watch; raises `UnreadableAnswerError` when it is none."""
        if self._keeps_content:
            return self._unusual_line(line)
        try:
            return self._event_decoder.decode(line)
        except UNDECODABLE:
            return self._unusual_line(line)

    def _unusual_line(self, line: bytes) -> WatchEvent:
        """Bookmarks and errors, which are no objects of the kind, and what is malformed."""
        event = raw_event(line, self._kind.plural)
        match event.type:
            case "BOOKMARK":
                return _bookmark(event.object)
            case "ERROR":
                return _failure(event.object)
            case "ADDED" | "MODIFIED" | "DELETED":
                decoded = self._one(event.object, _UNNAMED, is_gone=event.type == "DELETED")
                if isinstance(decoded, RejectedObject):
                    return decoded
                return ObjectEvent(event.type, decoded)
            case _:
                meta, problem = _identity(event.object), f"unknown watch event type {event.type!r}"
                return RejectedObject(meta.key or _UNNAMED, problem, meta)

    def _one(
        self, raw: msgspec.Raw, unnamed: str, *, is_gone: bool = False
    ) -> ApiObject | RejectedObject:
        try:
            item = decoded(self._object_decoder, raw)
        except UNDECODABLE as error:
            meta = _identity(raw)
            if is_gone and meta.name and meta.uid:
                # Without what cannot be read of it: it was let in as it was before.
                gone = self._kind.struct_type()
                gone.metadata = meta
                return gone
            return RejectedObject(meta.key or unnamed, str(error), meta)
        if self._keeps_content and isinstance(item, NamedObject):
            return CustomObject(metadata=item.metadata, content=mended(bytes(raw)))
        return item


def _bookmark(raw: msgspec.Raw) -> Bookmark | RejectedObject:
    try:
        meta = _bookmark_decoder.decode(raw).metadata
    except UNDECODABLE as error:
        return RejectedObject("a bookmark", str(error), ObjectMeta())
    if not meta.resource_version:
        return RejectedObject("a bookmark", "metadata.resourceVersion: missing", ObjectMeta())
    annotations = meta.annotations or {}
    return Bookmark(meta.resource_version, annotations.get(INITIAL_EVENTS_END) == "true")


def _failure(raw: msgspec.Raw) -> ApiError:
    try:
        status = _status_decoder.decode(raw)
    except UNDECODABLE as error:
        status = ApiStatus(code=500, message=f"an ERROR event that is no Status ({error})")
    return error_from_status(status, 500, None)


def _identity(raw: msgspec.Raw) -> ObjectMeta:
    """Which object it is that does not decode, as far as can be told."""
    try:
        stated = members(members(bytes(raw))[b"metadata"])
    except (ValueError, KeyError):
        stated = {}
    fields = (b"name", b"namespace", b"uid", b"resourceVersion")
    name, namespace, uid, version = (_text(stated.get(field, b"")) for field in fields)
    return ObjectMeta(name=name, namespace=namespace, uid=uid, resource_version=version)


def _text(raw: bytes) -> str:
    try:
        return _text_decoder.decode(raw)
    except UNDECODABLE:
        return ""


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
