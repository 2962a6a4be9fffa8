"""`berth worker`: becomes one scoring worker for a berth on another host. `berth keys`: its keys."""

import importlib
from collections.abc import Callable
from pathlib import Path

from shared.errors import ConfigurationError
from shared.runtime_options import RuntimeOptions
from shared.transport.remote import RemoteOwner, write_keys


def become_worker(options: RuntimeOptions, connect: str, server_key: str, key: str) -> int:
    """The exit code, when told to stop; ConfigurationError if address or keys cannot be used."""
    if not __debug__:
        problem = "assertions are switched off (-O or PYTHONOPTIMIZE); berth relies on them"
        raise ConfigurationError("Python", [problem])
    way = RemoteOwner(connect, server_key, key)
    # By name, as the supervisor knows workers.
    module = importlib.import_module("workers.scorer.__main__")
    run: Callable[[RuntimeOptions, RemoteOwner], int] = module.run_remotely
    return run(options, way)


def make_keys(folder: str, name: str) -> list[str]:
    """Lines to print; ConfigurationError if the files cannot be made or are there."""
    secret_path, public_path = write_keys(Path(folder), name)
    return [
        f"{secret_path}: secret, for one host alone (berth run --workers-key-file,"
        " or berth worker --key)",
        f"{public_path}: public; a worker's goes to the file of --workers-allowed-file (append it),"
        " berth's own to the workers (berth worker --server-key)",
    ]
