"""One HTTP/1.1 connection to an API server: requests one after another, whole answers or streams.

Apart from the client so that recorded bytes can be fed through it without a socket. It is our own
because the binder pool sends thousands of small requests a second: httptools (llhttp) under an asyncio
protocol, without header dictionaries and without a task per request, costs a small part of what a
general client does.

Callers may rely on: every request ends in exactly one of an answer, `ConnectionLost`,
`RequestTimeout` or `ProtocolViolation`; an answer has a bound.
"""

import asyncio
import re
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import httptools
import msgspec

from shared.kube.api_errors import ConnectionLost, ProtocolViolation, TransportError
from shared.limits import ANSWER_HEAD_BYTES_MAX, OBJECT_BYTES_MAX

if TYPE_CHECKING:
    from shared.kube.http_stream import HttpStream  # Few have one.

_RETRY_AFTER: Final = re.compile(rb"\r\nretry-after:[ \t]*([0-9]{1,6})[ \t]*\r\n", re.IGNORECASE)
_HAS_LENGTH: Final = re.compile(rb"\r\n(?:content-length|transfer-encoding):", re.IGNORECASE)


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    retry_after_s: float | None
    """From the header of that name; read only of answers that are not 2xx."""
    held_s: float = 0.0
    """How long it lay unread, as it was not urgent."""


class Sent(NamedTuple):
    """A request that is not answered yet."""

    answer: asyncio.Future[Answer]
    method: str
    sent_s: float
    deadline_s: float
    """When it is given up, on the client's clock; the client compares."""


HELD_BYTES: Final = 64 << 10
"""An answer that is not urgent is read before its time where so much has come."""
_LAST_RECEIVED_MS: Final = struct.Struct("=52xI")
"""`tcpi_last_data_recv` of TCP_INFO (linux/tcp.h)."""

READ_BYTES: Final = 256 << 10
"""As much as uvloop reads at a time under TLS, for which it would take so much memory anew each time: an
adapter, which gives such memory back at once, spent a sixth of its CPU for a lone pod on that."""


def read_buffer() -> memoryview:
    """What is read is dealt with at once, so that the connections of one event loop may share one."""
    return memoryview(bytearray(READ_BYTES))


