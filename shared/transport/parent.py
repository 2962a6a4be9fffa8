"""How a process is told to stop: by a signal, and by the lifeline, by which a child notices that the
supervisor has died, however it died.

The supervisor keeps the writing end of a pipe and gives the reading end to each child (option
`--lifeline-fd`). Nothing is ever written. When the supervisor's process ends, the kernel closes the
writing end, the reading end becomes readable with end of file, and the child stops. No polling, no
race with a process id that is used again (as with `os.getppid`), and it works across exec. Neither end
is inherited unless asked for (`os.pipe`): a child with the writing end would keep its siblings alive.

Asyncio processes use `call_when_cut`; poll loops, `watch_for_end`.
"""

import argparse
import asyncio
import os
import signal
from collections.abc import Callable
from typing import Final

from shared.errors import ConfigurationError

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the supervisor gives each child."""
    parser.add_argument("--lifeline-fd", type=int, help="pipe that ends with the supervisor")
    parser.add_argument("--heartbeat-fd", type=int, help="see shared/transport/heartbeat.py")
    parser.add_argument(
        "--careful",
        type=_numbers,
        metavar="N,N,...",
        help="say which object is in hand, and go without these (shared/in_hand.py)",
    )


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in text.split(",") if number)


class Lifeline:
    """A child's end."""

    def __init__(self, fd: int) -> None:
        """Takes the descriptor over; ConfigurationError if there is no such one."""
        try:
            os.set_blocking(fd, False)
            os.set_inheritable(fd, False)
        except OSError as error:
            problem = f"{error.strerror}; the supervisor passes an open pipe"
            raise ConfigurationError(f"--lifeline-fd {fd}", [problem]) from error
        self.fd = fd

    def is_cut(self) -> bool:
        """True once the supervisor is gone. Never blocks."""
        try:
            return os.read(self.fd, 1) == b""
        except BlockingIOError:
            return False

    def call_when_cut(
        self, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]
    ) -> None:
        def on_readable() -> None:
            if self.is_cut():
                loop.remove_reader(self.fd)
                callback()

        loop.add_reader(self.fd, on_readable)


def watch_for_end(
    lifeline_fd: int | None, watch_fd: Callable[[int], Callable[[], bool]]
) -> Callable[[], bool]:
    """Has a poll wake up when the process is to end (by a signal, or since the supervisor is gone), and
    returns what says so after each wait. From the main thread. `watch_fd` returns what says whether the
    descriptor was readable at the last."""
    signals: list[int] = []
    fd, wakeup_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup_fd)
    for each in STOP_SIGNALS:
        signal.signal(each, lambda number, _: signals.append(number))
    watch_fd(fd)
    if lifeline_fd is None:
        return lambda: bool(signals)
    lifeline = Lifeline(lifeline_fd)
    is_readable = watch_fd(lifeline.fd)
    return lambda: bool(signals) or (is_readable() and lifeline.is_cut())
