"""Being let in: tokens that are renewed, exec plugins, client certificates, proxies, names in TLS.

From the kubeconfig file to the bytes on the socket; the servers are real ones on the loopback.
"""

import asyncio
import base64
import json
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.apiserver.fault_plan import Rule
from shared.certificates import Authority, CertificatePair
from shared.clock import SystemClock
from shared.kube.api_errors import ConnectFailed, Forbidden, TransportError, Unauthorized
from shared.kube.cluster_access import ClusterAccess
from shared.kube.find_access import in_cluster_access
from shared.kube.http_stream import StreamClient
from shared.kube.kubeconfig import load_kubeconfig
from tests.support.client_certificates import client_pair
from tests.support.connect_proxy import connect_proxy
from tests.support.faulty_server import FaultyServer, faulty_server
from tests.support.kubeconfigs import kubeconfig_of
from tests.support.scripted_server import Reply, Request, ScriptedServer
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

EXEC_VERSION = "client.authentication.k8s.io/v1"
NOW_S = SystemClock().wall_s()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(HANG_S):
            await main()

    asyncio.run(bounded())


def write_kubeconfig(
    folder: Path, cluster: dict[str, Any], user: dict[str, Any] | None = None
) -> Path:
    path = folder / "kubeconfig"
    path.write_text(json.dumps(kubeconfig_of(cluster, user)))
    return path


async def ask(access: ClusterAccess, *paths: str) -> list[bytes]:
    client = StreamClient(access, timeout_s=HANG_S)
    try:
        return [await client.get(path) for path in paths]
    finally:
        await client.close()


# Tokens -------------------------------------------------------------------------------------------


@asynccontextmanager
async def secured_server(
    folder: Path, *rules: Rule
) -> AsyncIterator[tuple[FaultyServer, dict[str, Any]]]:
    """Over TLS, as no other is told who asks, and the cluster that a kubeconfig states for it."""
    pair = Authority(NOW_S).server_pair(["127.0.0.1"])
    files = folder / "server.crt", folder / "server.key"
    for path, pem in zip(files, (pair.certificate_pem, pair.key_pem), strict=True):
        path.write_bytes(pem)
    async with faulty_server(*rules, tls_cert=files[0], tls_key=files[1]) as server:
        yield server, {"server": server.address, "insecure-skip-tls-verify": True}


@asynccontextmanager
async def with_old_token(
    folder: Path, **options: Any
) -> AsyncIterator[tuple[FaultyServer, StreamClient, Callable[[], object]]]:
    """A server that refuses a client's token from now on, the client, and what renews the token."""
    token_file = folder / "token"
    token_file.write_text("old")
    stale = Rule(at="request", do="refuse", code=401, token="old", times=0)
    async with secured_server(folder, stale) as (server, cluster):
        path = write_kubeconfig(folder, cluster, {"tokenFile": "token"})
        client = StreamClient(load_kubeconfig([path]), **options)
        try:
            yield server, client, lambda: token_file.write_text("new")
        finally:
            await client.close()


