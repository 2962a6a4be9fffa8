"""Which processes a berth consists of, in a file of its runtime directory.

The supervisor writes the file at each change; `berth status` and the demo read it and ask the
kernel how the processes are. So there is no socket to serve and nothing to ask of a supervisor that
is busy or hangs. A process is identified by its id and start time together, because ids are used
again. Whether a supervisor is alive at all is told by its lock, which the kernel drops with it.
"""

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import psutil

from shared.errors import OperationalError
from shared.kube.connection_problems import Problem
from shared.transport.runtime_dir import SERVICE_RUNTIME_DIR, RuntimeDirLock

_LIST_NAME: Final = "processes.json"
_LOCK_NAME: Final = "supervisor.lock"


class AlreadyRunningError(OperationalError):
    """Another supervisor is alive on the same runtime directory."""


class NotRunningError(OperationalError):
    """No supervisor is alive on the runtime directory."""


class ProcessEntry(msgspec.Struct, frozen=True):
    """One process that the supervisor started, or the supervisor itself."""

    name: str
    pid: int
    """0: not running at this moment (its restart is due)."""
    create_time_s: float
    """As the kernel has it, in seconds since 1970; with the pid it identifies the process."""
    restart_count: int = 0
    last_exit: str = ""
    """How its predecessor ended."""
    problems: list[Problem] = []


class ProcessList(msgspec.Struct, frozen=True):
    """All processes of one berth, the supervisor first."""

    state: str
    """starting, running, reloading, draining or stopping."""
    processes: list[ProcessEntry]
    reload_count: int = 0
    reload_problems: list[str] = []


class ProcessUse(ProcessEntry, frozen=True, kw_only=True):
    """A process with what it has used so far."""

    is_alive: bool = False
    cpu_s: float = 0.0
    rss_bytes: int = 0
    rss_peak_bytes: int = 0
    running_s: float = 0.0
    cpu_percent: float = 0.0
    """Its share of one core since somebody looked before."""
    lag: int | None = None
    """Of a scorer: generations that its copy is behind, as the owner knows it."""


class SupervisorLock(RuntimeDirLock):
    """Held by the one live supervisor of a runtime directory."""

    def __init__(self, runtime_dir: Path) -> None:
        super().__init__(runtime_dir, _LOCK_NAME, AlreadyRunningError, "a berth is running there")


def entry_of(name: str, pid: int) -> ProcessEntry:
    """The entry of a process that runs now; with pid 0 if it has ended meanwhile."""
    try:
        create_time_s = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return ProcessEntry(name, 0, 0.0)
    return ProcessEntry(name, pid, create_time_s)


def write_list(runtime_dir: Path, listed: ProcessList) -> None:
    """Tells those who read the list."""
    replace_file(runtime_dir / _LIST_NAME, msgspec.json.encode(listed))


def replace_file(path: Path, content: bytes) -> None:
    """As a whole: readers see the old file or the new one, also when the disk is full (OSError)."""
    fresh = path.with_suffix(".new")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        fresh.replace(path)
    except OSError:
        # Half a file would take the room that the next attempt needs.
        fresh.unlink(missing_ok=True)
        raise


def read_list(runtime_dir: Path) -> ProcessList:
    """The processes of the berth that runs there; NotRunningError if none does."""
    problem = (
        f"no berth is running on {runtime_dir}; start one with berth run, or name --runtime-dir"
    )
    service = Path(SERVICE_RUNTIME_DIR)
    if os.geteuid() and runtime_dir != service and service.is_dir():
        problem = f"{problem}; for the service on {service} use sudo"
    try:
        with (runtime_dir / _LOCK_NAME).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pass  # Held: there is a live supervisor.
    except PermissionError as error:
        raise NotRunningError(f"{runtime_dir} belongs to another user; use sudo") from error
    except OSError as error:
        raise NotRunningError(problem) from error
    else:
        raise NotRunningError(problem)
    try:
        content = (runtime_dir / _LIST_NAME).read_bytes()
    except OSError as error:
        raise NotRunningError(f"the berth on {runtime_dir} has only just started") from error
    return msgspec.json.decode(content, type=ProcessList)


def measure(entry: ProcessEntry, now_s: float) -> ProcessUse:
    """What a process has used. `now_s` is wall time."""
    known = msgspec.structs.asdict(entry)
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process = psutil.Process(entry.pid)  # Nobody has the id 0.
        if process.create_time() == entry.create_time_s:
            times, rss_bytes = process.cpu_times(), process.memory_info().rss
            is_alive = process.status() != psutil.STATUS_ZOMBIE
            return ProcessUse(
                **known,
                is_alive=is_alive,
                cpu_s=times.user + times.system,
                rss_bytes=rss_bytes,
                rss_peak_bytes=max(rss_bytes, _peak_bytes(entry.pid)),
                running_s=max(0.0, now_s - entry.create_time_s) if is_alive else 0.0,
            )
    return ProcessUse(**known)


def _peak_bytes(pid: int) -> int:
    """VmHWM: the most memory that the process ever had. psutil does not offer it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+)", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
