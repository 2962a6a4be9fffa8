"""One HTTP/1.1 connection to an API server: one request at a time, whole answers or streams.

Apart from the client so that recorded bytes can be fed through it without a socket. It is our own
because the binder pool sends thousands of small requests a second: httptools (llhttp) under an asyncio
protocol, without header dictionaries and without a task per request, costs a small part of what a
general client does.

Callers may rely on: every request ends in exactly one of an answer, `ConnectionLost`,
`RequestTimeout` or `ProtocolViolation`; an answer has a bound.
"""

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

import httptools
import msgspec

from shared.kube.api_errors import ConnectionLost, ProtocolViolation, RequestTimeout, TransportError
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


READ_BYTES: Final = 256 << 10
"""As much as uvloop reads at a time under TLS, for which it would take so much memory anew each time: an
adapter, which gives such memory back at once, spent a sixth of its CPU for a lone pod on that."""


def read_buffer() -> memoryview:
    """What is read is dealt with at once, so that the connections of one event loop may share one."""
    return memoryview(bytearray(READ_BYTES))


class HttpConnection(asyncio.BufferedProtocol):
    """A connection that carries one request at a time; the client pools it."""

    def __init__(
        self,
        on_closed: Callable[["HttpConnection"], None],
        on_over: Callable[["HttpConnection", int], None],
        body_bytes_max: int = OBJECT_BYTES_MAX,
        buffer: memoryview | None = None,
    ) -> None:
        """`on_over` hears of the end of each request: the status, or 0. `body_bytes_max`: of answers; a
        stream has none. `buffer`: to read into, of `read_buffer`."""
        self.loop = asyncio.get_running_loop()
        self._on_closed = on_closed
        self._on_over = on_over
        self._body_bytes_max = body_bytes_max
        self._buffer = buffer or read_buffer()
        self._body_bytes = 0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        """None before it is open and after it is closed."""
        self._answer: asyncio.Future[Answer] | None = None
        self.taker: HttpStream | None = None
        self._is_busy = False
        self._head = b""
        self._is_head_complete = False
        self._status = 0
        self._body_parts: list[bytes] = []
        self.deadline_s = 0.0
        """When the running request is given up, on the client's clock; the client compares."""
        self.certificate_serial = 0
        """Which client certificate it was made with, as the client counts them."""
        self.use_count = 0
        """Requests begun on this connection; above 1, the server may have closed it meanwhile."""

    @property
    def is_usable(self) -> bool:
        transport = self._transport
        return transport is not None and not self._is_busy and not transport.is_closing()

    def send(self, request: bytes, deadline_s: float) -> asyncio.Future[Answer]:
        """Send a request; the future ends with the whole answer, or with the head of one of 2xx whose
        body is for `taker`."""
        assert not self._is_busy, "one request at a time"
        self._is_busy = True
        self._is_head_complete = False
        self._head = b""
        self._body_parts = []
        self._body_bytes = 0
        self.deadline_s = deadline_s
        self.use_count += 1
        answer = self.loop.create_future()
        self._answer = answer
        assert self._transport is not None, "send needs a connection that is usable"
        self._transport.write(request)
        return answer

    def time_out(self, problem: str) -> None:
        self._fail(RequestTimeout(problem))

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
        if not self._is_busy:
            # Nobody asked: a server that is shutting down, or answers out of step.
            self.abort()
            return
        if not self._is_head_complete:
            self._head += data
        try:
            self._parser.feed_data(data)
            if not self._is_head_complete and len(self._head) > ANSWER_HEAD_BYTES_MAX:
                self._fail(ProtocolViolation(f"a head of more than {ANSWER_HEAD_BYTES_MAX} bytes"))
        except httptools.HttpParserUpgrade:
            self._fail(ProtocolViolation("the server switched to another protocol"))
        except httptools.HttpParserError as error:
            self._fail(ProtocolViolation(f"not HTTP/1.1: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        # Under TLS it holds 256 KiB; this object and its parser hold one another, so both would wait
        # for the collector of cycles, which in a quiet process may take hours to come.
        self._transport = None
        if self._is_busy:
            has_length = _HAS_LENGTH.search(self._head_lines()) is not None
            if exc is None and self._is_head_complete and not has_length:
                # None was announced: the end of the connection is the end of the body.
                self._complete()
            else:
                self._fail(ConnectionLost(f"connection closed before the answer ended ({exc})"))
        del self._parser
        self._on_closed(self)

    # What the parser calls ------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        if not self._is_busy:
            # A second answer to one request: the two sides are out of step.
            self.abort()
            return
        self._status = self._parser.get_status_code()
        if self._status < 200:
            return
        self._is_head_complete = True
        if self.taker is not None:
            if self._status < 300:
                self._settle(Answer(self._status, b"", None))
            else:
                self.taker = None

    def on_body(self, body: bytes) -> None:
        if self.taker is not None:
            self.taker.append(body)
            return
        self._body_parts.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > self._body_bytes_max:
            self._body_parts = []
            self._fail(ProtocolViolation(f"an answer of more than {self._body_bytes_max} bytes"))

    def on_message_complete(self) -> None:
        if not self._is_busy:
            return
        if self._status < 200:
            # 1xx announces an answer; only that one counts.
            self._head = b""
            return
        self._complete()

    # Ends of a request ----------------------------------------------------------------------------

    def _complete(self) -> None:
        self._is_busy = False
        stream = self.taker
        if stream is not None:
            self.taker = None
            self._close()
            stream.end(None)
            return
        parts = self._body_parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        wish = None if self._status < 300 else _RETRY_AFTER.search(self._head_lines())
        # The parser answers this only between the end of a message and the next bytes.
        if not self._parser.should_keep_alive():
            self._close()
        self._settle(Answer(self._status, body, float(wish[1]) if wish is not None else None))

    def _head_lines(self) -> bytes:
        """Without what came with the head; each line ends."""
        return self._head.partition(b"\r\n\r\n")[0] + b"\r\n"

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _settle(self, answer: Answer) -> None:
        future, self._answer = self._answer, None
        if future is not None:
            # Whoever has given up closes the connection: nobody else may have it until then.
            self._on_over(self, 0 if future.cancelled() else answer.status)
            if not future.done():
                future.set_result(answer)

    def _fail(self, error: TransportError) -> None:
        """Ends the connection, and the request that it has under way, if there is one."""
        self._is_busy = False
        stream, self.taker = self.taker, None
        future, self._answer = self._answer, None
        if future is not None:
            self._on_over(self, 0)
            if not future.done():
                future.set_exception(error)
        elif stream is not None:
            stream.end(error)
        self.abort()
