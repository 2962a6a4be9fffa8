"""What a result was measured on: hardware, interpreter, commit."""

import platform
import subprocess
from pathlib import Path

import msgspec
import numpy as np
import psutil

ROOT = Path(__file__).parents[2]


class Machine(msgspec.Struct, frozen=True):
    cpu: str
    cores: int
    """That this process may use."""
    memory_gib: float
    kernel: str
    python: str
    numpy: str


def this_machine() -> Machine:
    """The machine that this runs on."""
    return Machine(
        cpu=_cpu_model(),
        cores=len(psutil.Process().cpu_affinity()),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        kernel=platform.release(),
        python=platform.python_version(),
        numpy=np.__version__,
    )


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def commit() -> str:
    """The commit of the source tree, with "-dirty" behind it if it was changed; or "unknown"."""
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*") or "unknown"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", *arguments],  # noqa: S607 - whichever git the user has
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
