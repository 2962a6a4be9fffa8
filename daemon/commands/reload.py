"""`berth reload`: has a running berth read its configuration anew, and says what became of it.

The supervisor checks the file, as only it knows all options that berth was started with; this command
sends the signal, waits, and fails where the supervisor refuses. For `systemctl reload`.
"""

import os
import signal
import threading
from pathlib import Path
from typing import Final

import psutil

from daemon.supervisor.process_list import NotRunningError, ProcessList, read_list
from daemon.supervisor.supervise import State
from shared.clock import SystemClock
from shared.errors import ConfigurationError, OperationalError

LOOK_S: Final = 0.05
TIMEOUT_S: Final = 120.0
"""The signal's second, the drain of 20 s, and the list of a large cluster."""


def reload(runtime_dir: str) -> list[str]:
    """Lines to print; ConfigurationError if the configuration was refused."""
    folder = Path(runtime_dir)
    before = read_list(folder)
    _signal_supervisor(before, folder)
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + TIMEOUT_S
    while clock.monotonic_s() < deadline_s:
        threading.Event().wait(LOOK_S)
        listed = read_list(folder)
        if listed.reload_count == before.reload_count:
            continue
        if listed.reload_problems:
            raise ConfigurationError("the new configuration", listed.reload_problems)
        if listed.state == State.RUNNING:
            return ["reloaded"]
        if listed.state != State.RELOADING:
            raise OperationalError(f"berth is {listed.state}; see its log")
    raise OperationalError(f"berth is not ready after {TIMEOUT_S:g} s; see berth status")


def _signal_supervisor(listed: ProcessList, folder: Path) -> None:
    """Through a pidfd, and only to the very process of the list: ids are used again."""
    entry = listed.processes[0]
    gone = NotRunningError(f"the berth on {folder} has just ended")
    try:
        pidfd = os.pidfd_open(entry.pid)
    except ProcessLookupError:
        raise gone from None
    try:
        if psutil.Process(entry.pid).create_time() != entry.create_time_s:
            raise gone
        signal.pidfd_send_signal(pidfd, signal.SIGHUP)
    except (psutil.NoSuchProcess, ProcessLookupError):
        raise gone from None
    except PermissionError as error:
        raise OperationalError(f"{folder}: berth runs there as another user: {error}") from error
    finally:
        os.close(pidfd)
