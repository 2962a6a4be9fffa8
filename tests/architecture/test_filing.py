"""What a file is called says where it is: no two of our modules have the same stem."""

from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("daemon", "workers", "shared", "bench")
OF_EACH_PACKAGE: Final = ("__init__", "__main__")


def test_two_modules_never_have_the_same_stem() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            found[path.stem].append(str(path.relative_to(ROOT)))
    assert len(found) > 500
    twice = [
        paths for stem, paths in found.items() if len(paths) > 1 and stem not in OF_EACH_PACKAGE
    ]
    assert twice == []
