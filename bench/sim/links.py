"""The channels between the processes of one berth, without sockets.

They keep what the real ones promise and no more: messages of one direction of one channel arrive in
order or not at all; a new life of either end loses what was on its way; a subscriber may lose
snapshots; who connects is told by `Connected`. Every message goes through its codec, so no two
processes share an object.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.sim.schedule import Latency, Process, Simulation
from bench.sim.virtual_loop import VirtualLoop
from shared.errors import FrameError
from shared.messages.admin import ADMIN_ANSWER, ADMIN_REQUEST
from shared.messages.codec import Buffer, Codec
from shared.messages.from_binder import FROM_BINDER
from shared.messages.from_scorer import FROM_SCORER
from shared.messages.to_binder import TO_BINDER
from shared.messages.to_owner import FROM_ADAPTER, TO_ADAPTER
from shared.messages.to_scorer import SNAPSHOTS, TO_SCORER, SnapshotDelta, SnapshotFull
from shared.transport.channels import Channel, Connected
from shared.transport.heard import PeerGone, Said
from shared.transport.scorer_sockets import FromOwner

LINK_S_MEDIAN: Final = 0.000_1
RECONNECT_S_MAX: Final = 0.5
"""ZeroMQ tries again after a tenth of a second and then less often."""
UNNOTICED_SHARE: Final = 0.3
"""Of connections that begin or end without being noticed at once."""
QUEUE_MAX: Final = 32
"""Batches on the way from the adapter before it has to wait."""

_TO_OWNER: Final[dict[Channel, Codec[Any]]] = {
    Channel.BINDERS: FROM_BINDER,
    Channel.SCORERS: FROM_SCORER,
    Channel.ADAPTER: FROM_ADAPTER,
    Channel.ADMIN: ADMIN_REQUEST,
}
_FROM_OWNER: Final[dict[Channel, Codec[Any]]] = {
    Channel.BINDERS: TO_BINDER,
    Channel.SCORERS: TO_SCORER,
    Channel.ADAPTER: TO_ADAPTER,
    Channel.ADMIN: ADMIN_ANSWER,
}
_ORDER: Final = (Channel.ADMIN, Channel.BINDERS, Channel.SCORERS, Channel.ADAPTER)
"""In which the owner reads them."""


class Pause(Exception):  # noqa: N818 # It ends a turn, nothing failed.
    """A process of one thread has read all that there was and would sleep now."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__()
        self.timeout_ms = timeout_ms


class OneTurn:
    """Lets `poll` of a process of one thread return once in each turn."""

    def __init__(self) -> None:
        self.has_polled = True

    def begin(self) -> None:
        self.has_polled = False

    def check(self, timeout_ms: int) -> None:
        if self.has_polled:
            raise Pause(timeout_ms)
        self.has_polled = True


