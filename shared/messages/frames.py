"""The envelope of every message between processes: a checked header, the body, raw buffers.

A message is a ZeroMQ multipart:

    frame 0   header: magic "BRTH", PROTOCOL_VERSION, number of the frames that follow,
              CRC-32 over them in order, and the length of each (little endian)
    frame 1   the body: msgpack of one of the channel's messages (`codec.py`)
    frame 2.. raw buffers: columns of a snapshot

Apart from the codec because it knows bytes only. Whoever receives may rely on it: what `unseal`
returns is what the sender sealed, bit for bit. Nothing is ever unpickled.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Final

from shared.errors import FrameError

PROTOCOL_VERSION: Final = 1
"""Raised by each change of what any message looks like in bytes. All processes of one berth speak
the same; there is no negotiation, because the supervisor starts them all from one installation."""

MAGIC: Final = b"BRTH"

BUFFER_COUNT_MAX: Final = 8192
"""Frames after the body. A snapshot has one for each column and dictionary: hundreds, not more."""

Buffer = bytes | bytearray | memoryview
"""A frame's bytes. Memoryviews must be contiguous; `memoryview(array)` of a numpy array will do."""

_PREFIX: Final = struct.Struct("<4sHHI")
_SINGLE: Final = struct.Struct("<4sHHIQ")
"""The whole header of a message without buffers, which is nearly every message."""
_LENGTH_BYTES: Final = 8
_SHOWN_BYTES: Final = 24


def seal(body: Buffer, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """The frames to send: header, body, buffers."""
    if not buffers:
        return [_SINGLE.pack(MAGIC, PROTOCOL_VERSION, 1, zlib.crc32(body), _size(body)), body]
    assert len(buffers) <= BUFFER_COUNT_MAX, f"{len(buffers)} buffers in one message"
    frames: list[Buffer] = [body, *buffers]
    crc = 0
    for frame in frames:
        crc = zlib.crc32(frame, crc)
    prefix = _PREFIX.pack(MAGIC, PROTOCOL_VERSION, len(frames), crc)
    lengths = struct.pack(f"<{len(frames)}Q", *map(_size, frames))
    return [prefix + lengths, *frames]


def unseal(channel: str, parts: Sequence[Buffer]) -> tuple[Buffer, Sequence[Buffer]]:
    """Body and buffers of a message that arrived on `channel`; FrameError if anything is off."""
    if len(parts) < 2:
        raise damaged(channel, f"{len(parts)} frame(s), header and body are missing", parts)
    header, frames = parts[0], parts[1:]
    if _size(header) < _PREFIX.size:
        raise damaged(channel, f"header of {_size(header)} bytes", parts)
    magic, version, count, crc = _PREFIX.unpack_from(header)
    if magic != MAGIC:
        raise damaged(channel, "not a berth message (magic)", parts)
    if version != PROTOCOL_VERSION:
        told = f"protocol version {version}, this process speaks {PROTOCOL_VERSION}; run all"
        raise damaged(channel, f"{told} processes from one installation", parts)
    if count != len(frames) or _size(header) != _PREFIX.size + count * _LENGTH_BYTES:
        raise damaged(channel, f"header announces {count} frame(s), {len(frames)} came", parts)
    lengths = struct.unpack_from(f"<{count}Q", header, _PREFIX.size)
    actual_crc = 0
    for index, frame in enumerate(frames):
        if _size(frame) != lengths[index]:
            told = f"frame {index + 1} has {_size(frame)} bytes instead of {lengths[index]}"
            raise damaged(channel, told, parts)
        actual_crc = zlib.crc32(frame, actual_crc)
    if actual_crc != crc:
        raise damaged(channel, f"CRC {actual_crc:08x} instead of {crc:08x}", parts)
    return frames[0], frames[1:]


def damaged(channel: str, problem: str, parts: Sequence[Buffer]) -> FrameError:
    """The error for a message that cannot be used: where, what, and how it begins."""
    shown = " | ".join(_beginning(part) for part in parts[:2]) or "nothing"
    return FrameError(f"channel {channel}: {problem}; begins with {shown}")


def _beginning(part: Buffer) -> str:
    return bytes(memoryview(part).cast("B")[:_SHOWN_BYTES]).hex(" ") if _size(part) else "(empty)"


def _size(frame: Buffer) -> int:
    return frame.nbytes if isinstance(frame, memoryview) else len(frame)
