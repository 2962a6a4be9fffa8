"""HTTP from both sides: what an API server may answer to our clients, and what anybody may ask our
endpoints and the simulated API server. Real protocols and clients on a virtual loop, without sockets.
"""

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

from bench.apiserver.http_server import ApiServer, ServerOptions
from bench.fuzz.fuzz_objects import clusters
from bench.fuzz.harness import Story, Surface, Target, WrongError
from bench.fuzz.messages import LoneBinder, recorded_orders
from bench.fuzz.mutation import mutated, mutated_bytes
from bench.sim.schedule import EPOCH_WALL_S, MachineClock, Simulation
from bench.sim.sim_processes import ADDRESS, AsyncProcess, new_process, start_api_server
from bench.sim.virtual_loop import Network, VirtualLoop
from daemon.adapter.kind_feed import KindFeed
from daemon.endpoints.access import TokenAccess
from daemon.endpoints.facts import FactSource
from daemon.endpoints.health import Facts
from daemon.endpoints.pages import Pages
from daemon.endpoints.server import EndpointServer
from daemon.leader.election import LeaseRecord
from daemon.leader.lease_object import LeaseObject
from shared.kube.cluster_access import access_at
from shared.kube.http_stream import LineSplitter, StreamClient
from shared.kube.resources import KINDS_BY_PLURAL, PODS
from shared.messages.admin import StatusAnswer

PATIENCE_S: Final = 120.0
"""The clients' own limit is a quarter of it."""
STORY_MAX: Final = 12
_MEDIA: Final = (
    "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/json-patch+json", "application/apply-patch+yaml",
)  # fmt: skip
_HEADERS: Final = (
    "Content-Type: application/json", "Retry-After: 1", "Retry-After: 99999999", "Connection: close",
    "Connection: keep-alive", "Transfer-Encoding: chunked", "Content-Length: 5", "Upgrade: h2c",
    "Location: /elsewhere", "Content-Encoding: gzip", "X: " + "y" * 3000, "X:", ": x", "X : y",
    "Trailer: X", "Warning: 299 - \"x\"", "Date: never",
)  # fmt: skip
_LEASE: Final = {
    "metadata": {"name": "l", "namespace": "n", "uid": "u", "resourceVersion": "1"},
    "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 3,
             "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z"},
}  # fmt: skip
_STATUS: Final = {
    "kind": "Status", "status": "Failure", "reason": "Conflict", "message": "no", "code": 409,
    "details": {"name": "x", "kind": "pods", "retryAfterSeconds": 1},
}  # fmt: skip
_ASKED: Final = ("get", "post", "stream", "list", "lease", "bind")
"""What our side does that is answered."""


# What is answered -----------------------------------------------------------------------------------


def _answer_story(rng: random.Random) -> Story:
    return [_answer(rng, rng.choice(_ASKED)) for _ in range(rng.randrange(1, STORY_MAX))]


def _answer(rng: random.Random, asked: str) -> bytes:
    body = _body(rng, asked)
    code = rng.choice(
        (200, 200, 200, 201, 204, 301, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503)
    )
    if rng.random() < 0.05:
        code = rng.choice((100, 101, 199, 0, 999, 206))
    headers = rng.sample(_HEADERS, rng.choice((0, 0, 1, 2)))
    if rng.random() < 0.5 or asked == "stream":
        headers.append("Transfer-Encoding: chunked")
        body = _chunked(rng, body)
    elif rng.random() < 0.8:
        headers.append(f"Content-Length: {len(body)}")
    version = rng.choice(("1.1", "1.1", "1.1", "1.0", "2", "9.9"))
    head = "\r\n".join([f"HTTP/{version} {code} Why", *headers, "", ""]).encode()
    whole = head + body
    if rng.random() < 0.3:
        whole = mutated_bytes(rng, whole)
    return asked.encode() + b" " + whole


def _body(rng: random.Random, asked: str) -> bytes:
    of_cluster = rng.choice(clusters())
    plural, item = rng.choice(of_cluster)
    value: Any = {
        "get": item, "post": _STATUS, "lease": _LEASE, "bind": rng.choice((item, _STATUS)),
        "list": {"items": [each.item for each in of_cluster if each.plural == plural][:5],
                 "metadata": {"resourceVersion": "5", "continue": rng.choice(("", "more"))}},
        "stream": {"type": rng.choice(("ADDED", "MODIFIED", "BOOKMARK")), "object": item},
    }[asked]  # fmt: skip
    if rng.random() < 0.2:
        value = {"type": "ERROR", "object": _STATUS} if asked == "stream" else _STATUS
    if rng.random() < 0.7:
        value = mutated(rng, value)
    body = json.dumps(value).encode()
    body = mutated_bytes(rng, body) if rng.random() < 0.2 else body
    return body + b"\n" * (asked == "stream")


