"""JSON as API objects hold it: decoding with the API server's complaints, and pruning of nulls.

Apart from the handlers because decode errors must read as Go's encoding/json words them
(clients show them to people), and because every handler decodes.
"""

import json
from typing import Any

import orjson

# An API object or a part of one. The server does not own the schema of most fields, so they stay
# plain JSON; the few fields with rules are read in the modules named after those rules.
JsonObject = dict[str, Any]

# summarizeData in staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go (v1.36) shows this
# many characters of a body that cannot be decoded.
_SUMMARY_CHARS_MAX = 30

_GO_COMPLAINTS = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": (
        "looking for beginning of object key string"
    ),
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
}


class UnreadableJsonError(ValueError):
    """Bytes that are not JSON; the text is Go's wording of why."""


def decode_json(body: bytes) -> Any:
    """Decode JSON, or raise UnreadableJsonError with Go's wording."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise UnreadableJsonError(go_json_complaint(body)) from None


def go_json_complaint(body: bytes) -> str:
    """Say why these bytes are not JSON, as Go's encoding/json would."""
    text = body.decode("utf-8", errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
            return "unexpected end of JSON input"
        for prefix, complaint in _GO_COMPLAINTS.items():
            if error.msg.startswith(prefix):
                return f"invalid character '{text[error.pos]}' {complaint}"
        return f"invalid character '{text[error.pos]}'"
    return "invalid UTF-8 in JSON input"


def summarize_body(body: bytes) -> str:
    """Show the beginning of a body in an error, as text where it may be JSON, else as hex."""
    if not body:
        return "<empty>"
    if body[:1] == b"{":
        text = body.decode("utf-8", errors="replace")
        if len(text) > _SUMMARY_CHARS_MAX:
            return text[:_SUMMARY_CHARS_MAX] + " ..."
        return text
    if len(body) > _SUMMARY_CHARS_MAX:
        return body[:_SUMMARY_CHARS_MAX].hex() + " ..."
    return body.hex()


def without_nulls(value: Any) -> Any:
    """Drop null members, which Go's decoder reads as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    return value


def has_nulls(body: bytes) -> bool:
    """Tell whether a body may hold a null; may say yes for the word in a text, never no wrongly."""
    return b"null" in body


def child(parent: JsonObject, name: str) -> JsonObject:
    """Return the object under `name`, or an empty one when it is absent or not an object."""
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def children(parent: JsonObject, name: str) -> list[JsonObject]:
    """Return the objects in the list under `name`, or nothing."""
    value = parent.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
