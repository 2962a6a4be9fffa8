"""An HTTP proxy on the loopback that does nothing but tunnels (CONNECT)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class ConnectProxy:
    """Connects every tunnel to one port of ours, whatever host the client names."""

    def __init__(self, target_port: int, authorization: str = "") -> None:
        self._target_port = target_port
        self._authorization = authorization
        self.asked: list[str] = []
        """First line of each request."""
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.partition("\r\n")[0])
        if self._authorization and f"Proxy-Authorization: {self._authorization}" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        ways = (_pass_on(reader, their_writer), _pass_on(their_reader, writer))
        self._tasks |= {asyncio.ensure_future(way) for way in ways}

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()


@contextlib.asynccontextmanager
async def connect_proxy(target_port: int, authorization: str = "") -> AsyncIterator[ConnectProxy]:
    """A proxy that runs while the block does."""
    proxy = ConnectProxy(target_port, authorization)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
        await server.wait_closed()
