"""The supervisor with real child processes (dummies): start, restart, drain, kill, status."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from daemon.cli import as_json
from daemon.commands.reload import reload
from daemon.commands.show_status import read_status, status_for_programs, status_lines
from daemon.supervisor.process_list import NotRunningError, read_list
from daemon.supervisor.supervise import SIGNAL_ECHO_S
from shared import exit_codes
from shared.errors import ConfigurationError
from shared.kube.connection_problems import Problem
from shared.limits import OWNER_SILENCE_S
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

OWNER = "tests.support.dummy_owner"
CHILD = "tests.support.dummy_child"


class Supervised:
    """A supervisor process, and the log lines that it and its children write."""

    def __init__(
        self, runtime_dir: Path, table: list[Any], drain_s: float, options: Sequence[str]
    ) -> None:
        self.runtime_dir = runtime_dir
        self.lines: list[dict[str, Any]] = []
        self._seen_counts: dict[str, int] = {}
        """Of the lines, up to the last of each event that was waited for."""
        self._fresh: queue.Queue[dict[str, Any] | None] = queue.Queue()
        command = [sys.executable, *options, "-m", "tests.support.supervisor_process"]
        self.process = subprocess.Popen(
            [*command, str(runtime_dir), str(drain_s), json.dumps(table)],
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with contextlib.suppress(json.JSONDecodeError):
                self._fresh.put(json.loads(line))
        self._fresh.put(None)

    def wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        """The next log line of this event with these fields. What several processes say comes in any
        order: one that has just been started may speak before the supervisor says that it was."""
        count = self._seen_counts.get(event, 0)
        while True:
            for line in self.lines[count:]:
                count += 1
                if line["event"] == event and fields.items() <= line.items():
                    self._seen_counts[event] = count
                    return line
            fresh = self._fresh.get(timeout=HANG_S)
            assert fresh is not None, f"the supervisor ended without {event}: {self.lines}"
            self.lines.append(fresh)

    def pid_of(self, child: str) -> int:
        pid = next(p.pid for p in read_list(self.runtime_dir).processes if p.name == child)
        assert pid, "it runs; 0 would be our own process group"
        return pid

    def child_processes(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def end(self) -> int:
        return self.process.wait(timeout=HANG_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(timeout=HANG_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervised] = []

    def start_one(
        *extra: list[Any],
        owner: list[str] | None = None,
        owner_silence_max_s: float = OWNER_SILENCE_S,
        drain_s: float = 20,
        options: Sequence[str] = ("-P",),
    ) -> Supervised:
        runtime_dir = tmp_path / "run"
        arguments = ["--runtime-dir", str(runtime_dir), *(owner or [])]
        owner_row = ["owner", OWNER, arguments, owner_silence_max_s]
        one = Supervised(runtime_dir, [owner_row, *extra], drain_s, options)
        started.append(one)
        return one

    yield start_one
    for one in started:
        one.close()


def test_it_starts_all_becomes_ready_and_stops_all_on_sigterm(start: Start) -> None:
    berth = start(["adapter", CHILD, []], ["scorer-0", CHILD, []])
    berth.wait_for("ready", nodes=3)
    assert [p.name for p in read_list(berth.runtime_dir).processes] == [
        *("supervisor", "owner", "adapter", "scorer-0"),
    ]
    children = berth.child_processes()
    berth.process.send_signal(signal.SIGTERM)
    berth.wait_for("drained")
    assert berth.end() == exit_codes.OK
    assert not any(child.is_running() for child in children)
    with pytest.raises(NotRunningError):
        read_list(berth.runtime_dir)


def test_a_child_that_is_killed_is_started_again(start: Start) -> None:
    berth = start(["scorer-0", CHILD, []])
    berth.wait_for("ready")
    for name in ("scorer-0", "owner"):
        pid = berth.pid_of(name)
        os.kill(pid, signal.SIGKILL)
        assert berth.wait_for("child_died", child=name)["how"] == "signal 9"
        restarted = berth.wait_for("child_started", child=name, restarts=1)
        assert restarted["pid"] != pid
    berth.process.send_signal(signal.SIGTERM)
    assert berth.end() == exit_codes.OK


@pytest.mark.parametrize("name", ["owner", "scorer-0"])
def test_a_child_that_hangs_is_killed_and_started_again(start: Start, name: str) -> None:
    berth = start(["scorer-0", CHILD, [], 1.0], owner_silence_max_s=1.0)
    berth.wait_for("ready")
    pid = berth.pid_of(name)
    os.kill(pid, signal.SIGSTOP)
    berth.wait_for("child_hangs", child=name)
    assert berth.wait_for("child_died", child=name)["how"] == "signal 9"
    assert berth.wait_for("child_started", child=name, restarts=1)["pid"] != pid
    berth.process.send_signal(signal.SIGTERM)
    assert berth.end() == exit_codes.OK


def test_what_a_child_dies_of_is_left_out(start: Start) -> None:
    berth = start(["adapter", CHILD, ["--takes", "7"]])
    # The first says nothing of what it has in hand, the next two say the same.
    for _ in range(3):
        berth.wait_for("given")
        berth.wait_for("child_died", child="adapter")
    berth.wait_for("child_started", child="adapter", restarts=3)
    assert berth.wait_for("given")["arguments"][-4:-2] == ["--careful", "7"]
    berth.process.send_signal(signal.SIGTERM)
    assert berth.end() == exit_codes.OK


def test_it_gives_up_when_a_child_cannot_use_its_arguments(start: Start) -> None:
    berth = start(["adapter", CHILD, ["--mode", str(exit_codes.UNUSABLE)]])
    assert "cannot be used" in berth.wait_for("giving_up", child="adapter")["reason"]
    assert berth.end() == exit_codes.UNUSABLE


def test_it_drains_before_it_stops_its_children(start: Start, tmp_path: Path) -> None:
    may_stop = tmp_path / "nothing-in-flight"
    berth = start(["binder-0", CHILD, []], owner=["--stop-answered-when", str(may_stop)])
    berth.wait_for("ready")
    children = berth.child_processes()
    berth.process.send_signal(signal.SIGTERM)
    berth.wait_for("stopping")
    # While bindings are in flight, everybody is still there.
    assert all(child.is_running() for child in children)
    assert read_list(berth.runtime_dir).state in ("running", "draining")
    may_stop.touch()
    berth.wait_for("drained")
    assert berth.end() == exit_codes.OK


def test_a_drain_that_takes_too_long_is_cut_short_and_said(start: Start) -> None:
    berth = start(["binder-0", CHILD, []], owner=["--deaf-to-stop"], drain_s=0.2)
    berth.wait_for("ready")
    berth.process.send_signal(signal.SIGTERM)
    berth.wait_for("not_drained")
    assert berth.end() == exit_codes.OK


def until_deaf(pid: int) -> None:
    """Until the child ignores SIGTERM: started, it is still to come to that. The timeout is pytest's."""
    ignored = 0
    while not ignored >> (signal.SIGTERM - 1) & 1:
        os.sched_yield()
        status = Path(f"/proc/{pid}/status").read_text()
        ignored = int(next(line.split()[1] for line in status.splitlines() if "SigIgn" in line), 16)