def _chunked(rng: random.Random, body: bytes) -> bytes:
    chunks = b""
    while body:
        size = rng.choice((1, 10, 100, len(body)))
        chunks += b"%x\r\n%b\r\n" % (len(body[:size]), body[:size])
        body = body[size:]
    return chunks + b"0\r\n\r\n"


class _Answering(asyncio.Protocol):
    """A server that answers whatever is asked with the same bytes, in two pieces."""

    def __init__(self, told: "Callable[[], bytes]") -> None:
        self._told = told
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None, "connected"
        answer = self._told()
        half = len(answer) * len(data) % (len(answer) + 1)
        self._transport.write(answer[:half])
        self._transport.write(answer[half:])
        if len(answer) % 2:
            self._transport.close()


class _Asking:
    """Our clients, and a server that answers them."""

    def __init__(self) -> None:
        self._simulation = Simulation(seed=1)
        network, clock = Network(self._simulation), MachineClock(self._simulation)
        server = new_process(self._simulation, "apiserver", clock, network)
        network.listener = (server, lambda: _Answering(lambda: self._told))
        self._told = b""
        self._loop = new_process(self._simulation, "client", clock, network)
        self._binder: LoneBinder | None = None
        self._network = network
        self._count = 0

    def take(self, data: bytes) -> None:
        name, _, self._told = data.partition(b" ")
        asked = name.decode()
        if asked == "bind":
            self._bind()
        else:
            _finish(self._simulation, self._loop, lambda: self._ask(asked))

    def _bind(self) -> None:
        if self._binder is None:
            self._binder = LoneBinder(self._simulation, self._network)
        orders = recorded_orders()
        self._count += 1
        self._binder.hear(orders[self._count * 7 % len(orders)])
        self._simulation.run_until(self._simulation.now_s + PATIENCE_S / 4)

    def finish(self) -> None:
        if self._binder is not None:
            self._binder.finish()
        self._loop.kill()

    async def _ask(self, asked: str) -> None:
        client = StreamClient(access_at(ADDRESS))
        try:
            match asked:
                case "get":
                    await client.get("/api/v1/pods/x")
                case "post":
                    await client.post("/api/v1/pods/x/binding", b"{}")
                case "list":
                    await _read_list(client)
                case "stream":
                    await _read_stream(client)
                case _:
                    await _hold_lease(client)
        finally:
            await client.close()


async def _read_list(client: StreamClient) -> None:
    feed = KindFeed(KINDS_BY_PLURAL["pods"], lambda *_: None)
    feed.list_started()
    feed.page(await client.get("/api/v1/pods"))
    feed.list_finished()


async def _read_stream(client: StreamClient) -> None:
    feed = KindFeed(PODS, lambda *_: None)
    stream = await client.open_stream("/api/v1/pods?watch=1")
    splitter = LineSplitter()
    try:
        async with asyncio.timeout(PATIENCE_S / 4):
            while chunks := await stream.chunks():
                for chunk in chunks:
                    for line in splitter.feed(chunk):
                        feed.line(line)
    except TimeoutError:
        pass  # A watch may be silent; whoever watches has a limit.
    finally:
        stream.close()


async def _hold_lease(client: StreamClient) -> None:
    lease = LeaseObject(client, "n", "l")
    await lease.read(5.0)
    await lease.write(LeaseRecord("me", 15, "a", "b", 1), 5.0)
    await lease.say("became leader", "2026-01-01T00:00:00.000000Z", 5.0)


