"""What a file is called says where it is: no two of our modules have the same stem, and the tests of a
module lie where it does."""

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


def test_tests_of_a_module_lie_where_it_does() -> None:
    """`shared/framework/normalize.py` and `tests/unit/shared/framework/test_normalize.py`."""
    folder_of = {
        path.stem: path.parent.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    units = ROOT / "tests" / "unit"
    found = [(path.stem.removeprefix("test_"), path) for path in units.rglob("test_*.py")]
    of_modules = [(stem, path) for stem, path in found if stem in folder_of]
    assert len(of_modules) > 100
    elsewhere = [
        str(path.relative_to(ROOT))
        for stem, path in of_modules
        if path.parent.relative_to(units) != folder_of[stem]
    ]
    assert elsewhere == []
