"""The server: listening, the running watches, and the clock.

Everything is one thread and one event loop. A request is carried out when it has been read; what it
changed is sent to the watchers once per turn of the loop, so that a burst of writes costs one send
per watcher and not one per write.
"""

import asyncio
import contextlib
import hmac
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.apiserver import api_status as status
from bench.apiserver.api_cluster import Cluster, ClusterOptions
from bench.apiserver.api_faults import FaultPlan, NoFaults
from bench.apiserver.deletion import run_due
from bench.apiserver.discovery import PUBLIC_PATHS
from bench.apiserver.http_protocol import WATCH_WRITE_BYTES, HttpProtocol, WatchStream
from bench.apiserver.reads import Answer
from bench.apiserver.router import Request, respond
from bench.apiserver.store import Table
from bench.apiserver.watching import WatchStart
from bench.apiserver.wire_format import HeadWriter
from bench.apiserver.write_pace import WritePace
from bench.watched.server_pace import PaceOptions

# kube-apiserver ends a watch without timeoutSeconds after 30 to 60 minutes (min-request-timeout).
DEFAULT_WATCH_TIMEOUT_S: Final = 1800.0
# A bookmark comes this long before a watch ends (cache_watcher.go, v1.36).
BOOKMARK_BEFORE_END_S: Final = 2.0
# Ends that a stop waits for before it closes connections hard.
SHUTDOWN_GRACE_S: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """What can be set of the server; the cluster's own options are in `cluster`."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 lets the system choose."""

    token: str | None = None
    """Bearer token that every request must carry; None asks for none."""

    tls_cert: Path | None = None
    tls_key: Path | None = None
    """PEM files; both or neither."""

    bookmark_interval_s: float = 60.0
    """How often an idle watch that allows it gets a BOOKMARK."""

    has_progress_notify: bool = True
    """Whether etcd tells the server often how far it is (--watch-progress-notify-interval). Without,
    a watch gets no bookmarks until its resource has changed."""

    watch_lag_max: int | None = None
    """Changes that a watcher may be behind before it is dropped; None: as many as the history
    holds."""

    watch_pause_s: float = 0.001
    """At most how long changes are held back to be sent together, while changes keep coming. The
    first change after a pause is sent at once."""

    pace: PaceOptions = field(default_factory=PaceOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)


