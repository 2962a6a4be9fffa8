"""The HTTP client for the Kubernetes API: a pool of keep-alive connections, typed errors.

Callers may rely on: an answer of 2xx is returned, any other is raised as the `ApiError` that its
`Status` stands for; a transport failure says whether the server can have seen the request
(`shared.kube.api_errors`). Requests that may have been seen are never sent twice, except reads, once,
when a kept connection turns out to be dead.

Credentials and the way through a proxy are those of the `ClusterAccess`. Credentials that the server
refuses are renewed once for each request, and connections that were made with an older client
certificate are not used again.
"""

import asyncio
import enum
import re
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from shared.errors import OperationalError
from shared.kube.api_errors import (
    BadRequest,
    ConnectFailed,
    ConnectionLost,
    NotSent,
    RequestTimeout,
    Unauthorized,
    error_from_answer,
)
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.kube.http_connection import Answer, HttpConnection, Sent, read_buffer
from shared.limits import API_REQUEST_S, OBJECT_BYTES_MAX
from shared.rate_limit import RateLimit
from shared.soonest_call import SoonestCall

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

CONNECTIONS_MAX: Final = 64
"""Kept by one client unless it is told otherwise. At 5 ms an answer, 64 carry 12,800 requests/s."""
CONNECTING_MAX: Final = 8
"""At a time, for a handshake takes both sides milliseconds: of 64, the first would end with the last."""

HELD_MAX: Final = 8
HELD_S: Final = 0.2
"""So many answers that are not urgent are read together, or what there is of them after this time: who
reads one finds the caches cold once for all of them. More at a time save nothing in addition; in less
time, not even so many come at 50 a second."""
ROW_MAX: Final = 32
"""Requests under way on one connection. At 5 ms each, 32 take as long as their answers may lie."""
NO_ROWS_S: Final = 60.0
"""After a server has closed a connection with requests on it that it had not looked at."""


class Urgency(enum.Enum):
    """Of a request. What is urgent in no way may be answered after others on the same connection, and
    where it fails may have to be sent once more."""

    WHOLE = enum.auto()
    SENDING = enum.auto()
    """What it brings about; its answer is not."""
    NONE = enum.auto()


NO_ANSWER: Final = "<error>"
"""To the observer in place of a status code, as client-go says it (rest/request.go, v1.36)."""

RequestObserver = Callable[[str, str, float], None]
"""Is told of a request: method, status code, seconds."""

_KEEP_ALIVE: Final = (
    ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 30),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPINTVL), 10),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPCNT), 3),
)
"""Probes after 30 s of silence, as client-go dials; after three that nobody answers it is dead."""

_Gate = Callable[[], bool] | None

_NOT_FOR_PATHS: Final = re.compile(r"[^!-~]")


