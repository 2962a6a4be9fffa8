"""The list of processes that `berth status` reads."""

import os
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from daemon.supervisor import process_list
from daemon.supervisor.process_list import (
    AlreadyRunningError,
    NotRunningError,
    ProcessEntry,
    ProcessList,
    SupervisorLock,
    entry_of,
    measure,
    read_list,
    write_list,
)


@pytest.fixture
def runtime_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_a_second_supervisor_is_refused_and_told_who_is_there(runtime_dir: Path) -> None:
    with (
        SupervisorLock(runtime_dir),
        pytest.raises(AlreadyRunningError, match=f"pid {os.getpid()}"),
    ):
        SupervisorLock(runtime_dir)
    with SupervisorLock(runtime_dir):
        pass


def test_the_list_is_read_back_while_a_supervisor_lives(runtime_dir: Path) -> None:
    listed = ProcessList("running", [ProcessEntry("owner", 12, 3.5, 1, "signal 9")])
    with SupervisorLock(runtime_dir):
        with pytest.raises(NotRunningError, match="just started"):
            read_list(runtime_dir)
        write_list(runtime_dir, listed)
        assert read_list(runtime_dir) == listed


def test_a_list_that_a_dead_supervisor_left_is_not_believed(runtime_dir: Path) -> None:
    with SupervisorLock(runtime_dir):
        write_list(runtime_dir, ProcessList("running", []))
    with pytest.raises(NotRunningError, match="no berth is running"):
        read_list(runtime_dir)


def test_no_directory_means_no_berth(runtime_dir: Path) -> None:
    with pytest.raises(NotRunningError):
        read_list(runtime_dir)


def test_who_may_not_look_is_told_to_use_sudo(
    runtime_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(process_list, "SERVICE_RUNTIME_DIR", str(tmp_path / "none"))
    with pytest.raises(NotRunningError) as refused:
        read_list(runtime_dir)
    assert "sudo" not in str(refused.value)
    monkeypatch.setattr(process_list, "SERVICE_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(NotRunningError, match=f"for the service on {tmp_path} use sudo"):
        read_list(runtime_dir)

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(NotRunningError, match="belongs to another user; use sudo"):
        read_list(runtime_dir)


def test_a_process_is_measured_by_the_kernel() -> None:
    entry = replace(entry_of("me", os.getpid()), restart_count=2, last_exit="exit code 1")
    use = measure(entry, psutil.Process().create_time() + 5)
    assert use.is_alive
    assert use.running_s == pytest.approx(5)
    assert use.cpu_s > 0
    assert use.rss_peak_bytes >= use.rss_bytes > 1_000_000
    assert (use.restart_count, use.last_exit) == (2, "exit code 1")


def test_another_process_with_the_same_id_is_not_taken_for_ours() -> None:
    entry = ProcessEntry("me", os.getpid(), create_time_s=1.0, restart_count=0)
    assert not measure(entry, 2.0).is_alive


def test_a_child_that_waits_for_its_restart_is_shown_as_down() -> None:
    assert not measure(ProcessEntry("owner", 0, 0.0, 3, "signal 9"), 1.0).is_alive
