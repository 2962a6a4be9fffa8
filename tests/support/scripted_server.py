"""An HTTP server on the loopback that does what a test says, request by request, byte by byte.

It knows nothing of Kubernetes: for that there is `bench.apiserver`. This one is for what a well
behaved server never does.
"""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Reply:
    """Writes the answer to one request."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def raw(self, text: bytes) -> None:
        self._writer.write(text)
        await self._writer.drain()

    async def json(self, status: int, body: Any, **headers: str) -> None:
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Text", f"Content-Length: {len(encoded)}"]
        lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
        await self.raw("\r\n".join([*lines, "", ""]).encode() + encoded)

    async def start_stream(self) -> None:
        await self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    async def line(self, body: Any) -> None:
        """A JSON line as one chunk."""
        await self.chunk(json.dumps(body).encode() + b"\n")

    async def end_stream(self) -> None:
        await self.raw(b"0\r\n\r\n")

    def reset(self) -> None:
        """Close without a word."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close in good order."""
        self._writer.close()


Handler = Callable[[Request, Reply], Awaitable[None]]


class ScriptedServer:
    """`async with ScriptedServer(handler) as server: ... server.url`."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._tls = tls
        self.requests: list[Request] = []
        self.connection_count = 0
        self.failures: list[BaseException] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # What the test saw may follow from what went wrong here.
        if self.failures and not isinstance(error, AssertionError):
            raise self.failures[0]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while request := await _read_request(reader):
                self.requests.append(request)
                await self._handler(request, Reply(writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass
        except BaseException as error:  # noqa: BLE001  # Told at the end of the test.
            self.failures.append(error)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {}
    for line in lines:
        name, _, text = line.partition(": ")
        headers[name.lower()] = text
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    query = {name: texts[0] for name, texts in parse_qs(parts.query).items()}
    return Request(method, parts.path, query, headers, body)
