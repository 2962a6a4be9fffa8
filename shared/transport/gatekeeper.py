"""Gatekeeper: says which workers of other hosts may connect (ZeroMQ's ZAP, RFC 27, CURVE only).

libzmq asks by a socket inside the process; the answer comes from the owner's own poll, without a
thread. Who gets that far already has the owner's public key and has proved that it has the secret of
its own. The list is read at each question, which is a handshake and rare.
"""

import logging
from pathlib import Path
from typing import Final

import zmq

from shared.errors import ConfigurationError
from shared.transport.keys import KEY_BYTES, read_public_keys
from shared.transport.sockets import RawSocket

ZAP_ADDRESS: Final = "inproc://zeromq.zap.01"
ZAP_VERSION: Final = b"1.0"
ANSWERED_PER_POLL: Final = 64
_FRAME_COUNT: Final = 7
"""Version, request, domain, address, identity, mechanism, and with CURVE the key."""


class Gatekeeper:
    """To be made before the first `bind` that needs it."""

    def __init__(self, context: "zmq.Context[RawSocket]", allowed_path: Path) -> None:
        self._allowed_path = allowed_path
        self._logger = logging.getLogger("berth.transport")
        self.refused_count = 0
        self.socket = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(ZAP_ADDRESS)

    def answer(self) -> None:
        """All that is asked now."""
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
            self.refused_count += 1
            return [ZAP_VERSION, request_id, b"400", b"this key is not allowed", b"", b""]
        self._logger.info("worker's key accepted: %s, from %s", name, _text(question[3]))
        return [ZAP_VERSION, request_id, b"200", b"OK", name.encode(), b""]

    def _name_of(self, question: list[bytes]) -> str | None:
        if len(question) != _FRAME_COUNT or question[5] != b"CURVE":
            return None
        key = question[6]
        assert len(key) == KEY_BYTES, "libzmq has read the key"
        try:
            name = read_public_keys(self._allowed_path).get(key)
        except ConfigurationError as error:
            self._logger.error("no worker is let in: %s", error)
            return None
        if name is None and self.refused_count & (self.refused_count + 1) == 0:
            # The 1st, 2nd, 4th, 8th, ...: who tries for ever must not fill the disk.
            told = "worker from %s refused: its key %s is not in %s (%d so far)"
            count = self.refused_count + 1
            self._logger.warning(told, _text(question[3]), key.hex(), self._allowed_path, count)
        return name

    def close(self) -> None:
        self.socket.close(0)


def _text(raw: bytes) -> str:
    return raw.decode("ascii", "replace")
