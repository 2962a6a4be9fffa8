"""The simulated API server and a whole berth as processes, and what each of them uses.

Both end with the run, however it ends: their standard input is a pipe from it. Their logs go to files
in the run's own folder, which is shown and kept when something fails.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import orjson
import psutil

from daemon.supervisor.process_list import (
    NotRunningError,
    ProcessEntry,
    entry_of,
    measure,
    read_list,
)
from shared.clock import Clock
from shared.errors import OperationalError

START_TIMEOUT_S: Final = 300.0
"""For what takes some seconds: whoever ends is noticed at once, so only a hang takes so long."""
STOP_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.05
LOG_TAIL_LINES: Final = 15


class ProcessFailedError(OperationalError):
    """A process of the run did not start, or ended when it should not have."""


class WatchedProcess:
    """A child process that ends when its standard input does."""

    def __init__(
        self, name: str, module: str, arguments: Sequence[str], folder: Path, *, speaks: bool
    ) -> None:
        """`speaks`: its standard output is read (`first_line`); else it goes to the log."""
        self.name = name
        self.log_path = folder / f"{name}.log"
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-m", module, *arguments, "--exit-with-parent"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if speaks else log,
                stderr=log,
                # A Ctrl-C on the terminal is ours; we stop them in order.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    async def first_line(self) -> bytes:
        """What the process says first on standard output."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                line = await asyncio.to_thread(self._process.stdout.readline)
        except TimeoutError:
            raise ProcessFailedError(f"{self.name} did not start; {self.log_tail()}") from None
        if not line:
            raise ProcessFailedError(f"{self.name} ended at its start; {self.log_tail()}")
        return line

    def check(self) -> None:
        """ProcessFailedError if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise ProcessFailedError(f"{self.name} ended with {code}; {self.log_tail()}")

    @property
    def is_killed(self) -> bool:
        """It has ended by SIGKILL."""
        return self._process.poll() == -signal.SIGKILL

    def stop(self) -> int:
        """SIGTERM, and SIGKILL if that does not help; the exit code."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return code

    def log_tail(self) -> str:
        """The last lines of its log, for an error message."""
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()[-LOG_TAIL_LINES:]
        return f"the end of {self.log_path}:\n" + "\n".join(f"  {line}" for line in lines)


async def start_api_server(
    folder: Path, history: int, seed: int, more: Sequence[str] = ()
) -> tuple[WatchedProcess, str]:
    """A simulated API server that remembers `history` changes, and its address. `more`: options."""
    arguments = ["--port", "0", "--seed", f"{seed}", "--history", f"{history}", *more]
    server = WatchedProcess("apiserver", "bench.apiserver", arguments, folder, speaks=True)
    try:
        address = orjson.loads(await server.first_line())["address"]
    except BaseException:
        server.stop()
        raise
    assert isinstance(address, str), "the server tells its address"
    return server, address


def launch_berth(folder: Path, arguments: Sequence[str]) -> WatchedProcess:
    """A whole berth that has just been started. It is the only one, so nobody elects a leader unless
    `arguments` say so."""
    alone = ["--as-default-scheduler", "--leader-elect", "false", "--secure-port", "0"]
    command = ["run", "--runtime-dir", f"{folder / 'run'}", *alone, *arguments]
    return WatchedProcess("berth", "daemon", command, folder, speaks=False)


async def start_berth(folder: Path, arguments: Sequence[str]) -> WatchedProcess:
    """The same, ready to schedule."""
    berth = launch_berth(folder, arguments)
    runtime_dir = folder / "run"
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while not _is_running(runtime_dir):
                berth.check()
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        tail = berth.log_tail()
        berth.stop()
        raise ProcessFailedError(
            f"berth was not ready after {START_TIMEOUT_S:g} s; {tail}"
        ) from None
    except BaseException:
        berth.stop()
        raise
    return berth


def _is_running(runtime_dir: Path) -> bool:
    try:
        return read_list(runtime_dir).state == "running"
    except NotRunningError:
        return False


def processes_of_run(server_pid: int | None, runtime_dir: Path) -> list[ProcessEntry]:
    """This one, the API server if it is ours, and berth's, where they are started and ours."""
    found = [] if server_pid is None else [entry_of("apiserver", server_pid)]
    found.append(entry_of("load and watch", os.getpid()))
    with contextlib.suppress(NotRunningError):
        found += read_list(runtime_dir).processes
    return found


class UseMeter:
    """CPU time and memory of every process of the run, added up over restarts."""

    def __init__(self, processes: Callable[[], Sequence[ProcessEntry]], clock: Clock) -> None:
        self._processes = processes
        self._clock = clock
        self._cpu_s: dict[tuple[str, int], float] = {}
        self._base_s: dict[tuple[str, int], float] = {}
        self.rss_peak_bytes: dict[str, int] = {}
        self.restarts: dict[str, int] = {}
        self.history: list[tuple[float, dict[str, float]]] = []
        """(time, process -> CPU seconds since `begin`) of each sample."""

    def begin(self) -> None:
        """CPU time counts from now on."""
        self.sample()
        self._base_s = dict(self._cpu_s)
        self.history.clear()
        self.sample()

    def sample(self) -> None:
        """Looks at every process."""
        for entry in self._processes():
            use = measure(entry, self._clock.wall_s())
            if not use.is_alive:
                continue
            key = (entry.name, entry.pid)
            self._cpu_s[key] = max(use.cpu_s, self._cpu_s.get(key, 0.0))
            peak = max(use.rss_peak_bytes, self.rss_peak_bytes.get(entry.name, 0))
            self.rss_peak_bytes[entry.name] = peak
            self.restarts[entry.name] = max(entry.restart_count, self.restarts.get(entry.name, 0))
        self.history.append((self._clock.monotonic_s(), self.cpu_s()))

    def cpu_s(self) -> dict[str, float]:
        """Process -> CPU seconds since `begin`, over all its lives."""
        total: dict[str, float] = {}
        for (name, pid), used_s in self._cpu_s.items():
            since_s = used_s - self._base_s.get((name, pid), 0.0)
            total[name] = total.get(name, 0.0) + since_s
        return total


def core_count() -> int:
    """Cores that this machine gives us."""
    return len(psutil.Process().cpu_affinity())
