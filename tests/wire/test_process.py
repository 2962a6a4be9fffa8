"""The server as a process: it says where it listens, and it ends when it is told to."""

import signal
import socket
import subprocess
import sys

import pytest

from bench.apiserver.__main__ import main
from tests.support.waiting import HANG_S
from tests.wire.server_process import running_server

pytestmark = pytest.mark.integration


def _is_listening(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    with running_server() as server:
        assert _is_listening(server.port)
        server.process.send_signal(number)
        assert server.process.wait(timeout=HANG_S) == 0
        assert not _is_listening(server.port)


def test_it_ends_with_its_parent() -> None:
    with running_server() as server:
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(timeout=HANG_S) == 0


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([f"--port={port}"]) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--disable-admission-plugins=Nonsense", "unknown admission plugins"),
        ("--history=0", "--history must be at least 1"),
        ("--tls-cert=cert.pem", "TLS needs both"),
        ("--tls --tls-cert=cert.pem", "--tls makes a certificate"),
        ("--faults=/nowhere/faults.yaml", "--faults /nowhere/faults.yaml: cannot be read"),
    ],
)
def test_bad_options_are_named(
    argument: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argument.split()) == 2
    assert words in capsys.readouterr().err


def test_standard_input_must_be_something_that_ends() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "bench.apiserver", "--exit-with-parent"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert finished.returncode == 2
    assert "--exit-with-parent needs a pipe" in finished.stderr


def test_the_load_runs_to_its_end() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "bench.apiserver.api_load", "--bindings=50", "--watchers=2"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert "bindings" in finished.stdout, finished.stderr
    # At this size a tick of the CPU clock decides, so the verdict is not asserted.
    assert finished.returncode in (0, 1), finished.stderr
