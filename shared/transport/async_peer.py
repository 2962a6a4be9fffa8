"""AsyncPeer: a connection to the owner for asyncio processes (adapter, binder, supervisor).

ZeroMQ's file descriptor tells only that *something* changed, once; whether one may read or write
has to be asked again after every use of the socket. pyzmq's own asyncio sockets do this with a
future for each call; here one callback empties the socket into a bounded list, which costs nothing
while idle and little under load.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import zmq

from shared.errors import FrameError, ProtocolVersionError
from shared.messages.codec import Codec
from shared.transport.channels import LIMITS, Channel
from shared.transport.sockets import (
    Closing,
    Connected,
    ConnectionWatch,
    RawSocket,
    can_now,
    messages_now,
    new_socket,
    note_dropped,
    send_now,
)

In = TypeVar("In")
Out = TypeVar("Out")

LINGER_MS: Final = 2000
"""The last report of a process that drains must arrive; an owner that is gone costs us nothing,
because nothing is queued for it."""


class AsyncPeer(Closing, Generic[Out, In]):
    """One DEALER. Sends Out, receives In, and is told of each (new) connection by `Connected`."""

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
        self._context: zmq.Context[RawSocket] = zmq.Context()
        self._socket = new_socket(self._context, zmq.DEALER, channel, LINGER_MS)
        self._socket.setsockopt(zmq.ROUTING_ID, identity.encode())
        self._connection = ConnectionWatch(self._socket)
        self._outgoing = outgoing
        self._incoming = incoming
        self._received: deque[In | Connected | ProtocolVersionError] = deque()
        self._received_max = LIMITS[channel].high_water
        self._reader: asyncio.Future[None] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()
        self._socket.connect(channel.address(runtime_dir))
        self._fds = (_fd(self._socket), _fd(self._connection.monitor))
        for fd, callback in zip(self._fds, (self._take, self._pump), strict=True):
            self._loop.add_reader(fd, callback)
        self._loop.call_soon(self._pump)

    @property
    def is_connected(self) -> bool:
        return self._connection.is_connected

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
        if len(self._received) == self._received_max - 1:
            self._pump()  # We had stopped reading, and nothing would wake us up.
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
        if self.is_connected and not self._writers and self._send_parts(parts):
            return True
        self._pump()
        connection = self._connection.connection_count
        while self._connection.is_connected and self._connection.connection_count == connection:
            if not self._writers and self._send_parts(parts):
                return True
            await self._wait_writable()
        return False

    def close(self) -> None:
        """Waits up to LINGER_MS for what is queued. Twice is harmless."""
        if self._socket.closed:
            return
        for fd in self._fds:
            self._loop.remove_reader(fd)
        self._connection.close()
        self._socket.close()
        self._context.term()

    def _send_parts(self, parts: Sequence[Any]) -> bool:
        sent = send_now(self._socket, parts)
        # Sending may have swallowed the notice that something came in or that there is room again.
        if self._writers or can_now(self._socket, zmq.POLLIN):
            self._loop.call_soon(self._pump)
        return sent

    async def _wait_writable(self) -> None:
        writer = self._loop.create_future()
        self._writers.append(writer)
        # Since the send was refused, the one notice that there is room may have been swallowed by
        # a look at the socket's state: look once more, now that somebody waits.
        self._loop.call_soon(self._pump)
        try:
            await writer
        finally:
            if writer in self._writers:
                self._writers.remove(writer)

    def _pump(self) -> None:
        """Looks at the connection, too."""
        if self._socket.closed:
            return
        if self._connection.refresh():
            self._received.append(Connected())
        self._take()

    def _take(self) -> None:
        """Takes what has come, and wakes up who waits for it or for room. The owner of a new connection
        says nothing before it is greeted."""
        room = self._received_max - len(self._received)
        for parts in messages_now(self._socket, room):
            try:
                self._received.append(self._incoming.decode(parts)[0])
            except ProtocolVersionError as error:
                self._received.append(error)
            except FrameError as error:
                note_dropped(error)
        if self._writers and (not self.is_connected or can_now(self._socket, zmq.POLLOUT)):
            while self._writers:
                _wake(self._writers.popleft())
        if self._reader is not None and self._received:
            _wake(self._reader)


def _fd(socket: RawSocket) -> int:
    fd = socket.getsockopt(zmq.FD)
    assert isinstance(fd, int)
    return fd


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
