"""CEL's regular expressions, which are RE2's, as Go has them."""

import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

import re2

from shared.cel.cel_values import CelError
from shared.limits import CEL_PATTERNS_MAX

REGEX_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})
STEPS_KEPT: Final = 50_000
"""A text of 64 characters, which is the longest attribute, and a program of 780 instructions: the states
are kept, take 4 bytes an instruction, and the next search costs a ns for each character."""
STEPS_OF_A_UNIT: Final = 10
TOO_LARGE_WORK: Final = 120_000
"""Of a regular expression that comes to more than RE2 takes: it is given up after some 70 ms. An
instruction of one that is compiled takes about half a microsecond, less than a unit."""
_NO_GO: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\(?P<letter>.)|.", re.DOTALL)
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False


@functools.lru_cache(maxsize=CEL_PATTERNS_MAX)
def _compiled(pattern: str) -> Any:
    """Or why it cannot be, as text. RE2 is linear in the text; Python's own `re` would let `(a+)+$` stop
    the scheduler for minutes."""
    if any(token["letter"] == "C" for token in _NO_GO.finditer(pattern)):
        # A byte, perhaps in the middle of a character; Go's RE2 does not have it.
        return "invalid escape sequence: `\\C`"
    try:
        return re2.compile(pattern.encode(), _OPTIONS)
    except re2.error as error:
        (told,) = error.args
        return told.decode(errors="replace") if isinstance(told, bytes) else told


def _regex(pattern: str) -> Any:
    compiled = _compiled(pattern)
    if isinstance(compiled, str):
        raise CelError(f"error parsing regexp: {compiled}")
    return compiled


def compile_work(pattern: str) -> int:
    """What compiling takes, in units of Kubernetes' estimator, which counts none of it."""
    compiled = _compiled(pattern)
    if isinstance(compiled, str):
        return TOO_LARGE_WORK if "too large" in compiled else 0
    size: int = compiled.programsize
    return size


def regex_work(text: str, pattern: str) -> int:
    """What a search may take beyond what Kubernetes' estimator counts, in units of it: where RE2 cannot
    keep the states that it comes to, it needs up to 60 ns for each character and instruction."""
    steps: int = len(text) * _regex(pattern).programsize
    return max(0, steps - STEPS_KEPT) // STEPS_OF_A_UNIT


def matches(text: str, pattern: str) -> bool:
    """Whether a part of the text does. As bytes: where it does need not be counted in characters."""
    return _regex(pattern).search(text.encode()) is not None


def find(text: str, pattern: str) -> str:
    """The first part that matches, or nothing."""
    return next(iter(_found(text, pattern)), "")


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Parts that match, below 0 all."""
    return list(itertools.islice(_found(text, pattern), limit if limit >= 0 else None))


def _found(text: str, pattern: str) -> Iterator[str]:
    """Matches from left to right that do not overlap. One of nothing does not count where the one
    before it ends (FindAll in Go's regexp)."""
    last_end = -1
    for match in _regex(pattern).finditer(text):
        start, end = match.span()
        if end > start or start != last_end:
            yield match[0]
        last_end = end
