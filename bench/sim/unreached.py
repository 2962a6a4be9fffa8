"""The table of what no seed has reached, and why."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from typing import Final

from bench.sim.coverage import FOLDERS, Function, Lines, functions, ranges, unreached

_MAIN: Final = "the simulation puts processes together itself"
_ASKED: Final = "people ask for it: berth status, dump, compare, metrics"
REASONS: Final[Sequence[tuple[str, str, str]]] = (
    ("workers/*/__main__.py", "*", _MAIN),
    ("daemon/core/dump.py", "*", _ASKED),
    ("daemon/core/administration.py", "*", _ASKED),
    ("daemon/core/pod_resources_page.py", "*", _ASKED),
    ("shared/framework/plugin_times.py", "*", _ASKED),
    ("shared/framework/plugin_api.py", "*", "a protocol's own bodies never run"),
    ("shared/framework/binding_api.py", "*", "a protocol's own bodies never run"),
    ("shared/framework/node_sample.py", "*", "all nodes are scored"),
    ("shared/engine/best_rows.py", "*", "for more nodes than the simulation has"),
    ("shared/engine/kept_rows.py", "*", "for more nodes than the simulation has"),
)
"""(file, function, why), patterns as of shells; the first that fits is told."""
UNKNOWN: Final = "**nobody knows yet**"


def table(reached: Lines, seeds: str) -> str:
    """As Markdown, by reason; a line for each function."""
    found = unreached(reached)
    line_count = sum(len(each.lines) for each in functions())
    left_count = sum(len(each.lines) for each in found)
    by_reason: dict[str, list[Function]] = {}
    for function in found:
        by_reason.setdefault(_why(function), []).append(function)
    folders = ", ".join(f"`{folder}`" for folder in FOLDERS)
    told = [
        "# Lines that no seed reaches",
        "",
        f"Made by `berth sim --coverage --seeds {seeds}`: of {line_count} lines in functions of"
        f" {folders}, {left_count} were not reached.",
    ]
    for why, functions_left in sorted(by_reason.items(), key=lambda item: item[0] != UNKNOWN):
        count = sum(len(each.lines) for each in functions_left)
        told += ["", f"## {why[0].upper()}{why[1:]} ({count} lines)", "", *_rows(functions_left)]
    return "\n".join(told) + "\n"


def _rows(found: Iterable[Function]) -> list[str]:
    rows = ["| file | function | lines |", "| --- | --- | --- |"]
    rows += [f"| `{f.file}` | `{f.name}` | {ranges(f.lines)} |" for f in found]
    return rows


def _why(function: Function) -> str:
    for file, name, why in REASONS:
        if fnmatch(function.file, file) and fnmatch(function.name, name):
            return why
    return UNKNOWN
