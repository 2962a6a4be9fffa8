"""Exec plugins: real commands, which note each run in a file."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.manual_clock import ManualClock
from shared.certificates import Authority
from shared.clock import SystemClock
from shared.kube.api_errors import ConnectFailed
from shared.kube.client_certificate import ClientCertificate
from shared.kube.cluster_access import ServerTls
from shared.kube.exec_credentials import FAILURE_HOLD_S, ExecCommand, ExecCredentials
from tests.support.client_certificates import client_pair

VERSION = "client.authentication.k8s.io/v1"
NOW_S = SystemClock().wall_s()

SCRIPT = """
import json, os, sys
folder = sys.argv[1]
with open(os.path.join(folder, "runs"), "a") as runs:
    runs.write(os.environ["KUBERNETES_EXEC_INFO"] + "\\n")
with open(os.path.join(folder, "says")) as says:
    text = says.read()
if text.startswith("!"):
    sys.exit(text[1:])
print(text)
"""


class Plugin:
    """A command that says what the test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "plugin.py"
        self.script.write_text(SCRIPT)
        self.clock = ManualClock(1000.0)

    def says(self, text: str) -> None:
        (self.folder / "says").write_text(text)

    def gives(self, version: str = VERSION, **status: Any) -> None:
        credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        self.says(json.dumps(credential))

    @property
    def runs(self) -> list[dict[str, Any]]:
        file = self.folder / "runs"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def credentials(self, **options: Any) -> ExecCredentials:
        certificate = options.pop("certificate", None)
        arguments = (str(self.script), str(self.folder))
        command = ExecCommand(VERSION, options.pop("command", sys.executable), arguments, **options)
        return ExecCredentials(command, certificate=certificate, clock=self.clock)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def said(**fields: Any) -> str:
    return json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", **fields})


def timestamp(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_token_is_kept_until_it_expires(plugin: Plugin) -> None:
    credentials = plugin.credentials()

    async def scenario() -> None:
        plugin.gives(token="one", expirationTimestamp=timestamp(1100))
        assert credentials.is_due()
        await credentials.prepare()
        assert credentials.header_line(0.0) == b"Authorization: Bearer one\r\n"
        plugin.clock.now_s = 1100.0
        assert not credentials.is_due()
        plugin.clock.now_s = 1100.5
        assert credentials.is_due()
        plugin.gives(token="two")
        await credentials.prepare()
        assert credentials.header_line(0.0) == b"Authorization: Bearer two\r\n"
        plugin.clock.now_s = 1e9
        assert not credentials.is_due()

    run(scenario)
    assert len(plugin.runs) == 2


@pytest.mark.parametrize("expires", [None, "0001-01-01T00:00:00Z", "0001-01-01T02:00:00+02:00"])
def test_what_never_expires_is_run_for_once(plugin: Plugin, expires: str | None) -> None:
    credentials = plugin.credentials()
    plugin.gives(
        token="t", clientCertificateData=None, clientKeyData=None, expirationTimestamp=expires
    )
    run(credentials.prepare)
    assert not credentials.is_due()
    assert credentials.header_line(0.0) == b"Authorization: Bearer t\r\n"


YAML = f"""
apiVersion: {VERSION}
kind: ExecCredential
status: {{token: t, expirationTimestamp: 1970-01-01T01:00:00Z}}
"""


def test_what_is_printed_may_be_yaml(plugin: Plugin) -> None:
    credentials = plugin.credentials()
    plugin.says(YAML)
    run(credentials.prepare)
    assert credentials.header_line(0.0) == b"Authorization: Bearer t\r\n"
    plugin.clock.now_s = 3600.5
    assert credentials.is_due()


def test_many_requests_share_one_run_and_a_cancelled_one_does_not_end_it(plugin: Plugin) -> None:
    plugin.gives(token="t")
    credentials = plugin.credentials()

    async def scenario() -> None:
        waiting = [asyncio.ensure_future(credentials.prepare()) for _ in range(10)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [r for r in results if r is not None] == [results[0]]
        assert isinstance(results[0], asyncio.CancelledError)

    run(scenario)
    assert len(plugin.runs) == 1


def test_a_refusal_runs_it_again_once_for_all_who_were_refused(plugin: Plugin) -> None:
    plugin.gives(token="old")
    credentials = plugin.credentials()

    async def scenario() -> None:
        await credentials.prepare()
        refused = credentials.serial
        plugin.gives(token="new")
        renewed = await asyncio.gather(*(credentials.renew(refused, 50.0) for _ in range(5)))
        assert renewed == [True] * 5
        assert len(plugin.runs) == 2
        # What it gives is refused again: not run more than once a second.
        assert not await credentials.renew(credentials.serial, 50.5)
        assert len(plugin.runs) == 2
        assert await credentials.renew(credentials.serial, 51.5)

    run(scenario)


def test_it_is_told_of_the_cluster_if_so_configured(plugin: Plugin) -> None:
    plugin.gives(token="t")

    async def scenario() -> None:
        await plugin.credentials(cluster={"server": "https://api"}).prepare()
        await plugin.credentials().prepare()

    run(scenario)
    told, bare = plugin.runs
    assert told == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://api"}},
    }
    assert bare["spec"] == {"interactive": False}


def test_a_client_certificate_goes_into_the_tls_settings(plugin: Plugin) -> None:
    pair = client_pair(Authority(NOW_S), "jane")
    certificate = ClientCertificate(ServerTls(), "test")
    credentials = plugin.credentials(certificate=certificate)

    async def scenario() -> None:
        plugin.gives(
            clientCertificateData=pair.certificate_pem.decode(), clientKeyData=pair.key_pem.decode()
        )
        await credentials.prepare()
        first = credentials.certificate_serial
        await credentials.renew(credentials.serial, 10.0)
        assert credentials.certificate_serial == first, (
            "the same certificate needs no new connection"
        )

    run(scenario)
    assert credentials.header_line(0.0) == b""


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("!no such region", "exit code 1: no such region"),
        ("hello", "it printed no ExecCredential"),
        (said(apiVersion="v1"), "and speaks v1"),
        (said(kind="Secret"), "kind"),
        (said(), "neither a token nor"),
        (said(status={"token": None}), "neither a token nor"),
        (said(status={"token": "t", "expirationTimestamp": "0001-01-01T00:00:00"}), "timezone"),
        ("status: {token: secret", "it printed no ExecCredential: expected.*in line"),
        (said(status={"clientCertificateData": "x"}), "only one of certificate and key"),
        (said(status={"token": "a b"}), "not a bearer token"),
    ],
)
def test_failures_are_told_and_hold_for_a_moment(plugin: Plugin, says: str, told: str) -> None:
    plugin.says(says)
    credentials = plugin.credentials()

    async def scenario() -> None:
        for _ in range(3):
            with pytest.raises(ConnectFailed, match=told):
                await credentials.prepare()
        assert len(plugin.runs) == 1
        plugin.clock.now_s += FAILURE_HOLD_S
        plugin.gives(token="t")
        await credentials.prepare()

    run(scenario)
    assert credentials.header_line(0.0)


def test_a_missing_command_is_told_with_its_hint(plugin: Plugin) -> None:
    credentials = plugin.credentials(command="no-such-berth-plugin", install_hint="see there")

    async def scenario() -> None:
        with pytest.raises(ConnectFailed, match=r"no-such-berth-plugin not found\nsee there"):
            await credentials.prepare()

    run(scenario)
