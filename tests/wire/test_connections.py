"""Connections: pipelining, bodies, limits, TLS, slow watchers, faults, and the end.

The server runs in the test's own event loop; the other end is a bare stream.
"""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from bench.apiserver import api_status as status
from bench.apiserver.api_cluster import ClusterOptions
from bench.apiserver.api_faults import (
    AnswerFault,
    Delay,
    Disconnect,
    ExpireWatch,
    Refuse,
    RequestFault,
    WatchFault,
)
from bench.apiserver.http_protocol import BODY_BYTES_MAX, HEAD_BYTES_MAX
from bench.apiserver.http_server import ApiServer, ServerOptions
from bench.apiserver.router import Request
from bench.apiserver.watching import WatchCursor
from bench.apiserver.wire_format import LAST_CHUNK
from bench.apiserver.write_pace import WritePace
from bench.watched.server_pace import PaceOptions
from tests.support.waiting import HANG_S
from tests.wire.replay import RawAnswer, parse_answer

pytestmark = pytest.mark.integration

_TLS = Path(__file__).parent / "tls"
_PODS = "/api/v1/namespaces/default/pods"


class _Peer:
    """The client's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._data = b""

    @property
    def transport(self) -> asyncio.Transport:
        return cast("asyncio.Transport", self.writer.transport)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(data)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + data)

    async def answer(self) -> RawAnswer:
        """Read one whole answer; what came after it is kept for the next."""
        return await self.answer_until(lambda answer: answer.is_complete)

    async def answer_until(self, is_enough: Callable[[RawAnswer], bool]) -> RawAnswer:
        while True:
            if b"\r\n\r\n" in self._data:
                answer = parse_answer(self._data)
                if is_enough(answer):
                    self._data = self._data[_length(self._data, answer) :]
                    return answer
            received = await self.reader.read(65536)
            if not received:
                raise ConnectionResetError("the server closed the connection")
            self._data += received

    async def rest_until_closed(self) -> bytes:
        """Wait for the server to close or reset the connection; return what came before that."""
        data = b""
        try:
            while received := await self.reader.read(65536):
                data += received
        except ConnectionResetError:
            return data
        return data


def _length(data: bytes, answer: RawAnswer) -> int:
    head = data.index(b"\r\n\r\n") + 4
    if answer.chunks is None:
        return head + len(answer.body)
    framing = sum(len(b"%x\r\n\r\n" % size) for size in answer.chunks)
    return head + len(answer.body) + framing + (5 if answer.is_complete else 0)


def _serve(
    test: Callable[[ApiServer, Callable[[], Awaitable[_Peer]]], Awaitable[None]],
    *,
    faults: Any = None,
    **options: Any,
) -> None:
    """Run a test with a server and a way to connect to it."""

    async def run() -> None:
        server = ApiServer(ServerOptions(**options), faults=faults)
        address = await server.start()
        port = int(address.rpartition(":")[2])
        peers: list[_Peer] = []

        async def connect() -> _Peer:
            context = None
            if address.startswith("https"):
                context = ssl.create_default_context(cafile=_TLS / "cert.pem")
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            peers.append(_Peer(reader, writer))
            return peers[-1]

        try:
            async with asyncio.timeout(HANG_S):
                await test(server, connect)
        finally:
            for peer in peers:
                peer.writer.close()
            await server.stop()
            for peer in peers:
                try:
                    await peer.writer.wait_closed()
                except OSError:
                    continue

    asyncio.run(run())


def _pod(name: str, note: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {"note": note}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def _names(answer: RawAnswer) -> list[str]:
    return [item["metadata"]["name"] for item in json.loads(answer.body)["items"]]


def _event_types(answer: RawAnswer) -> list[str]:
    return [json.loads(line)["type"] for line in answer.body.splitlines()]


def test_pipelined_requests_are_answered_in_order() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        for number in range(20):
            peer.send("POST", _PODS, _pod(f"p{number}"))
        peer.send("GET", _PODS)
        codes = [(await peer.answer()).code for _ in range(20)]
        assert codes == [201] * 20
        assert len(_names(await peer.answer())) == 20

    _serve(test)


def test_requests_behind_a_watch_wait_for_its_end() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        peer.send("GET", f"{_PODS}?watch=1&timeoutSeconds=1")
        peer.send("GET", _PODS)
        watch = await peer.answer()
        assert (watch.code, watch.body, watch.is_complete) == (200, b"", True)
        assert _names(await peer.answer()) == []

    _serve(test)


def test_a_body_may_come_in_pieces_and_chunks() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        data = json.dumps(_pod("p")).encode()
        head = f"POST {_PODS} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        pieces = [data[start : start + 7] for start in range(0, len(data), 7)]
        raw = head.encode() + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces)
        for start in range(0, len(raw), 50):
            peer.writer.write(raw[start : start + 50])
            await peer.writer.drain()
        peer.writer.write(b"0\r\n\r\n")
        assert (await peer.answer()).code == 201

    _serve(test)


def test_a_client_may_ask_whether_to_go_on() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        data = json.dumps(_pod("p")).encode()
        peer.writer.write(
            f"POST {_PODS} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
            f"Content-Length: {len(data)}\r\n\r\n".encode()
        )
        assert await peer.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.writer.write(data)
        assert (await peer.answer()).code == 201

    _serve(test)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET /api HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (
            b"POST /api/v1/nodes HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1)
            + b" " * (BODY_BYTES_MAX + 1),
            413,
        ),
        (b"GET /api HTTP/1.1\r\nX: " + b"y" * (HEAD_BYTES_MAX + 1) + b"\r\n\r\n", 431),
    ],
    ids=["no-http", "bad-length", "large-body", "large-head"],
)
def test_what_cannot_be_served_is_answered_and_closed(raw: bytes, code: int) -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        peer.writer.write(raw)
        answer = await peer.answer()
        assert (answer.code, json.loads(answer.body)["kind"]) == (code, "Status")
        assert await peer.rest_until_closed() == b""
        assert not server.connections

    _serve(test)


def test_a_connection_closes_when_its_client_says_so() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        peer.send("GET", _PODS, Connection="close")
        answer = await peer.answer()
        assert (answer.code, answer.headers["connection"]) == (200, "close")
        assert await peer.rest_until_closed() == b""

    _serve(test)


def test_watchers_see_a_change_and_a_gone_watcher_is_forgotten() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        watchers = [await connect() for _ in range(3)]
        for peer in watchers:
            peer.send("GET", "/api/v1/pods?watch=1&resourceVersion=0")
            await peer.answer_until(lambda answer: True)
        watchers[0].writer.close()
        writer = await connect()
        for name in ("a", "b"):
            writer.send("POST", _PODS, _pod(name))
            assert (await writer.answer()).code == 201
        for peer in watchers[1:]:
            peer._data = b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n" + peer._data
            seen = await peer.answer_until(lambda answer: len(_event_types(answer)) == 2)
            assert _event_types(seen) == ["ADDED", "ADDED"]
        assert sum(len(streams) for streams in server._streams.values()) == 2

    _serve(test)


def test_a_watcher_that_does_not_read_costs_little_and_is_dropped() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        slow = await connect()
        slow.transport.pause_reading()
        slow.send("GET", "/api/v1/pods?watch=1&resourceVersion=0")
        writer = await connect()
        # 60 MB of events, of which buffers of sockets and transport can hold a few.
        for number in range(300):
            writer.send("POST", _PODS, _pod(f"p{number}", "x" * 200_000))
            assert (await writer.answer()).code == 201
            for connection in server.connections:
                assert connection._transport is not None
                assert connection._transport.get_write_buffer_size() < 3_000_000
        assert all(not streams for streams in server._streams.values())
        slow.transport.resume_reading()
        assert LAST_CHUNK not in (await slow.rest_until_closed())[-10:]

    _serve(test, cluster=ClusterOptions(history_limit=50))


def test_a_watcher_may_be_given_a_lag_of_its_own() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        slow = await connect()
        slow.transport.pause_reading()
        slow.send("GET", "/api/v1/pods?watch=1&resourceVersion=0")
        writer = await connect()
        for number in range(100):
            writer.send("POST", _PODS, _pod(f"p{number}", "x" * 200_000))
            assert (await writer.answer()).code == 201
        assert all(not streams for streams in server._streams.values())
        slow.transport.resume_reading()
        with pytest.raises(ConnectionResetError):
            await slow.answer()

    _serve(test, watch_lag_max=10)


def test_tls_and_a_token_protect_the_server() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        peer.send("GET", _PODS, Authorization="Bearer wrong")
        refused = await peer.answer()
        assert (refused.code, json.loads(refused.body)["reason"]) == (401, "Unauthorized")
        peer.send("GET", "/readyz")
        assert (await peer.answer()).body == b"ok"
        peer.send("GET", _PODS, Authorization="Bearer right")
        assert _names(await peer.answer()) == []
        peer.send("GET", f"{_PODS}?watch=1&timeoutSeconds=1", Authorization="Bearer right")
        assert (await peer.answer()).is_complete

    _serve(test, token="right", tls_cert=_TLS / "cert.pem", tls_key=_TLS / "key.pem")


def test_half_a_tls_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="both"):
        asyncio.run(_construct(ServerOptions(tls_cert=_TLS / "cert.pem")))


async def _construct(options: ServerOptions) -> ApiServer:
    return ApiServer(options)


def test_stopping_ends_watches_in_good_order() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        peer.send("GET", "/api/v1/pods?watch=1")
        await peer.answer_until(lambda answer: True)
        await server.stop()
        assert await peer.reader.read() == b"0\r\n\r\n"

    _serve(test)


class _ScriptedFaults:
    """A plan that orders given faults, each once, and keeps what it was asked."""

    is_active = True

    def __init__(
        self,
        before_request: list[RequestFault | None] | None = None,
        before_answer: list[AnswerFault | None] | None = None,
        before_watch_event: list[WatchFault | None] | None = None,
    ) -> None:
        self._before_request = before_request or []
        self._before_answer = before_answer or []
        self._before_watch_event = before_watch_event or []
        self.asked: list[str] = []

    def before_request(self, request: Request) -> RequestFault | None:
        self.asked.append(request.method)
        return self._before_request.pop(0) if self._before_request else None

    def before_answer(self, request: Request, code: int) -> AnswerFault | None:
        self.asked.append(str(code))
        return self._before_answer.pop(0) if self._before_answer else None

    def before_watch_event(self, cursor: WatchCursor) -> WatchFault | None:
        return self._before_watch_event.pop(0) if self._before_watch_event else None


def test_a_plan_may_refuse_and_delay_requests() -> None:
    too_many = status.ApiError(429, "too many", reason="TooManyRequests", retry_after_s=3)
    faults = _ScriptedFaults([Refuse(too_many), Delay(0.01)], [Delay(0.01)])

    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        for name in ("a", "b", "c"):
            peer.send("POST", _PODS, _pod(name))
        answers = [await peer.answer() for _ in range(3)]
        assert [answer.code for answer in answers] == [429, 201, 201]
        assert answers[0].headers["retry-after"] == "3"
        assert faults.asked == ["POST", "POST", "201", "POST", "201"]
        peer.send("GET", _PODS)
        assert _names(await peer.answer()) == ["b", "c"]

    _serve(test, faults=faults)


class _EndlessPace(WritePace):
    """A first write is held up for longer than any test takes."""

    def __init__(self) -> None:
        super().__init__(PaceOptions(writes_per_s=1e-6))
        self.held_up = asyncio.Event()

    def wait_s(self, request: Request, now_s: float) -> float:
        waits_s = super().wait_s(request, now_s)
        if waits_s:
            self.held_up.set()
        return waits_s


def test_a_write_waits_for_its_turn_and_nobody_else_does() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        server.pace = pace = _EndlessPace()
        writer, reader = await connect(), await connect()
        for name in ("a", "b", "c"):
            writer.send("POST", _PODS, _pod(name))
            assert (await writer.answer()).code == 201
        writer.send("DELETE", f"{_PODS}/a?gracePeriodSeconds=0")
        assert (await writer.answer()).code == 200
        writer.send("DELETE", f"{_PODS}/b?gracePeriodSeconds=0")
        await pace.held_up.wait()
        reader.send("GET", _PODS)
        assert _names(await reader.answer()) == ["b", "c"]

    _serve(test)


def test_a_late_write_is_carried_out_and_what_follows_on_its_connection_comes_after() -> None:
    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        for name in ("a", "b"):
            peer.send("POST", _PODS, _pod(name))
        peer.send("DELETE", f"{_PODS}/a?gracePeriodSeconds=0")
        peer.send("GET", _PODS)
        answers = [await peer.answer() for _ in range(4)]
        assert [answer.code for answer in answers] == [201, 201, 200, 200]
        assert _names(answers[3]) == ["b"]

    _serve(test, pace=PaceOptions(write_latency_ms=1))


def test_a_plan_may_lose_an_answer_and_not_its_effect() -> None:
    faults = _ScriptedFaults([None, Disconnect()], [Disconnect()])

    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        for name in ("kept", "lost"):
            peer = await connect()
            peer.send("POST", _PODS, _pod(name))
            assert await peer.rest_until_closed() == b""
        peer = await connect()
        peer.send("GET", _PODS)
        assert _names(await peer.answer()) == ["kept"]

    _serve(test, faults=faults)


@pytest.mark.parametrize(
    ("fault", "types"),
    [
        (Delay(0.01), ["ADDED", "ADDED", "ADDED"]),
        (ExpireWatch(), ["ADDED", "ERROR"]),
        (Disconnect(), None),
    ],
    ids=["delay", "expire", "disconnect"],
)
def test_a_plan_may_interfere_with_a_watch(fault: Any, types: list[str] | None) -> None:
    faults = _ScriptedFaults(before_watch_event=[None, fault])

    async def test(server: ApiServer, connect: Callable[[], Awaitable[_Peer]]) -> None:
        peer = await connect()
        for name in ("a", "b", "c"):
            peer.send("POST", _PODS, _pod(name))
            assert (await peer.answer()).code == 201
        peer.send("GET", f"{_PODS}?watch=1&timeoutSeconds=5")
        if types is None:
            rest = parse_answer(await peer.rest_until_closed())
            assert (_event_types(rest), rest.is_complete) == (["ADDED"], False)
        else:
            seen = await peer.answer_until(lambda answer: len(_event_types(answer)) == len(types))
            assert _event_types(seen) == types

    _serve(test, faults=faults)
