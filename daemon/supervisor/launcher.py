"""Processes of ours, as the system has them: the only file that makes one.

What the supervisor needs of a process is `Launched`, so that it can also look after processes that are
none of the system's, on a clock that is none.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import psutil

from daemon.supervisor.children import ChildSpec
from daemon.supervisor.silence import Use
from shared.transport.heartbeat import Heartbeat


class Launched(Protocol):
    """A process that was started and not reaped yet."""

    @property
    def pid(self) -> int: ...

    @property
    def create_time_s(self) -> float:
        """As the kernel has it, in seconds since 1970."""

    def send_signal(self, number: signal.Signals) -> None: ...

    def call_at_end(self, act: Callable[[], None]) -> None:
        """Has the running event loop call this once the process has ended."""

    def use(self) -> Use: ...

    def reap(self) -> int:
        """The exit code of a process that has ended."""


class Launch(Protocol):
    """Starts the process of a spec with these arguments."""

    def __call__(
        self, spec: ChildSpec, arguments: tuple[str, ...], /
    ) -> tuple[Launched, Heartbeat]:
        """OSError where there is no memory, or no process id or descriptor left."""


class SystemProcess:
    """A process of the system, watched by its pidfd."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except OSError:  # No descriptor left: what cannot be watched must not run.
            process.kill()
            process.wait()
            raise

    @cached_property
    def create_time_s(self) -> float:
        """It was not reaped yet, so it is nobody else's."""
        return psutil.Process(self.pid).create_time()

    def send_signal(self, number: signal.Signals) -> None:
        """Through the pidfd: it can never reach another process of the same id."""
        signal.pidfd_send_signal(self._pidfd, number)

    def call_at_end(self, act: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self._pidfd)
            act()

        loop.add_reader(self._pidfd, ended)

    def use(self) -> Use:
        return use_of(self.pid)

    def reap(self) -> int:
        os.close(self._pidfd)
        return self._process.wait()


def system_launch(lifeline_fd: int) -> Launch:
    """Starts children that end by themselves when this lifeline is cut."""

    def launch(spec: ChildSpec, arguments: tuple[str, ...], /) -> tuple[SystemProcess, Heartbeat]:
        heartbeat, heartbeat_fd = Heartbeat.made()
        try:
            # -P: a module of ours is never looked for in the current folder. Never -O: assertions end
            # a process that has gone wrong.
            command = [sys.executable, "-P", "-m", spec.module, *arguments]
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*command, "--heartbeat-fd", str(heartbeat_fd)],
                stdin=subprocess.DEVNULL,
                pass_fds=(lifeline_fd, heartbeat_fd),
                env=child_environment({**dict(spec.environment), **os.environ}),
                # A terminal's Ctrl-C goes to a whole process group; only we shall hear it.
                process_group=0,
            )
        finally:
            os.close(heartbeat_fd)
        return SystemProcess(process), heartbeat

    return launch


def child_environment(own: "os._Environ[str] | dict[str, str]") -> dict[str, str]:
    """A child's environment: ours, but with assertions on and with one thread for arithmetic."""
    environment = dict(own)
    # Set by somebody for other programs, it would switch off the assertions that guard the cache.
    environment.pop("PYTHONOPTIMIZE", None)
    # Our arrays are small and our processes many: BLAS threads would only fight for the cores.
    for library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        environment.setdefault(library, "1")
    return environment


def use_of(pid: int) -> Use:
    """Of a child that was not reaped yet, so it is nobody else."""
    process = psutil.Process(pid)
    with process.oneshot():
        times = process.cpu_times()
        waiting = (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
        return Use(times.user + times.system, process.status() in waiting)
