"""The envelope: what is sealed comes out, what is not is refused by name."""

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from shared.errors import FrameError
from shared.limits import BUFFER_COUNT_MAX
from shared.messages.codec import PACKED_BYTES_MAX, PROTOCOL_VERSION, seal, unseal


def test_the_header_of_a_small_message_is_these_bytes() -> None:
    """Golden: a change of these bytes is a new PROTOCOL_VERSION."""
    version = PROTOCOL_VERSION.to_bytes(2, "little").hex()
    header, body = seal(b"123456789")
    assert bytes(body) == b"123456789"
    # magic, version, count, CRC-32 of "123456789" (the CRC's published check value), length
    assert bytes(header).hex() == "42525448" + version + "0100" + "2639f4cb" + "0900000000000000"


def test_buffers_come_out_as_they_went_in() -> None:
    matrix = memoryview(bytes(range(12))).cast("B", (3, 4))
    body, buffers = unseal("c", seal(b"body", [b"", bytearray(b"xy"), matrix]))
    assert body == b"body"
    assert [bytes(b) for b in buffers] == [b"", b"xy", bytes(range(12))]


def test_a_large_buffer_is_not_copied() -> None:
    column = bytes(PACKED_BYTES_MAX + 1)
    assert seal(b"body", [column])[2] is column


def test_small_buffers_are_one_frame_and_lie_where_numbers_may_be_read() -> None:
    columns: list[npt.NDArray[Any]] = [np.arange(3, dtype=np.int64), np.arange(5, dtype=np.int32)]
    sealed = seal(b"odd body", [b"\x01", *(column.data for column in columns)])
    assert len(sealed) == 2
    body, (flag, *found) = unseal("c", [bytes(part) for part in sealed])
    assert (bytes(body), bytes(flag)) == (b"odd body", b"\x01")
    for column, buffer in zip(columns, found, strict=True):
        read = np.frombuffer(buffer, column.dtype)
        assert read.flags.aligned
        assert np.array_equal(read, column)


def test_packed_frames_must_fill_what_came() -> None:
    header, _ = seal(b"x", [b"y"])
    lengths = bytes(header)[-16:]
    for other in (bytes(8), bytes(24)):
        crc = zlib.crc32(other, zlib.crc32(lengths))
        forged = bytes(header)[:8] + crc.to_bytes(4, "little") + lengths
        with pytest.raises(FrameError, match=f"{len(other)} bytes are not 2 frames"):
            unseal("c", [forged, other])


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "0 frame(s), header and body are missing; begins with nothing"),
        ([b"BRTH"], "1 frame(s), header and body are missing"),
        ([b"BRTH", b"x"], "header of 4 bytes"),
        ([b"", b""], "header of 0 bytes; begins with (empty) | (empty)"),
        ([b"GET / HTTP/1.1\r\n", b"x"], "not a berth message (magic); begins with 47 45 54 20"),
        ([*seal(b"x"), b"more"], "header announces 1 frame(s), 2 came"),
        (seal(b"x", [bytes(PACKED_BYTES_MAX)] * 2)[:3], "header announces 3 frame(s), 2 came"),
        ([seal(b"x", [b"y"])[0], bytes(16)], "CRC is not"),
        ([seal(b"xx")[0], b"x"], "frame 1 has 1 bytes instead of 2"),
        ([seal(b"x")[0], b"y"], "CRC fbdb2615 instead of 8cdc1683"),
    ],
)
def test_what_is_not_whole_is_refused_with_the_reason(parts: list[bytes], problem: str) -> None:
    with pytest.raises(FrameError) as refused:
        unseal("binders", parts)
    assert str(refused.value).startswith("channel binders: ")
    assert problem in str(refused.value)


def test_another_protocol_version_is_refused_with_the_remedy() -> None:
    header, body = seal(b"x")
    changed = bytearray(header)
    changed[4] = 99
    with pytest.raises(FrameError, match=r"version 99.*the same berth on all hosts"):
        unseal("admin", [changed, body])


def test_more_buffers_than_the_header_may_announce_are_a_bug() -> None:
    with pytest.raises(AssertionError):
        seal(b"", [b""] * (BUFFER_COUNT_MAX + 1))