def test_a_child_that_is_deaf_to_sigterm_is_killed(start: Start) -> None:
    berth = start(["binder-0", CHILD, ["--mode", "deaf"]])
    berth.wait_for("ready")
    until_deaf(berth.pid_of("binder-0"))
    berth.process.send_signal(signal.SIGTERM)
    assert berth.wait_for("killing")["children"] == ["binder-0"]
    assert berth.end() == exit_codes.FAILED


def test_a_second_signal_kills_at_once(start: Start) -> None:
    berth = start(["binder-0", CHILD, ["--mode", "deaf"]], owner=["--deaf-to-stop"], drain_s=3600)
    berth.wait_for("ready")
    children = berth.child_processes()
    berth.process.send_signal(signal.SIGTERM)
    berth.wait_for("stopping")
    threading.Event().wait(1.5 * SIGNAL_ECHO_S)  # One that comes sooner would be the same.
    berth.process.send_signal(signal.SIGINT)
    berth.wait_for("killing", reason="told twice")
    assert berth.end() == exit_codes.FAILED
    assert not any(child.is_running() for child in children)


def test_the_first_signal_kills_nobody_though_it_stops_already(start: Start) -> None:
    unusable = ["binder-0", CHILD, ["--mode", str(exit_codes.UNUSABLE)]]
    berth = start(unusable, owner=["--deaf-to-stop"], drain_s=3600)
    berth.wait_for("giving_up")
    for event in ("stopping", "killing"):
        berth.process.send_signal(signal.SIGTERM)
        berth.wait_for(event, signal="SIGTERM")
        threading.Event().wait(1.5 * SIGNAL_ECHO_S)  # One that comes sooner would be the same.
    assert berth.end() == exit_codes.FAILED


def test_a_signal_that_comes_twice_at_once_is_one(start: Start, tmp_path: Path) -> None:
    may_stop = tmp_path / "nothing-in-flight"
    may_stop.touch()
    berth = start(owner=["--stop-answered-when", str(may_stop)])
    berth.wait_for("ready")
    both_at_once(berth, signal.SIGHUP, signal.SIGHUP)
    berth.wait_for("reloading")
    berth.wait_for("ready")
    may_stop.unlink()
    both_at_once(berth, signal.SIGTERM, signal.SIGINT)
    berth.wait_for("stopping")
    may_stop.touch()
    berth.wait_for("drained")
    assert berth.end() == exit_codes.OK
    events = [line["event"] for line in berth.lines]
    assert events.count("reloading") == 1
    assert "reload_refused" not in events


