"""How every ZeroMQ socket here is made, written and read. Knows frames, not messages.

Nothing here waits but a `Poller`: a send that cannot be queued now says so, a receive that finds
nothing too.

ZeroMQ reconnects by itself and says nothing. But a new connection means a new owner (or a break in
which messages were lost), so whoever talks to the owner must greet again. A socket's monitor tells
(`ConnectionWatch`); it is an in-process socket of its own that has to be polled beside the first.
"""

import select
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import zmq

from shared.limits import MESSAGE_BYTES_MAX
from shared.messages.frames import Buffer
from shared.transport.channels import LIMITS, Channel
from shared.transport.connection import RECONNECT_MS, RECONNECT_MS_MAX

RawSocket = zmq.Socket[bytes]

COPY_BYTES_MAX: Final = 65_536
"""Frames above this are handed over without a copy; below, a copy is cheaper than the bookkeeping
(a zero-copy frame costs about 3 us, copying 64 kB about as much)."""

_EVENT: Final = struct.Struct("=Hi")
_FAILURES: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)

_NO_FRAMES: Final[list[zmq.Frame]] = []

_AT_ONCE: Final = int(zmq.NOBLOCK)
_AT_ONCE_AND_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
"""As plain numbers: operations on the enumeration cost more than the call that takes them."""


def new_socket(
    context: zmq.Context[RawSocket], kind: int, channel: Channel, linger_ms: int
) -> RawSocket:
    """A socket with this channel's bounds."""
    socket = context.socket(kind)
    socket.set_hwm(LIMITS[channel].high_water)
    socket.setsockopt(zmq.LINGER, linger_ms)
    socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
    socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MS_MAX)
    if kind == zmq.ROUTER:
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A peer that came back before its old connection was noticed to be dead is let in; otherwise
        # it would be connected and never heard.
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
    if kind == zmq.DEALER:
        # Queue nothing for an owner that is not there: the next owner is another epoch and must
        # not hear what was meant for the last.
        socket.setsockopt(zmq.IMMEDIATE, 1)
    return socket


def send_now(socket: RawSocket, parts: Sequence[Buffer], *, handed_over: bool = False) -> bool:
    """Queues a whole message or nothing. False: the queue is full, or there is no such peer.

    `handed_over`: the buffers will not change any more, large ones are sent without a copy.
    """
    copy = not handed_over
    try:
        for part in parts[:-1]:
            socket.send(part, _AT_ONCE_AND_MORE, copy)
        socket.send(parts[-1], _AT_ONCE, copy)
    except zmq.Again:
        return False
    except zmq.ZMQError as error:
        if error.errno == zmq.EHOSTUNREACH:
            return False
        raise
    return True


def receive_now(socket: RawSocket) -> list[Buffer]:
    """The frames of the next message; an empty list if there is none."""
    return [frame.bytes for frame in frames_now(socket)]


def messages_now(
    socket: RawSocket, limit: int, receive: Callable[[RawSocket], list[Buffer]] = receive_now
) -> Iterator[list[Buffer]]:
    """What has come, up to `limit` messages. Asks whether there is more before it tries: to find
    nothing costs several times as much."""
    for _ in range(limit):
        parts = receive(socket)
        if not parts:
            return
        yield parts
        if not can_now(socket, zmq.POLLIN):
            return


def frames_now(socket: RawSocket) -> list[zmq.Frame]:
    """The next message as ZeroMQ received it; empty if there is none."""
    try:
        frame = socket.recv(_AT_ONCE, copy=False)
    except zmq.Again:
        return _NO_FRAMES
    frames = [frame]
    while frame.more:
        frame = socket.recv(_AT_ONCE, copy=False)
        frames.append(frame)
    return frames


def can_now(socket: RawSocket, flag: int) -> bool:
    """Whether the socket is readable (POLLIN) or writable (POLLOUT)."""
    events = socket.getsockopt(zmq.EVENTS)
    assert isinstance(events, int)
    return bool(events & int(flag))  # Of an enumeration, & is a call.


class Poller:
    """One wait for sockets and descriptors. It asks the kernel; and a socket, which costs as much as a
    small message does, where that or its use says that something may have come."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._sockets: dict[int, RawSocket] = {}
        self.used: set[RawSocket] = set()
        """Sockets on which anything was done since the last wait, which takes from their descriptors
        what these had to tell. Those that a wait finds ready are among them without being told."""

    def add_socket(self, socket: RawSocket) -> None:
        fd = socket.getsockopt(zmq.FD)
        assert isinstance(fd, int)
        self._sockets[fd] = socket
        self.used.add(socket)
        self._epoll.register(fd, select.EPOLLIN)

    def watch_fd(self, fd: int) -> None:
        """Until it is closed."""
        self._epoll.register(fd, select.EPOLLIN)

    def await_room(self, fd: int, *, is_full: bool) -> None:
        """Whether one that is watched is also waited for to be writable."""
        self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if is_full else 0))

    def wait(self, timeout_ms: int) -> dict[object, int]:
        """The sockets that can be read and the descriptors that are ready, with what for (EPOLLIN, ...);
        sleeps until one is, so long at most (-1: for ever)."""
        ready: dict[object, int] = {}
        used, self.used = self.used, set()
        for socket in used:
            if can_now(socket, zmq.POLLIN):
                ready[socket] = select.EPOLLIN
                self.used.add(socket)
        timeout_s = 0 if ready else timeout_ms / 1000 if timeout_ms >= 0 else None
        for fd, events in self._epoll.poll(timeout_s):
            changed = self._sockets.get(fd)
            if changed is None:
                ready[fd] = events
            elif can_now(changed, zmq.POLLIN):
                ready[changed] = events
                self.used.add(changed)
        return ready

    def close(self) -> None:
        self._epoll.close()


class ConnectionWatch:
    """Follows one DEALER's connection to the owner."""

    def __init__(self, socket: RawSocket) -> None:
        self._socket = socket
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _FAILURES
        self.monitor: RawSocket = socket.get_monitor_socket(events)
        self.is_connected = False
        self.is_refused = False
        """The owner does not take our key. ZeroMQ does not try again."""
        self.failed_count = 0
        """Connections that ended before they began: mostly, the key is that of another owner."""
        self.connection_count = 0
        """How many connections there have been; a change means that the owner may be another."""

    def refresh(self) -> bool:
        """Reads what the monitor has to say. True: there is a new connection since the last call."""
        before = self.connection_count
        while can_now(self.monitor, zmq.POLLIN):
            event, _ = _EVENT.unpack_from(receive_now(self.monitor)[0])
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.is_connected = True
                self.connection_count += 1
            elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self.is_refused = True
            elif event != zmq.EVENT_DISCONNECTED:
                self.failed_count += 1
            else:
                self.is_connected = False
        return self.connection_count != before

    def close(self) -> None:
        self._socket.disable_monitor()
        self.monitor.close(0)
