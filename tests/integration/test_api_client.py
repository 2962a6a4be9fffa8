"""The API client against a server that answers, refuses, hangs, breaks and lies."""

import asyncio
import dataclasses
import gc
import resource
import ssl
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from shared.kube import api_client, api_errors
from shared.kube.api_client import CONNECTING_MAX, HELD_MAX, Urgency
from shared.kube.cluster_access import ClusterAccess, access_at
from shared.kube.connection_problems import remedy_of
from shared.kube.credentials import Credentials
from shared.kube.http_connection import Answer, HttpConnection
from shared.kube.http_stream import StreamClient
from shared.kube.kubeconfig import load_kubeconfig
from shared.kube.proxy import Proxy
from tests.support.scripted_server import Handler, Reply, Request, ScriptedServer
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

TLS = Path(__file__).parents[1] / "unit" / "shared" / "kube" / "tls"


def run(
    handler: Handler,
    scenario: Callable[[StreamClient, ScriptedServer], Awaitable[None]],
    credentials: Credentials | None = None,
    play: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
    **options: Any,
) -> None:
    async def main() -> None:
        async with ScriptedServer(handler) as server:
            access = access_at(server.url)
            access = dataclasses.replace(access, credentials=credentials or Credentials())
            client = StreamClient(access, **options)
            try:
                await scenario(client, server)
            finally:
                await client.close()

    play(main())


async def begin_post(client: StreamClient) -> Answer:
    """Of which only the sending is urgent."""
    return await client.request("POST", "/x", b"{}", urgency=Urgency.SENDING)


async def ok(request: Request, reply: Reply) -> None:
    await reply.json(200, {"path": request.path})


def test_requests_share_a_kept_connection() -> None:
    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        for _ in range(5):
            assert await client.get("/api/v1/nodes") == b'{"path": "/api/v1/nodes"}'
        assert await client.post("/x", b"{}") == b'{"path": "/x"}'
        assert server.connection_count == 1
        get, post = server.requests[0], server.requests[-1]
        assert get.headers["accept"] == "application/json"
        assert get.headers["host"] == f"127.0.0.1:{server.port}"
        assert "content-length" not in get.headers
        assert (post.body, post.headers["content-type"]) == (b"{}", "application/json")

    run(ok, scenario)


def test_methods_and_content_types() -> None:
    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        await client.patch("/p", b"1")
        await client.put("/p", b"2")
        await client.delete("/p")
        assert [(r.method, r.body) for r in server.requests] == [
            ("PATCH", b"1"),
            ("PUT", b"2"),
            ("DELETE", b""),
        ]
        patch_type = server.requests[0].headers["content-type"]
        assert patch_type == "application/strategic-merge-patch+json"

    run(ok, scenario)


def test_no_more_connections_than_allowed() -> None:
    gate = asyncio.Event()
    waiting = asyncio.Semaphore(0)

    async def handler(request: Request, reply: Reply) -> None:
        waiting.release()
        await gate.wait()
        await ok(request, reply)

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        answers = asyncio.gather(*(client.get(f"/{i}") for i in range(10)))
        for _ in range(3):
            await waiting.acquire()
        assert len(server.requests) == 3
        gate.set()
        assert len(await answers) == 10
        assert server.connection_count == 3

    run(handler, scenario, connections_max=3)


def test_few_connections_are_made_at_a_time_and_the_first_of_them_serves_those_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_open, opening, served = (asyncio.Semaphore(0) for _ in range(3))
    open_now = StreamClient._open

    async def open_later(client: StreamClient, made: HttpConnection) -> asyncio.BaseTransport:
        opening.release()
        await may_open.acquire()
        return await open_now(client, made)

    async def handler(request: Request, reply: Reply) -> None:
        await ok(request, reply)
        served.release()

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        answers = [asyncio.ensure_future(client.get(f"/{i}")) for i in range(3 * CONNECTING_MAX)]
        for _ in range(CONNECTING_MAX):
            await opening.acquire()
        assert opening.locked(), "no more than so many are being made"
        may_open.release()
        # It is ready: another is begun in its place, and all who still wait have this one in turn.
        await opening.acquire()
        for _ in range(2 * CONNECTING_MAX):
            await served.acquire()
        assert opening.locked()
        assert server.connection_count == 1
        for _ in range(CONNECTING_MAX):
            may_open.release()
        await asyncio.gather(*answers)
        assert server.connection_count == 1 + CONNECTING_MAX

    monkeypatch.setattr(StreamClient, "_open", open_later)
    run(handler, scenario)


