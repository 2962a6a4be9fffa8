"""RE2's regular expressions for CEL, matched in linear time.

Python's `re` backtracks: a pattern like `(a+)+$` in somebody's claim would stop the scheduler for
minutes. A pattern is compiled to a small program that runs over the text once, with all of its
states at a time, so the time is bounded by pattern size times text size. Which match is found
(leftmost, earlier alternatives first, lazy quantifiers) is as in RE2.
"""

import functools
from typing import Final, NamedTuple

from shared.dra.cel_regex_syntax import (
    Accepts,
    Alt,
    Char,
    Look,
    Repeat,
    Seq,
    Tree,
    is_word,
    parse_regex,
)
from shared.dra.cel_values import CelError

PROGRAM_MAX: Final = 10_000
"""Instructions of one pattern."""
PATTERNS_MAX: Final = 1024


class _Step(NamedTuple):
    """One instruction: take a character, fork, jump, or look around."""

    kind: str
    first: int = 0
    second: int = 0
    accepts: Accepts | None = None


class Regex:
    """A compiled pattern."""

    def __init__(self, steps: list[_Step]) -> None:
        self._steps = steps

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Begin and end of the leftmost match at or after `start`."""
        found: tuple[int, int] | None = None
        threads: list[tuple[int, int]] = []
        for at in range(start, len(text) + 1):
            if found is None:
                threads.append((0, at))
            if not threads:
                break
            going: list[tuple[int, int]] = []
            for step, begin in self._closure(threads, text, at):
                if step.kind == "match":
                    found = (begin, at)
                    break  # Whatever comes after has a lower priority.
                assert step.accepts is not None, "only characters and matches are left"
                if at < len(text) and step.accepts(text[at]):
                    going.append((step.first, begin))
            threads = going
        return found

    def _closure(
        self, threads: list[tuple[int, int]], text: str, at: int
    ) -> list[tuple[_Step, int]]:
        """What the threads come to without taking a character, in order of priority."""
        reached: list[tuple[_Step, int]] = []
        seen: set[int] = set()
        for first, begin in threads:
            stack = [first]
            while stack:
                index = stack.pop()
                if index in seen:
                    continue
                seen.add(index)
                step = self._steps[index]
                match step.kind:
                    case "fork":
                        stack += (step.second, step.first)
                    case "jump":
                        stack.append(step.first)
                    case "char" | "match":
                        reached.append((step, begin))
                    case _:
                        if _holds(step.kind, text, at):
                            stack.append(step.first)
        return reached


def _holds(kind: str, text: str, at: int) -> bool:
    match kind:
        case "begin":
            return at == 0
        case "end":
            return at == len(text)
        case "line begin":
            return at == 0 or text[at - 1] == "\n"
        case "line end":
            return at == len(text) or text[at] == "\n"
        case _:
            before = at > 0 and is_word(text[at - 1])
            after = at < len(text) and is_word(text[at])
            return (before != after) == (kind == "word border")


@functools.lru_cache(maxsize=PATTERNS_MAX)
def compile_regex(pattern: str) -> Regex:
    """The pattern, compiled; CelError for one that RE2 (or this subset of it) does not take."""
    steps: list[_Step] = []
    _emit(parse_regex(pattern), steps)
    steps.append(_Step("match"))
    return Regex(steps)


# Emitting -------------------------------------------------------------------------------------------


def _emit(tree: Tree, steps: list[_Step]) -> None:
    """Appends the program of a tree; it goes on at the step after its last one."""
    if len(steps) > PROGRAM_MAX:
        raise CelError("error parsing regexp: expression too large")
    match tree:
        case Char():
            steps.append(_Step("char", len(steps) + 1, accepts=tree.accepts))
        case Look():
            steps.append(_Step(tree.kind, len(steps) + 1))
        case Seq():
            for part in tree.parts:
                _emit(part, steps)
        case Alt():
            _emit_alternatives(tree.options, steps)
        case Repeat():
            _emit_repeat(tree, steps)


def _emit_alternatives(options: tuple[Tree, ...], steps: list[_Step]) -> None:
    ends: list[int] = []
    for option in options[:-1]:
        fork = len(steps)
        steps.append(_Step("fork"))
        _emit(option, steps)
        ends.append(len(steps))
        steps.append(_Step("jump"))
        steps[fork] = _Step("fork", fork + 1, len(steps))
    _emit(options[-1], steps)
    for end in ends:
        steps[end] = _Step("jump", len(steps))


def _emit_repeat(tree: Repeat, steps: list[_Step]) -> None:
    for _ in range(tree.low):
        _emit(tree.part, steps)
    if tree.high is None:
        fork = len(steps)
        steps.append(_Step("fork"))
        _emit(tree.part, steps)
        steps.append(_Step("jump", fork))
        steps[fork] = _fork(fork + 1, len(steps), is_lazy=tree.is_lazy)
        return
    forks: list[int] = []
    for _ in range(tree.high - tree.low):
        forks.append(len(steps))
        steps.append(_Step("fork"))
        _emit(tree.part, steps)
    for fork in forks:
        steps[fork] = _fork(fork + 1, len(steps), is_lazy=tree.is_lazy)


def _fork(inside: int, after: int, *, is_lazy: bool) -> _Step:
    return _Step("fork", after, inside) if is_lazy else _Step("fork", inside, after)
