"""How much a turn of a process does, counted and not timed: calls of functions of ours.

Counting makes a seed take three times as long, so one seed in 48 is counted.
"""

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

EACH: Final = 48
"""Of so many seeds one is counted."""
CALLS_MAX: Final = 80_000
"""In one turn. With up to 100 pods on up to ten nodes the longest took 12,000; 42,000 where a group that
has no place is placed once more for each pod that may go."""
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
        called: list[CodeType] = []

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                called.append(frame.f_code)

        sys.setprofile(note)
        try:
            result = turn()
        finally:
            sys.setprofile(None)
        count = sum(map(self._is_counted, called))
        self.most = max(self.most, count)
        return result, count

    def _is_counted(self, code: CodeType) -> bool:
        is_counted = self._counted.get(code)
        if is_counted is None:
            is_counted = not any(part in code.co_filename for part in _NOT_OURS)
            self._counted[code] = is_counted
        return is_counted