def test_a_request_may_follow_a_deadline_that_is_all_but_over() -> None:
    """uvloop makes a call of it that has no time, where what is due later is a timer."""

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        await client.get("/")
        client._look_at(asyncio.get_running_loop().time())
        await client.get("/")
        assert server.connection_count == 1

    run(ok, scenario, play=uvloop.run)


def test_answers_that_are_not_urgent_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "HELD_S", HANG_S)
    served = asyncio.Semaphore(0)

    async def handler(request: Request, reply: Reply) -> None:
        await ok(request, reply)
        served.release()

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        async def begin(count: int) -> list[asyncio.Task[Answer]]:
            posts = [asyncio.create_task(begin_post(client)) for _ in range(count)]
            for _ in posts:
                await served.acquire()
            await client.get("/")  # What is urgent comes back meanwhile.
            await served.acquire()
            return posts

        held = await begin(HELD_MAX - 1)
        assert not any(post.done() for post in held)
        (last,) = await begin(1)
        assert min(answer.held_s for answer in await asyncio.gather(*held)) >= 0
        assert not last.done()
        client.read_at_once()
        await last
        await begin_post(client)

    run(handler, scenario)


def test_whoever_waits_for_a_connection_has_held_answers_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api_client, "HELD_S", HANG_S)
    gate = asyncio.Event()

    async def handler(request: Request, reply: Reply) -> None:
        if request.method == "GET":
            await gate.wait()
        await ok(request, reply)

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        post = asyncio.ensure_future(begin_post(client))
        gets = [asyncio.ensure_future(client.get(f"/{i}")) for i in range(8)]
        await post
        gate.set()
        await asyncio.gather(*gets)

    run(handler, scenario, connections_max=8)


def test_that_a_connection_ends_is_noticed_where_its_answer_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api_client, "HELD_S", HANG_S)

    async def handler(request: Request, reply: Reply) -> None:
        reply.reset()

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        with pytest.raises(api_errors.ConnectionLost):
            await begin_post(client)

    run(handler, scenario)


def test_what_is_not_urgent_at_all_shares_a_connection_if_the_server_lets_it() -> None:
    has_to_close = False

    async def handler(request: Request, reply: Reply) -> None:
        if has_to_close and request.method == "POST":
            await reply.json(200, {}, Connection="close")
            await reply.close()
        else:
            await ok(request, reply)

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        nonlocal has_to_close

        async def begin() -> list[type]:
            await client.get("/")
            posts = (
                client.request("POST", f"/{i}", b"{}", timeout_s=HANG_S, urgency=Urgency.NONE)
                for i in range(3)
            )
            return [type(each) for each in await asyncio.gather(*posts, return_exceptions=True)]

        assert await begin() == [Answer] * 3
        assert server.connection_count == 1
        assert [request.path for request in server.requests[1:]] == ["/0", "/1", "/2"]
        has_to_close = True
        assert await begin() == [Answer, *[api_errors.ConnectionLost] * 2]
        # Each on a connection of its own from now on.
        assert await begin() == [Answer] * 3

    run(handler, scenario)


def test_refusals_are_typed_and_leave_the_connection_usable() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        body = {"kind": "Status", "reason": "Conflict", "message": "bound already", "code": 409}
        await reply.json(409, body)

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        for _ in range(2):
            with pytest.raises(api_errors.Conflict, match="bound already"):
                await client.post("/binding", b"{}")
        assert server.connection_count == 1

    run(handler, scenario)


def test_nothing_was_sent_when_nobody_listens() -> None:
    async def main() -> None:
        async with ScriptedServer(ok) as server:
            url = server.url
        client = StreamClient(access_at(url))
        with pytest.raises(api_errors.ConnectFailed, match=url):
            await client.post("/x", b"{}")
        await client.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("server", "changed"),
    [
        (f"http://{'a' * 64}", {}),
        ("https://a..b", {}),
        ("https://127.0.0.1", {"tls_server_name": ".x"}),
        ("http://127.0.0.1", {"port": 1 << 16}),
        ("http://127.0.0.1", {"proxy": Proxy("a..b", 1)}),
    ],
)
def test_a_name_or_port_that_none_can_be_is_no_connection(
    server: str, changed: dict[str, Any]
) -> None:
    async def main() -> None:
        client = StreamClient(dataclasses.replace(access_at(server), **changed))
        with pytest.raises(api_errors.ConnectFailed) as raised:
            await client.get("/x")
        assert remedy_of(raised.value).startswith("check the ")
        await client.close()

    asyncio.run(main())