class Links:
    """Who is connected to the owner, and what is on its way."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.owner: OwnerEnd | None = None
        self.on_message: Callable[[PeerEnd, Any], None] | None = None
        """Told of every message to one peer or from it, when its sender hands it over."""
        self.on_snapshot: Callable[[SnapshotDelta | SnapshotFull], None] | None = None
        """Told of every snapshot when the owner hands it over."""
        self.on_read: Callable[[Said], None] | None = None
        """Told of every message when the owner reads it, before it does anything about it."""
        self.peers: dict[bytes, PeerEnd] = {}
        self.message_counts: dict[str, int] = {}
        self._digest = hashlib.blake2b(digest_size=16)

    def digest(self) -> str:
        """Of every message that was sent so far, in order."""
        return self._digest.hexdigest()

    def sent(self, message: object, parts: Sequence[Buffer]) -> None:
        kind = type(message).__name__
        self.message_counts[kind] = self.message_counts.get(kind, 0) + 1
        for part in parts:
            self._digest.update(part)


class OwnerEnd:
    """The owner's sockets (`shared.transport.owner_sockets.OwnerSockets`) of one life."""

    def __init__(self, links: Links, process: Process) -> None:
        self.links = links
        self.process = process
        self.turn = OneTurn()
        self.unnoticed_until_s: dict[bytes, float] = {}
        """Connections that have ended without the system having noticed: what is sent there is lost."""
        self._inbox: dict[Channel, deque[Said | PeerGone]] = {
            channel: deque() for channel in _ORDER
        }
        links.owner = self
        for peer in links.peers.values():
            peer.connect_soon()

    def arrive(self, channel: Channel, heard: Said | PeerGone) -> None:
        self._inbox[channel].append(heard)
        self.process.wake()

    def poll(self, timeout_ms: int) -> list[Said | PeerGone]:
        self.turn.check(timeout_ms)
        received: list[Said | PeerGone] = []
        for channel in _ORDER:
            received += self._inbox[channel]
            if channel is Channel.ADAPTER:
                for one in self._inbox[channel]:
                    if one.peer in self.links.peers:
                        self.links.peers[one.peer].has_been_read()
            self._inbox[channel].clear()
        if self.links.on_read is not None:
            for one in received:
                if isinstance(one, Said):
                    self.links.on_read(one)
        return received

    def send(
        self, channel: Channel, peer: bytes, message: Any, buffers: Sequence[Buffer] = ()
    ) -> bool:
        end = self.links.peers.get(peer)
        if end is None or not end.is_known_to(self):
            return self.links.simulation.now_s < self.unnoticed_until_s.get(peer, 0.0)
        if self.process.may_send():
            parts = _whole(_FROM_OWNER[channel].encode(message, buffers))
            self.links.sent(message, parts)
            if self.links.on_message is not None:
                self.links.on_message(end, message)
            if isinstance(message, SnapshotFull) and self.links.on_snapshot is not None:
                self.links.on_snapshot(message)
            end.carry_down(parts)
        return True

    def publish(self, message: Any, buffers: Sequence[Buffer] = ()) -> None:
        if not self.process.may_send():
            return
        parts = _whole(SNAPSHOTS.encode(message, buffers))
        self.links.sent(message, parts)
        if self.links.on_snapshot is not None:
            self.links.on_snapshot(message)
        for end in self.links.peers.values():
            if isinstance(end, ScorerEnd) and end.is_known_to(self):
                end.carry_snapshot(parts)

    def close(self) -> None:
        """The owner is dead: everybody notices sooner or later."""
        if self.links.owner is self:
            self.links.owner = None
        for peer in self.links.peers.values():
            peer.disconnect()


def _whole(parts: Sequence[Buffer]) -> list[Buffer]:
    return [bytes(part) for part in parts]


