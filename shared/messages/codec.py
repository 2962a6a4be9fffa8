"""Messages to frames and back: one codec for each direction of each channel, beside its messages.

Apart from the transport so that bytes can be made and read without a socket (recordings, tests).
`decode` either returns a message of the channel's type or raises `FrameError` that names the
channel, the fault and the first bytes. A `msgspec.Raw` inside a decoded message is a window on the
whole frame: whoever keeps one for long takes a copy (`bytes(raw)`), or keeps the frame alive.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from shared.errors import UNDECODABLE
from shared.messages.frames import Buffer, damaged, seal, unseal

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
