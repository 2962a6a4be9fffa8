"""A place in the table of children, without processes."""

import os
import resource
import signal
from collections.abc import Callable

import msgspec
import pytest

from daemon.supervisor.child import Child
from daemon.supervisor.children import ChildSpec
from daemon.supervisor.launcher import SystemProcess, system_launch
from daemon.supervisor.restart_policy import Use
from shared import exit_codes
from shared.kube.connection_problems import Problem
from shared.transport.heartbeat import Heartbeat


class FakeProcess:
    pid = 4711
    create_time_s = 0.0

    def send_signal(self, number: signal.Signals) -> None: ...

    def call_at_end(self, act: Callable[[], None]) -> None: ...

    def use(self) -> Use:
        return Use(0.0, False)

    def reap(self) -> int:
        return -9


def test_what_a_child_notes_of_its_connections_is_taken_once() -> None:
    child = Child(ChildSpec("binder-0", "workers.binder", ()), system_launch(3))
    problem = Problem("403 Forbidden", "grant it", ["create pods/binding"], 1.0, 2.0)
    assert not child.take_note()
    child.heartbeat.write_note(msgspec.json.encode([problem]))
    assert child.take_note()
    assert child.problems == [problem]
    assert not child.take_note()


@pytest.mark.parametrize("note", [bytes(40), b'[{"error":"\xff"}]', b'[{"x":' + b"[" * 10_000])
def test_a_note_that_nobody_can_read_is_told_and_left(
    caplog: pytest.LogCaptureFixture, note: bytes
) -> None:
    child = Child(ChildSpec("binder-0", "workers.binder", ()), system_launch(3))
    child.heartbeat.write_note(note)
    assert not child.take_note()
    assert not child.take_note()
    assert [record.message for record in caplog.records] == ["note_unreadable"]
    child.heartbeat.write_note(b"[]")
    assert child.take_note()


def test_a_process_that_cannot_be_watched_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    def no_descriptor(pid: int) -> int:
        raise OSError(24, f"Too many open files for {pid}")

    monkeypatch.setattr(os, "pidfd_open", no_descriptor)
    monkeypatch.setattr(os, "kill", lambda *call: calls.append(call))
    monkeypatch.setattr(os, "waitpid", lambda *call: calls.append(call))
    with pytest.raises(OSError, match="Too many open files for 4711"):
        SystemProcess(4711)
    assert calls == [(4711, signal.SIGKILL), (4711, 0)]


def test_of_a_process_nothing_can_be_told_without_a_descriptor() -> None:
    process = SystemProcess(os.getpid())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))  # What is open stays so.
    try:
        assert process.use() is None
        with pytest.raises(OSError, match="Too many open files"):
            _ = process.create_time_s
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert process.use() is not None
    assert process.create_time_s
    os.close(process._pidfd)


@pytest.mark.parametrize("can_be_careful", [True, False])
def test_what_a_child_died_of_twice_its_successor_goes_without(can_be_careful: bool) -> None:
    commands: list[list[str]] = []

    def launch(_: ChildSpec, arguments: tuple[str, ...], /) -> tuple[FakeProcess, Heartbeat]:
        commands.append(list(arguments))
        return FakeProcess(), Heartbeat()

    child = Child(ChildSpec("owner", "daemon.owner", (), can_be_careful=can_be_careful), launch)
    for in_hand in (0, 7, 8, 7, 0):
        child.start(now_s=0.0)
        child.heartbeat.beat(in_hand)
        child.reap()
        child.add_death(1, now_s=1.0)
    told = [c[c.index("--careful") + 1] if "--careful" in c else None for c in commands]
    assert told == ([None, "", "", "", "7"] if can_be_careful else [None] * 5)
    found = [one.is_of_an_object for one in child.exits]
    assert found == [False, *[can_be_careful] * 3, False]


def test_one_kill_needs_no_object_that_brought_it_about_and_two_may_have_one() -> None:
    child = Child(ChildSpec("owner", "daemon.owner", (), can_be_careful=True), system_launch(3))
    child.add_death(-signal.SIGKILL, now_s=1.0)
    assert not child.is_careful
    child.add_death(-signal.SIGKILL, now_s=2.0)
    assert child.is_careful


def test_who_is_killed_for_its_silence_may_have_had_an_object_in_hand() -> None:
    spec = ChildSpec("owner", "daemon.owner", (), silence_max_s=1.0, can_be_careful=True)
    child = Child(spec, lambda *_: (FakeProcess(), Heartbeat()))
    child.start(now_s=0.0)
    assert any(child.hangs(now_s=2.0 * look) for look in range(1, 10))
    child.reap()
    child.add_death(-signal.SIGKILL, now_s=300.0)
    assert child.is_careful


@pytest.mark.parametrize("code", exit_codes.NO_DEATHS)
def test_an_end_for_want_of_the_lease_or_of_a_file_is_no_death(code: int) -> None:
    child = Child(ChildSpec("owner", "daemon.owner", (), can_be_careful=True), system_launch(3))
    child.add_death(code, now_s=1.0)
    assert not child.is_careful