def both_at_once(berth: Supervised, *numbers: signal.Signals) -> None:
    """Both are there when it goes on."""
    for number in (signal.SIGSTOP, *numbers, signal.SIGCONT):
        berth.process.send_signal(number)


def test_berth_reload_waits_until_it_runs_and_fails_when_it_is_refused(
    start: Start, tmp_path: Path
) -> None:
    berth = start(["scorer-0", CHILD, []])
    berth.wait_for("ready")
    pid = berth.pid_of("scorer-0")
    assert reload(str(berth.runtime_dir)) == ["reloaded"]
    assert berth.pid_of("scorer-0") != pid
    (tmp_path / "next.json").write_text("[]")
    with pytest.raises(ConfigurationError, match="names nobody"):
        reload(str(berth.runtime_dir))
    berth.process.send_signal(signal.SIGTERM)
    assert berth.end() == exit_codes.OK
    with pytest.raises(NotRunningError):
        reload(str(berth.runtime_dir))


def test_the_children_end_when_the_supervisor_is_killed(start: Start) -> None:
    berth = start(["scorer-0", CHILD, []])
    berth.wait_for("ready")
    children = berth.child_processes()
    assert len(children) == 2
    berth.process.kill()
    _, alive = psutil.wait_procs(children, timeout=HANG_S)
    assert not alive


def test_a_child_has_nothing_of_the_supervisor_but_what_it_is_given(start: Start) -> None:
    berth = start(["scorer-0", CHILD, []])
    for restarts in (0, 1):
        # The second life is a fork of a supervisor that has spoken to the owner.
        pid = berth.wait_for("child_started", child="scorer-0", restarts=restarts)["pid"]
        found = berth.wait_for("given")
        fds = {int(fd) for fd in found["arguments"] if fd.isdecimal()}
        # Three standard ones, lifeline, heartbeat, and the folder in which it looked.
        assert len(found["fds"]) == 6
        assert {0, 1, 2, *fds} < set(found["fds"])
        assert found["input"] == os.devnull
        assert found["group"] == pid
        assert found["handled"] == ["SIGINT"]
        process = psutil.Process(pid)
        assert process.name() == "berth-scorer-0"
        assert process.cmdline()[0].startswith("berth-scorer-0 -m ")
        if not restarts:
            berth.wait_for("ready")
            os.kill(pid, signal.SIGKILL)
    berth.process.send_signal(signal.SIGTERM)
    assert berth.end() == exit_codes.OK


def test_a_child_looks_for_no_module_in_the_folder_where_berth_was_started(start: Start) -> None:
    berth = start(["scorer-0", CHILD, []], options=())
    assert berth.wait_for("given")["path"][0] != str(Path.cwd())
    berth.process.send_signal(signal.SIGTERM)
    assert berth.end() == exit_codes.OK


