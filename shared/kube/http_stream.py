"""Answers without an end, as a watch is: apart from the client, which few have for that."""

import asyncio
from collections.abc import Callable
from typing import Final

from shared.kube.api_client import ApiClient
from shared.kube.api_errors import ProtocolViolation, TransportError
from shared.kube.http_connection import HttpConnection
from shared.limits import OBJECT_BYTES_MAX, STREAM_BUFFER_BYTES_MAX
from shared.soonest_call import SoonestCall

HELD_S: Final = 0.05
"""The longest that what is not urgent waits: at 50 pods a second the next one has come by then."""
APART_S: Final = 0.01
"""What is urgent is read so long after what was read before it at the least: pods that come faster come
together to all processes that they wake, as packets do where a network card moderates its interrupts."""


class HttpStream:
    """The body of an answer that has no end in sight, in the chunks in which it arrives. The socket is
    not read while the consumer is behind. `append` and `end` are for the connection."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        connection.taker = self
        self.can_wait: Callable[[bytes], bool] = lambda _: False
        """Of a chunk that wakes nobody: it comes with the next that does, or after HELD_S."""
        self._held = SoonestCall(connection.loop, self._wake)
        self._read_at_s = 0.0
        self._chunks: list[bytes] = []
        self._buffered_bytes = 0
        self._is_paused = False
        self._is_ended = False
        self._error: TransportError | None = None
        self._wakeup: asyncio.Future[None] | None = None

    async def chunks(self) -> list[bytes]:
        """All that has arrived since the last call, waiting for something; empty at the end.

        Raises what broke the stream, after the bytes that came before it.
        """
        while not self._chunks:
            if self._is_ended:
                if self._error is not None:
                    raise self._error
                return []
            self._wakeup = asyncio.get_running_loop().create_future()
            try:
                await self._wakeup
            finally:
                self._wakeup = None
        chunks, self._chunks = self._chunks, []
        self._read_at_s = self._connection.loop.time()
        self._buffered_bytes = 0
        self._held.cancel()
        if self._is_paused:
            self._is_paused = False
            self._connection.resume()
        return chunks

    def close(self) -> None:
        """Stop listening; closes the connection."""
        self._connection.abort()

    def append(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._buffered_bytes += len(chunk)
        if self._buffered_bytes > STREAM_BUFFER_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            self._connection.pause()
        if self._wakeup is None or self._wakeup.done():
            return  # The consumer is awake, and takes it with the others.
        since_read_s = self._connection.loop.time() - self._read_at_s
        wait_s = HELD_S if self.can_wait(chunk) else APART_S - since_read_s
        if self._is_paused or wait_s <= 0:
            self._wake()
        else:
            self._held.within(wait_s)

    def end(self, error: TransportError | None) -> None:
        self._is_ended = True
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)


class StreamClient(ApiClient):
    async def open_stream(self, path: str) -> HttpStream:
        """GET an answer without an end, on a connection of its own; close the stream when done. The
        client's patience bounds the wait for the head of the answer, not the stream."""
        streams = []

        async def connected(deadline_s: float) -> HttpConnection:
            connection = await self._connect(deadline_s)
            self._streaming.add(connection)
            streams.append(HttpStream(connection))
            return connection

        await self.request("GET", path, connected=connected)
        return streams[-1]


class LineSplitter:
    """Chunks of a watch to its lines, each put together once. A line has a bound, or a server that never
    ends one would fill our memory."""

    def __init__(self) -> None:
        self._rest = bytearray()
        """The beginning of a line that is not complete yet."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, without their line ends and without empty ones. Raises
        `ProtocolViolation` where one is too long."""
        head, *rest = chunk.split(b"\n")
        if len(self._rest) + len(head) > OBJECT_BYTES_MAX:
            self._rest.clear()
            raise ProtocolViolation(f"a line of a watch of more than {OBJECT_BYTES_MAX} bytes")
        if not rest:
            self._rest += head  # In place: a line of n pieces costs n, not n squared.
            return []
        if self._rest:
            head = b"".join((self._rest, head))
        self._rest = bytearray(rest.pop())
        return [line for line in (head, *rest) if line.strip()]

    def take_rest(self) -> bytes:
        """What came after the last line end, when nothing more will come."""
        rest, self._rest = bytes(self._rest), bytearray()
        return rest.strip()
