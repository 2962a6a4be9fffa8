"""An event loop whose time passes only when everybody sleeps, and then at once."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

START_WALL_S = 1_795_225_036.25
"""2026-11-21T01:37:16.25Z"""


class _Selector(selectors.DefaultSelector):
    """Never waits: what would have been waited for is added to the clock."""

    now_s = 100.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everybody waits for what will never come"
            self.now_s += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


class LoopClock:
    """The running loop's time."""

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    def boot_s(self) -> float:
        return self.monotonic_s()

    def wall_s(self) -> float:
        return START_WALL_S + self.monotonic_s() - 100.0


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, with virtual time; what fails in a callback or a task fails here."""
    problems: list[BaseException] = []

    def on_problem(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        problems.append(context.get("exception") or RuntimeError(context["message"]))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.get_loop().set_exception_handler(on_problem)
        result = runner.run(main)
    for problem in problems:
        raise problem
    return result
