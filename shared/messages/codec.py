"""Messages to frames and back: one codec for each direction of each channel, beside its messages.

Apart from the transport so that bytes can be made and read without a socket (recordings, tests). A
message is a ZeroMQ multipart:

    frame 0   header: magic "BRTH", PROTOCOL_VERSION, number of the frames that follow,
              CRC-32 over them in order (if packed, over the lengths first), and the length of
              each (little endian)
    frame 1   the body: msgpack of one of the channel's messages
    frame 2.. raw buffers: columns of a snapshot

Where body and buffers are small together, they are one frame, each padded to 8 bytes: a frame costs
more than its bytes do, and most snapshots are a dozen columns of a few rows.

What comes is what was sent, bit for bit and of the channel's type, or a `FrameError` that names the
channel, the fault and the first bytes. Nothing is ever unpickled. A `msgspec.Raw` inside a decoded
message is a window on the whole frame: whoever keeps one for long takes a copy (`bytes(raw)`), or
keeps the frame alive.
"""

import struct
import zlib
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, Generic, TypeVar

import msgspec

from shared.errors import UNDECODABLE, FrameError, ProtocolVersionError
from shared.limits import BUFFER_COUNT_MAX

PROTOCOL_VERSION: Final = 31
"""Raised by each change of what any message looks like in bytes. All processes of one berth speak
the same; there is no negotiation: the supervisor starts them all from one installation. Whoever says
something to an owner of another version, as a scorer of another host may, is told so and ends."""

MAGIC: Final = b"BRTH"
PACKED_BYTES_MAX: Final = 16_384
"""Up to so many bytes are copied into one frame."""

Buffer = bytes | bytearray | memoryview
"""A frame's bytes. Memoryviews must be contiguous; `memoryview(array)` of a numpy array will do."""

_PREFIX: Final = struct.Struct("<4sHHI")
_SINGLE: Final = struct.Struct("<4sHHIQ")
"""The whole header of a message without buffers, which is nearly every message."""
SINGLE_HEADER_BYTES: Final = _SINGLE.size
_LENGTH_BYTES: Final = 8
_ALIGNED_BYTES: Final = 8
"""A column's numbers are read where they lie."""
_SHOWN_BYTES: Final = 24


