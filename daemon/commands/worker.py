"""`berth worker`: becomes one scoring worker for a berth on another host. `berth keys`: its keys.

The process is replaced: workers are started by module name, here as by the supervisor (but with options,
for there is no plan of theirs here), and signals of a service manager reach the worker itself.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from daemon.supervisor.launcher import child_environment
from shared.errors import ConfigurationError
from shared.transport.remote import RemoteOwner, write_keys


def become_worker(options: Mapping[str, str]) -> NoReturn:
    """ConfigurationError if address or keys cannot be used; otherwise does not return."""
    if not __debug__:
        problem = "assertions are switched off (-O or PYTHONOPTIMIZE); berth relies on them"
        raise ConfigurationError("Python", [problem])
    RemoteOwner(options["connect"], options["server_key"], options["key"])
    command = [sys.executable, "-P", "-m", "workers.scorer"]
    for name, value in options.items():
        if value:
            command += [f"--{name.replace('_', '-')}", value]
    os.execve(sys.executable, command, child_environment(os.environ))  # noqa: S606 # No shell, and our own interpreter.


def make_keys(folder: str, name: str) -> list[str]:
    """Lines to print; ConfigurationError if the files cannot be made or are there."""
    secret_path, public_path = write_keys(Path(folder), name)
    return [
        f"{secret_path}: secret, for one host alone (berth run --workers-key-file,"
        " or berth worker --key)",
        f"{public_path}: public; a worker's goes to the file of --workers-allowed-file (append it),"
        " berth's own to the workers (berth worker --server-key)",
    ]
