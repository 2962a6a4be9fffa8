"""How much a turn of a process does, counted and not timed: calls of functions of ours.

Counting makes a seed half as slow again, so one seed in sixteen is counted.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, TypeVar

EACH: Final = 16
"""Of so many seeds one is counted."""
CALLS_MAX: Final = 40_000
"""In one turn. With up to 100 pods on up to ten nodes the longest took 12,000."""
_Result = TypeVar("_Result")
_NOT_OURS: Final = ("/bench/", "/tests/")


class CallCounter:
    """Counts what is called."""

    def __init__(self) -> None:
        self.most = 0
        """In one turn so far."""

    def counted(self, turn: Callable[[], _Result]) -> tuple[_Result, int]:
        """What a turn returns, and how many functions it called; those of the simulation, which listens
        and judges, are left out."""
        count = 0

        def note(frame: FrameType, event: str, _: Any) -> None:
            nonlocal count
            if event == "call":
                file_name = frame.f_code.co_filename
                count += not any(part in file_name for part in _NOT_OURS)

        sys.setprofile(note)
        try:
            result = turn()
        finally:
            sys.setprofile(None)
        self.most = max(self.most, count)
        return result, count