def test_many_requests_that_are_refused_together_all_go_on_with_the_renewed_token(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with with_old_token(tmp_path, connections_max=16) as (server, client, renew):
            with pytest.raises(Unauthorized):
                await client.get("/api/v1/nodes")
            refused_count = server.plan.ordered_counts[0]
            renew()
            bodies = await asyncio.gather(*(client.get("/api/v1/nodes") for _ in range(16)))
            assert len(bodies) == 16
            assert server.plan.ordered_counts[0] > refused_count + 1
            stream = await client.open_stream("/api/v1/nodes?watch=1")
            stream.close()

    run(main)


def test_a_watch_that_is_refused_goes_on_with_the_renewed_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with with_old_token(tmp_path) as (_, client, renew):
            for _ in range(3):
                with pytest.raises(Unauthorized):
                    await client.open_stream("/api/v1/nodes?watch=1")
            assert client._idle == [], "a connection that was refused is not kept"
            renew()
            (await client.open_stream("/api/v1/nodes?watch=1")).close()

    run(main)


def test_a_pod_s_service_account_is_let_in_over_tls(tmp_path: Path) -> None:
    authority = Authority(NOW_S)
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
    (tmp_path / "token").write_text("of-the-pod\n")

    async def main() -> None:
        tls = server_tls(tmp_path, authority.server_pair(["127.0.0.1"]))
        async with ScriptedServer(echo, tls) as server:
            environment = {
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": f"{server.port}",
                "HTTPS_PROXY": "http://127.0.0.1:1",  # Not for the loopback.
            }
            access = in_cluster_access(environment, tmp_path)
            await ask(access, "/x")
            assert server.requests[0].headers["authorization"] == "Bearer of-the-pod"
            (tmp_path / "ca.crt").write_bytes(Authority(NOW_S, "later").certificate_pem)
            with pytest.raises(ConnectFailed, match=r"(?i)certificate"):
                await ask(access, "/y")

    run(main)


# Exec plugins -------------------------------------------------------------------------------------

PLUGIN = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
with open(folder / "runs", "a") as runs:
    runs.write("run\\n")
status = json.loads((folder / "status").read_text())
print(json.dumps({"apiVersion": sys.argv[2], "kind": "ExecCredential", "status": status}))
"""


def exec_user(folder: Path, version: str = EXEC_VERSION) -> dict[str, Any]:
    (folder / "plugin.py").write_text(PLUGIN)
    command = {
        "apiVersion": version,
        "command": sys.executable,
        "args": [f"{folder / 'plugin.py'}", f"{folder}", version],
    }
    if version == EXEC_VERSION:
        command["interactiveMode"] = "IfAvailable"
    return {"exec": command}


def gives(folder: Path, **status: Any) -> None:
    (folder / "status").write_text(json.dumps(status))


def gives_certificate(folder: Path, authority: Authority) -> None:
    """A new one, from now on."""
    pair = client_pair(authority, "jane")
    gives(
        folder,
        clientCertificateData=pair.certificate_pem.decode(),
        clientKeyData=pair.key_pem.decode(),
    )


def run_count(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


@pytest.mark.parametrize("version", [EXEC_VERSION, f"{EXEC_VERSION}beta1"])
def test_an_exec_plugin_s_token_is_kept_and_renewed_when_refused(
    tmp_path: Path, version: str
) -> None:
    async def main() -> None:
        revoked = Rule(at="request", do="refuse", code=401, token="one", skip=3, times=0)
        async with secured_server(tmp_path, revoked) as (_, cluster):
            user = exec_user(tmp_path, version)
            path = write_kubeconfig(tmp_path, cluster, user)
            client = StreamClient(load_kubeconfig([path]), connections_max=8)
            hour = datetime.fromtimestamp(NOW_S + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            try:
                gives(tmp_path, token="one", expirationTimestamp=hour)
                await asyncio.gather(*(client.get("/api/v1/nodes") for _ in range(3)))
                assert run_count(tmp_path) == 1
                gives(tmp_path, token="two", expirationTimestamp=hour)
                await asyncio.gather(*(client.get("/api/v1/nodes") for _ in range(8)))
                assert run_count(tmp_path) == 2
            finally:
                await client.close()

    run(main)


def test_a_plugin_that_is_missing_stops_the_request_before_it_is_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with secured_server(tmp_path) as (_, cluster):
            user = {
                "exec": {
                    "apiVersion": EXEC_VERSION,
                    "command": "no-such-berth-plugin",
                    "interactiveMode": "Never",
                    "installHint": "take it from there",
                }
            }
            path = write_kubeconfig(tmp_path, cluster, user)
            with pytest.raises(ConnectFailed, match="not found\ntake it from there"):
                await ask(load_kubeconfig([path]), "/api/v1/nodes")

    run(main)


# Certificates -------------------------------------------------------------------------------------


def server_tls(
    folder: Path, pair: CertificatePair, clients: Authority | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    (folder / "server.crt").write_bytes(pair.certificate_pem)
    (folder / "server.key").write_bytes(pair.key_pem)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.certificate_pem.decode())
    return context


async def echo(request: Request, reply: Reply) -> None:
    await reply.json(200, {"path": request.path})


def trusting(authority: Authority, server: ScriptedServer, **more: Any) -> dict[str, Any]:
    pem = base64.b64encode(authority.certificate_pem).decode()
    return {"server": server.url, "certificate-authority-data": pem, **more}


def test_a_client_certificate_of_an_exec_plugin_is_shown_and_replaced(tmp_path: Path) -> None:
    authority, later = Authority(NOW_S), Authority(NOW_S, "later")
    names: list[str] = []

    async def handler(request: Request, reply: Reply) -> None:
        if request.path == "/expired" and names == ["first"]:
            names.append("expired")
            await reply.json(401, {"kind": "Status", "reason": "Unauthorized", "code": 401})
            return
        await echo(request, reply)

    async def main() -> None:
        tls = server_tls(tmp_path, authority.server_pair(["127.0.0.1"]), authority)
        async with ScriptedServer(handler, tls) as server:
            path = write_kubeconfig(tmp_path, trusting(authority, server), exec_user(tmp_path))
            client = StreamClient(load_kubeconfig([path]))
            try:
                gives_certificate(tmp_path, authority)
                await client.get("/first")
                await client.get("/again")
                assert (server.connection_count, run_count(tmp_path)) == (1, 1)
                names.append("first")
                gives_certificate(tmp_path, authority)
                await client.get("/expired")
                # Refused, the plugin run again, and a new connection shows what it gave.
                assert (server.connection_count, run_count(tmp_path)) == (2, 2)
            finally:
                await client.close()
            stranger = client_pair(later, "jane")
            gives(
                tmp_path,
                clientCertificateData=stranger.certificate_pem.decode(),
                clientKeyData=stranger.key_pem.decode(),
            )
            with pytest.raises(TransportError):
                await ask(load_kubeconfig([path]), "/x")

    run(main)


def test_a_certificate_that_is_renewed_on_disk_is_taken_up(tmp_path: Path) -> None:
    authority = Authority(NOW_S)

    async def refuses_first(request: Request, reply: Reply) -> None:
        if request.path == "/expired" and len(server_connections) == 1:
            server_connections.append("refused")
            pair = client_pair(authority, "jane-renewed")
            (tmp_path / "c.crt").write_bytes(pair.certificate_pem)
            (tmp_path / "c.key").write_bytes(pair.key_pem)
            await reply.json(401, {"kind": "Status", "reason": "Unauthorized", "code": 401})
            return
        await echo(request, reply)

    server_connections = ["first"]

    async def main() -> None:
        pair = client_pair(authority, "jane")
        (tmp_path / "c.crt").write_bytes(pair.certificate_pem)
        (tmp_path / "c.key").write_bytes(pair.key_pem)
        tls = server_tls(tmp_path, authority.server_pair(["127.0.0.1"]), authority)
        async with ScriptedServer(refuses_first, tls) as server:
            user = {"client-certificate": "c.crt", "client-key": "c.key"}
            path = write_kubeconfig(tmp_path, trusting(authority, server), user)
            await ask(load_kubeconfig([path]), "/x", "/expired")
            assert server.connection_count == 2

    run(main)


@pytest.mark.parametrize("is_in_files", [True, False], ids=["files", "data"])
def test_an_authority_that_is_replaced_on_disk_is_the_one_that_is_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_in_files: bool
) -> None:
    authority, later = Authority(NOW_S), Authority(NOW_S, "later")
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(authority.certificate_pem)
    jane = client_pair(authority, "jane")

    async def main() -> None:
        tls = server_tls(tmp_path, authority.server_pair(["127.0.0.1"]), authority)
        async with ScriptedServer(says_good_bye, tls) as server:
            user = certificate_user(tmp_path, jane, is_in_files=is_in_files)
            cluster = {"server": server.url, "certificate-authority": "ca.crt"}
            client = StreamClient(load_kubeconfig([write_kubeconfig(tmp_path, cluster, user)]))
            try:
                await client.get("/x")
                ca_file.write_bytes(later.certificate_pem[:100])
                await client.get("/half-written")
                ca_file.write_bytes(b"")
                await client.get("/empty")
                ca_file.unlink()
                await client.get("/missing")
                await client.get("/missing")
                assert [one.message for one in caplog.records] == ["authority_not_renewed"] * 3
                ca_file.write_bytes(later.certificate_pem)
                with pytest.raises(ConnectFailed, match=r"(?i)certificate"):
                    await client.get("/of-the-old-one")
                server_tls(tmp_path, later.server_pair(["127.0.0.1"]))
                tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
                await client.get("/y")
            finally:
                await client.close()

    run(main)


async def says_good_bye(request: Request, reply: Reply) -> None:
    await reply.json(200, {"path": request.path}, Connection="close")


def certificate_user(folder: Path, pair: CertificatePair, *, is_in_files: bool) -> dict[str, Any]:
    if not is_in_files:
        pems = {"client-certificate-data": pair.certificate_pem, "client-key-data": pair.key_pem}
        return {name: base64.b64encode(pem).decode() for name, pem in pems.items()}
    (folder / "c.crt").write_bytes(pair.certificate_pem)
    (folder / "c.key").write_bytes(pair.key_pem)
    return {"client-certificate": "c.crt", "client-key": "c.key"}


def test_the_name_in_the_certificate_may_be_another_than_the_address(tmp_path: Path) -> None:
    authority = Authority(NOW_S)

    async def main() -> None:
        tls = server_tls(tmp_path, authority.server_pair(["kubernetes.default"]))
        async with ScriptedServer(echo, tls) as server:
            path = write_kubeconfig(tmp_path, trusting(authority, server))
            with pytest.raises(ConnectFailed, match=r"(?i)certificate"):
                await ask(load_kubeconfig([path]), "/x")
            named = trusting(authority, server, **{"tls-server-name": "kubernetes.default"})
            await ask(load_kubeconfig([write_kubeconfig(tmp_path, named)]), "/x")
            unverified = {"server": server.url, "insecure-skip-tls-verify": True}
            await ask(load_kubeconfig([write_kubeconfig(tmp_path, unverified)]), "/x")

    run(main)


# Proxies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_tls", [True, False], ids=["https", "http"])
def test_requests_and_watches_go_through_the_proxy(tmp_path: Path, is_tls: bool) -> None:
    authority = Authority(NOW_S)

    async def handler(request: Request, reply: Reply) -> None:
        if "watch" in request.query:
            await reply.start_stream()
            await reply.line({"type": "BOOKMARK"})
            await reply.end_stream()
        else:
            await echo(request, reply)

    async def main() -> None:
        tls = server_tls(tmp_path, authority.server_pair(["api.example.com"])) if is_tls else None
        async with (
            ScriptedServer(handler, tls) as server,
            connect_proxy(server.port, "Basic bWU6cHc=") as proxy,
        ):
            scheme = "https" if is_tls else "http"
            cluster = {
                **trusting(authority, server),
                "server": f"{scheme}://api.example.com:6443",
                "proxy-url": f"http://me:pw@127.0.0.1:{proxy.port}",
            }
            access = load_kubeconfig([write_kubeconfig(tmp_path, cluster)])
            client = StreamClient(access)
            try:
                await client.get("/a")
                await client.get("/b")
                stream = await client.open_stream("/c?watch=1")
                assert await stream.chunks() == [b'{"type": "BOOKMARK"}\n']
            finally:
                await client.close()
            assert proxy.asked == ["CONNECT api.example.com:6443 HTTP/1.1"] * 2
            assert [r.headers["host"] for r in server.requests] == ["api.example.com:6443"] * 3

    run(main)


def test_a_proxy_that_refuses_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedServer(echo) as server, connect_proxy(server.port, "Basic x") as proxy:
            cluster = {"server": "http://api:80", "proxy-url": f"http://127.0.0.1:{proxy.port}"}
            with pytest.raises(ConnectFailed, match=r"refused: 'HTTP/1\.1 407"):
                await ask(load_kubeconfig([write_kubeconfig(tmp_path, cluster)]), "/x")
            assert not server.requests

    run(main)


# Roles --------------------------------------------------------------------------------------------


def test_what_a_role_does_not_allow_is_told_as_forbidden(tmp_path: Path) -> None:
    async def main() -> None:
        no_role = Rule(at="request", do="refuse", code=403, message="no role", times=0)
        async with faulty_server(no_role) as server:
            path = write_kubeconfig(tmp_path, {"server": server.address}, {"token": "t"})
            with pytest.raises(Forbidden, match="no role"):
                await ask(load_kubeconfig([path]), "/api/v1/nodes")
            assert server.plan.ordered_counts == [1]

    run(main)
