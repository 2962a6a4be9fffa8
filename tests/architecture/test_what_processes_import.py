"""A process imports what it needs: a binder is small, the owner knows nothing of the scorers' search."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.waiting import HANG_S

ROOT: Final = Path(__file__).parents[2]
BINDER_LINES_MAX: Final = 7_680
"""Of ours, in a pod. A third are its own; a client of the API server, messages and transport are most
of the rest. Readers of kubeconfig files and proxies, plugins of other packages, what speaks to extenders
and what reads the node selectors of volumes and what waits for devices come where there are any."""
ASK: Final = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}))
"""


def imported(*names: str) -> dict[str, str | None]:
    """Every module that is there once these are imported -> its file."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


def test_a_binder_imports_little_and_no_numpy() -> None:
    modules = imported("workers.binder.__main__")
    ours = [path for name, path in modules.items() if path and name.partition(".")[0] in OURS]
    line_count = sum(len(Path(path).read_text("utf-8").splitlines()) for path in ours)
    assert line_count <= BINDER_LINES_MAX
    assert "numpy" not in modules
    assert not [name for name in modules if name.startswith(("shared.columns", "shared.plugins"))]


def test_the_owner_imports_nothing_of_the_scorers_search() -> None:
    modules = imported("daemon.owner.__main__")
    assert not [name for name in modules if name.startswith("workers")]


OURS: Final = ("daemon", "workers", "shared", "bench")
