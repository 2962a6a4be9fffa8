"""AsyncPeer: a connection to the owner for asyncio processes (adapter, binder, supervisor).

Connects whenever there is an owner, and takes what comes into a bounded list, so that a process that is
behind leaves the rest in the socket.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from shared.errors import FrameError, ProtocolVersionError
from shared.messages.codec import Buffer, Codec
from shared.transport.channels import (
    LIMITS,
    RECONNECT_MS,
    RECONNECT_MS_MAX,
    Channel,
    Closing,
    Connected,
)
from shared.transport.local_stream import LocalStream, connected_stream, note_dropped

In = TypeVar("In")
Out = TypeVar("Out")

LINGER_S: Final = 2.0
"""The last report of a process that drains must arrive."""


class AsyncPeer(Closing, Generic[Out, In]):
    """Sends Out, receives In, and is told of each (new) connection by `Connected`."""

    def __init__(
        self,
        runtime_dir: Path,
        channel: Channel,
        identity: str,
        outgoing: Codec[Out],
        incoming: Codec[In],
    ) -> None:
        """To be made inside a running event loop. `identity` names this life of this process."""
        self._loop = asyncio.get_running_loop()
        self._way = runtime_dir, channel, identity.encode()
        self._outgoing = outgoing
        self._incoming = incoming
        self._received: deque[In | Connected | ProtocolVersionError] = deque()
        self._received_max = LIMITS[channel].high_water
        self._has_come = asyncio.Event()
        self._has_left = asyncio.Event()
        """What was queued, or who would have taken it."""
        self._stream: LocalStream | None = None
        self._connecting = self._loop.call_soon(self._connect, RECONNECT_MS / 1000)

    async def recv(self) -> In | Connected:
        """The next message, in order. ProtocolVersionError if the owner is of another version."""
        while not self._received:
            self._has_come.clear()
            await self._has_come.wait()
        one = self._received.popleft()
        if len(self._received) == self._received_max - 1 and self._stream is not None:
            self._loop.add_reader(self._stream.fd, self._take)  # We had stopped reading.
            self._loop.call_soon(self._take)
        if isinstance(one, ProtocolVersionError):
            raise one
        return one

    def send_nowait(self, message: Out) -> bool:
        """False: not sent; the owner is away, or its queue is full."""
        return self._send_parts(self._outgoing.encode(message))

    async def send(self, message: Out) -> bool:
        """Waits while the queue is full. False: the connection was lost (or there was none), and
        nothing of the message will reach this owner or the next."""
        parts = self._outgoing.encode(message)
        stream = self._stream
        while stream is not None and self._stream is stream:
            if self._send_parts(parts):
                return True
            self._has_left.clear()
            await self._has_left.wait()
        return False

    def close(self) -> None:
        """Waits up to LINGER_S for what is queued. Twice is harmless."""
        self._connecting.cancel()
        if self._stream is not None:
            self._leave(self._stream, LINGER_S)

    def _connect(self, pause_s: float) -> None:
        stream = connected_stream(*self._way)
        if stream is None:
            longer_s = min(2 * pause_s, RECONNECT_MS_MAX / 1000)
            self._connecting = self._loop.call_later(pause_s, self._connect, longer_s)
            return
        self._stream = stream
        self._loop.add_reader(stream.fd, self._take)
        self._received.append(Connected())
        self._has_come.set()

    def _leave(self, stream: LocalStream, linger_s: float = 0.0) -> None:
        self._stream = None
        self._loop.remove_reader(stream.fd)
        self._loop.remove_writer(stream.fd)
        stream.close(linger_s)
        self._has_left.set()

    def _send_parts(self, parts: Sequence[Buffer]) -> bool:
        stream = self._stream
        if stream is None or not stream.send(parts):
            return False
        if stream.has_unsent:
            self._loop.add_writer(stream.fd, self._flush)
        return True

    def _flush(self) -> None:
        stream = self._stream
        assert stream is not None, "it is watched while it is there"
        stream.flush()
        if not stream.has_unsent:
            self._loop.remove_writer(stream.fd)
        self._has_left.set()

    def _take(self) -> None:
        """The owner of a new connection says nothing before it is greeted."""
        stream, received = self._stream, self._received
        if stream is None:
            return
        stream.receive(self._received_max)
        while stream.received and len(received) < self._received_max:
            try:
                received.append(self._incoming.decode(stream.received.popleft())[0])
            except ProtocolVersionError as error:
                received.append(error)
            except FrameError as error:
                note_dropped(error)
        if len(received) >= self._received_max:
            self._loop.remove_reader(stream.fd)
        elif stream.is_over:
            self._leave(stream)
            self._connecting = self._loop.call_soon(self._connect, RECONNECT_MS / 1000)
        self._has_come.set()
