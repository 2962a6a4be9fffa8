"""SyncPeer: a connection to the owner for processes that do one thing at a time.

The synchronous sister of `AsyncPeer`, without an event loop between the socket and its user: a round
trip costs half as much. For the measuring and replaying processes of `bench`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, Self, TypeVar

import zmq

from shared.errors import FrameError, OperationalError, ProtocolVersionError
from shared.messages.codec import Codec
from shared.messages.from_binder import FROM_BINDER, FromBinder
from shared.messages.to_binder import TO_BINDER, ToBinder
from shared.messages.to_owner import FROM_ADAPTER, TO_ADAPTER, AdapterBatch, ToAdapter
from shared.transport.channels import Channel
from shared.transport.sockets import (
    Connected,
    ConnectionWatch,
    RawSocket,
    new_socket,
    note_dropped,
    receive_now,
    send_now,
    wait_ready,
)

In = TypeVar("In")
Out = TypeVar("Out")


class NotSentError(OperationalError):
    """The owner is away, or does not read."""


class SyncPeer(Generic[Out, In]):
    """One DEALER. Sends Out, receives In, and is told of each (new) connection by `Connected`."""

    def __init__(
        self,
        runtime_dir: Path,
        channel: Channel,
        identity: str,
        outgoing: Codec[Out],
        incoming: Codec[In],
    ) -> None:
        """`identity` names this life of this process."""
        self._address = channel.address(runtime_dir)
        self._context: zmq.Context[RawSocket] = zmq.Context()
        self._socket = new_socket(self._context, zmq.DEALER, channel, 0)
        self._socket.setsockopt(zmq.ROUTING_ID, identity.encode())
        self._connection = ConnectionWatch(self._socket)
        self._outgoing = outgoing
        self._incoming = incoming
        self._ready: set[object] = set()
        self._poll_list: list[tuple[RawSocket | int, int]] = [
            (self._socket, zmq.POLLIN),
            (self._connection.monitor, zmq.POLLIN),
        ]
        self._socket.connect(self._address)

    def watch_fd(self, fd: int) -> Callable[[], bool]:
        """`receive` also wakes up when this becomes readable (signals, the lifeline).
        What is returned says whether it was at the last wait."""
        self._poll_list.append((fd, zmq.POLLIN))
        return lambda: fd in self._ready

    def receive(self, timeout_ms: int) -> In | Connected | None:
        """The next message, in order; None if nothing came in time, or a descriptor is ready."""
        ready = self._ready = wait_ready(self._poll_list, timeout_ms)
        if self._connection.monitor in ready and self._connection.refresh():
            return Connected()
        return self._next() if self._socket in ready else None

    def send(self, message: Out, timeout_ms: int = 0) -> None:
        """Waits so long for room (or for an owner); NotSentError if there is none."""
        parts = self._outgoing.encode(message)
        if send_now(self._socket, parts):
            return
        self._socket.poll(timeout_ms, zmq.POLLOUT)
        if not send_now(self._socket, parts):
            kind = type(message).__name__
            raise NotSentError(f"{kind} was not sent: no owner at {self._address} takes it")

    def close(self) -> None:
        """Twice is harmless."""
        if self._socket.closed:
            return
        self._connection.close()
        self._socket.close(0)
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> In | None:
        while parts := receive_now(self._socket):
            try:
                return self._incoming.decode(parts)[0]
            except ProtocolVersionError:
                raise
            except FrameError as error:
                note_dropped(error)
        return None


def sync_adapter_peer(runtime_dir: Path, identity: str) -> SyncPeer[AdapterBatch, ToAdapter]:
    """The connection of who plays the watch adapter."""
    codecs = FROM_ADAPTER, TO_ADAPTER
    return SyncPeer(runtime_dir, Channel.ADAPTER, identity, *codecs)


def sync_binder_peer(runtime_dir: Path, identity: str) -> SyncPeer[FromBinder, ToBinder]:
    """The connection of who plays the binder."""
    codecs = FROM_BINDER, TO_BINDER
    return SyncPeer(runtime_dir, Channel.BINDERS, identity, *codecs)
