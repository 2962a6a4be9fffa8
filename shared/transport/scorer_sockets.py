"""ScorerSockets: a scoring worker's two connections to the owner, behind one poll.

Synchronous, for one thread. Deltas are handed out before work, so that a worker is as fresh as it
can be when it looks at what it was given.

A loss is always told, never silent: a new connection to the owner comes out as `Connected` (say Hello;
after the first one it means that the owner may be another, or that messages were lost), and a damaged
message too. Dropped frames show in the sequence numbers.
"""

import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import zmq

from shared.errors import FrameError, OperationalError, ProtocolVersionError
from shared.messages.codec import MAGIC, Buffer, Codec
from shared.messages.from_scorer import FROM_SCORER, FromScorer
from shared.messages.to_scorer import SNAPSHOTS, TO_SCORER, SnapshotDelta, ToScorer
from shared.transport.channels import LIMITS, SUBSCRIBER_TOPIC, Channel, Closing, Connected
from shared.transport.local_stream import note_dropped
from shared.transport.remote import RemoteOwner
from shared.transport.sockets import (
    COPY_BYTES_MAX,
    Poller,
    RawSocket,
    messages_now,
    new_socket,
    send_now,
)

LINGER_MS: Final = 500
_EVENT: Final = struct.Struct("=Hi")
_FAILURES: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)


class RefusedError(OperationalError):
    """The owner does not want this worker."""


class FromOwner(NamedTuple):
    message: ToScorer | SnapshotDelta | Connected
    buffers: Sequence[Buffer]
    """Large ones are windows on the received message: valid as long as they are referenced, and not
    necessarily aligned (`numpy.frombuffer` copes)."""


class ScorerSockets(Closing):
    """Connects to the owner, whenever there is one."""

    def __init__(self, way: Path | RemoteOwner, identity: str) -> None:
        """`way`: on the owner's host, the runtime directory. `identity` names this life of this worker:
        a restarted worker must have another one."""
        self._context: zmq.Context[RawSocket] = zmq.Context()
        name = identity.encode()
        self._snapshots = new_socket(self._context, zmq.SUB, Channel.SNAPSHOTS, 0)
        # The order counts: when the owner knows of the second, the first is in force.
        self._snapshots.setsockopt(zmq.SUBSCRIBE, MAGIC)
        self._snapshots.setsockopt(zmq.SUBSCRIBE, SUBSCRIBER_TOPIC + name)
        self._work = new_socket(self._context, zmq.DEALER, Channel.SCORERS, LINGER_MS)
        self._work.setsockopt(zmq.ROUTING_ID, name)
        # ZeroMQ reconnects by itself and says nothing; but a new connection means a new owner, or that
        # messages were lost. A socket in the process tells, which is polled beside the first.
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _FAILURES
        self._monitor: RawSocket = self._work.get_monitor_socket(events)
        self.is_connected = False
        self._is_newly_connected = False
        self._is_refused = False
        """The owner does not take our key. ZeroMQ does not try again."""
        self.failed_count = 0
        """Connections that ended before they began: mostly, the key is that of another owner."""
        self.address = _address(way, Channel.SCORERS)
        for socket, channel in (
            (self._snapshots, Channel.SNAPSHOTS),
            (self._work, Channel.SCORERS),
        ):
            if isinstance(way, RemoteOwner):
                way.prepare(socket)
            socket.connect(_address(way, channel))
        self._poller = Poller()
        self.watch_fd = self._poller.watch_fd
        for socket in (self._snapshots, self._work, self._monitor):
            self._poller.add_socket(socket)

    def poll(self, timeout_ms: int) -> list[FromOwner]:
        """What has come; waits up to `timeout_ms` (-1: for ever). May return early with nothing (the
        owner went away, a descriptor is ready). RefusedError if the owner does not take our key,
        ProtocolVersionError if it is of another version."""
        ready = self._poller.wait(timeout_ms)
        received: list[FromOwner] = []
        if self._monitor in ready:
            self._hear_of_connection()
        if self._is_newly_connected:
            self._is_newly_connected = False
            received.append(FromOwner(Connected(), ()))
        if self._is_refused:
            problem = f"the owner at {self.address} does not allow this worker's key"
            raise RefusedError(f"{problem}; append its .pub file to --workers-allowed-file there")
        if self._snapshots in ready:
            self._take(self._snapshots, Channel.SNAPSHOTS, SNAPSHOTS, received)
        if self._work in ready:
            self._take(self._work, Channel.SCORERS, TO_SCORER, received)
        return received

    def send(self, message: FromScorer, timeout_ms: int = 0) -> bool:
        """False: not sent; the owner is away (nothing of it will arrive), or its queue is full. Waits up
        to `timeout_ms` (-1: for ever) for room in the queue, but not for an owner."""
        parts = FROM_SCORER.encode(message)
        self._poller.used |= {self._work, self._monitor}
        if send_now(self._work, parts):
            return True
        room_or_news: list[tuple[RawSocket | int, int]] = [
            (self._work, zmq.POLLOUT),
            (self._monitor, zmq.POLLIN),
        ]
        while timeout_ms:
            self._hear_of_connection()
            if not self.is_connected:
                return False
            ready: set[object] = {one for one, _ in zmq.zmq_poll(room_or_news, timeout_ms)}
            if self._work in ready or not ready:
                return send_now(self._work, parts)
        return False

    def close(self) -> None:
        self._work.disable_monitor()
        self._monitor.close(0)
        self._snapshots.close()
        self._work.close()
        self._context.term()
        self._poller.close()

    def _hear_of_connection(self) -> None:
        for frames in messages_now(self._monitor, sys.maxsize):
            event, _ = _EVENT.unpack_from(frames[0].bytes)
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.is_connected = self._is_newly_connected = True
            elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._is_refused = True
            elif event != zmq.EVENT_DISCONNECTED:
                self.failed_count += 1
            else:
                self.is_connected = False

    def _take(
        self,
        socket: RawSocket,
        channel: Channel,
        codec: Codec[ToScorer] | Codec[SnapshotDelta],
        received: list[FromOwner],
    ) -> None:
        for frames in messages_now(socket, LIMITS[channel].drained_per_poll):
            # Large ones are windows on what ZeroMQ received, without a copy.
            parts = [f.buffer if len(f) > COPY_BYTES_MAX else f.bytes for f in frames]
            try:
                received.append(FromOwner(*codec.decode(parts)))
            except ProtocolVersionError:
                raise
            except FrameError as error:
                note_dropped(error)
                # It may have been pods, or a part of the copy: who greets again is told all again.
                received.append(FromOwner(Connected(), ()))


def _address(way: Path | RemoteOwner, channel: Channel) -> str:
    return way.addresses[channel] if isinstance(way, RemoteOwner) else channel.address(way)
