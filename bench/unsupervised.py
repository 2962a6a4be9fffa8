"""Processes of berth without its supervisor, started one by one with a plan as it would write.

For whoever plays some of the processes itself. They end with us, however we end: each holds the
reading end of a lifeline. Their logs are files, of which a failure quotes the end.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from shared.child_plan import ChildPlan

STOP_TIMEOUT_S: Final = 10.0
LOG_TAIL_LINES: Final = 10


class UnsupervisedProcesses:
    """Named processes that share a plan, and with it a runtime directory."""

    def __init__(
        self,
        logs: Path,
        plan: ChildPlan,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment`: None for our own."""
        self._logs = logs
        self._plan = plan.path
        self._plan.write_bytes(plan.encoded())
        self._environment = environment
        self._lifeline: tuple[int, ...] = os.pipe()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, module: str, *, speaks: bool = False) -> None:
        """`speaks`: its standard output is read (`output`); else it goes to the log."""
        lifeline_fd = self._lifeline[0]
        command = [sys.executable, "-P", "-m", module]
        with self._log_path(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*command, f"{self._plan}", "--lifeline-fd", f"{lifeline_fd}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if speaks else log,
                stderr=log,
                env=self._environment,
                pass_fds=[lifeline_fd],
            )

    def output(self, name: str) -> IO[bytes]:
        stream = self._processes[name].stdout
        assert stream is not None, f"{name} was not started to speak"
        return stream

    def kill(self, name: str) -> None:
        """SIGKILL; returns when it is gone."""
        self._processes[name].kill()
        self._processes[name].wait()

    def exit_codes(self) -> dict[str, int]:
        """Of the processes that have ended."""
        polled = {name: process.poll() for name, process in self._processes.items()}
        return {name: code for name, code in polled.items() if code is not None}

    def log_tail(self, name: str) -> str:
        """The last lines of its log, for an error message."""
        text = self._log_path(name).read_text(encoding="utf-8", errors="replace")
        return "the end of its log: " + " | ".join(text.splitlines()[-LOG_TAIL_LINES:])

    def close(self) -> None:
        """SIGTERM to all, and SIGKILL to whom that does not end. Twice is harmless."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._processes.clear()
        for fd in self._lifeline:
            os.close(fd)
        self._lifeline = ()

    def _log_path(self, name: str) -> Path:
        return self._logs / f"{name}.log"
