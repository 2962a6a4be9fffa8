"""A place in the table of children, without processes."""

import os
import subprocess

import msgspec
import pytest

from daemon.supervisor.child import Child
from daemon.supervisor.children import ChildSpec
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
    child = Child(ChildSpec("binder-0", "workers.binder", ()))
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
    child = Child(ChildSpec("scorer-0", "workers.scorer", ()))
    with pytest.raises(OSError, match="Too many open files"):
        child.start(3, now_s=0.0)
    assert process.calls == ["kill", "wait"]
    assert child.process is None
