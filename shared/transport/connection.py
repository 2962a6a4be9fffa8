"""Whether a connecting socket has its owner at the other end, and since when anew.

ZeroMQ reconnects by itself and says nothing. But a new connection means a new owner (or a break in
which messages were lost), so whoever talks to the owner must greet again. The socket's monitor
tells us; it is an in-process socket of its own that has to be polled beside the first.
"""

import struct
from typing import Final, NamedTuple

import zmq

from shared.transport.sockets import RawSocket, can_now, receive_now

_EVENT: Final = struct.Struct("=Hi")
_FAILURES: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)


class Connected(NamedTuple):
    """There is a (new) connection to the owner: greet it. What was sent before may be lost."""


class ConnectionWatch:
    """Follows one DEALER's connection to the owner."""

    def __init__(self, socket: RawSocket) -> None:
        self._socket = socket
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _FAILURES
        self.monitor: RawSocket = socket.get_monitor_socket(events)
        self.is_connected = False
        self.is_refused = False
        """The owner does not take our key. ZeroMQ does not try again."""
        self.failed_count = 0
        """Connections that ended before they began: mostly, the key is that of another owner."""
        self.connection_count = 0
        """How many connections there have been; a change means that the owner may be another."""

    def refresh(self) -> bool:
        """Reads what the monitor has to say. True: there is a new connection since the last call."""
        before = self.connection_count
        while can_now(self.monitor, zmq.POLLIN):
            event, _ = _EVENT.unpack_from(receive_now(self.monitor)[0])
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.is_connected = True
                self.connection_count += 1
            elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self.is_refused = True
            elif event != zmq.EVENT_DISCONNECTED:
                self.failed_count += 1
            else:
                self.is_connected = False
        return self.connection_count != before

    def close(self) -> None:
        self._socket.disable_monitor()
        self.monitor.close(0)