class ApiClient:
    """Talks to one API server. Belongs to one event loop. Methods named as those of HTTP give the body
    of the answer; all raise `ApiError` or `TransportError` unless that is 2xx."""

    def __init__(
        self,
        access: ClusterAccess,
        *,
        connections_max: int = CONNECTIONS_MAX,
        timeout_s: float = API_REQUEST_S,
        connect_timeout_s: float = 10.0,
        may_write: _Gate = None,
        rate_limit: RateLimit | None = None,
        body_bytes_max: int = OBJECT_BYTES_MAX,
        observer: RequestObserver | None = None,
        problems: ConnectionProblems | None = None,
    ) -> None:
        """`may_write` is asked right before any request but GET leaves; None: always. Requests wait
        their turn by `rate_limit`. `body_bytes_max`: of an answer. `observer` is told of each that was
        sent, `problems` of what keeps them from being answered."""
        assert connections_max > 0, "a client needs a connection"
        self._access = access
        self.server = access.url
        self._connections_max = connections_max
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._may_write = may_write
        self._rate_limit = rate_limit
        self._body_bytes_max = body_bytes_max
        self._observer = observer
        self._problems = problems
        self._idle: list[HttpConnection] = []
        self._busy: dict[HttpConnection, None] = {}
        """Those that wait for an answer; in order, so that what times out together ends so."""
        self._held_max = min(HELD_MAX, connections_max // 4)
        self._held: set[HttpConnection] = set()
        """Of those, whose answers are left unread."""
        self._reading: asyncio.TimerHandle | None = None
        self._row: HttpConnection | None = None
        """Where requests of no urgency are sent one behind the other."""
        self._no_rows_until_s = 0.0
        self._pooled: set[HttpConnection] = set()
        self._streaming: set[HttpConnection] = set()
        self._read_buffer = read_buffer()
        self._connecting_count = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._sweep: SoonestCall | None = None
        """One timer for all requests: it mostly finds that the first of them was answered long ago."""
        self._is_closed = False
        self._common_head = f" HTTP/1.1\r\nHost: {access.host_header}\r\nUser-Agent: berth\r\n"

    # Requests -------------------------------------------------------------------------------------

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
        return (await self.request("GET", path, timeout_s=timeout_s)).body

    async def post(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        return (await self.request("POST", path, body, timeout_s=timeout_s)).body

    async def put(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        return (await self.request("PUT", path, body, timeout_s=timeout_s)).body

    async def patch(
        self,
        path: str,
        body: bytes,
        content_type: str = STRATEGIC_MERGE_PATCH,
        *,
        timeout_s: float | None = None,
    ) -> bytes:
        return (await self.request("PATCH", path, body, content_type, timeout_s=timeout_s)).body

    async def delete(
        self, path: str, body: bytes = b"", *, timeout_s: float | None = None
    ) -> bytes:
        """`body`: DeleteOptions, or nothing."""
        return (await self.request("DELETE", path, body, timeout_s=timeout_s)).body

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = JSON,
        *,
        accept: str = JSON,
        timeout_s: float | None = None,
        may_write: _Gate = None,
        urgency: Urgency = Urgency.WHOLE,
        connected: Callable[[float], Awaitable[HttpConnection]] | None = None,
    ) -> Answer:
        """`may_write`: in place of the client's. `connected`: in place of a pooled connection."""
        message = partial(self._message, method, path, body, content_type, accept)
        gate = None if method == "GET" else may_write or self._may_write
        connected = connected or self._acquire
        try:
            answer = await self._answered(method, message, timeout_s, gate, urgency, connected)
        except OperationalError as error:
            if self._problems is not None:
                self._problems.failed(method, path, error)
            raise
        if self._problems is not None:
            self._problems.went_well(method, path)
        return answer

    async def _answered(
        self,
        method: str,
        message: Callable[[float], bytes],
        timeout_s: float | None,
        gate: _Gate,
        urgency: Urgency,
        connected: Callable[[float], Awaitable[HttpConnection]],
    ) -> Answer:
        loop = asyncio.get_running_loop()
        if self._rate_limit is not None:
            # Before the clock of the request starts: waiting one's turn is no slowness of the server.
            wait_s = self._rate_limit.reserve(loop.time())
            if wait_s > 0:
                await asyncio.sleep(wait_s)
        deadline_s = loop.time() + (self._timeout_s if timeout_s is None else timeout_s)
        credentials = self._access.credentials
        is_renewed = is_resent = False
        while True:
            if credentials.is_due():
                await credentials.prepare()
            request = message(loop.time())
            used_serial = credentials.serial
            connection = self._row_with_room() if urgency is Urgency.NONE else None
            if connection is None:
                connection = await connected(deadline_s)
            if gate is not None and not gate():
                self._release(connection)
                raise NotSent("not sent: another berth may hold the lease by now")
            if urgency is Urgency.NONE:
                self._row = connection
            is_held = urgency is not Urgency.WHOLE and self._may_hold(connection)
            self._busy[connection] = None
            self._look_at(deadline_s)
            sent = connection.send(method, request, deadline_s, is_held=is_held)
            try:
                answer = await sent
            except asyncio.CancelledError:
                # An answer may still come, and must not meet the next request.
                if sent.cancelled():
                    connection.abort()
                raise
            except ConnectionLost:
                if method != "GET" or is_resent or connection.use_count == 1:
                    raise
                is_resent = True
                continue
            if 200 <= answer.status < 300:
                return answer
            error = error_from_answer(answer.status, answer.body, answer.retry_after_s)
            if not isinstance(error, Unauthorized) or is_renewed:
                raise error
            # The server did nothing; the token may have been renewed since it was read.
            is_renewed = True
            if not await credentials.renew(used_serial, loop.time()):
                raise error

    def read_at_once(self) -> None:
        """From now on every answer is urgent."""
        self._held_max = 0
        self._read_held()

    async def close(self) -> None:
        """Close every connection; requests under way are lost."""
        self.read_at_once()
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._pooled | self._busy.keys() | self._streaming:
            connection.abort()
        while self._waiters:
            self._wake_waiter()
        # Transports close in the next turn of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _message(
        self, method: str, path: str, body: bytes, content_type: str, accept: str, now_s: float
    ) -> bytes:
        if _NOT_FOR_PATHS.search(path) is not None:
            raise BadRequest(400, "BadRequest", f"path {path!r} has what no URL may have")
        credentials = self._access.credentials.header_line(now_s)
        target = f"{self._access.base_path}{path}"
        start = f"{method} {target}{self._common_head}Accept: {accept}\r\n".encode()
        if not body and method == "GET":
            return b"".join((start, credentials, b"\r\n"))
        length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        return b"".join((start, credentials, length, body))

    def _on_over(self, connection: HttpConnection, sent: Sent, answer: Answer | None) -> None:
        """What was sent is answered, or (None) will not be."""
        if not connection.sent:
            del self._busy[connection]
            self._held.discard(connection)
            if connection is self._row:
                self._row = None
            if answer is not None:
                self._release(connection)
        if self._observer is not None:
            code, held_s = (str(answer.status), answer.held_s) if answer else (NO_ANSWER, 0.0)
            self._observer(sent.method, code, connection.loop.time() - sent.sent_s - held_s)

    # What is not urgent ---------------------------------------------------------------------------

    def _row_with_room(self) -> HttpConnection | None:
        row = self._row
        if row is None or not 0 < len(row.sent) < ROW_MAX or not row.is_open:
            return None
        return row if self._no_rows_until_s <= row.loop.time() else None

    def _may_hold(self, connection: HttpConnection) -> bool:
        """Whether the next answer there may lie. Not where requests come faster than answers are read:
        those that follow may have to wait for a connection, or whoever sends them for an answer."""
        if connection.sent:
            return connection in self._held
        if len(self._busy) + 1 >= 2 * self._held_max:
            self._read_held()
            return False
        if len(self._held) + 1 >= self._held_max:
            self._read_held()
        self._held.add(connection)
        if self._reading is None:
            self._reading = connection.loop.call_later(HELD_S, self._read_held)
        return True

    def _read_held(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        while self._held:
            self._held.pop().read()

    # Connections ----------------------------------------------------------------------------------

    async def _acquire(self, deadline_s: float) -> HttpConnection:
        while True:
            if self._is_closed:
                raise NotSent("the client is closed")
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_usable:
                    continue
                if connection.certificate_serial == self._access.credentials.certificate_serial:
                    return connection
                connection.abort()
            count = len(self._pooled) + self._connecting_count
            if count < self._connections_max and self._connecting_count < CONNECTING_MAX:
                self._connecting_count += 1
                try:
                    connection = await self._connect(deadline_s)
                    self._pooled.add(connection)
                    return connection
                finally:
                    self._connecting_count -= 1
                    self._wake_waiter()  # There is room for another that connects.
            await self._wait_for_release(deadline_s)

    async def _wait_for_release(self, deadline_s: float) -> None:
        self._read_held()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout_at(deadline_s):
                await waiter
        except (TimeoutError, asyncio.CancelledError) as error:
            if waiter.done() and not waiter.cancelled():
                self._wake_waiter()  # It was woken and gives up all the same.
            if isinstance(error, asyncio.CancelledError):
                raise
            raise ConnectFailed(
                f"none of {self._connections_max} connections to {self.server} became free in time"
            ) from None

    def _release(self, connection: HttpConnection) -> None:
        if connection in self._streaming:
            if connection.is_usable:  # What came is no stream.
                connection.abort()
        elif connection.is_usable:
            self._idle.append(connection)
            if self._waiters:
                self._wake_waiter()

    def _wake_waiter(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _connect(self, deadline_s: float) -> HttpConnection:
        loop = asyncio.get_running_loop()
        limit_s = min(deadline_s, loop.time() + self._connect_timeout_s)
        credentials = self._access.credentials
        credentials.before_connecting()
        if self._access.tls is not None:
            self._access.tls.reload()
        connection = HttpConnection(
            self._on_closed, self._on_over, self._body_bytes_max, self._read_buffer
        )
        connection.certificate_serial = credentials.certificate_serial
        try:
            async with asyncio.timeout_at(limit_s):
                transport = await self._open(connection)
        except TimeoutError:
            raise ConnectFailed(f"{self.server}: no connection in time") from None
        except (OSError, ValueError, OverflowError) as error:  # No name, no port.
            raise ConnectFailed(f"{self.server}: {error}") from error
        raw_socket = transport.get_extra_info("socket")
        if raw_socket is not None:
            # A peer that vanished without a word is noticed even if nothing is ever sent.
            for option, value in _KEEP_ALIVE:
                raw_socket.setsockopt(*option, value)
        return connection

    async def _open(self, connection: HttpConnection) -> asyncio.BaseTransport:
        loop = asyncio.get_running_loop()
        access = self._access
        context = access.tls.context if access.tls is not None else None
        server_name = (access.tls_server_name or access.host) if context else None
        if access.proxy is None:
            opened, _ = await loop.create_connection(
                lambda: connection,
                access.host,
                access.port,
                ssl=context,
                server_hostname=server_name,
            )
            return opened
        tunnel = await access.proxy.opened(access.host, access.port)
        if context is None:
            tunnel.set_protocol(connection)
            connection.connection_made(tunnel)
            return tunnel
        try:
            secured = await loop.start_tls(tunnel, connection, context, server_hostname=server_name)
        except BaseException:
            tunnel.abort()
            raise
        assert secured is not None, "the tunnel was open a moment ago"
        connection.connection_made(secured)
        return secured

    def _on_closed(self, connection: HttpConnection) -> None:
        self._streaming.discard(connection)
        if connection in self._pooled:
            self._pooled.discard(connection)
            if connection.ends_rows:
                self._no_rows_until_s = connection.loop.time() + NO_ROWS_S
            self._wake_waiter()

    # Timeouts -------------------------------------------------------------------------------------

    def _look_at(self, deadline_s: float) -> None:
        loop = asyncio.get_running_loop()
        if self._sweep is None:
            self._sweep = SoonestCall(loop, self._time_out_overdue)
        self._sweep.within(deadline_s - loop.time())

    def _time_out_overdue(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for connection in [c for c in self._busy if c.sent[0].deadline_s <= now_s]:
            connection.fail(RequestTimeout(f"{self.server}: no answer in time"))
        if self._busy and not self._is_closed:
            self._look_at(min(connection.sent[0].deadline_s for connection in self._busy))
