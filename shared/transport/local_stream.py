"""Connections between processes of one host: whole messages over a stream socket, and no thread.

For the channels that never leave the host. ZeroMQ has a thread at each end that a message goes through,
and one that comes alone wakes both from cold. Here it is one system call to send and one to receive.

A message is its length, its header (`shared/messages/codec.py`) and its body. Who connects says first
who it is. Nothing here waits.
"""

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shared.limits import MESSAGE_BYTES_MAX
from shared.messages.codec import SINGLE_HEADER_BYTES, Buffer
from shared.telemetry.log import EventLog
from shared.transport.channels import LIMITS, Channel

READ_BYTES: Final = 65_536
"""In one system call; most messages are a hundredth of it."""
_LENGTH: Final = struct.Struct("<I")

Parts = tuple[bytes, bytes]


def note_dropped(problem: object) -> None:
    """A message could not be used. A peer gone wild fills no disk: the log has a bound."""
    EventLog("transport").warning("message_dropped", problem=str(problem))


class LocalStream:
    """One end of a connection."""

    def __init__(self, connected: socket.socket, channel: Channel) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._channel = channel
        self._unsent_max = LIMITS[channel].high_water
        self._unsent: deque[memoryview] = deque()
        self._pieces: list[bytes] = []
        self._held_bytes, self._awaited_bytes = 0, _LENGTH.size
        """Of a message that is not whole: what is in the pieces, and how much there has to be."""
        self.fd = connected.fileno()
        self.name = b""
        """Of who is at the other end, once it has said so."""
        self.received: deque[Parts] = deque()
        """Messages in order, for the taking."""
        self.is_over = False
        """Nothing more will come."""

    @property
    def has_unsent(self) -> bool:
        """Of messages that were taken; `flush` when the socket is writable."""
        return bool(self._unsent)

    def send(self, parts: Sequence[Buffer]) -> bool:
        """Takes a whole message or nothing. False: the queue is full, or the other end is gone."""
        if len(self._unsent) >= self._unsent_max:
            return False
        message = b"".join([_LENGTH.pack(sum(map(len, parts))), *parts])
        sent = 0
        if not self._unsent:
            try:
                sent = self._socket.send(message)
            except BlockingIOError:
                pass
            except OSError:
                return False
        if sent < len(message):
            self._unsent.append(memoryview(message)[sent:])
        return True

    def flush(self) -> None:
        try:
            while self._unsent:
                rest = self._unsent[0][self._socket.send(self._unsent[0]) :]
                if rest:
                    self._unsent[0] = rest
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()

    def receive(self, count_max: int) -> None:
        """Takes in what has come, until about so many messages are there."""
        while len(self.received) < count_max and not self.is_over:
            try:
                chunk = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""  # As at the end: it went away with something of ours unread.
            self.is_over = not chunk
            self._split(chunk)
            if len(chunk) < READ_BYTES:
                return

    def close(self, linger_s: float = 0.0) -> None:
        """Waits so long for the other end to read what is unsent. Twice is harmless."""
        with contextlib.suppress(OSError):
            if self._unsent:
                self._socket.settimeout(linger_s)
                self._socket.sendall(b"".join(self._unsent))
        self._unsent.clear()
        self._socket.close()

    def _split(self, chunk: bytes) -> None:
        self._pieces.append(chunk)
        self._held_bytes += len(chunk)
        if self._held_bytes < self._awaited_bytes:
            return
        data = chunk if len(self._pieces) == 1 else b"".join(self._pieces)
        start, self._awaited_bytes = 0, _LENGTH.size
        while len(data) - start >= self._awaited_bytes:
            (length,) = _LENGTH.unpack_from(data, start)
            if length > MESSAGE_BYTES_MAX:
                note_dropped(
                    f"channel {self._channel}: a message of {length} bytes; connection closed"
                )
                self.is_over = True
                break
            begin, end = start + _LENGTH.size, start + _LENGTH.size + length
            if end > len(data):
                self._awaited_bytes = end - start
                break
            body = min(begin + SINGLE_HEADER_BYTES, end)
            self.received.append((data[begin:body], data[body:end]))
            start = end
        rest = data[start:]
        self._pieces, self._held_bytes = [rest] if rest else [], len(rest)


def connected_stream(runtime_dir: Path, channel: Channel, identity: bytes) -> LocalStream | None:
    """To the owner, whose answers come to who has this name; None: there is none, or it is behind, or we
    have no descriptor left."""
    try:
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError:
        return None
    connecting.setblocking(False)
    try:
        connecting.connect(channel.path(runtime_dir))
    except OSError:
        connecting.close()
        return None
    stream = LocalStream(connecting, channel)
    stream.send([identity])
    return stream
