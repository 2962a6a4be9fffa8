"""How every ZeroMQ socket here is made, written and read. Knows frames, not messages.

Nothing here waits but `wait_ready`: a send that cannot be queued now says so, a receive that finds
nothing too.

ZeroMQ reconnects by itself and says nothing. But a new connection means a new owner (or a break in
which messages were lost), so whoever talks to the owner must greet again. A socket's monitor tells
(`ConnectionWatch`); it is an in-process socket of its own that has to be polled beside the first.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Self

import zmq

from shared.limits import MESSAGE_BYTES_MAX
from shared.messages.frames import Buffer
from shared.telemetry.log import EventLog
from shared.transport.channels import LIMITS, Channel

RawSocket = zmq.Socket[bytes]

COPY_BYTES_MAX: Final = 65_536
"""Frames above this are handed over without a copy; below, a copy is cheaper than the bookkeeping
(a zero-copy frame costs about 3 us, copying 64 kB about as much)."""

RECONNECT_MS: Final = 10
"""Pods wait for whoever died to be found again, and a try costs microseconds."""
RECONNECT_MS_MAX: Final = 1000

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


def wait_ready(items: list[tuple[RawSocket | int, int]], timeout_ms: int) -> set[object]:
    """The sockets and the file descriptors of `items` that are ready; sleeps until one is."""
    return {item for item, _ in zmq.zmq_poll(items, timeout_ms)}


def can_now(socket: RawSocket, flag: int) -> bool:
    """Whether the socket is readable (POLLIN) or writable (POLLOUT)."""
    events = socket.getsockopt(zmq.EVENTS)
    assert isinstance(events, int)
    return bool(events & int(flag))  # Of an enumeration, & is a call.


class Connected(NamedTuple):
    """There is a (new) connection to the owner: greet it. What was sent before may be lost."""


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


class Closing:
    """`with` closes it at the end."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def note_dropped(problem: object) -> None:
    """A message could not be used. A peer gone wild fills no disk: the log has a bound."""
    EventLog("transport").warning("message_dropped", problem=str(problem))
