"""Whether this installation is whole and its packages are ours.

Our import packages have common names (daemon, shared, ...). Another distribution with a package of
the same name, installed into the same environment, overwrites our files without a word; so we look.
"""

import importlib.util
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "berth-scheduler"
"""Not `berth`: that name on the package index is somebody else's."""
BENCH_DISTRIBUTION: Final = "berth-bench"
REQUIRED: Final = ("daemon", "workers", "shared")
OPTIONAL: Final = ("bench",)
"""Left out of production installations."""


def installation_problems() -> list[str]:
    """What is wrong, each with its remedy."""
    problems = []
    folders: dict[str, Path] = {}
    owners = packages_distributions()
    for name in (*REQUIRED, *OPTIONAL):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            if name in REQUIRED:
                problems.append(f"package {name} is missing; install berth again")
            continue
        folders[name] = Path(spec.origin).resolve().parents[1]
        # An editable installation lists no packages, so no owner at all is fine.
        others = sorted(set(owners.get(name, ())) - {DISTRIBUTION, BENCH_DISTRIBUTION})
        if others:
            problem = f"package {name} also belongs to {', '.join(others)}"
            problems.append(f"{problem}; give berth an environment of its own")
    if len(set(folders.values())) > 1:
        where = ", ".join(f"{name} in {folder}" for name, folder in folders.items())
        problems.append(f"packages of different origin ({where}); install berth again")
    return problems
