"""For processes that turn in a loop of polls, as owner and scorers do: how they wait, and end."""

import os
import signal
from collections.abc import Callable

import zmq

from shared.transport.parent import STOP_SIGNALS, Lifeline
from shared.transport.sockets import RawSocket


def wait_ready(items: list[tuple[RawSocket | int, int]], timeout_ms: int) -> set[object]:
    """The sockets and the file descriptors of `items` that are ready; sleeps until one is."""
    return {item for item, _ in zmq.zmq_poll(items, timeout_ms)}


def watch_for_end(lifeline_fd: int | None, watch_fd: Callable[[int], None]) -> Callable[[], bool]:
    """Has a poll wake up when the process is to end (by a signal, or since the supervisor is gone), and
    returns what says so. From the main thread."""
    signals: list[int] = []
    fd, wakeup_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup_fd)
    for each in STOP_SIGNALS:
        signal.signal(each, lambda number, _: signals.append(number))
    watch_fd(fd)
    if lifeline_fd is None:
        return lambda: bool(signals)
    lifeline = Lifeline(lifeline_fd)
    watch_fd(lifeline.fd)
    return lambda: bool(signals) or lifeline.is_cut()