class ApiServer:
    """A simulated kube-apiserver; `start`, then `stop`."""

    def __init__(
        self,
        options: ServerOptions,
        *,
        faults: FaultPlan | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        if (options.tls_cert is None) != (options.tls_key is None):
            raise ValueError("TLS needs both a certificate and a key: give both files or neither")
        self.options = options
        self.now_s = now_s
        self.faults: FaultPlan = faults if faults is not None else NoFaults()
        self.pace = WritePace(options.pace)
        self.cluster = Cluster(options.cluster, now_s=now_s())
        self.heads = HeadWriter(options.cluster.seed)
        self.connections: set[HttpProtocol] = set()
        self.loop: asyncio.AbstractEventLoop
        self.address = ""
        self._has_no_connections = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._streams: dict[Table, dict[WatchStream, None]] = {}
        self._has_flush_planned = False
        self._last_flush_s = 0.0
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_timer_s = 0.0
        self._authorization = f"Bearer {options.token}" if options.token is not None else None

    async def start(self) -> str:
        """Listen, and return the address as a URL."""
        options = self.options
        self.loop = asyncio.get_running_loop()
        tls = None
        if options.tls_cert is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(options.tls_cert, options.tls_key)
            tls.set_alpn_protocols(["http/1.1"])
        self._listener = await self.loop.create_server(
            lambda: HttpProtocol(self), options.host, options.port, ssl=tls, backlog=4096
        )
        port = self._listener.sockets[0].getsockname()[1]
        self.address = f"{'https' if tls else 'http'}://{options.host}:{port}"
        return self.address

    async def stop(self) -> None:
        """End the watches, close all connections and stop listening."""
        if self._listener is not None:
            self._listener.close()
        if self._due_timer is not None:
            self._due_timer.cancel()
        for connection in list(self.connections):
            connection.shut_down()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_no_connections.wait(), SHUTDOWN_GRACE_S)
        for connection in list(self.connections):
            connection.abort()
        if self._listener is not None:
            await self._listener.wait_closed()

    def connection_opened(self, connection: HttpProtocol) -> None:
        """Keep count of the connections."""
        self.connections.add(connection)
        self._has_no_connections.clear()

    def connection_closed(self, connection: HttpProtocol) -> None:
        """Keep count of the connections."""
        self.connections.discard(connection)
        if not self.connections:
            self._has_no_connections.set()

    def carry_out(self, request: Request) -> Answer | WatchStart:
        """Handle one request and see to what it sets in motion."""
        if self._authorization is not None and not self._is_authorized(request):
            error = status.unauthorized()
            return Answer(error.code, error.body())
        cluster = self.cluster
        outcome = respond(cluster, request, self.now_s(), self.address.partition("://")[2])
        if cluster.store.changed:
            self._plan_flush()
        if cluster.deadlines or cluster.expiring_events:
            self._plan_due()
        return outcome

    def _is_authorized(self, request: Request) -> bool:
        assert self._authorization is not None
        if request.target.partition("?")[0] in PUBLIC_PATHS:
            return True
        given = request.authorization.encode("latin-1")
        return hmac.compare_digest(given, self._authorization.encode())

    # watches

    def add_stream(
        self, stream: WatchStream, *, allows_bookmarks: bool, timeout_s: int | None
    ) -> None:
        """Start to serve a watch."""
        self._streams.setdefault(stream.cursor.table, {})[stream] = None
        ends_after_s = float(timeout_s) if timeout_s else DEFAULT_WATCH_TIMEOUT_S
        protocol = stream.protocol
        stream.timers.append(self.loop.call_later(ends_after_s, self._end_in_time, stream))
        if allows_bookmarks:
            self._plan_bookmark(stream, self.loop.time() + ends_after_s)
        assert protocol.stream is stream
        self._feed(stream, {})

    def remove_stream(self, stream: WatchStream) -> None:
        """Forget a watch that has ended."""
        stream.cancel_timers()
        self._streams.get(stream.cursor.table, {}).pop(stream, None)

    def feed_later(self, stream: WatchStream) -> None:
        """Give a watch what it can take, soon."""
        self.loop.call_soon(self._feed_if_running, stream)

    def _feed_if_running(self, stream: WatchStream) -> None:
        if stream.protocol.stream is stream:
            self._feed(stream, {})

    def _end_in_time(self, stream: WatchStream) -> None:
        self._feed_if_running(stream)
        if stream.protocol.stream is stream:
            stream.protocol.end_stream()

    def _plan_bookmark(self, stream: WatchStream, end_s: float) -> None:
        now_s = self.loop.time()
        due_s = now_s + self.options.bookmark_interval_s
        before_end_s = end_s - BOOKMARK_BEFORE_END_S
        if now_s < before_end_s < due_s:
            due_s = before_end_s

        def send() -> None:
            cursor = stream.cursor
            self._feed_if_running(stream)
            if stream.protocol.stream is not stream:
                return
            version = self.cluster.store.version
            if not self.options.has_progress_notify:
                version = cursor.table.last_version if cursor.has_news else 0
            if version and cursor.is_current and stream.takes_data:
                stream.protocol.write_frames(cursor.shown.bookmark(version))
            self._plan_bookmark(stream, end_s)

        stream.timers = [timer for timer in stream.timers if timer.when() > now_s]
        stream.timers.append(self.loop.call_at(due_s, send))

    def _plan_flush(self) -> None:
        if self._has_flush_planned:
            return
        self._has_flush_planned = True
        since_s = self.loop.time() - self._last_flush_s
        pause_s = self.options.watch_pause_s
        if since_s >= pause_s:
            self.loop.call_soon(self._flush_changes)
        else:
            self.loop.call_later(pause_s - since_s, self._flush_changes)

    def _flush_changes(self) -> None:
        self._has_flush_planned = False
        self._last_flush_s = self.loop.time()
        changed = self.cluster.store.changed
        # Not in the order of their addresses, so that a run can be repeated.
        tables = sorted(changed, key=lambda table: table.resource.qualified)
        changed.clear()
        for table in tables:
            streams = self._streams.get(table)
            if streams:
                shared: dict[tuple[str, int], tuple[bytes, int]] = {}
                for stream in list(streams):
                    self._feed(stream, shared)

    def _feed(self, stream: WatchStream, shared: dict[tuple[str, int], tuple[bytes, int]]) -> None:
        """Give a watch its next frames; `shared` holds what others at the same place got."""
        cursor, protocol = stream.cursor, stream.protocol
        if cursor.is_lost or self._lags_too_far(stream):
            protocol.abort()
            return
        if not stream.takes_data or cursor.is_current:
            return
        if self.faults.is_active:
            self._feed_with_faults(stream)
            return
        if cursor.shares_frames:
            place = (cursor.shown.name, cursor.next_sequence)
            ready = shared.get(place)
            if ready is None:
                ready = shared[place] = (cursor.take(WATCH_WRITE_BYTES), cursor.next_sequence)
            else:
                cursor.next_sequence = ready[1]
            protocol.write_frames(ready[0])
        else:
            protocol.write_frames(cursor.take(WATCH_WRITE_BYTES))
        self._feed_rest_later(stream)

    def _feed_rest_later(self, stream: WatchStream) -> None:
        # One piece per turn of the loop, so that a long watch does not hold up the others.
        if not stream.cursor.is_current and stream.takes_data:
            self.feed_later(stream)

    def _lags_too_far(self, stream: WatchStream) -> bool:
        lag_max = self.options.watch_lag_max
        return lag_max is not None and stream.cursor.is_live and stream.cursor.lag_count > lag_max

    def _feed_with_faults(self, stream: WatchStream) -> None:
        # An event that was delayed is not delayed again.
        fault = None if stream.is_delayed else self.faults.before_watch_event(stream.cursor)
        if fault is not None:
            stream.protocol.interfere(fault)
            return
        stream.is_delayed = False
        stream.protocol.write_event(stream.cursor.take(1))
        self._feed_rest_later(stream)

    # what happens later

    def _plan_due(self) -> None:
        cluster = self.cluster
        due_s = cluster.deadlines[0].due_s if cluster.deadlines else float("inf")
        if cluster.expiring_events:
            due_s = min(due_s, cluster.expiring_events[0][0])
        if self._due_timer is not None:
            if self._due_timer_s <= due_s:
                return
            self._due_timer.cancel()
        self._due_timer_s = due_s
        self._due_timer = self.loop.call_later(max(0.0, due_s - self.now_s()), self._run_due)

    def _run_due(self) -> None:
        self._due_timer = None
        run_due(self.cluster, self.now_s())
        if self.cluster.store.changed:
            self._plan_flush()
        if self.cluster.deadlines or self.cluster.expiring_events:
            self._plan_due()
