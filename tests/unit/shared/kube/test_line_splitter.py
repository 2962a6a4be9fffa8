"""Lines from chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kube import http_stream
from shared.kube.api_errors import ProtocolViolation
from shared.kube.http_stream import LineSplitter


@given(
    lines=st.lists(st.binary(max_size=30).filter(lambda b: b"\n" not in b)),
    rest=st.binary(max_size=30).filter(lambda b: b"\n" not in b),
    data=st.data(),
)
def test_lines_come_out_as_they_were_however_they_are_cut(
    lines: list[bytes], rest: bytes, data: st.DataObject
) -> None:
    whole = b"".join(line + b"\n" for line in lines) + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    splitter = LineSplitter()
    seen = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        seen += splitter.feed(whole[start:end])
    assert seen == [line for line in lines if line.strip()]
    assert splitter.take_rest() == rest.strip()
    assert splitter.take_rest() == b""


def test_a_long_line_is_put_together_once() -> None:
    splitter = LineSplitter()
    piece = b"x" * 1000
    for _ in range(5000):
        assert splitter.feed(piece) == []
    assert splitter.feed(b"\n") == [piece * 5000]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_without_end_is_given_up_and_many_short_ones_are_not(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_stream, "OBJECT_BYTES_MAX", 10)
    splitter = LineSplitter()
    for start in range(0, 100, 5):
        assert splitter.feed(b"%04d\n" % start) == [b"%04d" % start]
    assert splitter.feed(b"0123\n01234") == [b"0123"]
    assert splitter.feed(b"56789\n") == [b"0123456789"]
    pieces = (b"0" * size for _ in range(100))
    with pytest.raises(ProtocolViolation, match="a line of a watch"):
        all(splitter.feed(piece) == [] for piece in pieces)
    assert splitter.take_rest() == b""
