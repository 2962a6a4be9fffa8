"""`berth test`: all tests of a clone, by pytest."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shared import exit_codes
from shared.errors import ConfigurationError

PARALLEL: Final = ("--numprocesses", "4", "--dist", "loadfile")
"""Four workers on two cores, as tests with real processes mostly wait for these: 579 s in place of 838.
Above four, memory counts and the longest file decides. Each file's tests stay together, for many share
what takes seconds to start."""


def main(arguments: Sequence[str]) -> int:
    """Runs pytest on the clone that this module stands in; `arguments` go to pytest, and may name
    another number of workers (`-n 0` for none)."""
    root = Path(__file__).parents[2]
    if not (root / "tests").is_dir() or importlib.util.find_spec("pytest") is None:
        problem = "has no tests to run; use a clone and its ./berth test"
        raise ConfigurationError("this installation", [problem])
    # A process of its own: pytest must be the first to import what it rewrites and measures.
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "pytest", *PARALLEL, *arguments], cwd=root, check=False
    )
    return exit_codes.OK if ended.returncode == 0 else exit_codes.FAILED
