"""The dump on SIGUSR2, on a disk that is full."""

import asyncio
import errno
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from daemon.supervisor.dumper import dump
from daemon.supervisor.process_list import replace_file
from shared.child_plan import PLAN_NAME
from shared.messages.admin import AdminAnswer, AdminRequest, DumpRequest, TextAnswer
from shared.transport.owner_link import OwnerLink


class Owner:
    async def ask(self, request: AdminRequest, _: type[AdminAnswer], __: float) -> AdminAnswer:
        return TextAnswer(["a line"] if isinstance(request, DumpRequest) else [])


@pytest.fixture
def full_disk(tmp_path: Path) -> Path:
    """Where every write fails: files that are made there are links to /dev/full."""
    (tmp_path / "dump.new").symlink_to("/dev/full")
    return tmp_path


def test_a_full_disk_is_told_and_is_no_uncaught_error(
    full_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(dump(cast("OwnerLink", Owner()), full_disk))
    assert [one.getMessage() for one in caplog.records] == ["dump_not_written"]
    assert list(full_disk.iterdir()) == []


def test_a_comparison_that_cannot_be_watched_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    class Comparer:
        pid = 4711
        kill = partial(calls.append, "kill")
        wait = partial(calls.append, "wait")

    def no_descriptor(pid: int) -> int:
        raise OSError(errno.EMFILE, f"Too many open files for {pid}")

    monkeypatch.setattr(os, "pidfd_open", no_descriptor)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: Comparer())
    (tmp_path / PLAN_NAME).touch()
    asyncio.run(dump(cast("OwnerLink", Owner()), tmp_path))
    assert [one.getMessage() for one in caplog.records] == ["comparer_not_watched"]
    assert calls == ["kill", "wait"]


def test_what_cannot_be_written_leaves_the_old_file(full_disk: Path) -> None:
    path = full_disk / "dump.txt"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
