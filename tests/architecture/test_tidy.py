"""House rules that no other tool checks. Each failure names the place and what to write instead."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("daemon", "workers", "shared", "bench")
SKIPPED_FOLDERS = ("__pycache__", "out", "dist", "build")
BUILT_SUFFIXES = {".whl", ".egg", ".so", ".a", ".o", ".exe", ".jar", ".zip", ".tar", ".tgz", ".deb"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".sh", ".cfg", ".lock", ""}
FUNCTION_LINES_MAX = 70
LINE_BYTES_MAX = 1 << 20


class Banned(NamedTuple):
    """A word that must not stand in the code, and what stands there instead."""

    pattern: str
    instead: str
    allowed_in: tuple[str, ...] = ()


BANNED_IN_CODE = (
    Banned(r"\btime\.sleep\(", "wait for the event itself, with a timeout"),
    Banned(r"\bdatetime\.(?:now|utcnow|today)\(", "take the time from shared/clock.py"),
    Banned(
        r"^\s*except\s*:", "name the exceptions; a bare except also catches the end of the process"
    ),
    Banned(r"\bpickle\b", "msgspec: frames are never unpickled", ("tests/", "pyproject.toml")),
    Banned(r"\bos\.system\(|shell=True", "a list of arguments, without a shell"),
    Banned(r"\bdeadline=|\bderandomize=", "tests/conftest.py says it", ("tests/conftest.py",)),
    Banned(r"\bmark\.timeout\(", "the limit in pyproject.toml, which only a hang reaches"),
)
BANNED_EVERYWHERE = (
    Banned(r"\bFIXME\b|\bXXX\b", "mend it before it is merged, or say when it will be needed"),
    # The repository stands alone: no path leads out of it, or to the machine that it was written on.
    Banned(
        r"(?<![\w/.])\.\./\w",
        "a path from the repository's root",
        (".ci/", "docs/manifests-workers/", "docs/manifests-monitoring/"),
    ),
    Banned(r"(?<![\w.])/(?:work|home/\w+|opt/wheels|opt/pypi)\b", "nothing of one machine"),
    Banned(
        r"\b(?:pypi|pythonhosted|npmjs|docker)\.(?:org|com|io)\b", "the index that pip is set to"
    ),
)
THIS_FILE = "tests/architecture/test_tidy.py"


def files(suffixes: set[str] = TEXT_SUFFIXES) -> Iterator[Path]:
    """Every file of the repository with such a name; every text file unless told otherwise."""
    stack = [ROOT]
    while stack:
        for path in sorted(stack.pop().iterdir()):
            if path.is_dir():
                if path.name == ".ci" or not path.name.startswith((".", *SKIPPED_FOLDERS)):
                    stack.append(path)
            elif path.suffix in suffixes and not path.name.startswith((".coverage", ".git")):
                yield path  # `.git` is a file in a further work tree.


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def trees(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in python_files(*folders):
        yield path, ast.parse(path.read_text(encoding="utf-8"), str(path))


def found(banned: Banned, paths: list[Path]) -> list[str]:
    pattern = re.compile(banned.pattern, re.MULTILINE)
    places = []
    for path in paths:
        name = name_of(path)
        if name == THIS_FILE or name.startswith(banned.allowed_in):
            continue
        content = path.read_bytes()
        if b"\0" in content or len(content) > 20 * LINE_BYTES_MAX:
            continue
        # Recorded bytes in tests/wire need not be text.
        text = content.decode("utf-8", "replace")
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            places.append(
                f"{name}:{line}: {match.group().strip()!r}; write instead: {banned.instead}"
            )
    return places


@pytest.mark.parametrize("banned", BANNED_IN_CODE, ids=lambda banned: banned.pattern)
def test_code_is_free_of(banned: Banned) -> None:
    assert found(banned, python_files(*PACKAGES, "tests")) == []


@pytest.mark.parametrize("banned", BANNED_EVERYWHERE, ids=lambda banned: banned.pattern)
def test_the_repository_is_free_of(banned: Banned) -> None:
    assert found(banned, list(files())) == []


def test_nothing_that_was_built_is_part_of_it() -> None:
    """Packages that pip fetched, and the like: they have an index of their own."""
    assert [name_of(path) for path in files(BUILT_SUFFIXES)] == []


def test_the_rules_find_what_they_are_there_for(tmp_path: Path) -> None:
    sample = "time.sleep(1)\ntry:\n    x()\nexcept:\n    y = datetime.now()\n"
    for banned in BANNED_IN_CODE[:3]:
        assert re.search(banned.pattern, sample, re.MULTILINE)
    samples = {
        0: "# FIX" + "ME",
        1: "open('.." + "/x')",
        2: "/wo" + "rk/main",
        3: "https://py" + "pi.org/simple",
    }
    for index, text in samples.items():
        assert re.search(BANNED_EVERYWHERE[index].pattern, text)


def test_no_function_is_longer_than_the_limit() -> None:
    long = []
    for path, tree in trees(*PACKAGES, "tests"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = length_of(node)
                if count > FUNCTION_LINES_MAX:
                    long.append(f"{name_of(path)}:{node.lineno} {node.name}: {count} lines")
    assert long == [], f"split them: at most {FUNCTION_LINES_MAX} lines without the docstring"


def length_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    assert node.end_lineno is not None
    count = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None and first.end_lineno is not None:
        count -= first.end_lineno - first.lineno + 1
    return count


def test_every_module_says_what_it_is() -> None:
    without = [
        name_of(path)
        for path, tree in trees(*PACKAGES, "tests")
        if not ast.get_docstring(tree) and not (path.name == "__init__.py" and not tree.body)
    ]
    assert without == []


def test_package_files_hold_a_docstring_and_nothing_else() -> None:
    fuller = [
        name_of(path)
        for path, tree in trees(*PACKAGES, "tests")
        if path.name == "__init__.py" and len(tree.body) > 1
    ]
    assert fuller == []


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils", "util", "helpers", "helper", "misc", "common"}
    wrong = [name_of(path) for path in python_files(*PACKAGES) if path.stem in drawers]
    assert wrong == [], "a function lives with what it is about"


def test_a_class_has_a_name_of_its_own() -> None:
    by_name: dict[str, list[str]] = {}
    for path, tree in trees("daemon", "workers", "shared"):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                by_name.setdefault(node.name, []).append(name_of(path))
    twice = {name: where for name, where in by_name.items() if len(where) > 1}
    assert set(twice) <= NAMED_TWICE, twice


NAMED_TWICE: Final = {"NodeAffinity", "DefaultBinder"}
"""A plugin and what a pod says to it, a plugin and who carries it out."""


def test_exceptions_to_the_checkers_say_why() -> None:
    silent = []
    for path in python_files(*PACKAGES, "tests"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = re.search(
                r"#\s*(?:noqa(?::\s*[A-Z0-9, ]+)?|type:\s*ignore(?:\[[^\]]*\])?)(.*)", line
            )
            if match and name_of(path) != THIS_FILE and not re.search(r"\w", match.group(1)):
                silent.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert silent == [], "add the reason behind it"


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    for wanted in project["dependencies"]:
        before = text[: text.index(f'"{wanted}"')].rstrip().splitlines()[-1]
        assert before.strip().startswith("#"), f"{wanted}: write a comment above it"
