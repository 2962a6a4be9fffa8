"""The runtime directory: private, and with one owner.

Its mode is 0700: whoever can open the sockets there can give orders. An existing socket file is removed
before another is bound, even that of a live owner, so the owner takes a lock first; the kernel drops the
lock when its process dies, however it dies, and the socket files that a dead owner left are replaced.
"""

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import Final

from shared.errors import ConfigurationError, OperationalError
from shared.transport.channels import Channel, Closing

_PRIVATE_MODE: Final = 0o700
_PATH_BYTES_MAX: Final = 107
"""sockaddr_un.sun_path on Linux, without the closing zero."""

SERVICE_RUNTIME_DIR: Final = "/run/berth"
"""Of root, and of the systemd unit."""


def default_runtime_dir() -> str:
    """/run/berth for root; else below the user's own runtime folder, or in the temporary folder."""
    if os.geteuid() == 0:
        return SERVICE_RUNTIME_DIR
    own = os.environ.get("XDG_RUNTIME_DIR")
    return f"{own}/berth" if own else f"/tmp/berth-{os.geteuid()}"  # noqa: S108 - made private, owner checked


class AddressInUseError(OperationalError):
    """Another owner is alive on the same runtime directory or port."""


class RuntimeDirLock(Closing):
    """A role on a runtime directory that only one live process can have."""

    def __init__(
        self, runtime_dir: Path, name: str, held: type[OperationalError], holder: str
    ) -> None:
        """`held` is raised if another process has the role; `holder` is what that says of it."""
        prepare_runtime_dir(runtime_dir)
        path = runtime_dir / name
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            problem = f"cannot be opened: {error.strerror}; make room there, or choose another"
            raise ConfigurationError(str(path), [f"{problem} --runtime-dir"]) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            told = f"{holder} (pid {pid}); stop it, or choose another --runtime-dir"
            raise held(f"{runtime_dir}: {told}") from error
        # The number is for the message only: on a full disk it is left out, and the lock holds.
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Lets the next one in. The file stays: removing it would race with who opens it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class OwnerLock(RuntimeDirLock):
    """Held by the one live owner of a runtime directory."""

    def __init__(self, runtime_dir: Path) -> None:
        super().__init__(runtime_dir, "owner.lock", AddressInUseError, "an owner is alive there")


def prepare_runtime_dir(runtime_dir: Path) -> None:
    """Makes the directory, private; refuses one that others can enter, that is not ours, or in which no
    socket can be."""
    longest = max(len(os.fsencode(channel.path(runtime_dir))) for channel in Channel)
    over = longest - _PATH_BYTES_MAX
    if over > 0:
        problem = f"socket paths would be {over} byte(s) too long; choose a shorter --runtime-dir"
        raise ConfigurationError(str(runtime_dir), [problem])
    try:
        runtime_dir.mkdir(mode=_PRIVATE_MODE, parents=True, exist_ok=True)
        status = runtime_dir.stat()
    except OSError as error:
        problem = f"cannot be made: {error.strerror}; choose another --runtime-dir"
        raise ConfigurationError(str(runtime_dir), [problem]) from error
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        problem = f"belongs to uid {status.st_uid}, not to uid {os.geteuid()}, which runs berth"
        raise ConfigurationError(str(runtime_dir), [problem])
    if mode & 0o077:
        # Not that it be closed to others: it may well be theirs, too.
        problem = (
            f"mode is {mode:04o}, others could give orders; choose a folder of its own,"
            f" such as --runtime-dir {runtime_dir / 'berth'}"
        )
        raise ConfigurationError(str(runtime_dir), [problem])
