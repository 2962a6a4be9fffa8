"""What systemd is told."""

import resource
import socket
from pathlib import Path

import pytest

from daemon.supervisor.sd_notify import ServiceNotifier
from tests.support.waiting import HANG_S


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_hears_ready_alive_and_stopping(tmp_path: Path, is_abstract: bool) -> None:
    name = f"@berth-test-{tmp_path.name}" if is_abstract else str(tmp_path / "notify")
    address = f"\0{name[1:]}" if is_abstract else name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(address)
        notifier = ServiceNotifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000"})
        notifier.tell("READY=1", "5 nodes")
        notifier.tell("WATCHDOG=1", "6 nodes")
        notifier.tell("STOPPING=1", "draining")
        ear.settimeout(HANG_S)
        heard = [ear.recv(4096).decode() for _ in range(3)]
    assert heard == [
        "READY=1\nSTATUS=5 nodes",
        "WATCHDOG=1\nSTATUS=6 nodes",
        "STOPPING=1\nSTATUS=draining",
    ]
    assert notifier.watchdog_s == 3.0


def test_without_systemd_nothing_is_sent_and_nothing_fails() -> None:
    notifier = ServiceNotifier({})
    notifier.tell("READY=1", "")
    assert notifier.watchdog_s == 0.0


def test_a_service_manager_that_cannot_be_told_does_not_matter(tmp_path: Path) -> None:
    notifier = ServiceNotifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    notifier.tell("WATCHDOG=1", "")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))  # What is open stays so.
    try:
        notifier.tell("WATCHDOG=1", "")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
