"""Processes of ours, as the system has them: the only file that makes one.

A child is a fork of the supervisor, not a program that is executed: what all of them import is read once
and is there once in memory, and who is started again is there at once. The supervisor imports a child's
module right before its first life. The threads that it may have by then (ZeroMQ's, once it has spoken
to the owner) hold nothing that a child touches.

What the supervisor needs of a process is `Launched`, so that it can also look after processes that are
none of the system's, on a clock that is none.
"""

import asyncio
import gc
import importlib
import itertools
import os
import signal
import sys
from collections.abc import Callable, Collection, MutableMapping
from functools import cached_property
from typing import Final, NoReturn, Protocol

import psutil
from setproctitle import setproctitle, setthreadtitle

from daemon.supervisor.children import ChildSpec
from daemon.supervisor.restart_policy import Use
from shared import exit_codes
from shared.transport.heartbeat import Heartbeat

_ALL_SIGNALS: Final = signal.valid_signals()
_FDS_MAX: Final = 1 << 20
_NAME_MAX: Final = 15
"""Characters of a process's name that the kernel keeps."""


class Launched(Protocol):
    """A process that was started and not reaped yet."""

    @property
    def pid(self) -> int: ...

    @property
    def create_time_s(self) -> float:
        """As the kernel has it, in seconds since 1970; OSError where it cannot be told."""

    def send_signal(self, number: signal.Signals) -> None: ...

    def call_at_end(self, act: Callable[[], None]) -> None:
        """Has the running event loop call this once the process has ended."""

    def use(self) -> Use | None:
        """None: it cannot be told."""

    def reap(self) -> int:
        """The exit code of a process that has ended."""


Launch = Callable[[ChildSpec, tuple[str, ...]], tuple[Launched, Heartbeat]]
"""Starts the process of a spec with these arguments; OSError where there is no memory, or no process id
or descriptor left, ImportError where its module cannot be read."""


class SystemProcess:
    """A process of the system, watched by its pidfd."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:  # No descriptor left: what cannot be watched must not run.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    @cached_property
    def create_time_s(self) -> float:
        """It was not reaped yet, so it is nobody else's."""
        try:
            return psutil.Process(self.pid).create_time()
        except psutil.Error as error:
            raise OSError(str(error)) from error

    def send_signal(self, number: signal.Signals) -> None:
        """Through the pidfd: it can never reach another process of the same id."""
        signal.pidfd_send_signal(self._pidfd, number)

    def call_at_end(self, act: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self._pidfd)
            act()

        loop.add_reader(self._pidfd, ended)

    def use(self) -> Use | None:
        try:
            process = psutil.Process(self.pid)
            with process.oneshot():
                times = process.cpu_times()
                waiting = (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
                return Use(times.user + times.system, process.status() in waiting)
        except (OSError, psutil.Error):  # No descriptor left, for one.
            return None

    def reap(self) -> int:
        os.close(self._pidfd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def system_launch(lifeline_fd: int) -> Launch:
    """Starts children that end by themselves when this lifeline is cut."""

    def launch(spec: ChildSpec, arguments: tuple[str, ...]) -> tuple[SystemProcess, Heartbeat]:
        run = importlib.import_module(spec.module).main
        heartbeat, heartbeat_fd = Heartbeat.made()
        given = [*arguments, "--heartbeat-fd", str(heartbeat_fd)]
        # A signal that came between the fork and the child's own handlers would be told to the parent.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                _live(run, given, spec, {lifeline_fd, heartbeat_fd})
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(heartbeat_fd)
        return SystemProcess(pid), heartbeat

    return launch


def _live(
    run: Callable[[list[str]], int],
    arguments: list[str],
    spec: ChildSpec,
    kept_fds: Collection[int],
) -> NoReturn:
    """The whole life of a child: it never returns to what its parent was doing."""
    code = exit_codes.FAILED
    try:
        _begin_anew(spec, kept_fds)
        code = run(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else exit_codes.FAILED
    except BaseException:  # noqa: BLE001 # As an interpreter does at its end.
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _begin_anew(spec: ChildSpec, kept_fds: Collection[int]) -> None:
    """A fork as a program finds itself that was executed: without the parent's files and signals."""
    # The parent's objects stay as they are for good: none is looked through, so their pages stay shared,
    # and none is finalized, which might close a descriptor that by then is another's.
    gc.freeze()
    # A terminal's Ctrl-C goes to a whole process group; only the parent shall hear it.
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in _ALL_SIGNALS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    edges = sorted({2, *kept_fds, _FDS_MAX})
    for below, above in itertools.pairwise(edges):
        os.closerange(below + 1, above)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    if not sys.flags.safe_path:
        del sys.path[0]  # A module of ours is never looked for in the current folder.
    setproctitle(f"berth-{spec.name} -m {spec.module.removesuffix('.__main__')}")
    setthreadtitle(f"berth-{spec.name}"[:_NAME_MAX])


def limit_threads(environment: MutableMapping[str, str]) -> None:
    """One thread for arithmetic: our arrays are small and our processes many, so BLAS threads would only
    fight for the cores. What is set stays untouched: setproctitle finds a process's title by where its
    first variable lies, which setting it anew would move."""
    for library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        environment.setdefault(library, "1")
