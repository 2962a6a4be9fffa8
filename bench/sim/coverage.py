"""Which lines of the deciding code no seed has reached.

A tracer of our own: a function of which every line has been seen is not traced any more, so after some
dozens of seeds it costs little. Lines of modules and classes themselves run at import and do not count.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

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
    """Of every file of the folders that are looked at."""
    found: list[Function] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            code = compile(path.read_text(), str(path), "exec")
            found += _functions_of(code, str(path.relative_to(ROOT)))
    return found


def _functions_of(code: CodeType, file: str) -> Iterator[Function]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & 2:  # CO_NEWLOCALS: not the body of a class.
                yield Function(file, inner.co_qualname, _lines_of(inner))
            yield from _functions_of(inner, file)


def _lines_of(code: CodeType) -> frozenset[int]:
    lines = {line for _, _, line in code.co_lines() if line is not None}
    return frozenset(lines - {code.co_firstlineno}) or frozenset(lines)


class LineTracer:
    """Notes lines while it is on."""

    def __init__(self) -> None:
        self.reached: Lines = {}
        self._left: dict[CodeType, set[int]] = {}
        """Of functions that are looked at: lines that nobody has reached."""
        self._is_done: set[CodeType] = set()
        self._prefixes = tuple(f"{ROOT / folder}/" for folder in FOLDERS)

    def start(self) -> None:
        """From now on."""
        sys.settrace(self._on_call)

    def stop(self) -> None:
        """What was noted stays."""
        sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, _: Any) -> Any:
        del event
        code = frame.f_code
        if code in self._is_done:
            return None
        if code not in self._left:
            if not code.co_filename.startswith(self._prefixes):
                self._is_done.add(code)
                return None
            self._left[code] = set(_lines_of(code))
        self._note(code, frame.f_lineno)
        return self._on_line

    def _on_line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._note(frame.f_code, frame.f_lineno)
        return self._on_line

    def _note(self, code: CodeType, line: int) -> None:
        file = code.co_filename[len(str(ROOT)) + 1 :]
        self.reached.setdefault(file, set()).add(line)
        left = self._left[code]
        left.discard(line)
        if not left:
            self._is_done.add(code)


_tracer: Final = LineTracer()
"""Of this process, for all seeds that it plays: what is reached already costs no more."""


def play_traced(seed: int) -> tuple[Outcome, Lines]:
    """A seed, and the lines that no seed of this process had reached before."""
    _tracer.reached = {}
    _tracer.start()
    try:
        outcome = play_seed(seed)
    finally:
        _tracer.stop()
    return outcome, _tracer.reached


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