def _finish(
    simulation: Simulation, loop: AsyncProcess, main: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Runs to its end; raises what it ends of."""
    with loop.running():
        task = loop.create_task(main())
    simulation.run_until(simulation.now_s + PATIENCE_S, task.done)
    if not task.done():
        raise WrongError("a request has no end")
    # What was closed is told to whoever had it.
    simulation.run_until(simulation.now_s + 0.1)
    task.result()


# What is asked --------------------------------------------------------------------------------------


_PATHS: Final = (
    "/livez", "/readyz?verbose", "/healthz/ping", "/metrics", "/configz", "/readyz?exclude=a&exclude=b",
    "/api/v1/pods?limit=2", "/api/v1/pods?watch=1&timeoutSeconds=1", "/api", "/openapi/v3", "/version",
    "/api/v1/namespaces/default/pods/p", "/api/v1/namespaces/default/pods/p/binding",
    "/api/v1/nodes?fieldSelector=metadata.name%3Dn&labelSelector=a%20in%20(b,c)",
    "/api/v1/nodes/n/status",
    "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "/api/v1/pods?continue=abc&limit=1",
    "/api/v1/nodes?resourceVersion=5&resourceVersionMatch=NotOlderThan&watch=1",
)  # fmt: skip


def _request_story(rng: random.Random) -> Story:
    return [_request(rng) for _ in range(rng.randrange(1, STORY_MAX))]


def _request(rng: random.Random) -> bytes:
    method = rng.choice(
        ("GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT")
    )
    plural, item = rng.choice(rng.choice(clusters()))
    kind = KINDS_BY_PLURAL[plural]
    meta = item["metadata"]
    scope = f"/namespaces/{meta.get('namespace', '')}" if kind.is_namespaced else ""
    path = f"{kind.api_path}{scope}/{plural}/{meta['name']}"
    if method == "POST":
        path = path.rpartition("/")[0]
    if rng.random() < 0.4:
        path = rng.choice(_PATHS)
    if rng.random() < 0.2:
        path = mutated_bytes(rng, path.encode()).decode("latin-1")
    body = b""
    if method in ("POST", "PUT", "PATCH", "DELETE"):
        value = mutated(rng, item) if rng.random() < 0.7 else item
        body = json.dumps(value).encode()
    headers = (
        [f"Content-Length: {len(body)}", f"Content-Type: {rng.choice(_MEDIA)}"] if body else []
    )
    headers += rng.sample(_HEADERS, rng.choice((0, 0, 0, 1)))
    lines = [f"{method} {path} HTTP/1.1", "Host: h", "Authorization: Bearer t", *headers, "", ""]
    whole = "\r\n".join(lines).encode("latin-1") + body
    return mutated_bytes(rng, whole) if rng.random() < 0.3 else whole


class _Client(asyncio.Protocol):
    """Says something, and hears what comes."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "of a stream"
        half = len(self._request) // 3
        transport.write(self._request[:half])
        transport.write(self._request[half:])

    def data_received(self, data: bytes) -> None:
        self.heard += data


class _Source(FactSource):
    """What the endpoints tell of a berth that is well."""

    def __init__(self) -> None:
        """Nobody is asked."""

    async def facts(self) -> Facts:
        well = StatusAnswer(synced=True, scorers_ready=1, binders_ready=1)
        return Facts("running", "", well, None, 1.5, 0.25, "")

    async def metrics(self) -> str:
        return "berth_owner_up 1\n"

    async def pod_resources(self) -> str:
        return ""

    async def overview(self) -> bytes | None:
        return b"{}"

    async def pod(self, key: str) -> bytes:
        return key.encode()

    async def explain(self, key: str) -> bytes:
        return key.encode()

    def configz(self) -> bytes | None:
        return b"{}"

    def flags(self) -> dict[str, str] | None:
        return {}

    def started_s(self) -> float:
        return EPOCH_WALL_S

    def now_s(self) -> float:
        return EPOCH_WALL_S


class _Asked:
    """A server of ours, and somebody who asks it."""

    def __init__(self, listen: "Callable[[AsyncProcess, Simulation], None]") -> None:
        self._simulation = Simulation(seed=1)
        network, clock = Network(self._simulation), MachineClock(self._simulation)
        self._server = new_process(self._simulation, "server", clock, network)
        listen(self._server, self._simulation)
        self._simulation.run_until(self._simulation.now_s + 0.1)
        self._client: VirtualLoop = new_process(self._simulation, "client", clock, network)

    def take(self, data: bytes) -> None:
        said = _Client(data)

        async def ask() -> None:
            transport, _ = await self._client.create_connection(lambda: said, "h", 1)
            await asyncio.sleep(1.0)
            transport.close()

        with self._client.running():
            self._client.create_task(ask())
        self._simulation.run_until(self._simulation.now_s + 2.0)
        if said.heard and not said.heard.startswith(b"HTTP/1.1 "):
            raise WrongError(f"an answer that is none: {said.heard[:100]!r}")

    def finish(self) -> None:
        self._server.kill()


def _start_asked(listen: "Callable[[AsyncProcess, Simulation], None]") -> Target:
    asked = _Asked(listen)
    return Target(asked.take, asked.finish)


def _listen_endpoints(process: AsyncProcess, simulation: Simulation) -> None:
    del simulation

    async def main() -> int:
        await EndpointServer(Pages(_Source(), TokenAccess(lambda: "t"))).start("h", 1, None)
        return await cast("asyncio.Future[int]", process.create_future())

    process.start(main)


def _listen_apiserver(process: AsyncProcess, simulation: Simulation) -> None:
    server = ApiServer(ServerOptions(), now_s=lambda: EPOCH_WALL_S + simulation.now_s)
    start_api_server(process, server)


def _start_asking() -> Target:
    recorded_orders()  # Takes its time, once.
    asking = _Asking()
    return Target(asking.take, asking.finish)


ANSWERS: Final = Surface(
    about="an API server's answers to our clients, the leader and the binder",
    story=_answer_story, start=_start_asking,
)  # fmt: skip
ENDPOINTS: Final = Surface(
    about="requests to our endpoints",
    story=_request_story, start=lambda: _start_asked(_listen_endpoints),
)  # fmt: skip
APISERVER: Final = Surface(
    about="requests to the simulated API server",
    story=_request_story, start=lambda: _start_asked(_listen_apiserver),
)  # fmt: skip
