"""The endpoints' server over real sockets: keep-alive, TLS, damaged requests, its own process."""

import asyncio
import http.client
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from daemon.endpoints.access import Access
from daemon.endpoints.pages import Pages
from daemon.endpoints.server import EndpointServer
from daemon.endpoints.tls import ServedTls
from shared import exit_codes
from shared.certificates import Authority
from shared.child_plan import ChildPlan
from shared.clock import SystemClock
from shared.limits import ENDPOINT_CONNECTIONS_MAX, REQUEST_HEAD_BYTES_MAX
from shared.runtime_options import EndpointOptions, RuntimeOptions
from tests.support.client_certificates import client_pair
from tests.support.waiting import HANG_S
from tests.unit.daemon.endpoints.test_pages import FixedSource

pytestmark = pytest.mark.integration

TLS = Path(__file__).parents[1] / "unit" / "shared" / "kube" / "tls"


def serve(
    scene: Callable[[int], None],
    tls: ssl.SSLContext | None = None,
    access: Access = None,
) -> None:
    """Runs a scene of blocking calls against a server on a free port."""

    async def main() -> None:
        server = EndpointServer(Pages(FixedSource(), access))
        port = await server.start("127.0.0.1", 0, tls)
        try:
            await asyncio.to_thread(scene, port)
        finally:
            await server.close()

    asyncio.run(main())


def json_text(options: EndpointOptions) -> str:
    return msgspec.json.encode(options).decode()


def get(
    connection: http.client.HTTPConnection, path: str, method: str = "GET"
) -> tuple[int, bytes]:
    connection.request(method, path)
    answer = connection.getresponse()
    assert answer.headers["X-Content-Type-Options"] == "nosniff", "whatever it is"
    return answer.status, answer.read()


