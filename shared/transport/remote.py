"""Scoring workers on other hosts: the owner's entrance for them, and their way to it.

Two channels are enough for a worker (work and snapshots); they lie on two neighbouring tcp ports, always
with CURVE: both ends prove that they have their key, and everything is encrypted. There is no way to
open the entrance without keys, not even on loopback. The other channels (orders to binders, cluster
events, administration) are never reachable from another host.
"""

import ipaddress
from pathlib import Path
from typing import Final, NamedTuple

import zmq

from shared.errors import ConfigurationError
from shared.limits import PORT_MAX, SUBSCRIPTION_BYTES_MAX, WORD_BYTES_MAX
from shared.telemetry.log import EventLog
from shared.transport.channels import REMOTE_SNAPSHOTS_HIGH_WATER, Channel
from shared.transport.keys import (
    KEY_BYTES,
    KeyPair,
    read_key_pair,
    read_public_key,
    read_public_keys,
)
from shared.transport.sockets import RawSocket

PORT_OFFSETS: Final = {Channel.SCORERS: 0, Channel.SNAPSHOTS: 1}
HEARTBEAT_MS: Final = 5_000
"""A host that vanished is noticed by silence; a process that dies there at once."""
ZAP_DOMAIN: Final = b"berth-workers"
ZAP_ADDRESS: Final = "inproc://zeromq.zap.01"
ZAP_VERSION: Final = b"1.0"
ANSWERED_PER_POLL: Final = 64
_FRAME_COUNT: Final = 7
"""Version, request, domain, address, identity, mechanism, and with CURVE the key."""


class WorkersEntrance(NamedTuple):
    """Where the owner lets workers of other hosts in, as whom, and whom."""

    addresses: dict[Channel, str]
    keys: KeyPair
    allowed_path: Path
    """Read at each handshake: a worker that is added or removed needs no restart."""

    @classmethod
    def read(cls, address: str, key_file: str, allowed_file: str) -> "WorkersEntrance":
        """ConfigurationError if the address or a file cannot be used."""
        host, port = split_address(address)
        if host != "*":
            try:
                ipaddress.ip_address(host.strip("[]"))
            except ValueError as error:
                problem = "to listen, write an IP address of this host, such as tcp://0.0.0.0:7400"
                raise ConfigurationError(address, [problem]) from error
        read_public_keys(Path(allowed_file))
        return cls(_addresses(host, port), read_key_pair(Path(key_file)), Path(allowed_file))

    def prepare(self, socket: RawSocket) -> None:
        """For the next `bind`; what is bound already stays as it is."""
        _keep_alive(socket)
        is_publisher = socket.type == zmq.XPUB
        socket.setsockopt(
            zmq.MAXMSGSIZE, SUBSCRIPTION_BYTES_MAX if is_publisher else WORD_BYTES_MAX
        )
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.keys.secret)
        socket.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
        # Without somebody who asks the list, nobody is let in.
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        if is_publisher:
            socket.setsockopt(zmq.SNDHWM, REMOTE_SNAPSHOTS_HIGH_WATER)


class Gatekeeper:
    """Says which workers may connect (ZeroMQ's ZAP, RFC 27, CURVE only). To be made before the first
    `bind` that needs it.

    libzmq asks by a socket inside the process; the answer comes from the owner's own poll, without a
    thread. Who gets that far already has the owner's public key and has proved that it has the secret
    of its own. The list is read at each question, which is a handshake and rare.
    """

    def __init__(self, context: "zmq.Context[RawSocket]", allowed_path: Path) -> None:
        self._allowed_path = allowed_path
        self._log = EventLog("transport")
        self.socket = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(ZAP_ADDRESS)

    def answer(self) -> None:
        for _ in range(ANSWERED_PER_POLL):
            try:
                question = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.socket.send_multipart(self._verdict(question))

    def _verdict(self, question: list[bytes]) -> list[bytes]:
        request_id = question[1] if len(question) > 1 else b""
        name = self._name_of(question)
        if name is None:
            return [ZAP_VERSION, request_id, b"400", b"this key is not allowed", b"", b""]
        return [ZAP_VERSION, request_id, b"200", b"OK", name.encode(), b""]

    def _name_of(self, question: list[bytes]) -> str | None:
        if len(question) != _FRAME_COUNT or question[5] != b"CURVE":
            return None
        address, key = question[3].decode("ascii", "replace"), question[6]
        assert len(key) == KEY_BYTES, "libzmq has read the key"
        try:
            name = read_public_keys(self._allowed_path).get(key)
        except ConfigurationError as error:
            self._log.error("no_worker_let_in", problem=str(error))
            return None
        if name is None:
            allowed = str(self._allowed_path)
            self._log.warning("worker_refused", address=address, key=key.hex(), not_in=allowed)
        else:
            self._log.info("worker_let_in", address=address, name=name)
        return name

    def close(self) -> None:
        self.socket.close(0)


class RemoteOwner:
    def __init__(self, address: str, server_key_file: str, key_file: str) -> None:
        """ConfigurationError if the address or a file cannot be used."""
        host, port = split_address(address)
        if host == "*":
            raise ConfigurationError(address, ["name the host of the owner"])
        self._addresses = _addresses(host, port)
        self._server_key = read_public_key(Path(server_key_file))
        self._keys = read_key_pair(Path(key_file))

    def address(self, channel: Channel) -> str:
        return self._addresses[channel]

    def prepare(self, socket: RawSocket) -> None:
        _keep_alive(socket)
        socket.setsockopt(zmq.CURVE_SERVERKEY, self._server_key)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self._keys.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self._keys.secret)


def split_address(address: str) -> tuple[str, int]:
    """Host and first port of tcp://HOST:PORT."""
    host, _, port_text = address.removeprefix("tcp://").rpartition(":")
    if not address.startswith("tcp://") or not host or not port_text.isdecimal():
        raise ConfigurationError(address, ["write tcp://HOST:PORT, such as tcp://10.0.0.5:7400"])
    last = PORT_MAX - max(PORT_OFFSETS.values())
    if not 0 < int(port_text) <= last:
        raise ConfigurationError(address, [f"port must lie in 1..{last}; the next is used too"])
    return host, int(port_text)


def _addresses(host: str, port: int) -> dict[Channel, str]:
    return {channel: f"tcp://{host}:{port + offset}" for channel, offset in PORT_OFFSETS.items()}


def _keep_alive(socket: RawSocket) -> None:
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 2 * HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TTL, 2 * HEARTBEAT_MS)
    socket.setsockopt(zmq.IPV6, 1)
