"""One client connection: HTTP/1.1 parsing, answers in order, and the stream of a watch.

Bare asyncio.Protocol and httptools: an aiohttp server costs about 100 microseconds of CPU per
request, which the mark of 3,000 bindings/s on one core does not leave. Requests are handled as they
are parsed and their answers written together once per read, so pipelining costs nothing extra.
While a watch (or a delay ordered by a fault plan) is under way, further requests of the same
connection wait.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, assert_never, cast

import httptools

from bench.apiserver import api_status as status
from bench.apiserver.api_faults import (
    REPEATABLE_EVENTS,
    AnswerFault,
    CutAnswer,
    CutEvent,
    Delay,
    Disconnect,
    DropEvent,
    EndWatch,
    ExpireWatch,
    GarbleEvent,
    Hang,
    Hold,
    Refuse,
    RepeatEvent,
    Reply,
    RequestFault,
    WatchFault,
)
from bench.apiserver.reads import Answer
from bench.apiserver.representation import error_frame
from bench.apiserver.router import Request
from bench.apiserver.watching import WatchCursor, WatchStart
from bench.apiserver.wire_format import CONTINUE, LAST_CHUNK

if TYPE_CHECKING:
    from bench.apiserver.http_server import ApiServer

# kube-apiserver's limit on request bodies.
BODY_BYTES_MAX: Final = 3 * 1024 * 1024
# Go's default limit on a request's head.
HEAD_BYTES_MAX: Final = 1024 * 1024
# Requests that may wait behind a watch on the same connection; no real client sends any.
WAITING_REQUESTS_MAX: Final = 64
# What one watcher is given at a time. With the transport's buffer this bounds its memory.
WATCH_WRITE_BYTES: Final = 256 * 1024
WRITE_BUFFER_BYTES: Final = 1024 * 1024


class WatchStream:
    """A running watch: its cursor, its connection and its timers."""

    def __init__(self, protocol: "HttpProtocol", cursor: WatchCursor) -> None:
        self.protocol = protocol
        self.cursor = cursor
        self.timers: list[asyncio.TimerHandle] = []
        # A fault plan lets the stream rest.
        self.is_held = False
        self.is_delayed = False
        # What a fault plan may have sent again.
        self.sent: deque[bytes] = deque(maxlen=REPEATABLE_EVENTS)

    @property
    def takes_data(self) -> bool:
        """Whether the connection has room."""
        return self.protocol.can_write and not self.is_held

    def cancel_timers(self) -> None:
        """Forget the timeout and the bookmarks."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


