"""SyncPeer: a connection to the owner for processes that do one thing at a time.

The synchronous sister of `AsyncPeer`, without an event loop between the socket and its user: a round
trip costs half as much. For the measuring and replaying processes of `bench`.
"""

import select
import time
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

from shared.errors import FrameError, OperationalError, ProtocolVersionError
from shared.messages.codec import Codec
from shared.messages.from_binder import FROM_BINDER, FromBinder
from shared.messages.to_binder import TO_BINDER, ToBinder
from shared.messages.to_owner import FROM_ADAPTER, TO_ADAPTER, AdapterBatch, ToAdapter
from shared.transport.channels import RECONNECT_MS, Channel, Connected
from shared.transport.local_stream import LocalStream, connected_stream, note_dropped
from shared.transport.sockets import Poller

In = TypeVar("In")
Out = TypeVar("Out")

_MESSAGES_AT_ONCE: Final = 256


class NotSentError(OperationalError):
    """The owner is away, or does not read."""


class SyncPeer(Generic[Out, In]):
    """Sends Out, receives In, and is told of each (new) connection by `Connected`."""

    def __init__(
        self,
        runtime_dir: Path,
        channel: Channel,
        identity: str,
        outgoing: Codec[Out],
        incoming: Codec[In],
    ) -> None:
        """`identity` names this life of this process."""
        self._way = runtime_dir, channel, identity.encode()
        self._outgoing = outgoing
        self._incoming = incoming
        self._poller = Poller()
        self.watch_fd = self._poller.watch_fd
        self._stream: LocalStream | None = None
        self._is_told = True
        """That there is a connection."""

    def receive(self, timeout_ms: int) -> In | Connected | None:
        """The next message, in order; None if nothing came in time, or a descriptor is ready."""
        stream = self._stream or self._connect()
        if stream is None:
            self._poller.wait(min(timeout_ms, RECONNECT_MS))
            return None
        if not self._is_told:
            self._is_told = True
            return Connected()
        if not stream.received:
            self._poller.wait(timeout_ms)
            self._flush(stream)
            stream.receive(_MESSAGES_AT_ONCE)
        message = self._next(stream)
        if message is None and stream.is_over:
            self._leave(stream)
        return message

    def send(self, message: Out, timeout_ms: int = 0) -> None:
        """Waits so long for room (or for an owner), NotSentError if there is none, and for the message
        to leave: whoever only sends has no later call that would go on with it."""
        parts = self._outgoing.encode(message)
        end_s = time.monotonic() + timeout_ms / 1000
        while (stream := self._stream or self._connect()) is None or not stream.send(parts):
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                kind = type(message).__name__
                path = self._way[1].path(self._way[0])
                raise NotSentError(f"{kind} was not sent: no owner at {path} takes it")
            if stream is None:
                select.select([], [], [], min(left_s, RECONNECT_MS / 1000))
                continue
            select.select([], [stream.fd], [], left_s)
            stream.flush()
            stream.receive(_MESSAGES_AT_ONCE)
            if stream.is_over:
                self._leave(stream)
        while stream.has_unsent and (left_s := end_s - time.monotonic()) > 0:
            select.select([], [stream.fd], [], left_s)
            stream.flush()
        self._flush(stream)

    def close(self) -> None:
        """Twice is harmless."""
        if self._stream is not None:
            self._leave(self._stream)
        self._poller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> LocalStream | None:
        stream = self._stream = connected_stream(*self._way)
        if stream is not None:
            self._poller.watch_fd(stream.fd)
            self._is_told = False
        return stream

    def _leave(self, stream: LocalStream) -> None:
        self._stream = None
        stream.close()

    def _flush(self, stream: LocalStream) -> None:
        had_unsent = stream.has_unsent
        stream.flush()
        if had_unsent:
            events = select.EPOLLIN | (select.EPOLLOUT if stream.has_unsent else 0)
            self._poller.watch_for(stream.fd, events)

    def _next(self, stream: LocalStream) -> In | None:
        while stream.received:
            try:
                return self._incoming.decode(stream.received.popleft())[0]
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