def test_one_connection_carries_many_requests() -> None:
    def scene(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
        for _ in range(3):
            assert get(connection, "/livez") == (200, b"ok")
        assert get(connection, "/metrics") == (200, b"berth_owner_up 1\n")
        assert get(connection, "/livez", "HEAD") == (200, b"")
        assert get(connection, "/nothing")[0] == 404
        connection.close()

    serve(scene)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 hello\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * (REQUEST_HEAD_BYTES_MAX + 1) + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_others_are_served(sent: bytes) -> None:
    def scene(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as raw:
            raw.sendall(sent)
            assert raw.recv(100).startswith(b"HTTP/1.1 400 ")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
        assert get(connection, "/livez") == (200, b"ok")
        connection.close()

    serve(scene)


def test_a_body_ends_the_connection_with_the_answer() -> None:
    def scene(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as raw:
            raw.sendall(b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\nGET /live")
            answer = b""
            while chunk := raw.recv(1000):
                answer += chunk
            assert answer.startswith(b"HTTP/1.1 405 ")
            assert answer.count(b"HTTP/1.1") == 1

    serve(scene)


def test_a_connection_that_is_open_at_the_end_is_no_fault() -> None:
    told: list[dict[str, object]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        server = EndpointServer(Pages(FixedSource(), None))
        client.port = await server.start("127.0.0.1", 0, None)
        assert await asyncio.to_thread(get, client, "/livez") == (200, b"ok")
        await server.close()

    client = http.client.HTTPConnection("127.0.0.1", timeout=HANG_S)
    asyncio.run(main())
    client.close()
    assert told == []


def test_a_port_that_is_taken_ends_the_process_with_a_line_of_the_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = EndpointOptions(bind_address="127.0.0.1", secure_port=port)
        plan = ChildPlan(options=RuntimeOptions(runtime_dir=str(tmp_path), endpoints=options))
        plan.path.write_bytes(plan.encoded())
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "daemon.endpoints", str(plan.path)],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
    assert ended.returncode == exit_codes.FAILED
    assert "not_listening" in ended.stderr


def test_it_speaks_tls_with_who_trusts_it_only() -> None:
    def scene(port: int) -> None:
        trusting = ssl.create_default_context(cafile=TLS / "cert.pem")
        trusting.check_hostname = False
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=HANG_S, context=trusting
        )
        assert get(connection, "/livez") == (200, b"ok")
        connection.close()
        doubting = http.client.HTTPSConnection("127.0.0.1", port, timeout=HANG_S)
        with pytest.raises(ssl.SSLCertVerificationError):
            doubting.connect()
        doubting.close()
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
        with pytest.raises((http.client.HTTPException, OSError)):
            get(plain, "/livez")
        plain.close()

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    serve(scene, tls)


def client_context(authority: Authority, user: str, folder: Path) -> ssl.SSLContext:
    pair, files = client_pair(authority, user), (folder / f"{user}.crt", folder / f"{user}.key")
    files[0].write_bytes(pair.certificate_pem)
    files[1].write_bytes(pair.key_pem)
    context = ssl.create_default_context(cafile=TLS / "cert.pem")
    context.check_hostname = False
    context.load_cert_chain(*files)
    return context


def test_an_authority_that_was_replaced_is_not_trusted_any_more(tmp_path: Path) -> None:
    former, present = (Authority(SystemClock().wall_s(), name) for name in ("former", "present"))
    options = EndpointOptions(
        client_ca_file=str(tmp_path / "ca.crt"),
        tls_cert_file=str(TLS / "cert.pem"),
        tls_private_key_file=str(TLS / "key.pem"),
    )

    async def main() -> None:
        served = ServedTls(options, tmp_path, None)
        server = EndpointServer(Pages(FixedSource(), None))
        port = 0

        def connection(authority: Authority, user: str) -> http.client.HTTPSConnection:
            tls = client_context(authority, user, tmp_path)
            return http.client.HTTPSConnection("127.0.0.1", port, timeout=HANG_S, context=tls)

        async def trust(authority: Authority) -> None:
            Path(options.client_ca_file).write_bytes(authority.certificate_pem)
            await served.renew()
            await server.speak(served.context)

        async def is_served(asking: http.client.HTTPSConnection) -> bool:
            try:
                return await asyncio.to_thread(get, asking, "/livez") == (200, b"ok")
            except (http.client.HTTPException, OSError):
                asking.close()
                return False

        await trust(former)
        port = await server.start("127.0.0.1", 0, served.context)
        kept = connection(former, "kept")
        assert await is_served(kept)
        assert not await is_served(connection(present, "early"))
        await trust(former)
        kept.auto_open = 0
        assert await is_served(kept), "nothing has changed"
        await trust(present)
        assert not await is_served(kept)
        assert not await is_served(connection(former, "late"))
        new = connection(present, "new")
        assert await is_served(new)
        new.close()
        await server.close()

    asyncio.run(main())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6 here")
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_any_address_is_any_of_both_families(host: str) -> None:
    async def main() -> None:
        server = EndpointServer(Pages(FixedSource(), None))
        port = await server.start(host, 0, None)
        for asked in ("127.0.0.1", "::1"):
            connection = http.client.HTTPConnection(asked, port, timeout=HANG_S)
            assert await asyncio.to_thread(get, connection, "/livez") == (200, b"ok")
            connection.close()
        await server.close()

    asyncio.run(main())


def test_whoever_holds_connections_without_a_word_keeps_no_probe_out() -> None:
    def scene(port: int) -> None:
        at = ("127.0.0.1", port)
        kept = http.client.HTTPConnection(*at, timeout=HANG_S)
        assert get(kept, "/livez") == (200, b"ok")
        silent = [
            socket.create_connection(at, timeout=HANG_S) for _ in range(ENDPOINT_CONNECTIONS_MAX)
        ]
        for raw in silent[::2]:
            raw.sendall(b"GET /livez HTTP/1.1\r\nHost")
        for _ in range(3):
            connection = http.client.HTTPConnection(*at, timeout=HANG_S)
            assert get(connection, "/livez") == (200, b"ok")
            silent.append(connection.sock)
        # Room was made by those that had waited longest.
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            get(kept, "/livez")
        for raw in silent:
            raw.close()
        kept.close()

    serve(scene)