class HttpProtocol(asyncio.Protocol):
    """Serves one connection."""

    def __init__(self, server: "ApiServer") -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._waiting: deque[Request] = deque()
        self._is_busy = False
        self._is_closing = False
        self._closes_after_stream = False
        self.can_write = True
        self.stream: WatchStream | None = None
        self._reset_request()

    def _reset_request(self) -> None:
        self._target = b""
        self._accept = b""
        self._content_type = b""
        self._authorization = b""
        self._expects_continue = False
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # asyncio turns Nagle's algorithm off itself.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._server.connection_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._is_closing = True
        self._transport = None
        self._waiting.clear()
        self._server.connection_closed(self)
        self._drop_stream()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            # Raised by our own code under a callback: a bug, not bad input.
            raise (error.__context__ or error) from None
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refuse_connection(status.bad_request(f"malformed HTTP request: {error}"))
        self._flush()

    def pause_writing(self) -> None:
        self.can_write = False
        if self._transport is not None and self.stream is None:
            # A client that pipelines and does not read gets no more answers prepared.
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.can_write = True
        if self.stream is not None:
            self._server.feed_later(self.stream)
        if self._transport is not None:
            self._transport.resume_reading()

    # httptools callbacks

    def on_message_begin(self) -> None:
        self._reset_request()

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        match name.lower():
            case b"accept":
                self._accept = value
            case b"content-type":
                self._content_type = value
            case b"authorization":
                self._authorization = value
            case b"expect":
                self._expects_continue = value.lower() == b"100-continue"
            case _:
                pass

    def on_headers_complete(self) -> None:
        if self._expects_continue:
            self._out.append(CONTINUE)
            self._flush()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > BODY_BYTES_MAX:
            self._refuse_connection(status.too_large_body(BODY_BYTES_MAX))
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._is_closing:
            return
        body = self._body
        request = Request(
            self._parser.get_method().decode(),
            self._target.decode("latin-1"),
            self._accept.decode("latin-1"),
            self._content_type.decode("latin-1"),
            self._authorization.decode("latin-1"),
            body[0] if len(body) == 1 else b"".join(body),
            self._parser.should_keep_alive(),
        )
        if not self._is_busy:
            self._handle(request)
        elif len(self._waiting) < WAITING_REQUESTS_MAX:
            self._waiting.append(request)
        else:
            self._abort()

    # requests

    def _handle(self, request: Request) -> None:
        server = self._server
        fault = server.faults.before_request(request) if server.faults.is_active else None
        if fault is None:
            self._carry_out_in_turn(request)
        else:
            self._interfere_with_request(request, fault)

    def _interfere_with_request(self, request: Request, fault: RequestFault) -> None:
        match fault:
            case Refuse(error):
                answer = Answer(error.code, error.body(), retry_after_s=error.retry_after_s)
                self._answer(request, answer)
            case Reply(code, body, content_type):
                self._answer(request, Answer(code, body, content_type))
            case Delay(delay_s):
                resume = self._pause(lambda: self._carry_out_in_turn(request))
                self._server.loop.call_later(delay_s, resume)
            case Hold(released):
                resume = self._pause(lambda: self._carry_out_in_turn(request))
                released.add_done_callback(lambda _: resume())
            case Disconnect():
                self._disconnect(fault)
            case Hang():
                self._is_busy = True
            case _:
                assert_never(fault)

    def _carry_out_in_turn(self, request: Request) -> None:
        server = self._server
        wait_s = server.pace.wait_s(request, server.loop.time()) if server.pace.is_active else 0.0
        if wait_s:
            server.loop.call_later(wait_s, self._pause(lambda: self._carry_out(request)))
        else:
            self._carry_out(request)

    def _carry_out(self, request: Request) -> None:
        outcome = self._server.carry_out(request)
        if isinstance(outcome, WatchStart):
            self._start_stream(request, outcome)
            return
        faults = self._server.faults
        fault = faults.before_answer(request, outcome.code) if faults.is_active else None
        if fault is None:
            self._answer(request, outcome)
        else:
            self._interfere_with_answer(request, outcome, fault)

    def _interfere_with_answer(self, request: Request, answer: Answer, fault: AnswerFault) -> None:
        match fault:
            case Delay(delay_s):
                resume = self._pause(lambda: self._answer(request, answer))
                self._server.loop.call_later(delay_s, resume)
            case CutAnswer(is_whole_http):
                half = answer.body[: len(answer.body) // 2]
                if is_whole_http:
                    self._answer(request, answer._replace(body=half))
                    return
                whole = self._server.heads.answer(answer, self._server.now_s(), keeps_alive=True)
                self._out.append(whole[: len(whole) - len(answer.body) + len(half)])
                self._close_after_flush()
            case Disconnect():
                self._disconnect(fault)
            case Hang():
                self._is_busy = True
            case _:
                assert_never(fault)

    def _answer(self, request: Request, answer: Answer) -> None:
        server = self._server
        if request.method == "HEAD":
            # Its answer has no body, or the client would take it for the next answer.
            answer = answer._replace(body=b"")
        self._out.append(
            server.heads.answer(answer, server.now_s(), keeps_alive=request.keeps_alive)
        )
        if not request.keeps_alive:
            self._close_after_flush()

    def _pause(self, go_on: Callable[[], None]) -> Callable[[], None]:
        """Handles nothing more until what is returned is called."""
        self._is_busy = True

        def resume() -> None:
            if self._transport is None:
                return
            self._is_busy = False
            go_on()
            self._next_waiting()
            self._flush()

        return resume

    def _next_waiting(self) -> None:
        while self._waiting and not self._is_busy and not self._is_closing:
            self._handle(self._waiting.popleft())

    # watches

    def _start_stream(self, request: Request, start: WatchStart) -> None:
        server = self._server
        self._out.append(server.heads.stream_head(server.now_s()))
        self._closes_after_stream = not request.keeps_alive
        if start.cursor is None:
            self._out.append(start.error_frame + LAST_CHUNK)
            if self._closes_after_stream:
                self._close_after_flush()
            return
        self._is_busy = True
        self._flush()
        self.stream = WatchStream(self, start.cursor)
        server.add_stream(
            self.stream,
            allows_bookmarks=start.allows_bookmarks,
            timeout_s=start.timeout_s,
        )

    def write_frames(self, frames: bytes) -> None:
        """Send watch frames."""
        if self._transport is not None and frames and not self._transport.is_closing():
            self._transport.write(frames)

    def write_event(self, frame: bytes) -> None:
        """Send one watch event and remember it, while a fault plan is active."""
        if frame and self.stream is not None:
            self.stream.sent.append(frame)
            self.write_frames(frame)

    def end_stream(self, last_frames: bytes = b"") -> None:
        """End the watch in good order; the connection serves on."""
        if self.stream is None:
            return
        self._drop_stream()
        self._is_busy = False
        self._out.append(last_frames + LAST_CHUNK)
        if self._closes_after_stream:
            self._close_after_flush()
        self._next_waiting()
        self._flush()

    def _drop_stream(self) -> None:
        """A connection that is lost or about to be has no watch: nothing is fed to it any more."""
        if self.stream is not None:
            self._server.remove_stream(self.stream)
            self.stream = None

    def interfere(self, fault: WatchFault) -> None:
        """Carry out what a fault plan ordered for the next event of the watch."""
        stream = self.stream
        assert stream is not None
        match fault:
            case Delay(delay_s):
                stream.is_held = True

                def let_go() -> None:
                    stream.is_held = False
                    stream.is_delayed = True
                    self._server.feed_later(stream)

                stream.timers.append(self._server.loop.call_later(delay_s, let_go))
            case Hang():
                stream.cancel_timers()
                stream.is_held = True
            case Disconnect():
                self._disconnect(fault)
            case EndWatch():
                self.end_stream()
            case ExpireWatch():
                gone = status.expired("too old resource version: the watch cache was reset")
                self.end_stream(error_frame(gone.as_object()))
            case CutEvent():
                frame = stream.cursor.take(1)
                self.write_frames(frame[: len(frame) // 2])
                self._drop_stream()
                if self._transport is not None:
                    # What was written still goes out, which an abort would not wait for.
                    self._transport.close()
            case DropEvent() | RepeatEvent() | GarbleEvent():
                self._interfere_with_event(stream, fault)
            case _:
                assert_never(fault)

    def _interfere_with_event(
        self, stream: WatchStream, fault: DropEvent | RepeatEvent | GarbleEvent
    ) -> None:
        frame = stream.cursor.take(1)
        match fault:
            case DropEvent():
                pass
            case RepeatEvent(back_count):
                self.write_event(frame)
                if stream.sent:
                    self.write_frames(stream.sent[-min(back_count + 1, len(stream.sent))])
            case GarbleEvent():
                line = b'{"type":"MODIFIED","object":{"kind"\n'
                self.write_frames(b"%x\r\n%b\r\n" % (len(line), line))
            case _:
                assert_never(fault)
        self._server.feed_later(stream)

    def abort(self) -> None:
        """Drop the connection, with whatever is still unsent."""
        self._abort()

    def shut_down(self) -> None:
        """End the watch, send what is prepared, and close."""
        self._waiting.clear()
        self.end_stream()
        self._close_after_flush()
        self._flush()

    # output

    def _flush(self) -> None:
        transport = self._transport
        # A TLS transport that was closed twice refuses to be written to until it says that it is lost.
        if transport is None or transport.is_closing():
            self._out.clear()
            return
        if self._out:
            out = self._out
            transport.write(out[0] if len(out) == 1 else b"".join(out))
            out.clear()
        if self._is_closing:
            transport.close()

    def _close_after_flush(self) -> None:
        self._is_closing = True

    def _refuse_connection(self, error: status.ApiError) -> None:
        if self._is_closing:
            return
        server = self._server
        answer = Answer(error.code, error.body())
        self._out.append(server.heads.answer(answer, server.now_s(), keeps_alive=False))
        self._close_after_flush()

    def _count_head(self, byte_count: int) -> None:
        self._head_bytes += byte_count
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse_connection(
                status.ApiError(431, "the head of the request is too large", reason="BadRequest")
            )

    def _disconnect(self, fault: Disconnect) -> None:
        if fault.is_reset and self._transport is not None:
            # Closing a socket that lingers for no time is a reset.
            raw_socket = self._transport.get_extra_info("socket")
            linger = struct.pack("ii", 1, 0)
            raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._abort()

    def _abort(self) -> None:
        self._is_closing = True
        self._drop_stream()
        if self._transport is not None:
            self._transport.abort()
