"""The HTTP/1.1 server under the pages: small requests, small answers, bounds on everything."""

import asyncio
import socket
import ssl
from http import HTTPStatus
from typing import Any, Final

import httptools

from daemon.endpoints.access import Request
from daemon.endpoints.pages import Pages
from daemon.endpoints.zpages import Page
from shared.limits import (
    ENDPOINT_CONNECTIONS_MAX,
    HANDSHAKE_S_MAX,
    IDLE_S_MAX,
    REQUEST_HEAD_BYTES_MAX,
)
from shared.telemetry.log import EventLog

log: Final = EventLog("endpoints")

EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - what is asked for so.


class _Parsed:
    """What httptools calls back while it parses one request."""

    def __init__(self) -> None:
        self.target = b""
        self.headers: dict[str, str] = {}
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, text: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = text.decode("latin-1")

    def on_message_complete(self) -> None:
        self.is_complete = True


class EndpointServer:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._connection_count = 0
        self._waiting: dict[asyncio.StreamWriter, None] = {}
        """Connections that wait for their client, to ask or to read; first who has waited longest."""
        self._server: asyncio.Server | None = None
        self._tls: ssl.SSLContext | None = None

    async def start(
        self, host: str, port: int, tls: ssl.SSLContext | None, *, shares_port: bool = False
    ) -> int:
        """Listens; the port (0 lets the system choose). OSError if the address cannot be had.

        Any address is any of both families, as for Go's net.Listen (`CreateListener` in
        staging/src/k8s.io/apiserver/pkg/server/options/serving.go, v1.36.2).
        """
        if host in EVERYWHERE and socket.has_dualstack_ipv6():
            listener = socket.create_server(
                ("::", port), family=socket.AF_INET6, reuse_port=shares_port, dualstack_ipv6=True
            )
            server = await self._listening(tls, sock=listener)
        else:
            server = await self._listening(
                tls, host=host, port=port, reuse_port=shares_port or None
            )
        port = server.sockets[0].getsockname()[1]
        log.info("listening", address=host, port=port, is_tls=tls is not None)
        return port

    async def speak(self, tls: ssl.SSLContext) -> None:
        """Goes on with another context, on the same port: connections of the former one end, with
        their answers where there is one under way. OSError leaves all as it is."""
        former = self._server
        if former is None or tls is self._tls:
            return
        await self._listening(tls, sock=former.sockets[0].dup())
        former.close()
        for waiting in self._waiting:
            waiting.transport.abort()

    async def _listening(self, tls: ssl.SSLContext | None, **where: Any) -> asyncio.Server:
        self._server = await asyncio.start_server(
            self._serve,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HANDSHAKE_S_MAX,
            limit=REQUEST_HEAD_BYTES_MAX,
            **where,
        )
        self._tls = tls
        return self._server

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connection_count += 1
        try:
            if self._connection_count > ENDPOINT_CONNECTIONS_MAX and not self._make_room():
                _write(writer, Page(503, b"too many connections\n"), "GET", is_last=True)
                return
            self._waiting[writer] = None
            # What a connection said who its client is holds as long as its context does.
            while writer.get_extra_info("sslcontext") is self._tls:
                if not await self._serve_one(reader, writer):
                    return
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # Who asked is gone, or slow, or we end; it is not worth a line of the log.
        finally:
            self._connection_count -= 1
            self._waiting.pop(writer, None)
            writer.close()

    def _make_room(self) -> bool:
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False  # All are being answered.
        del self._waiting[longest]
        longest.transport.abort()
        return True

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            async with asyncio.timeout(IDLE_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        except asyncio.LimitOverrunError:
            _write(writer, Page(400, b"the head is too large\n"), "GET", is_last=True)
            return False
        parsed = _Parsed()
        parser = httptools.HttpRequestParser(parsed)
        try:
            parser.feed_data(head)
            request = Request(
                parser.get_method().decode(),
                parsed.target.decode(),
                parsed.headers,
                writer.get_extra_info("peercert"),
            )
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, UnicodeDecodeError):
            _write(writer, Page(400, b"not an HTTP request\n"), "GET", is_last=True)
            return False
        # A body would follow: nobody here wants one, so the connection ends with the answer.
        is_last = not parsed.is_complete or not parser.should_keep_alive()
        self._waiting.pop(writer, None)
        page = await self._answer(request)
        self._waiting[writer] = None
        _write(writer, page, request.method, is_last=is_last)
        async with asyncio.timeout(IDLE_S_MAX):
            await writer.drain()
        return not is_last

    async def _answer(self, request: Request) -> Page:
        try:
            return await self._pages.answer(request)
        except Exception:  # A fault in one page must not silence the others; it is logged.
            log.exception("page_failed", target=request.target)
            return Page(500, b"internal server error\n")


def _write(writer: asyncio.StreamWriter, page: Page, method: str, *, is_last: bool) -> None:
    lines = [
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-cache, private",
        "X-Content-Type-Options: nosniff",
        *(f"{name}: {text}" for name, text in page.headers),
    ]
    if is_last:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    writer.write(head if method == "HEAD" else head + page.body)