class PeerEnd:
    """What all ends have in common that connect to the owner."""

    def __init__(self, links: Links, process: Process, channel: Channel, identity: str) -> None:
        self.links = links
        self.process = process
        self.channel = channel
        self.identity = identity.encode()
        self.is_connected = False
        self.unread_count = 0
        self._owner: OwnerEnd | None = None
        self._rng = links.simulation.rng(f"link {identity}")
        self._up = Latency(self._rng, LINK_S_MEDIAN)
        self._down = Latency(self._rng, LINK_S_MEDIAN)
        self._up_s = self._down_s = 0.0
        self._connection = 0
        """Counts connections: what was sent on another is lost."""
        self.noticed_count = 0
        self._noticed_s = 0.0
        self._has_last_words = self._rng.random() < 0.5
        """What it had sent when it died still arrives."""
        links.peers[self.identity] = self
        self.connect_soon()

    def is_known_to(self, owner: OwnerEnd) -> bool:
        return self._owner is owner

    # Connections ------------------------------------------------------------------------------------

    def connect_soon(self) -> None:
        self._connection += 1
        connection = self._connection
        delay_s = self._rng.random() * RECONNECT_S_MAX
        self.links.simulation.after(delay_s, lambda: self._connect(connection))

    def _connect(self, connection: int) -> None:
        if connection != self._connection or not self.process.is_alive or self._owner is not None:
            return
        if self.links.owner is not None:
            self._owner = self.links.owner
            self._notice(self._notice_connection)

    def _notice(self, act: Callable[[], None]) -> None:
        """What a socket's monitor tells comes later than it happens; messages may overtake it."""
        simulation = self.links.simulation
        lag_s = self._down.draw_s() if self._rng.random() < UNNOTICED_SHARE else 0.0
        self._noticed_s = max(self._noticed_s, simulation.now_s + lag_s)
        simulation.at(self._noticed_s, lambda: act() if self.process.is_alive else None)

    def _notice_connection(self) -> None:
        self.is_connected = True
        self.noticed_count += 1
        self.arrive_connected()

    def _notice_disconnection(self) -> None:
        self.is_connected = False
        self.noticed_disconnection()

    def disconnect(self) -> None:
        """The connection is gone, and what was on its way."""
        self._connection += 1
        self._owner = None
        self.unread_count = 0
        self._notice(self._notice_disconnection)

    def break_off(self) -> None:
        """The connection breaks while both ends live on."""
        owner = self._owner
        if owner is None:
            return
        self.disconnect()
        self._leave(owner)
        self.connect_soon()

    def vanish(self) -> None:
        """The process at this end is dead, or has closed it."""
        owner = self._owner
        self._connection += 1
        self._owner = None
        self.is_connected = False
        self.links.peers.pop(self.identity, None)
        if owner is not None:
            self._leave(owner)

    def _leave(self, owner: OwnerEnd) -> None:
        until_s = self.links.simulation.now_s + self._rng.choice((0.0, self._up.draw_s()))
        owner.unnoticed_until_s[self.identity] = until_s
        self.gone_from(owner)

    def gone_from(self, owner: OwnerEnd) -> None:
        """What an owner is told of a connection that has ended: of most channels nothing."""

    def noticed_disconnection(self) -> None:
        """What this end does about it: nothing, in most channels."""

    def arrive_connected(self) -> None:
        raise NotImplementedError

    # Messages ---------------------------------------------------------------------------------------

    def carry_up(self, message: Any) -> bool:
        """Towards the owner; False where there is none."""
        if self._owner is None:
            return False
        if not self.process.may_send():
            return True
        parts = _whole(_TO_OWNER[self.channel].encode(message))
        self.links.sent(message, parts)
        if self.links.on_message is not None:
            self.links.on_message(self, message)
        simulation, connection, owner = self.links.simulation, self._connection, self._owner
        self._up_s = max(self._up_s, simulation.now_s + self._up.draw_s())
        self.unread_count += 1

        def arrive() -> None:
            is_last_word = self._has_last_words and not self.process.is_alive
            if owner.process.is_alive and (is_last_word or connection == self._connection):
                decoded, _ = _TO_OWNER[self.channel].decode(parts)
                owner.arrive(self.channel, Said(self.identity, decoded))

        simulation.at(self._up_s, arrive)
        return True

    def has_been_read(self) -> None:
        self.unread_count = max(0, self.unread_count - 1)

    def carry_down(self, parts: list[Buffer]) -> None:
        simulation = self.links.simulation
        self._down_s = max(self._down_s, simulation.now_s + self._down.draw_s())
        self._deliver(self._down_s, lambda: self.arrive(parts))

    def _deliver(self, at_s: float, act: Callable[[], None]) -> None:
        connection = self._connection

        def arrive() -> None:
            if connection == self._connection and self.process.is_alive:
                act()

        self.links.simulation.at(at_s, arrive)

    def arrive(self, parts: list[Buffer]) -> None:
        raise NotImplementedError