def test_without_a_descriptor_left_nothing_is_sent_and_later_it_is() -> None:
    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))  # What is open stays so.
        try:
            with pytest.raises(api_errors.ConnectFailed, match="Too many open files"):
                await client.post("/x", b"{}")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert server.requests == []
        assert await client.post("/x", b"{}") == b'{"path": "/x"}'

    run(ok, scenario)


def test_no_free_connection_means_that_nothing_was_sent() -> None:
    arrived = asyncio.Event()

    async def handler(request: Request, reply: Reply) -> None:
        arrived.set()
        await asyncio.Event().wait()

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        first = asyncio.ensure_future(client.post("/1", b"{}"))
        await arrived.wait()
        with pytest.raises(api_errors.ConnectFailed, match="none of 1 connections"):
            await client.post("/2", b"{}", timeout_s=0.01)
        assert [r.path for r in server.requests] == ["/1"]
        first.cancel()

    run(handler, scenario, connections_max=1)


def test_an_answer_that_does_not_come_times_out() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/hang":
            await asyncio.Event().wait()
        await ok(request, reply)

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        assert await client.get("/first")  # To connect may take longer on a busy machine.
        with pytest.raises(api_errors.RequestTimeout):
            await client.post("/hang", b"{}", timeout_s=0.01)
        assert await client.get("/next")
        assert server.connection_count == 2

    run(handler, scenario)


def test_a_post_is_never_sent_twice() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/lose":
            reply.reset()
        else:
            await ok(request, reply)

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        await client.get("/warm")
        with pytest.raises(api_errors.ConnectionLost):
            await client.post("/lose", b"{}")
        assert [r.path for r in server.requests] == ["/warm", "/lose"]

    run(handler, scenario)


def test_a_read_is_sent_again_once_when_a_kept_connection_is_dead() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/lose" or (request.path == "/once" and len(server_seen) < 2):
            server_seen.append(request.path)
            reply.reset()
        else:
            await ok(request, reply)

    server_seen: list[str] = ["/warm"]

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        await client.get("/warm")
        assert await client.get("/once")
        with pytest.raises(api_errors.ConnectionLost):
            await client.get("/lose")
        assert [r.path for r in server.requests].count("/lose") == 2

    run(handler, scenario)


def test_a_cancelled_request_does_not_leave_its_answer_to_the_next() -> None:
    gate = asyncio.Event()

    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/slow":
            gate.set()
            await asyncio.sleep(0)
        await ok(request, reply)

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        slow = asyncio.ensure_future(client.get("/slow"))
        await gate.wait()
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert await client.get("/next") == b'{"path": "/next"}'

    run(handler, scenario, connections_max=1)


def test_a_renewed_token_is_tried_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")

    async def handler(request: Request, reply: Reply) -> None:
        if request.headers["authorization"] == "Bearer new":
            await ok(request, reply)
        else:
            file.write_text("new" if request.path == "/renewed" else "other")
            await reply.json(401, {"reason": "Unauthorized", "code": 401})

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        with pytest.raises(api_errors.Unauthorized):
            await client.get("/never")
        assert len(server.requests) == 2
        assert await client.post("/renewed", b"{}")

    run(handler, scenario, Credentials(token_file=file))


def test_without_a_readable_token_nothing_is_sent(tmp_path: Path) -> None:
    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        for _ in range(2):
            with pytest.raises(api_errors.ConnectFailed, match="token"):
                await client.get("/x")
        assert not server.requests

    run(ok, scenario, Credentials(token_file=tmp_path / "token"))


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX-Evil: 1", "/\N{SNOWMAN}"])
def test_a_path_cannot_smuggle_in_a_header(path: str) -> None:
    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        with pytest.raises(api_errors.BadRequest):
            await client.get(path)
        assert not server.requests

    run(ok, scenario)


def test_a_closed_client_says_so() -> None:
    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        await client.close()
        with pytest.raises(api_errors.ConnectFailed, match="closed"):
            await client.get("/x")

    run(ok, scenario)


