"""What a file is called says where it is: no two of our modules have the same stem, the tests of a
module lie where it does, and files that somebody is sent to are there."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("daemon", "workers", "shared", "bench")
OF_EACH_PACKAGE: Final = ("__init__", "__main__")
NAMED: Final = re.compile(r"(?<![\w./*-])(\w[\w/]*\.py)\b(?:` \((`\w+`(?:, `\w+`)*)\))?")
"""A file, whole or its end, and what is to be looked at there."""


def test_two_modules_never_have_the_same_stem() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            found[path.stem].append(str(path.relative_to(ROOT)))
    assert len(found) > 400
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


def misnamed(text: str, files: dict[str, Path]) -> Iterator[str]:
    for file, parts in NAMED.findall(text):
        found = [path for name, path in files.items() if f"/{name}".endswith(f"/{file}")]
        if not found:
            yield file
        for part in re.findall(r"\w+", parts):
            if not any(re.search(rf"\b{part}\b", path.read_text()) for path in found):
                yield f"{part} in {file}"


def test_files_that_are_named_somewhere_are_there() -> None:
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    others = [path for folder in ("tests", "docs") for path in (ROOT / folder).rglob("*.py")]
    files = {path.relative_to(ROOT).as_posix(): path for path in (*sources, *others)}
    guides = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    guides.remove(ROOT / "CHANGELOG.md")  # It tells of old ones.
    wrong = {
        path.relative_to(ROOT).as_posix(): found
        for path in (*sources, *guides)
        if (found := list(misnamed(path.read_text(), files)))
    }
    assert wrong == {}


def test_a_file_or_a_part_of_it_that_is_not_there_is_found(tmp_path: Path) -> None:
    file = tmp_path / "cycle.py"
    file.write_text("class Cycle: ...")
    text = "`cycle.py` (`Cycle`, `Cyclist`), `scorer/cycle.py` (as ever), `binder/cycle.py`, *.py"
    wrong = list(misnamed(text, {"workers/scorer/cycle.py": file}))
    assert wrong == ["Cyclist in cycle.py", "binder/cycle.py"]
