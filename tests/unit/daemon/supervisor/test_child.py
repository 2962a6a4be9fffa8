"""A place in the table of children, without processes."""

import os
import subprocess

import msgspec
import pytest

from daemon.supervisor.child import Child
from daemon.supervisor.children import ChildSpec
from daemon.supervisor.launcher import system_launch
from shared import exit_codes
from shared.kube.connection_problems import Problem


class FakeProcess:
    pid = 4711

    def __init__(self, *args: object, **others: object) -> None:
        self.calls: list[str] = []

    def kill(self) -> None:
        self.calls.append("kill")

    def wait(self) -> int:
        self.calls.append("wait")
        return -9


def test_what_a_child_notes_of_its_connections_is_taken_once() -> None:
    child = Child(ChildSpec("binder-0", "workers.binder", ()), system_launch(3))
    problem = Problem("403 Forbidden", "grant it", ["create pods/binding"], 1.0, 2.0)
    assert not child.take_note()
    child.heartbeat.write_note(msgspec.json.encode([problem]))
    assert child.take_note()
    assert child.problems == [problem]
    assert not child.take_note()


def test_a_process_that_cannot_be_watched_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    process = FakeProcess()

    def no_descriptor(pid: int) -> int:
        assert pid == process.pid
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(subprocess, "Popen", lambda *args, **others: process)
    monkeypatch.setattr(os, "pidfd_open", no_descriptor)
    child = Child(ChildSpec("scorer-0", "workers.scorer", ()), system_launch(3))
    with pytest.raises(OSError, match="Too many open files"):
        child.start(now_s=0.0)
    assert process.calls == ["kill", "wait"]
    assert child.process is None


@pytest.mark.parametrize("can_be_careful", [True, False])
def test_what_a_child_died_of_twice_its_successor_goes_without(
    monkeypatch: pytest.MonkeyPatch, can_be_careful: bool
) -> None:
    commands: list[list[str]] = []

    def opened(command: list[str], **others: object) -> FakeProcess:
        commands.append(command)
        return FakeProcess()

    monkeypatch.setattr(subprocess, "Popen", opened)
    monkeypatch.setattr(os, "pidfd_open", lambda _: os.dup(0))
    child = Child(
        ChildSpec("owner", "daemon.owner", (), can_be_careful=can_be_careful), system_launch(3)
    )
    for in_hand in (0, 7, 8, 7, 0):
        child.start(now_s=0.0)
        child.heartbeat.beat(in_hand)
        child.reap()
        child.add_death(1, now_s=1.0)
    told = [c[c.index("--careful") + 1] if "--careful" in c else None for c in commands]
    assert told == ([None, "", "", "", "7"] if can_be_careful else [None] * 5)
    found = [one.is_of_an_object for one in child.exits]
    assert found == [False, *[can_be_careful] * 3, False]


def test_an_end_for_want_of_the_lease_is_no_death() -> None:
    child = Child(ChildSpec("owner", "daemon.owner", (), can_be_careful=True), system_launch(3))
    child.add_death(exit_codes.LEASE_LOST, now_s=1.0)
    assert not child.is_careful
