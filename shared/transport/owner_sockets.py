"""OwnerSockets: the owner's end of every channel, behind one poll.

Synchronous, for one thread: `poll` sleeps until something is there (no busy polling), then takes
what has come, in a fixed order of channels and up to each channel's bound, so that a flood on one
cannot starve the others; what is left makes the next `poll` return at once.

A scorer's messages are held back until its subscription to the snapshots is in force. So whoever
answers its Hello with a full snapshot knows that it will be sent every delta published after that.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import zmq

from shared.errors import FrameError, ProtocolVersionError
from shared.limits import HELD_MESSAGES_MAX, HELD_PEERS_MAX
from shared.messages.admin import ADMIN_ANSWER, ADMIN_REQUEST, AdminAnswer
from shared.messages.codec import Codec
from shared.messages.frames import Buffer, seal
from shared.messages.from_binder import FROM_BINDER
from shared.messages.from_scorer import FROM_SCORER
from shared.messages.to_binder import TO_BINDER, ToBinder
from shared.messages.to_owner import FROM_ADAPTER, TO_ADAPTER, ToAdapter
from shared.messages.to_scorer import SNAPSHOTS, TO_SCORER, Published, ToScorer
from shared.transport.channels import LIMITS, SUBSCRIBER_TOPIC, Channel
from shared.transport.connection import Closing, note_dropped
from shared.transport.heard import PeerGone, Said
from shared.transport.local_entrance import LocalEntrance
from shared.transport.remote import Gatekeeper, WorkersEntrance
from shared.transport.runtime_dir import AddressInUseError, OwnerLock
from shared.transport.sockets import (
    Poller,
    RawSocket,
    frames_now,
    messages_now,
    new_socket,
    receive_now,
    send_now,
)

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
        self._ready: dict[object, int] = {}
        self._has_more = False
        """Messages that came are still to be taken."""

    def admit_workers(self, entrance: WorkersEntrance) -> None:
        """Lets workers of other hosts in from now on; AddressInUseError if the ports are taken.

        Options count for what is bound after they were set, so the same two sockets serve the workers
        here (no keys, private directory) and there (keys).
        """
        assert self._gatekeeper is None, "the entrance is open"
        self._gatekeeper = Gatekeeper(self._context, entrance.allowed_path)
        self._poller.add_socket(self._gatekeeper.socket)
        for channel, address in entrance.addresses.items():
            socket = self._sockets[channel]
            self._poller.used.add(socket)
            entrance.prepare(socket)
            with _binding(channel, address):
                socket.bind(address)

    def watch_fd(self, fd: int) -> Callable[[], bool]:
        """`poll` also wakes up when this becomes readable (signals, the supervisor's lifeline).
        What is returned says whether it was at the last wait."""
        self._poller.watch_fd(fd)
        return lambda: fd in self._ready

    def poll(self, timeout_ms: int) -> list[Said | PeerGone]:
        """What has come, in order within each channel; waits up to `timeout_ms` (-1: for ever).

        May return early with nothing (a message was damaged or held back, a descriptor is ready).
        """
        received: list[Said | PeerGone] = []
        ready = self._ready = self._poller.wait(0 if self._has_more else timeout_ms)
        self._has_more = False
        if self._gatekeeper is not None and self._gatekeeper.socket in ready:
            self._gatekeeper.answer()
        for channel in _ORDER:
            entrance = self._entrances.get(channel)
            if entrance is not None:
                if entrance.is_due(ready):
                    for peer, parts in entrance.take(ready, LIMITS[channel].drained_per_poll):
                        self._take(channel, peer, parts, received)
                    self._has_more |= entrance.has_more
            elif self._sockets[channel] not in ready:
                continue
            elif channel is Channel.SNAPSHOTS:
                self._take_subscriptions(self._sockets[channel], received)
            else:
                self._take_messages(channel, self._sockets[channel], received)
        return received

    def send(
        self,
        channel: Channel,
        peer: bytes,
        message: FromOwner,
        buffers: Sequence[Buffer] = (),
    ) -> bool:
        """False: not sent, because the peer is gone or its queue is full; the caller keeps it. The
        buffers are not copied: they may not change any more."""
        kind, outgoing = _OUTGOING[channel]
        assert isinstance(message, kind), f"{type(message).__name__} on channel {channel}"
        return self._send(channel, peer, outgoing.encode(message, buffers))

    def _send(self, channel: Channel, peer: bytes, parts: list[Buffer]) -> bool:
        entrance = self._entrances.get(channel)
        if entrance is not None:
            return entrance.send(peer, parts)
        self._poller.used.add(self._sockets[channel])
        return send_now(self._sockets[channel], [peer, *parts], handed_over=True)

    def publish(self, message: Published, buffers: Sequence[Buffer] = ()) -> None:
        """To all scorers, buffers as with `send`. One that is too slow loses it and notices by the
        sequence."""
        parts = SNAPSHOTS.encode(message, buffers)
        self._poller.used.add(self._sockets[Channel.SNAPSHOTS])
        sent = send_now(self._sockets[Channel.SNAPSHOTS], parts, handed_over=True)
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

    def _take_messages(
        self, channel: Channel, socket: RawSocket, received: list[Said | PeerGone]
    ) -> None:
        is_signed = channel is Channel.SCORERS and self._gatekeeper is not None
        receive = _receive_signed_now if is_signed else receive_now
        for parts in messages_now(socket, LIMITS[channel].drained_per_poll, receive):
            key_name = bytes(parts.pop()).decode() if is_signed else ""
            self._take(channel, bytes(parts[0]), parts[1:], received, key_name)

    def _take(
        self,
        channel: Channel,
        peer: bytes,
        parts: Sequence[Buffer],
        received: list[Said | PeerGone],
        key_name: str = "",
    ) -> None:
        try:
            message, _ = _INCOMING[channel].decode(parts)
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

    def _take_subscriptions(self, socket: RawSocket, received: list[Said | PeerGone]) -> None:
        for parts in messages_now(socket, LIMITS[Channel.SNAPSHOTS].drained_per_poll):
            notice = bytes(parts[0])
            if not notice[1:].startswith(SUBSCRIBER_TOPIC):
                continue
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

_INCOMING: Final[dict[Channel, Codec[Any]]] = {
    Channel.ADMIN: ADMIN_REQUEST,
    Channel.BINDERS: FROM_BINDER,
    Channel.SCORERS: FROM_SCORER,
    Channel.ADAPTER: FROM_ADAPTER,
}
_OUTGOING: Final[dict[Channel, tuple[Any, Codec[Any]]]] = {
    Channel.ADMIN: (AdminAnswer, ADMIN_ANSWER),
    Channel.BINDERS: (ToBinder, TO_BINDER),
    Channel.SCORERS: (ToScorer, TO_SCORER),
    Channel.ADAPTER: (ToAdapter, TO_ADAPTER),
}


@contextmanager
def _binding(channel: Channel, address: str) -> Iterator[str]:
    try:
        yield address
    except (OSError, zmq.ZMQError) as error:
        told = f"cannot bind {address} ({channel}): {error.strerror}"
        raise AddressInUseError(told) from error


def _receive_signed_now(socket: RawSocket) -> list[Buffer]:
    """As `receive_now`, with one more at the end: the name under which the gatekeeper let the sender in;
    empty for one of this host, of whom no key is asked."""
    frames = frames_now(socket)
    if not frames:
        return []
    try:
        name = str(frames[-1].get("User-Id"))
    except zmq.ZMQError:
        name = ""  # libzmq: no such property.
    return [*[frame.bytes for frame in frames], name.encode()]