class HttpConnection(asyncio.BufferedProtocol):
    """A connection that carries one request at a time, or several whose answers come in their order;
    the client pools it."""

    def __init__(
        self,
        on_closed: Callable[["HttpConnection"], None],
        on_over: Callable[["HttpConnection", Sent, Answer | None], None],
        body_bytes_max: int = OBJECT_BYTES_MAX,
        buffer: memoryview | None = None,
    ) -> None:
        """`on_over` hears of the end of each request. `body_bytes_max`: of answers; a stream has none.
        `buffer`: to read into, of `read_buffer`."""
        self.loop = asyncio.get_running_loop()
        self._on_closed = on_closed
        self._on_over = on_over
        self._body_bytes_max = body_bytes_max
        self._buffer = buffer or read_buffer()
        self._body_bytes = 0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        """None before it is open and after it is closed."""
        self.sent: deque[Sent] = deque()
        """Requests that wait for their answers, in order."""
        self.taker: HttpStream | None = None
        """Who has the body of the answer, until it ends."""
        self._is_row = False
        """Several were under way at a time, so that each answer has to say where it ends."""
        self._socket: socket.socket | None = None
        """Of the transport, which closes it; None where nothing was ever held."""
        self._is_held = False
        self._unread_below = 1
        """The socket's low-water mark: fewer bytes wake nobody."""
        self._head = b""
        self._data: bytes | memoryview = b""
        """What is being parsed."""
        self._status = 0
        """Of the answer whose head is complete; below 200 there is none yet."""
        self._body_parts: list[bytes] = []
        self.certificate_serial = 0
        """Which client certificate it was made with, as the client counts them."""
        self.use_count = 0
        """Requests begun on this connection; above 1, the server may have closed it meanwhile."""
        self.ends_rows = False
        """The server closed it with requests before it that it had not looked at."""

    @property
    def is_open(self) -> bool:
        transport = self._transport
        return transport is not None and not transport.is_closing()

    @property
    def is_usable(self) -> bool:
        return not self.sent and self.taker is None and self.is_open

    def send(
        self, method: str, request: bytes, deadline_s: float, *, is_held: bool = False
    ) -> asyncio.Future[Answer]:
        """Send a request; the future ends with the whole answer, or with the head of one of 2xx whose
        body is for `taker`. `is_held`: answers are left unread until `read`."""
        assert self._transport is not None, "send needs a connection that is open"
        self._is_row = bool(self.sent)
        self.use_count += 1
        sent = Sent(self.loop.create_future(), method, self.loop.time(), deadline_s)
        self.sent.append(sent)
        self._is_held = is_held
        self._leave_unread(HELD_BYTES if is_held else 1)
        self._transport.write(request)
        return sent.answer

    def read(self) -> None:
        """Takes in what is held, and what comes, at once."""
        self._leave_unread(1)

    def _leave_unread(self, under_bytes: int) -> None:
        """The end of a connection is noticed all the same."""
        if under_bytes == self._unread_below or self._transport is None:
            return
        if self._socket is None:
            raw_socket = self._transport.get_extra_info("socket")
            if raw_socket is None:
                return
            self._socket = socket.socket(fileno=raw_socket.fileno())
        self._unread_below = under_bytes
        with suppress(OSError):  # It was closed a moment ago.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, under_bytes)

    def _unread_s(self) -> float:
        """How long what came last has been here."""
        if self._socket is None or not self._is_held:
            return 0.0
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED_MS.size)
        return float(_LAST_RECEIVED_MS.unpack(info)[0]) / 1000

    def abort(self) -> None:
        """Close at once; a running request is lost."""
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    # What the transport calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By what it can do: uvloop's own is derived from nothing.
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(self._buffer[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        if not self.sent and self.taker is None:
            # Nobody asked: a server that is shutting down, or answers out of step.
            self.abort()
            return
        self._data = data
        if self._status < 200:
            self._head += data
        try:
            self._parser.feed_data(data)
            if self._status < 200 and len(self._head) > ANSWER_HEAD_BYTES_MAX:
                self.fail(ProtocolViolation(f"a head of more than {ANSWER_HEAD_BYTES_MAX} bytes"))
        except httptools.HttpParserUpgrade:
            self.fail(ProtocolViolation("the server switched to another protocol"))
        except httptools.HttpParserError as error:
            self.fail(ProtocolViolation(f"not HTTP/1.1: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        # Under TLS it holds 256 KiB; this object and its parser hold one another, so both would wait
        # for the collector of cycles, which in a quiet process may take hours to come.
        self._transport = None
        if self._socket is not None:
            self._socket.detach()
            self._socket = None
        if self.sent or self.taker is not None:
            has_length = self._is_row or _HAS_LENGTH.search(self._head_lines()) is not None
            if exc is None and self._status >= 200 and not has_length:
                # None was announced: the end of the connection is the end of the body.
                self._complete()
            else:
                self.fail(ConnectionLost(f"connection closed before the answer ended ({exc})"))
        del self._parser
        self._on_closed(self)

    # What the parser calls ------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        if not self.sent and self.taker is None:
            # A second answer to one request: the two sides are out of step.
            self.abort()
            return
        self._status = self._parser.get_status_code()
        if self._status < 200:
            return
        if self.taker is not None:
            if self._status >= 300:
                self.taker = None
            elif self.sent:
                self._settle(self.sent.popleft(), Answer(self._status, b"", None))

    def on_body(self, body: bytes) -> None:
        if self.taker is not None:
            self.taker.append(body)
            return
        self._body_parts.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > self._body_bytes_max:
            self._body_parts = []
            self.fail(ProtocolViolation(f"an answer of more than {self._body_bytes_max} bytes"))

    def on_message_complete(self) -> None:
        if not self.sent and self.taker is None:
            return
        if self._status < 200:
            # 1xx announces an answer; only that one counts.
            self._head = b""
            return
        self._complete()

    # Ends of a request ----------------------------------------------------------------------------

    def _complete(self) -> None:
        stream = self.taker
        if stream is not None:
            self.taker = None
            self._close()
            stream.end(None)
            return
        sent = self.sent.popleft()
        parts = self._body_parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        # Of answers that came together the first wish counts for all.
        head = self._data if self._is_row else self._head_lines()
        wish = None if self._status < 300 else _RETRY_AFTER.search(head)
        wished_s = float(wish[1]) if wish is not None else None
        answer = Answer(self._status, body, wished_s, self._unread_s())
        self._status, self._head, self._body_parts, self._body_bytes = 0, b"", [], 0
        # The parser answers this only between the end of a message and the next bytes.
        if not self._parser.should_keep_alive():
            self.ends_rows = bool(self.sent)
            self._close()
        self._settle(sent, answer)

    def _head_lines(self) -> bytes:
        """Without what came with the head; each line ends."""
        return self._head.partition(b"\r\n\r\n")[0] + b"\r\n"

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _settle(self, sent: Sent, answer: Answer) -> None:
        # Whoever has given up closes the connection: nobody else may have it until then.
        self._on_over(self, sent, None if sent.answer.cancelled() else answer)
        if not sent.answer.done():
            sent.answer.set_result(answer)

    def fail(self, error: TransportError) -> None:
        """Ends the connection, and the requests that it has under way, if there are any."""
        stream, self.taker = self.taker, None
        if stream is not None and not self.sent:
            stream.end(error)
        while self.sent:
            sent = self.sent.popleft()
            self._on_over(self, sent, None)
            if not sent.answer.done():
                sent.answer.set_exception(error)
        self.abort()
