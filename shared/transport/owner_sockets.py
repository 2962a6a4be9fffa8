"""OwnerSockets: the owner's end of every channel, behind one poll.

Synchronous, for one thread: `poll` sleeps until something is there (no busy polling), then takes
what has come, in a fixed order of channels and up to each channel's bound, so that a flood on one
cannot starve the others; what is left makes the next `poll` return at once.

A scorer's messages are held back until its subscription to the snapshots is in force. So whoever
answers its Hello with a full snapshot knows that it will be sent every delta published after that.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import zmq

from shared.errors import FrameError, ProtocolVersionError
from shared.limits import HELD_MESSAGES_MAX, HELD_PEERS_MAX
from shared.messages.admin import ADMIN_ANSWER, ADMIN_REQUEST, AdminAnswer
from shared.messages.codec import Buffer, Codec, seal
from shared.messages.from_binder import FROM_BINDER
from shared.messages.from_scorer import FROM_SCORER
from shared.messages.to_binder import TO_BINDER, ToBinder
from shared.messages.to_owner import FROM_ADAPTER, TO_ADAPTER, ToAdapter
from shared.messages.to_scorer import SNAPSHOTS, TO_SCORER, SnapshotDelta, ToScorer
from shared.transport.channels import LIMITS, SUBSCRIBER_TOPIC, Channel, Closing
from shared.transport.heard import PeerGone, Said
from shared.transport.local_entrance import LocalEntrance
from shared.transport.local_stream import note_dropped
from shared.transport.remote import Gatekeeper, WorkersEntrance
from shared.transport.runtime_dir import AddressInUseError, OwnerLock
from shared.transport.sockets import Poller, RawSocket, messages_now, new_socket, send_now

LINGER_MS: Final = 500
"""At the end, a last Drain or answer may still leave; one that does not read does not hold us."""
_SUBSCRIBE: Final = 1

FromOwner = ToAdapter | ToScorer | ToBinder | AdminAnswer


class OwnerSockets(Closing):
    """Binds all channels. One for each runtime directory, which the lock makes sure of."""

    def __init__(self, runtime_dir: Path) -> None:
        self._lock = OwnerLock(runtime_dir)
        self._context: zmq.Context[RawSocket] = zmq.Context()
        self._poller = Poller()
        self.watch_fd = self._poller.watch_fd
        self._sockets: dict[Channel, RawSocket] = {}
        self._entrances: dict[Channel, LocalEntrance] = {}
        self._subscribers: set[bytes] = set()
        self._held: dict[bytes, list[Said]] = {}
        self._gatekeeper: Gatekeeper | None = None
        try:
            for channel in _ORDER:
                with _binding(channel, channel.address(runtime_dir)) as address:
                    if channel in _OF_ZEROMQ:
                        kind = _OF_ZEROMQ[channel]
                        socket = new_socket(self._context, kind, channel, LINGER_MS)
                        self._sockets[channel] = socket
                        socket.bind(address)
                        self._poller.add_socket(socket)
                    else:
                        entrance = LocalEntrance(runtime_dir, channel, self._poller)
                        self._entrances[channel] = entrance
        except BaseException:
            self.close()
            raise

    def admit_workers(self, entrance: WorkersEntrance) -> None:
        """Lets workers of other hosts in from now on; AddressInUseError if the ports are taken. Options
        count for what is bound later, so the same two sockets serve workers here, without keys, and
        there."""
        assert self._gatekeeper is None, "the entrance is open"
        self._gatekeeper = Gatekeeper(self._context, entrance.allowed_path)
        self._poller.add_socket(self._gatekeeper.socket)
        for channel, address in entrance.addresses.items():
            socket = self._sockets[channel]
            self._poller.used.add(socket)
            entrance.prepare(socket)
            with _binding(channel, address):
                socket.bind(address)

    def poll(self, timeout_ms: int) -> list[Said | PeerGone]:
        """What has come, in order within each channel; waits up to `timeout_ms` (-1: for ever). May
        return early with nothing (a message was damaged or held back, a descriptor is ready)."""
        received: list[Said | PeerGone] = []
        has_more = any(entrance.has_more for entrance in self._entrances.values())
        ready = self._poller.wait(0 if has_more else timeout_ms)
        if self._gatekeeper is not None and self._gatekeeper.socket in ready:
            self._gatekeeper.answer()
        for channel in _ORDER:
            count_max = LIMITS[channel].drained_per_poll
            if channel in self._entrances:
                for peer, parts in self._entrances[channel].take(ready, count_max):
                    self._take(channel, peer, parts, received)
            elif (socket := self._sockets[channel]) in ready:
                for frames in messages_now(socket, count_max):
                    first, *rest = [frame.bytes for frame in frames]
                    if channel is Channel.SNAPSHOTS:
                        self._take_notice(first, received)
                    else:
                        key_name = "" if self._gatekeeper is None else _key_name_of(frames[-1])
                        self._take(channel, first, rest, received, key_name)
        return received

    def send(
        self, channel: Channel, peer: bytes, message: FromOwner, buffers: Sequence[Buffer] = ()
    ) -> bool:
        """False: not sent, because the peer is gone or its queue is full; the caller keeps it. The
        buffers are not copied: they may not change any more."""
        _, kind, outgoing = _CODECS[channel]
        assert isinstance(message, kind), f"{type(message).__name__} on channel {channel}"
        return self._send(channel, peer, outgoing.encode(message, buffers))

    def _send(self, channel: Channel, peer: bytes, parts: list[Buffer]) -> bool:
        entrance = self._entrances.get(channel)
        if entrance is not None:
            return entrance.send(peer, parts)
        self._poller.used.add(self._sockets[channel])
        return send_now(self._sockets[channel], [peer, *parts])

    def publish(self, message: SnapshotDelta, buffers: Sequence[Buffer] = ()) -> None:
        """To all scorers, buffers as with `send`. One that is too slow loses it and notices by the
        sequence."""
        socket = self._sockets[Channel.SNAPSHOTS]
        self._poller.used.add(socket)
        sent = send_now(socket, SNAPSHOTS.encode(message, buffers))
        assert sent, "XPUB drops, it does not block"

    def close(self) -> None:
        """Closes the sockets and lets the next owner in. Twice is harmless."""
        for entrance in self._entrances.values():
            entrance.close(LINGER_MS / 1000)
        for socket in self._sockets.values():
            socket.close()
        if self._gatekeeper is not None:
            self._gatekeeper.close()
        self._entrances.clear()
        self._sockets.clear()
        self._context.term()
        self._poller.close()
        self._lock.close()

    def _take(
        self,
        channel: Channel,
        peer: bytes,
        parts: Sequence[Buffer],
        received: list[Said | PeerGone],
        key_name: str = "",
    ) -> None:
        try:
            message, _ = _CODECS[channel][0].decode(parts)
        except FrameError as error:
            note_dropped(error)
            if isinstance(error, ProtocolVersionError):
                # It cannot read this; that is what tells it.
                self._send(channel, peer, seal(b""))
            return
        one = Said(peer, message, key_name)
        if channel is Channel.SCORERS and peer not in self._subscribers:
            self._hold(one)
        else:
            received.append(one)

    def _hold(self, one: Said) -> None:
        if one.peer not in self._held and len(self._held) >= HELD_PEERS_MAX:
            self._held.pop(next(iter(self._held)))
        held = self._held.setdefault(one.peer, [])
        if len(held) < HELD_MESSAGES_MAX:
            held.append(one)
        else:
            told = f"channel {Channel.SCORERS}: {one.peer!r} talks on without a subscription"
            note_dropped(told)

    def _take_notice(self, notice: bytes, received: list[Said | PeerGone]) -> None:
        """Of a subscription, or of its end."""
        if not notice[1:].startswith(SUBSCRIBER_TOPIC):
            return
        peer = notice[1 + len(SUBSCRIBER_TOPIC) :]
        if notice[0] == _SUBSCRIBE:
            self._subscribers.add(peer)
            received.extend(self._held.pop(peer, ()))
        elif peer in self._subscribers:
            self._subscribers.discard(peer)
            received.append(PeerGone(Channel.SCORERS, peer))


_ORDER: Final = (
    # Few and urgent first; the flood last. Subscriptions after the scorers' messages, so that what
    # a scorer said before it died comes before its end.
    Channel.ADMIN,
    Channel.BINDERS,
    Channel.SCORERS,
    Channel.SNAPSHOTS,
    Channel.ADAPTER,
)

_OF_ZEROMQ: Final = {Channel.SNAPSHOTS: zmq.XPUB, Channel.SCORERS: zmq.ROUTER}
"""What workers of other hosts use, too."""

_CODECS: Final[dict[Channel, tuple[Codec[Any], Any, Codec[Any]]]] = {
    Channel.ADMIN: (ADMIN_REQUEST, AdminAnswer, ADMIN_ANSWER),
    Channel.BINDERS: (FROM_BINDER, ToBinder, TO_BINDER),
    Channel.SCORERS: (FROM_SCORER, ToScorer, TO_SCORER),
    Channel.ADAPTER: (FROM_ADAPTER, ToAdapter, TO_ADAPTER),
}
"""Of what comes, and of what may be sent."""


@contextmanager
def _binding(channel: Channel, address: str) -> Iterator[str]:
    try:
        yield address
    except (OSError, zmq.ZMQError) as error:
        told = f"cannot bind {address} ({channel}): {error.strerror}"
        raise AddressInUseError(told) from error


def _key_name_of(frame: zmq.Frame) -> str:
    """Under which the gatekeeper let the sender in; empty for one of this host, who needs no key."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""  # libzmq: no such property.
