"""Which lines of the deciding code no seed has reached.

Lines of modules and classes themselves run at import and do not count.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Final, NamedTuple

import coverage

from bench.sim.sim_run import Outcome, play_seed

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = (
    "daemon/core",
    "workers",
    "shared/engine",
    "shared/framework",
    "shared/plugins/preemption",
)

Lines = dict[str, set[int]]
"""File, as from the root of the project -> numbers of lines."""


class Function(NamedTuple):
    """A function's own lines, those of functions within it left out."""

    file: str
    name: str
    lines: frozenset[int]


def functions() -> list[Function]:
    """Of every file of the folders that are looked at; without what only protocols say."""
    found: list[Function] = []
    for path in _files():
        text = path.read_text()
        stubs = _stubs(ast.parse(text))
        found += [
            each._replace(lines=each.lines - stubs)
            for each in _functions_of(compile(text, str(path), "exec"), _name_of(path))
            if each.lines - stubs
        ]
    return found


def texts(function: Function) -> dict[int, str]:
    """Its lines by number."""
    lines = _lines_in(ROOT / function.file)
    return {number: lines[number - 1].strip() for number in sorted(function.lines)}


@cache
def _lines_in(path: Path) -> list[str]:
    return path.read_text().splitlines()


def lines_of_errors() -> Lines:
    """Lines that raise, that log, or that do something about an exception."""
    found: Lines = {}
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise | ast.ExceptHandler) or _is_log_call(node):
                found.setdefault(_name_of(path), set()).update(_span(node))
    return found


def _files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def _name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _span(node: ast.AST) -> range:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    return range(first, last + 1)


def _stubs(module: ast.Module) -> set[int]:
    """Lines of functions that are declared and do nothing, and of cases that there are not."""
    found: set[int] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            does = [each for each in node.body if not _says_nothing(each)]
            if not does:
                found.update(_span(node))
        elif isinstance(node, ast.match_case) and _is_call_of(node.body[0], "assert_never"):
            found.update(_span(node.pattern), _span(node.body[0]))
    return found


def _is_call_of(statement: ast.stmt, name: str) -> bool:
    called = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(called, ast.Call) and getattr(called.func, "id", "") == name


def _says_nothing(statement: ast.stmt) -> bool:
    """A docstring, or three dots."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_log_call(node: ast.AST) -> bool:
    called = (
        node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    )
    if not isinstance(called, ast.Attribute):
        return False
    return ast.unparse(called.value) in ("log", "self._log")


def _functions_of(code: CodeType, file: str) -> Iterator[Function]:
    """Comprehensions and lambdas are lines of who has them."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & 2 and not inner.co_name.startswith("<"):  # CO_NEWLOCALS: no class.
                yield Function(file, inner.co_qualname, _lines_of(inner))
            yield from _functions_of(inner, file)


def _lines_of(code: CodeType) -> frozenset[int]:
    lines = {line for _, _, line in code.co_lines() if line is not None}
    return frozenset(lines - {code.co_firstlineno}) or frozenset(lines)


_coverage: Final = coverage.Coverage(
    data_file=None,
    config_file=False,
    include=[f"{ROOT / folder}/*" for folder in FOLDERS],
    messages=False,
)
"""Of this process, for all seeds that it plays."""
if sys.version_info >= (3, 12):
    # What is reached already costs no more there.
    _coverage.set_option("run:core", "sysmon")


_told: Final[Lines] = {}
"""What this process has told of."""


def play_traced(seed: int) -> tuple[Outcome, Lines]:
    """A seed, and the lines that no seed before it in this process had reached."""
    _begin()
    outcome = play_seed(seed)
    reached = _coverage.get_data()
    fresh: Lines = {}
    for file in reached.measured_files():
        name = _name_of(Path(file))
        told = _told.setdefault(name, set())
        fresh[name] = set(reached.lines(file) or ()) - told
        told |= fresh[name]
    return outcome, fresh


@cache
def _begin() -> None:
    """Once, as whatever begins anew meets each line anew."""
    _coverage.start()


def merge(reached: Lines, more: Lines) -> None:
    """Adds lines to others."""
    for file, lines in more.items():
        reached.setdefault(file, set()).update(lines)


def unreached(reached: Lines) -> list[Function]:
    """Functions with the lines of theirs that nobody reached; those without any are left out."""
    found = []
    for function in functions():
        left = function.lines - reached.get(function.file, set())
        if left:
            found.append(function._replace(lines=frozenset(left)))
    return found


def ranges(lines: frozenset[int]) -> str:
    """Numbers in short: 3-5, 9."""
    told: list[list[int]] = []
    for line in sorted(lines):
        if told and line == told[-1][1] + 1:
            told[-1][1] = line
        else:
            told.append([line, line])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in told)
