"""ScorerSockets: a scoring worker's two connections to the owner, behind one poll.

Synchronous, for one thread. Deltas are handed out before work, so that a worker is as fresh as it
can be when it looks at what it was given.

A loss is always told, never silent: damaged frames of the snapshot channel come out as
`SnapshotDamaged` (treat it as a gap), a new connection to the owner as `Connected` (say Hello;
after the first one it means that the owner may be another, or that messages were lost), and damaged
work too. Dropped frames show in the sequence numbers.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import zmq

from shared.errors import FrameError, OperationalError, ProtocolVersionError
from shared.messages.codec import Codec
from shared.messages.frames import MAGIC, Buffer
from shared.messages.from_scorer import FROM_SCORER, FromScorer
from shared.messages.to_scorer import SNAPSHOTS, TO_SCORER, Published, ToScorer
from shared.transport.channels import LIMITS, SUBSCRIBER_TOPIC, Channel
from shared.transport.connection import Closing, Connected, note_dropped
from shared.transport.remote import RemoteOwner
from shared.transport.sockets import (
    COPY_BYTES_MAX,
    ConnectionWatch,
    Poller,
    RawSocket,
    frames_now,
    messages_now,
    new_socket,
    send_now,
)

LINGER_MS: Final = 500


class RefusedError(OperationalError):
    """The owner does not want this worker."""


class SnapshotDamaged(NamedTuple):
    """A frame of the snapshot channel could not be used: the copy has a hole from here on."""

    problem: str


class FromOwner(NamedTuple):
    message: ToScorer | Published | Connected | SnapshotDamaged
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
        self._connection = ConnectionWatch(self._work)
        self._is_newly_connected = False
        self.address = _address(way, Channel.SCORERS)
        for socket, channel in (
            (self._snapshots, Channel.SNAPSHOTS),
            (self._work, Channel.SCORERS),
        ):
            if isinstance(way, RemoteOwner):
                way.prepare(socket)
            socket.connect(_address(way, channel))
        self._ready: dict[object, int] = {}
        self._poller = Poller()
        for socket in (self._snapshots, self._work, self._connection.monitor):
            self._poller.add_socket(socket)

    @property
    def is_connected(self) -> bool:
        return self._connection.is_connected

    @property
    def failed_count(self) -> int:
        """Handshakes that failed so far; see `ConnectionWatch`."""
        return self._connection.failed_count

    def watch_fd(self, fd: int) -> Callable[[], bool]:
        """`poll` also wakes up when this becomes readable (signals, the supervisor's lifeline).
        What is returned says whether it was at the last wait."""
        self._poller.watch_fd(fd)
        return lambda: fd in self._ready

    def poll(self, timeout_ms: int) -> list[FromOwner]:
        """What has come; waits up to `timeout_ms` (-1: for ever) if there is nothing.

        May return early with nothing (the owner went away, a descriptor is ready). RefusedError if
        the owner does not take our key, ProtocolVersionError if it is of another version.
        """
        ready = self._ready = self._poller.wait(timeout_ms)
        received: list[FromOwner] = []
        if self._connection.monitor in ready:
            self._is_newly_connected |= self._connection.refresh()
        if self._is_newly_connected:
            self._is_newly_connected = False
            received.append(FromOwner(Connected(), ()))
        if self._connection.is_refused:
            problem = f"the owner at {self.address} does not allow this worker's key"
            raise RefusedError(f"{problem}; append its .pub file to --workers-allowed-file there")
        if self._snapshots in ready:
            self._take(self._snapshots, Channel.SNAPSHOTS, SNAPSHOTS, received)
        if self._work in ready:
            self._take(self._work, Channel.SCORERS, TO_SCORER, received)
        return received

    def send(self, message: FromScorer, timeout_ms: int = 0) -> bool:
        """False: not sent; the owner is away (nothing of it will arrive), or its queue is full.

        Waits up to `timeout_ms` (-1: for ever) for room in the queue, but not for an owner.
        """
        parts = FROM_SCORER.encode(message)
        self._poller.used |= {self._work, self._connection.monitor}
        if send_now(self._work, parts):
            return True
        room_or_news: list[tuple[RawSocket | int, int]] = [
            (self._work, zmq.POLLOUT),
            (self._connection.monitor, zmq.POLLIN),
        ]
        while timeout_ms:
            self._is_newly_connected |= self._connection.refresh()
            if not self._connection.is_connected:
                return False
            ready: set[object] = {one for one, _ in zmq.zmq_poll(room_or_news, timeout_ms)}
            if self._work in ready or not ready:
                return send_now(self._work, parts)
        return False

    def close(self) -> None:
        self._connection.close()
        self._snapshots.close()
        self._work.close()
        self._context.term()
        self._poller.close()

    def _take(
        self,
        socket: RawSocket,
        channel: Channel,
        codec: Codec[ToScorer] | Codec[Published],
        received: list[FromOwner],
    ) -> None:
        for parts in messages_now(socket, LIMITS[channel].drained_per_poll, _receive_large_now):
            try:
                received.append(FromOwner(*codec.decode(parts)))
            except ProtocolVersionError:
                raise
            except FrameError as error:
                note_dropped(error)
                # Of the work it may have been pods, or the snapshot that we wait for: who greets
                # again is told all of it again.
                is_work = channel is Channel.SCORERS
                told = Connected() if is_work else SnapshotDamaged(str(error))
                received.append(FromOwner(told, ()))


def _address(way: Path | RemoteOwner, channel: Channel) -> str:
    return way.address(channel) if isinstance(way, RemoteOwner) else channel.address(way)


def _receive_large_now(socket: RawSocket) -> list[Buffer]:
    """As `receive_now`, but large frames are windows on what ZeroMQ received, without a copy."""
    frames = frames_now(socket)
    return [f.buffer if len(f) > COPY_BYTES_MAX else f.bytes for f in frames]
