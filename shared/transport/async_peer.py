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
from shared.messages.codec import Codec
from shared.messages.frames import Buffer
from shared.transport.channels import LIMITS, Channel
from shared.transport.connection import (
    RECONNECT_MS,
    RECONNECT_MS_MAX,
    Closing,
    Connected,
    note_dropped,
)
from shared.transport.local_stream import LocalStream, connected_stream

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
        self._runtime_dir = runtime_dir
        self._channel = channel
        self._identity = identity.encode()
        self._outgoing = outgoing
        self._incoming = incoming
        self._received: deque[In | Connected | ProtocolVersionError] = deque()
        self._received_max = LIMITS[channel].high_water
        self._reader: asyncio.Future[None] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()
        self._stream: LocalStream | None = None
        self._connecting = self._loop.call_soon(self._connect, RECONNECT_MS / 1000)

    @property
    def is_connected(self) -> bool:
        return self._stream is not None

    async def recv(self) -> In | Connected:
        """The next message, in order; one task at a time may wait. ProtocolVersionError if the owner is
        of another version."""
        while not self._received:
            assert self._reader is None, "two tasks receive from one peer"
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
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
            if not self._writers and self._send_parts(parts):
                return True
            await self._wait_writable()
        return False

    def close(self) -> None:
        """Waits up to LINGER_S for what is queued. Twice is harmless."""
        self._connecting.cancel()
        if self._stream is not None:
            self._leave(self._stream, LINGER_S)

    def _connect(self, pause_s: float) -> None:
        stream = connected_stream(self._runtime_dir, self._channel, self._identity)
        if stream is None:
            longer_s = min(2 * pause_s, RECONNECT_MS_MAX / 1000)
            self._connecting = self._loop.call_later(pause_s, self._connect, longer_s)
            return
        self._stream = stream
        self._loop.add_reader(stream.fd, self._take)
        self._received.append(Connected())
        self._wake_reader()

    def _leave(self, stream: LocalStream, linger_s: float = 0.0) -> None:
        self._stream = None
        self._loop.remove_reader(stream.fd)
        self._loop.remove_writer(stream.fd)
        stream.close(linger_s)
        while self._writers:
            _wake(self._writers.popleft())

    def _send_parts(self, parts: Sequence[Buffer]) -> bool:
        stream = self._stream
        if stream is None or not stream.send(parts):
            return False
        if stream.has_unsent:
            self._loop.add_writer(stream.fd, self._flush)
        return True

    async def _wait_writable(self) -> None:
        """Or lost: a stream that is gone can be read."""
        writer = self._loop.create_future()
        self._writers.append(writer)
        try:
            await writer
        finally:
            if writer in self._writers:
                self._writers.remove(writer)

    def _flush(self) -> None:
        stream = self._stream
        assert stream is not None, "it is watched while it is there"
        stream.flush()
        if not stream.has_unsent:
            self._loop.remove_writer(stream.fd)
        while self._writers:
            _wake(self._writers.popleft())

    def _take(self) -> None:
        """Takes what has come, and wakes up who waits for it. The owner of a new connection says nothing
        before it is greeted."""
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
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._reader is not None and self._received:
            _wake(self._reader)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
