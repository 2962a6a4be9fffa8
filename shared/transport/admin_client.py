"""AdminClient: a question to the owner and its answer, for command line and supervisor."""

import os
import secrets
from typing import Final

import zmq

from shared.errors import OperationalError
from shared.messages.admin import ADMIN_ANSWER, ADMIN_REQUEST, AdminAnswer, AdminRequest
from shared.transport.channels import Channel
from shared.transport.endpoints import Endpoints
from shared.transport.sockets import Closing, RawSocket, new_socket, receive_now, send_now

TIMEOUT_S: Final = 5.0


class NoAnswerError(OperationalError):
    """The owner is not there, or does not answer."""


class AdminClient(Closing):
    """Synchronous; any number of them may exist at the same time."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._address = endpoints.address(Channel.ADMIN)
        self._context: zmq.Context[RawSocket] = zmq.Context()
        self._socket = self._connect()

    def ask(self, request: AdminRequest, timeout_s: float = TIMEOUT_S) -> AdminAnswer:
        """The answer; NoAnswerError after `timeout_s`."""
        timeout_ms = int(timeout_s * 1000)
        is_sent = self._socket.poll(timeout_ms, zmq.POLLOUT) and send_now(
            self._socket, ADMIN_REQUEST.encode(request)
        )
        if not is_sent:
            raise NoAnswerError(f"no owner at {self._address}; is berth running there?")
        if not self._socket.poll(timeout_ms, zmq.POLLIN):
            # A late answer must not be taken for that of the next question.
            self._socket.close(0)
            self._socket = self._connect()
            raise NoAnswerError(f"the owner at {self._address} gave no answer in {timeout_s:g} s")
        answer, _ = ADMIN_ANSWER.decode(receive_now(self._socket))
        return answer

    def close(self) -> None:
        self._socket.close(0)
        self._context.term()

    def _connect(self) -> RawSocket:
        socket = new_socket(self._context, zmq.DEALER, Channel.ADMIN, 0)
        name = f"admin-{os.getpid()}-{secrets.token_hex(4)}"
        socket.setsockopt(zmq.ROUTING_ID, name.encode())
        socket.connect(self._address)
        return socket