class ScorerEnd(PeerEnd):
    """A worker's sockets (`shared.transport.scorer_sockets.ScorerSockets`)."""

    def __init__(self, links: Links, process: Process, identity: str) -> None:
        self.turn = OneTurn()
        self.failed_count = 0
        self.snapshots_to_lose = 0
        self.snapshots_to_damage = 0
        self._inbox: list[FromOwner] = []
        self._snapshots: list[FromOwner] = []
        self._news_s = 0.0
        super().__init__(links, process, Channel.SCORERS, identity)
        self._news = Latency(self._rng, LINK_S_MEDIAN)

    def watch_fd(self, fd: int) -> None:
        """There are none; whoever has something wakes the process."""

    def poll(self, timeout_ms: int) -> list[FromOwner]:
        self.turn.check(timeout_ms)
        connected = [one for one in self._inbox if isinstance(one.message, Connected)]
        work = [one for one in self._inbox if not isinstance(one.message, Connected)]
        came = [*connected, *self._snapshots, *work]
        self._inbox, self._snapshots = [], []
        return came

    def send(self, message: Any, timeout_ms: int = 0) -> bool:
        del timeout_ms
        return self.carry_up(message)

    def arrive_connected(self) -> None:
        self._inbox.append(FromOwner(Connected(), ()))
        self.process.wake()

    def gone_from(self, owner: OwnerEnd) -> None:
        identity = self.identity

        def tell() -> None:
            if self.links.owner is owner and owner.process.is_alive:
                owner.arrive(Channel.SCORERS, PeerGone(Channel.SCORERS, identity))

        # After all that it had said: the two travel on different sockets, but are read in that order.
        self.links.simulation.at(max(self._up_s, self.links.simulation.now_s) + 1e-6, tell)

    def carry_snapshot(self, parts: list[Buffer]) -> None:
        if self.snapshots_to_lose > 0:
            self.snapshots_to_lose -= 1
            return
        simulation = self.links.simulation
        self._news_s = max(self._news_s, simulation.now_s + self._news.draw_s())
        self._deliver(self._news_s, lambda: self.hear_snapshot(parts))

    def hear_snapshot(self, parts: list[Buffer]) -> None:
        if self.snapshots_to_damage > 0:
            self.snapshots_to_damage -= 1
            parts = [parts[0], bytes(part ^ 255 for part in parts[1]), *parts[2:]]
        try:
            self._snapshots.append(FromOwner(*SNAPSHOTS.decode(parts)))
        except FrameError:
            self._snapshots.append(FromOwner(Connected(), ()))
        self.process.wake()

    def arrive(self, parts: list[Buffer]) -> None:
        self._inbox.append(FromOwner(*TO_SCORER.decode(parts)))
        self.process.wake()


class AsyncEnd(PeerEnd):
    """The connection of an asyncio process (`shared.transport.async_peer.AsyncPeer`)."""

    def __init__(self, links: Links, loop: VirtualLoop, channel: Channel, identity: str) -> None:
        self._loop = loop
        self._received: deque[Any] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        super().__init__(links, loop, channel, identity)

    async def recv(self) -> Any:
        while not self._received:
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._received.popleft()

    def send_nowait(self, message: Any) -> bool:
        return self.carry_up(message)

    async def send(self, message: Any) -> bool:
        count = self.noticed_count
        while self.is_connected and count == self.noticed_count:
            if self.unread_count < QUEUE_MAX and self.carry_up(message):
                return True
            writer = self._loop.create_future()
            self._writers.append(writer)
            await writer
        return False

    def close(self) -> None:
        self.vanish()

    def has_been_read(self) -> None:
        super().has_been_read()
        self._wake_writers()

    def noticed_disconnection(self) -> None:
        self._wake_writers()

    def _wake_writers(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            if not writer.done() and self.process.is_alive:
                writer.set_result(None)

    def arrive_connected(self) -> None:
        self._take(Connected())

    def arrive(self, parts: list[Buffer]) -> None:
        self._take(_FROM_OWNER[self.channel].decode(parts)[0])

    def _take(self, message: Any) -> None:
        self._received.append(message)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