def test_a_second_berth_on_the_same_directory_is_refused(start: Start) -> None:
    berth = start()
    berth.wait_for("ready")
    command = [sys.executable, "-P", "-m", "daemon", "run", "--as-default-scheduler"]
    command += ["--server", "http://127.0.0.1:1"]
    second = subprocess.run(
        [*command, "--runtime-dir", str(berth.runtime_dir)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert second.returncode == exit_codes.ALREADY_RUNNING
    assert f"pid {berth.process.pid}" in second.stderr


def test_status_shows_processes_queue_and_counters(start: Start) -> None:
    berth = start(["scorer-0", CHILD, []])
    berth.wait_for("ready")
    status = read_status(str(berth.runtime_dir), sample_s=0.01)
    assert status.state == "running"
    assert status.owner is not None
    assert status.owner.generation == 7
    assert [(p.name, p.is_alive) for p in status.processes] == [
        *(("supervisor", True), ("owner", True), ("scorer-0", True)),
    ]
    text = "\n".join(status_lines(status))
    assert "5 active" in text
    assert "scheduled" in text
    listing = msgspec.structs.replace(status.owner, awaited_kinds=["nodes", "pods"])
    lines = status_lines(msgspec.structs.replace(status, owner=listing))
    assert "waiting     for the list of nodes, pods" in lines
    heard = msgspec.structs.replace(
        status.owner, api_heard_s={"nodes": status.at_s - 30.0, "pods": status.at_s - 2.5}
    )
    problem = Problem("401", "check the token", ["watch pods"], 1.0, status.wall_s)
    adapter = msgspec.structs.replace(status.processes[0], name="adapter", problems=[problem])
    lines = status_lines(msgspec.structs.replace(status, owner=heard, processes=[adapter]))
    assert "API server  newest word 2.5 s ago; of nodes 30 s ago" in lines
    assert "problem     adapter: watch pods: 401 (last 0 s ago); check the token" in lines
    told = json.loads(as_json(status_for_programs(status)))
    assert told["owner"]["queue"]["active"] == 5
    assert told["processes"][1]["name"] == "owner"


def test_a_reload_replaces_who_reads_the_configuration_and_leaves_the_others(start: Start) -> None:
    berth = start(["adapter", CHILD, []], ["scorer-0", CHILD, []])
    berth.wait_for("ready")
    old = {name: berth.pid_of(name) for name in ("owner", "adapter", "scorer-0")}
    berth.process.send_signal(signal.SIGHUP)
    berth.wait_for("reloading")
    berth.wait_for("drained")
    berth.wait_for("ready")
    new = {name: berth.pid_of(name) for name in old}
    assert new["adapter"] == old["adapter"]
    assert new["owner"] != old["owner"]
    assert new["scorer-0"] != old["scorer-0"]
    assert all(p.restart_count == 0 for p in read_list(berth.runtime_dir).processes)
    assert read_list(berth.runtime_dir).state == "running"
    berth.process.send_signal(signal.SIGTERM)
    assert berth.end() == exit_codes.OK


def test_a_reload_may_start_and_end_children(start: Start, tmp_path: Path) -> None:
    berth = start(["scorer-0", CHILD, []], ["scorer-1", CHILD, []])
    berth.wait_for("ready")
    owner = ["owner", OWNER, ["--runtime-dir", str(berth.runtime_dir)]]
    rows = [owner, ["scorer-0", CHILD, []], ["binder-0", CHILD, []]]
    (tmp_path / "next.json").write_text(json.dumps(rows))
    berth.process.send_signal(signal.SIGHUP)
    berth.wait_for("ready")
    berth.wait_for("child_replaced", child="scorer-1")
    names = {one.name for one in read_list(berth.runtime_dir).processes}
    assert names == {"supervisor", "owner", "scorer-0", "binder-0"}


def test_who_is_not_wanted_any_more_may_end_when_all_others_run_again(
    start: Start, tmp_path: Path
) -> None:
    berth = start(["scorer-0", CHILD, []], ["scorer-1", CHILD, ["--mode", "deaf"]])
    berth.wait_for("ready")
    until_deaf(berth.pid_of("scorer-1"))
    owner = ["owner", OWNER, ["--runtime-dir", str(berth.runtime_dir)]]
    (tmp_path / "next.json").write_text(json.dumps([owner, ["scorer-0", CHILD, []]]))
    berth.process.send_signal(signal.SIGHUP)
    berth.wait_for("ready")
    assert berth.wait_for("killing")["children"] == ["scorer-1"]
    berth.wait_for("child_replaced", child="scorer-1")
    berth.process.send_signal(signal.SIGTERM)
    assert berth.end() == exit_codes.OK
    assert "child_died" not in [line["event"] for line in berth.lines]


def test_a_bad_configuration_is_refused_and_the_old_one_stays(start: Start, tmp_path: Path) -> None:
    berth = start(["scorer-0", CHILD, []])
    berth.wait_for("ready")
    pids = [one.pid for one in read_list(berth.runtime_dir).processes]
    (tmp_path / "next.json").write_text("[]")
    berth.process.send_signal(signal.SIGHUP)
    assert berth.wait_for("reload_refused")["problem"] == "names nobody"
    assert [one.pid for one in read_list(berth.runtime_dir).processes] == pids
    (tmp_path / "next.json").unlink()
    berth.process.send_signal(signal.SIGHUP)
    berth.wait_for("ready")


def test_the_elector_ends_after_all_others(start: Start) -> None:
    berth = start(["leader", CHILD, []], ["binder-0", CHILD, []])
    berth.wait_for("ready")
    berth.process.send_signal(signal.SIGTERM)
    assert berth.end() == exit_codes.OK
    berth.wait_for("stopped")
    ended = [line["child"] for line in berth.lines if line["event"] == "child_ended"]
    assert ended[-1] == "leader"
    assert set(ended) == {"leader", "binder-0", "owner"}


def test_sigusr2_dumps_and_compares(start: Start) -> None:
    berth = start()
    berth.wait_for("ready")
    berth.process.send_signal(signal.SIGUSR2)
    dumped = berth.wait_for("dumped")
    assert Path(dumped["path"]).read_text() == "line one\nline two\n"


def test_systemd_is_told_when_it_is_ready_and_when_it_stops(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "notify"))
        ear.settimeout(HANG_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        berth = start()
        assert ear.recv(4096).startswith(b"READY=1\n")
        assert ear.recv(4096).startswith(b"WATCHDOG=1\n")
        berth.process.send_signal(signal.SIGTERM)
        berth.end()
        while not ear.recv(4096).startswith(b"STOPPING=1\n"):
            pass
