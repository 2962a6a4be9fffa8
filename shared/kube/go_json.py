"""JSON as Go has it, where msgspec refuses it: apart, for nothing of it is asked of a usual answer.

An API server keeps opaque parameters byte by byte (RawExtension in
staging/src/k8s.io/apimachinery/pkg/runtime/extension.go, v1.36.2), and lets all pass there that Go
reads: half of a surrogate pair, and thousands of levels.
"""

import re
import sys
from typing import Final, TypeVar

import msgspec

from shared.errors import UNDECODABLE
from shared.limits import NESTING_MAX

T = TypeVar("T")

_ESCAPES: Final = re.compile(
    rb"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[^dD]|\\u[dD][0-7]|\\[^u])|\\u....", re.DOTALL
)
"""Those that are whole are the first group; a half is none. A backslash is nowhere but in a text."""
_SIGNS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},:]', re.DOTALL)


def mended(text: bytes) -> bytes:
    """With U+FFFD for each half of a surrogate pair that stands alone, as Go reads it (unquoteBytes in
    encoding/json/decode.go)."""
    return _ESCAPES.sub(lambda found: found[1] or rb"\ufffd", text)


def decoded(decoder: msgspec.json.Decoder[T], text: bytes | msgspec.Raw) -> T:
    """What Go would read. Raises what decoding raises (`UNDECODABLE`)."""
    try:
        return decoder.decode(text)
    except UNDECODABLE:
        mended_text = mended(bytes(text))
    limit = sys.getrecursionlimit()
    # Python 3.11 counts levels of msgspec as its own; later ones have a limit apart, of as many.
    sys.setrecursionlimit(limit + NESTING_MAX)
    try:
        return decoder.decode(mended_text)
    finally:
        sys.setrecursionlimit(limit)


def elements(array: bytes) -> list[bytes]:
    """Of an array, however deep and whatever they are: found by brackets alone. ValueError for what is
    no array, or does not end."""
    return list(filter(None, _parts(array, b"[", b"]")))


def members(obj: bytes) -> dict[bytes, bytes]:
    """Of an object, likewise, by their names."""
    parts = _parts(obj, b"{", b"}")
    return {name.strip(b'"'): value for name, value in zip(parts[::2], parts[1::2], strict=False)}


def _parts(text: bytes, first: bytes, last: bytes) -> list[bytes]:
    """What commas and colons separate between the outermost brackets."""
    text = text.strip()
    if not (text.startswith(first) and text.endswith(last)):
        raise ValueError(f"JSON is malformed: no {first.decode()} ... {last.decode()}")
    found, depth, start = [], 0, 1
    for sign in _SIGNS.finditer(text):
        what = sign[0]
        if what in b"[{":
            depth += 1
        elif what in b"]}":
            depth -= 1
            if depth == 0 and sign.end() < len(text):
                break
        elif depth == 1 and what in b",:":
            found.append(text[start : sign.start()].strip())
            start = sign.end()
    if depth != 0 or sign.end() < len(text):
        raise ValueError("JSON is malformed: brackets do not match")
    return [*found, text[start:-1].strip()]
