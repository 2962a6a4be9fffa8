"""Scoring workers on other hosts: the owner's entrance for them, their way to it, and who may come.

Two channels are enough for a worker (work and snapshots); they lie on two neighbouring tcp ports, always
with CURVE: both ends prove that they have their key, and everything is encrypted. There is no way to
open the entrance without keys, not even on loopback. The other channels (orders to binders, cluster
events, administration) are never reachable from another host.

A secret key has a file of its own that only its user reads; a public key is a line that may be copied,
mailed, and put with others into the owner's list of allowed workers. Hex, not ZeroMQ's Z85, because
Z85 is full of characters that shells and YAML have plans for.
"""

import ipaddress
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

import zmq
from zmq.utils import z85

from shared.errors import ConfigurationError
from shared.limits import PORT_MAX, SUBSCRIPTION_BYTES_MAX, WORD_BYTES_MAX
from shared.telemetry.log import EventLog
from shared.transport.channels import REMOTE_SNAPSHOTS_HIGH_WATER, Channel
from shared.transport.sockets import RawSocket, messages_now

KEY_BYTES: Final = 32
SECRET_WORD: Final = "berth-secret-key"  # noqa: S105 # It stands before the secret.
PUBLIC_WORD: Final = "berth-public-key"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_OTHERS: Final = 0o007
"""A group may read a secret: that is how Kubernetes hands one to a container that is not root."""


class KeyPair(NamedTuple):
    """Raw, as ZeroMQ takes them."""

    public: bytes
    secret: bytes


def require_curve() -> None:
    """ConfigurationError where ZeroMQ was built without encryption."""
    if not zmq.has("curve"):
        problem = "was built without CURVE; install pyzmq from its wheel, which has it"
        raise ConfigurationError("libzmq", [problem])


def write_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """A new pair as NAME.key (mode 0600) and NAME.pub. Never writes over a file that is there."""
    require_curve()
    if not NAME.fullmatch(name):
        problem = "must be letters, digits, dots, dashes and underscores, 63 at most"
        raise ConfigurationError(f"key name {name!r}", [problem])
    secret_path, public_path = folder / f"{name}.key", folder / f"{name}.pub"
    if public_path.exists():
        problem = "is there already; remove it with its key, or choose another name"
        raise ConfigurationError(str(public_path), [problem])
    public, secret = (z85.decode(key) for key in zmq.curve_keypair())
    _write_new(secret_path, f"{SECRET_WORD} {secret.hex()}\n", 0o600)
    _write_new(public_path, f"{PUBLIC_WORD} {public.hex()} {name}\n", 0o644)
    return secret_path, public_path


def read_key_pair(path: Path) -> KeyPair:
    """Of a NAME.key file; ConfigurationError if it is none, or if everybody may read it."""
    require_curve()
    lines = _lines(path)
    if path.stat().st_mode & _OTHERS:
        raise ConfigurationError(str(path), [f"others may read it; run: chmod 600 {path}"])
    if len(lines) != 1 or len(lines[0][1]) != 2 or lines[0][1][0] != SECRET_WORD:
        problem = f"is no secret key: one line, {SECRET_WORD} HEX; berth keys makes one"
        raise ConfigurationError(str(path), [problem])
    secret = _key(path, *lines[0])
    return KeyPair(z85.decode(zmq.curve_public(z85.encode(secret))), secret)


def read_public_key(path: Path) -> bytes:
    """Of a NAME.pub file."""
    keys = list(read_public_keys(path))
    if len(keys) != 1:
        raise ConfigurationError(str(path), [f"has {len(keys)} public keys, one is expected"])
    return keys[0]


def read_public_keys(path: Path) -> dict[bytes, str]:
    """Key -> name of the worker that has it: any number of NAME.pub files, one after the other."""
    found: dict[bytes, str] = {}
    for number, words in _lines(path):
        if len(words) not in (2, 3) or words[0] != PUBLIC_WORD:
            problem = f"line {number}: write {PUBLIC_WORD} HEX NAME, as in a .pub file"
            raise ConfigurationError(str(path), [problem])
        found[_key(path, number, words)] = words[2] if len(words) == 3 else f"line {number}"
    return found


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The words of each line that says something, with its number."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), ["is no key file of berth"]) from error
    numbered = ((number, line.split()) for number, line in enumerate(lines, 1))
    return [(number, words) for number, words in numbered if words and words[0][0] != "#"]


def _key(path: Path, number: int, words: list[str]) -> bytes:
    try:
        key = bytes.fromhex(words[1])
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        problem = f"line {number}: the key is not {2 * KEY_BYTES} hex digits"
        raise ConfigurationError(str(path), [problem])
    return key


def _write_new(path: Path, text: str, mode: int) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError as error:
        problem = "is there already; a key that is in use is not written over"
        raise ConfigurationError(str(path), [problem]) from error
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be made: {error.strerror}"]) from error
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(text)


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
    `bind` that needs it. libzmq asks by a socket inside the process, and is answered from the owner's
    own poll. Who gets that far has the owner's public key, and has proved that it has the secret of
    its own.
    """

    def __init__(self, context: "zmq.Context[RawSocket]", allowed_path: Path) -> None:
        self._allowed_path = allowed_path
        self._log = EventLog("transport")
        self.socket = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(ZAP_ADDRESS)

    def answer(self) -> None:
        for question in messages_now(self.socket, ANSWERED_PER_POLL):
            self.socket.send_multipart(self._verdict([frame.bytes for frame in question]))

    def _verdict(self, question: list[bytes]) -> list[bytes]:
        request_id = question[1] if len(question) > 1 else b""
        try:
            name = self._name_of(question)
        except ConfigurationError as error:
            self._log.error("no_worker_let_in", problem=str(error))
            # Not refused for good: libzmq lets the handshake lapse, and the worker tries again.
            return [ZAP_VERSION, request_id, b"300", b"the list cannot be read", b"", b""]
        if name is None:
            return [ZAP_VERSION, request_id, b"400", b"this key is not allowed", b"", b""]
        return [ZAP_VERSION, request_id, b"200", b"OK", name.encode(), b""]

    def _name_of(self, question: list[bytes]) -> str | None:
        if len(question) != _FRAME_COUNT or question[5] != b"CURVE":
            return None
        address, key = question[3].decode("ascii", "replace"), question[6]
        assert len(key) == KEY_BYTES, "libzmq has read the key"
        name = read_public_keys(self._allowed_path).get(key)
        if name is None:
            allowed = str(self._allowed_path)
            self._log.warning("worker_refused", address=address, key=key.hex(), not_in=allowed)
        else:
            self._log.info("worker_let_in", address=address, name=name)
        return name

    def close(self) -> None:
        self.socket.close(0)


class RemoteOwner:
    """A worker's way to the owner."""

    def __init__(self, address: str, server_key_file: str, key_file: str) -> None:
        """ConfigurationError if the address or a file cannot be used."""
        host, port = split_address(address)
        if host == "*":
            raise ConfigurationError(address, ["name the host of the owner"])
        self.addresses = _addresses(host, port)
        self._server_key = read_public_key(Path(server_key_file))
        self._keys = read_key_pair(Path(key_file))

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
