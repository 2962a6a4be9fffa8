"""One place in the table of children, and the process that fills it.

The only file that makes a process of ours. Whoever calls says when, and what an exit means.
"""

import asyncio
import os
import signal
import subprocess
import sys

import msgspec
import psutil

from daemon.supervisor.children import ChildSpec
from daemon.supervisor.deadly import Deadly
from daemon.supervisor.restart_policy import Exit
from daemon.supervisor.silence import Silence, Use
from shared import exit_codes
from shared.in_hand import option_of
from shared.kube.connection_problems import Problem
from shared.transport.heartbeat import Heartbeat

_decode_problems = msgspec.json.Decoder(list[Problem]).decode


class Child:
    """One place in the table of children, and the process that fills it now."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.process: subprocess.Popen[bytes] | None = None
        self.pidfd = -1
        self.started_s = 0.0
        self.heartbeat = Heartbeat()
        """Of this life, or of the last."""
        self.silence = Silence(spec.silence_max_s, 0.0)
        self.problems: list[Problem] = []
        """Of its connections, as it said last."""
        self._note_serial = 0
        self.exits: list[Exit] = []
        self._deadly = Deadly()
        self.restart: asyncio.TimerHandle | None = None
        self.is_replaced = False
        """It was told to end so that its successor reads the new configuration; no death."""
        self.new_spec: ChildSpec | None = None
        """Of that successor; None: it has none."""

    @property
    def name(self) -> str:
        return self.spec.name

    def send_signal(self, number: signal.Signals) -> None:
        """Through the pidfd: it can never reach another process of the same id."""
        if self.process is not None:
            signal.pidfd_send_signal(self.pidfd, number)

    def start(self, lifeline_fd: int, now_s: float) -> None:
        """Starts a process; OSError where there is no memory, or no process id or descriptor left."""
        self.started_s = now_s
        self.silence = Silence(self.spec.silence_max_s, now_s)
        self.problems, self._note_serial = [], 0
        self.heartbeat, heartbeat_fd = Heartbeat.made()
        try:
            process = self._opened(lifeline_fd, heartbeat_fd)
        finally:
            os.close(heartbeat_fd)
        try:
            self.pidfd = os.pidfd_open(process.pid)
        except OSError:  # No descriptor left: what cannot be watched must not run.
            process.kill()
            process.wait()
            raise
        self.process = process

    def _opened(self, lifeline_fd: int, heartbeat_fd: int) -> "subprocess.Popen[bytes]":
        # -P: a module of ours is never looked for in the current folder. Never -O: assertions end
        # a process that has gone wrong.
        arguments = list(self.spec.arguments)
        if self.is_careful:
            arguments += option_of(self._deadly.left_out(self.started_s))
        command = [sys.executable, "-P", "-m", self.spec.module, *arguments]
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [*command, "--heartbeat-fd", str(heartbeat_fd)],
            stdin=subprocess.DEVNULL,
            pass_fds=(lifeline_fd, heartbeat_fd),
            env=child_environment({**dict(self.spec.environment), **os.environ}),
            # A terminal's Ctrl-C goes to a whole process group; only we shall hear it.
            process_group=0,
        )

    @property
    def is_careful(self) -> bool:
        """The next process is to say what it has in hand: one has died before."""
        has_died = any(one.code != exit_codes.LEASE_LOST for one in self.exits)
        return self.spec.can_be_careful and has_died

    def add_death(self, code: int, now_s: float) -> None:
        """It ended otherwise than ordered, with whatever it had in hand."""
        in_hand = self.heartbeat.in_hand if self.spec.can_be_careful else 0
        is_of_an_object = self._deadly.add(in_hand, now_s)
        self.exits.append(Exit(code, now_s - self.started_s, is_of_an_object))

    def hangs(self, now_s: float) -> bool:
        """Whether it runs and has been silent for too long; to be asked each `LOOK_PERIOD_S`."""
        process = self.process
        if process is None:
            return False
        return self.silence.look(self.heartbeat.count, now_s, lambda: use_of(process.pid))

    def take_note(self) -> bool:
        """Whether it has said something new of its connections (`problems`)."""
        noted = self.heartbeat.read_note()
        if noted is None or noted[0] == self._note_serial:
            return False
        self._note_serial, note = noted
        self.problems = _decode_problems(note)
        return True

    def reap(self) -> tuple[int, int]:
        """Process id and exit code of the process, which has ended; the place is empty then."""
        assert self.process is not None, "only running children are watched"
        os.close(self.pidfd)
        pid, code = self.process.pid, self.process.wait()
        self.process, self.pidfd = None, -1
        return pid, code


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
