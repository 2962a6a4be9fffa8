"""JSON that Go reads and msgspec does not."""

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UNDECODABLE
from shared.kube.go_json import decoded, elements, members, mended
from shared.limits import NESTING_MAX

ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
RAW = msgspec.json.Decoder(msgspec.Raw)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb"\ud83d\ude00", "\U0001f600"),
        (rb"\uD83D\uDE00", "\U0001f600"),
        (rb"\ud83d", "\ufffd"),
        (rb"\ude00", "\ufffd"),
        (rb"\ud83dx", "\ufffdx"),
        (rb"\ud83d\u0041", "\ufffdA"),
        (rb"\ud83d\n", "\ufffd\n"),
        (rb"\ude00\ud83d", "\ufffd\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud83d", "\\ud83d"),
        (rb"\\\ud83d", "\\\ufffd"),
        (rb"\ud7ff\ue000", "\ud7ff\ue000"),
    ],
)
def test_half_a_surrogate_pair_is_a_replacement_character(text: bytes, read: str) -> None:
    assert decoded(ANY, b'{"a":"%b"}' % text) == {"a": read}


def test_all_that_go_reads_is_not_too_deep() -> None:
    deep = (NESTING_MAX - 10) * b"[" + (NESTING_MAX - 10) * b"]"
    before = sys.getrecursionlimit()
    assert bytes(decoded(RAW, deep)) == deep
    with pytest.raises(UNDECODABLE):
        decoded(RAW, b"[" * 100_000 + b"]" * 100_000)
    assert sys.getrecursionlimit() == before


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda a: st.lists(a) | st.dictionaries(st.text("abc"), a),
    )
)
def test_what_is_usual_is_read_by_brackets_too(value: Any) -> None:
    for separators in ((",", ":"), (", ", " : ")):
        for is_ascii in (True, False):
            text = json.dumps([value], separators=separators, ensure_ascii=is_ascii).encode()
            assert ANY.decode(mended(text)) == [value]
            assert [json.loads(each) for each in elements(text)] == [value]
            text = json.dumps(
                {"a": value, "b": value}, separators=separators, ensure_ascii=is_ascii
            ).encode()
            found = {name: json.loads(each) for name, each in members(text).items()}
            assert found == {b"a": value, b"b": value}


def test_what_is_empty_holds_nothing() -> None:
    assert elements(b" [ ] ") == []
    assert members(b"{}") == {}


@pytest.mark.parametrize("text", [b"", b"7", b"[", b"[1", b"[1]]", b"[1][2]", b"{}", b"[1}"])
def test_what_is_no_array_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="JSON is malformed"):
        elements(text)


@pytest.mark.parametrize(
    "text", [b"", b"7", b"{", b"[]", b'{"a":1}}', b'{"a":{}', b'{"a":1}{"b":2}']
)
def test_what_is_no_object_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="JSON is malformed"):
        members(text)