def seal(body: Buffer, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """The frames to send: header, body, buffers."""
    if not buffers:
        return [_single_header(body), body]
    assert len(buffers) <= BUFFER_COUNT_MAX, f"{len(buffers)} buffers in one message"
    frames: list[Buffer] = [body, *buffers]
    sizes = [_size(frame) for frame in frames]
    lengths = struct.pack(f"<{len(sizes)}Q", *sizes)
    crc = 0
    if sum(sizes) <= PACKED_BYTES_MAX:
        padded = zip(frames, (bytes(-size % _ALIGNED_BYTES) for size in sizes), strict=True)
        frames = [b"".join(chain.from_iterable(padded))]
        crc = zlib.crc32(lengths)  # Nothing else would show that a length was changed a little.
    for frame in frames:
        crc = zlib.crc32(frame, crc)
    return [_PREFIX.pack(MAGIC, PROTOCOL_VERSION, len(sizes), crc) + lengths, *frames]


def _single_header(body: Buffer) -> bytes:
    return _SINGLE.pack(MAGIC, PROTOCOL_VERSION, 1, zlib.crc32(body), _size(body))


def unseal(channel: str, parts: Sequence[Buffer]) -> tuple[Buffer, Sequence[Buffer]]:
    """Body and buffers of a message that arrived on `channel`; FrameError if anything is off."""
    is_single = len(parts) == 2 and len(parts[0]) == SINGLE_HEADER_BYTES
    if is_single and parts[0] == _single_header(parts[1]):
        return parts[1], parts[2:]  # Nearly every message; what is wrong with others, below.
    if len(parts) < 2:
        raise damaged(channel, f"{len(parts)} frame(s), header and body are missing", parts)
    header, frames = parts[0], parts[1:]
    if _size(header) < _PREFIX.size:
        raise damaged(channel, f"header of {_size(header)} bytes", parts)
    magic, version, count, crc = _PREFIX.unpack_from(header)
    if magic != MAGIC:
        raise damaged(channel, "not a berth message (magic)", parts)
    if version != PROTOCOL_VERSION:
        told = f"protocol version {version}, this process speaks {PROTOCOL_VERSION}"
        raise ProtocolVersionError(
            f"channel {channel}: {told}; install the same berth on all hosts and start it anew"
        )
    is_packed = count > 1 and len(frames) == 1
    is_counted = is_packed or count == len(frames)
    if not is_counted or _size(header) != _PREFIX.size + count * _LENGTH_BYTES:
        raise damaged(channel, f"header announces {count} frame(s), {len(frames)} came", parts)
    lengths = struct.unpack_from(f"<{count}Q", header, _PREFIX.size)
    if is_packed:
        if zlib.crc32(frames[0], zlib.crc32(memoryview(header)[_PREFIX.size :])) != crc:
            raise damaged(channel, f"CRC is not {crc:08x}", parts)
        unpacked = _unpacked(frames[0], lengths)
        if unpacked is None:
            raise damaged(channel, f"{_size(frames[0])} bytes are not {count} frames", parts)
        return unpacked[0], unpacked[1:]
    actual_crc = 0
    for index, frame in enumerate(frames):
        if _size(frame) != lengths[index]:
            told = f"frame {index + 1} has {_size(frame)} bytes instead of {lengths[index]}"
            raise damaged(channel, told, parts)
        actual_crc = zlib.crc32(frame, actual_crc)
    if actual_crc != crc:
        raise damaged(channel, f"CRC {actual_crc:08x} instead of {crc:08x}", parts)
    return frames[0], frames[1:]


def _unpacked(packed: Buffer, lengths: Sequence[int]) -> list[memoryview] | None:
    """Windows on the packed frames; None if they are not all there, or more is."""
    whole = memoryview(packed).cast("B")
    start, found = 0, []
    for length in lengths:
        found.append(whole[start : start + length])
        start += length + -length % _ALIGNED_BYTES
    return found if start == len(whole) else None


def damaged(channel: str, problem: str, parts: Sequence[Buffer]) -> FrameError:
    """The error for a message that cannot be used: where, what, and how it begins."""
    shown = " | ".join(_beginning(part) for part in parts[:2]) or "nothing"
    return FrameError(f"channel {channel}: {problem}; begins with {shown}")


def _beginning(part: Buffer) -> str:
    return bytes(memoryview(part).cast("B")[:_SHOWN_BYTES]).hex(" ") if _size(part) else "(empty)"


def _size(frame: Buffer) -> int:
    return frame.nbytes if isinstance(frame, memoryview) else len(frame)


M = TypeVar("M")

_encoder: Final = msgspec.msgpack.Encoder()


class Message(msgspec.Struct, array_like=True, frozen=True):
    """Base: positional on the wire, immutable in hand."""


class Drain(Message, frozen=True, tag="X"):
    """To a scorer or a binder: take nothing more, finish what is in hand, then exit."""


class Codec(Generic[M]):
    """The messages that one side of a channel may send."""

    def __init__(self, channel: str, kind: Any) -> None:
        """`kind` is the type M, as msgspec wants it: a struct or a union of structs."""
        self.channel = channel
        self._decoder = msgspec.msgpack.Decoder(kind)

    def encode(self, message: M, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
        return seal(_encoder.encode(message), buffers)

    def decode(self, parts: Sequence[Buffer]) -> tuple[M, Sequence[Buffer]]:
        """The message in checked frames, and its buffers; FrameError if they cannot be used."""
        body, buffers = unseal(self.channel, parts)
        try:
            message: M = self._decoder.decode(body)
        except UNDECODABLE as error:
            raise damaged(self.channel, f"cannot be decoded: {error}", parts) from error
        return message, buffers
