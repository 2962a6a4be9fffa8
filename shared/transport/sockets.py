"""How every ZeroMQ socket here is made, written and read. Knows frames, not messages.

Nothing here waits but a `Poller`: a send that cannot be queued now says so, a receive that finds
nothing too.
"""

import select
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import zmq

from shared.limits import MESSAGE_BYTES_MAX
from shared.messages.codec import Buffer
from shared.transport.channels import LIMITS, RECONNECT_MS, RECONNECT_MS_MAX, Channel

RawSocket = zmq.Socket[bytes]

COPY_BYTES_MAX: Final = 65_536
"""Frames above this are handed over without a copy; below, a copy is cheaper than the bookkeeping
(a zero-copy frame costs about 3 us, copying 64 kB about as much)."""

_AT_ONCE: Final = int(zmq.NOBLOCK)
_AT_ONCE_AND_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_POLLIN: Final = int(zmq.POLLIN)
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


def send_now(socket: RawSocket, parts: Sequence[Buffer]) -> bool:
    """Queues a whole message or nothing. False: the queue is full, or there is no such peer. The buffers
    may not change any more: large ones are sent without a copy."""
    try:
        for part in parts[:-1]:
            socket.send(part, _AT_ONCE_AND_MORE, copy=False)
        socket.send(parts[-1], _AT_ONCE, copy=False)
    except zmq.Again:
        return False
    except zmq.ZMQError as error:
        if error.errno == zmq.EHOSTUNREACH:
            return False
        raise
    return True


def messages_now(socket: RawSocket, limit: int) -> Iterator[list[zmq.Frame]]:
    """What has come, up to `limit` messages, as ZeroMQ received them. Asks whether there is more before
    it tries: to find nothing costs several times as much."""
    while limit and is_readable(socket):
        frames = [socket.recv(_AT_ONCE, copy=False)]
        while frames[-1].more:
            frames.append(socket.recv(_AT_ONCE, copy=False))
        yield frames
        limit -= 1


def is_readable(socket: RawSocket) -> bool:
    """Whether something has come."""
    events = socket.getsockopt(zmq.EVENTS)
    assert isinstance(events, int)
    return bool(events & _POLLIN)


class Poller:
    """One wait for sockets and descriptors. It asks the kernel; and a socket, which costs as much as a
    small message does, where that or its use says that something may have come."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._sockets: dict[int, RawSocket] = {}
        self._ready: dict[object, int] = {}
        self.used: set[RawSocket] = set()
        """Sockets on which anything was done since the last wait, which takes from their descriptors
        what these had to tell. Those that a wait finds ready are among them without being told."""

    def add_socket(self, socket: RawSocket) -> None:
        fd = socket.getsockopt(zmq.FD)
        assert isinstance(fd, int)
        self._sockets[fd] = socket
        self.used.add(socket)
        self._epoll.register(fd, select.EPOLLIN)

    def watch_fd(self, fd: int) -> Callable[[], bool]:
        """A wait also ends when this becomes readable (signals, the supervisor's lifeline). What is
        returned says whether it was at the last."""
        self._epoll.register(fd, select.EPOLLIN)
        return lambda: fd in self._ready

    def watch_for(self, fd: int, events: int) -> None:
        """By which events one that is watched ends a wait: EPOLLIN, EPOLLOUT, both, or (0) none."""
        self._epoll.modify(fd, events)

    def wait(self, timeout_ms: int) -> dict[object, int]:
        """The sockets that can be read and the descriptors that are ready, with what for (EPOLLIN, ...);
        sleeps until one is, so long at most (-1: for ever)."""
        ready = self._ready = dict[object, int]()
        used, self.used = self.used, set()
        for socket in used:
            if is_readable(socket):
                ready[socket] = select.EPOLLIN
                self.used.add(socket)
        timeout_s = 0 if ready else timeout_ms / 1000 if timeout_ms >= 0 else None
        for fd, events in self._epoll.poll(timeout_s):
            changed = self._sockets.get(fd)
            if changed is None:
                ready[fd] = events
            elif is_readable(changed):
                ready[changed] = events
                self.used.add(changed)
        return ready

    def close(self) -> None:
        self._epoll.close()
