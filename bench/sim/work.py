"""How much a turn of a process does, counted and not timed: calls of functions of ours.

Counting makes a seed take twice as long, so one seed in 48 is counted.
"""

from collections.abc import Callable
from cProfile import Profile
from types import CodeType
from typing import Final, TypeVar

EACH: Final = 48
"""Of so many seeds one is counted."""
CALLS_MAX: Final = 160_000
"""In one turn. With up to 100 pods on up to ten nodes the longest took 12,000; 42,000 where a group that
has no place is placed once more for each pod that may go, 96,000 where its pods have terms and
constraints besides: 420 placements of 230 calls (`ONE_BY_ONE_MAX` bounds how often)."""
_Result = TypeVar("_Result")
_NOT_OURS: Final = ("/bench/", "/tests/")


class CallCounter:
    """Counts what is called."""

    def __init__(self) -> None:
        self.most = 0
        """In one turn so far."""
        self._counted: dict[CodeType, bool] = {}

    def counted(self, turn: Callable[[], _Result]) -> tuple[_Result, int]:
        """What a turn returns, and how many functions it called; those of the simulation, which listens
        and judges, are left out."""
        profiler = Profile(builtins=False, subcalls=False)
        profiler.enable()
        try:
            result = turn()
        finally:
            profiler.disable()
        count = sum(
            each.callcount + each.reccallcount
            for each in profiler.getstats()
            if isinstance(each.code, CodeType) and self._is_counted(each.code)
        )
        self.most = max(self.most, count)
        return result, count

    def _is_counted(self, code: CodeType) -> bool:
        is_counted = self._counted.get(code)
        if is_counted is None:
            is_counted = not any(part in code.co_filename for part in _NOT_OURS)
            self._counted[code] = is_counted
        return is_counted