def test_a_stream_has_its_own_connection_and_typed_refusals() -> None:
    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/gone":
            await reply.json(410, {"reason": "Expired", "code": 410})
        elif request.path == "/stream":
            await reply.start_stream()
            await reply.chunk(b"abc")
            await reply.end_stream()
        else:
            await ok(request, reply)

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        await client.get("/warm")
        with pytest.raises(api_errors.Expired):
            await client.open_stream("/gone")
        stream = await client.open_stream("/stream")
        received = b""
        while chunks := await stream.chunks():
            received += b"".join(chunks)
        assert received == b"abc"
        await client.get("/warm")
        assert server.connection_count == 3

    run(handler, scenario)


def test_a_prefix_of_the_server_address_goes_before_every_path() -> None:
    async def main() -> None:
        async with ScriptedServer(ok) as server:
            client = StreamClient(access_at(f"{server.url}/k8s/c1"))
            assert await client.get("/api") == b'{"path": "/k8s/c1/api"}'
            await client.close()

    asyncio.run(main())


# TLS ----------------------------------------------------------------------------------------------


def secure_access(tmp_path: Path, port: int, cluster: str) -> ClusterAccess:
    config = tmp_path / "config"
    config.write_text(
        f"""
current-context: x
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
users: [{{name: u, user: {{client-certificate: {TLS}/cert.pem, client-key: {TLS}/key.pem}}}}]
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}", {cluster}}}}}]
"""
    )
    return load_kubeconfig([config])


@pytest.mark.parametrize(
    ("cluster", "is_trusted"),
    [
        (f"certificate-authority: {TLS}/cert.pem", True),
        (f"certificate-authority: {TLS}/cert.pem, tls-server-name: api.test.example", True),
        (f"certificate-authority: {TLS}/cert.pem, tls-server-name: other.example", False),
        ("insecure-skip-tls-verify: true", True),
        ("tls-server-name: localhost", False),
    ],
)
def test_the_server_must_be_who_it_should_be(
    tmp_path: Path, cluster: str, is_trusted: bool
) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=TLS / "cert.pem")
    tls.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    tls.verify_mode = ssl.CERT_REQUIRED

    async def main() -> None:
        async with ScriptedServer(ok, tls) as server:
            client = StreamClient(secure_access(tmp_path, server.port, cluster))
            if is_trusted:
                assert await client.get("/api") == b'{"path": "/api"}'
            else:
                with pytest.raises(api_errors.ConnectFailed, match=r"certificate|CERTIFICATE"):
                    await client.get("/api")
            await client.close()

    asyncio.run(main())


def test_the_observer_is_told_of_every_request_and_its_code() -> None:
    told: list[tuple[str, str]] = []

    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/lost":
            reply.reset()
        elif request.path == "/watch":
            await reply.start_stream()
            await reply.end_stream()
        else:
            await reply.json(409 if request.path == "/taken" else 200, {})

    async def scenario(client: StreamClient, server: ScriptedServer) -> None:
        await client.get("/x")
        with pytest.raises(api_errors.Conflict):
            await client.post("/taken", b"{}")
        with pytest.raises(api_errors.ConnectionLost):
            await client.post("/lost", b"{}")
        (await client.open_stream("/watch")).close()
        assert told == [("GET", "200"), ("POST", "409"), ("POST", "<error>"), ("GET", "200")]

    def observe(method: str, code: str, seconds: float) -> None:
        assert seconds >= 0
        told.append((method, code))

    run(handler, scenario, observer=observe)


def test_a_lost_connection_leaves_nothing_to_the_collector_of_cycles() -> None:
    """Under TLS the transport holds 256 KiB, and a watch is opened anew every few minutes."""

    class Transport(asyncio.Transport):
        pass  # One that can be watched: asyncio's own has no room for a weak reference.

    async def main() -> None:
        connection = HttpConnection(lambda _: None, lambda *_: None)
        transport = Transport()
        watched = weakref.ref(transport), weakref.ref(connection)
        gc.disable()
        try:
            connection.connection_made(transport)
            del transport
            assert all(each() is not None for each in watched)
            connection.connection_lost(None)
            del connection
            assert all(each() is None for each in watched)
        finally:
            gc.enable()

    asyncio.run(main())
