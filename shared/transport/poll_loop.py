"""For processes that turn in a loop of polls, as owner and scorers do: how they wait, and end."""

import os
import signal
from collections.abc import Callable
from types import FrameType

import zmq

from shared.transport.parent import STOP_SIGNALS, Lifeline
from shared.transport.sockets import RawSocket


def wait_ready(items: list[tuple[RawSocket | int, int]], timeout_ms: int) -> set[object]:
    """The sockets and the file descriptors of `items` that are ready; sleeps until one is."""
    return {item for item, _ in zmq.zmq_poll(items, timeout_ms)}


def watch_for_end(lifeline_fd: int | None, watch_fd: Callable[[int], None]) -> Callable[[], bool]:
    """Has a poll wake up when the process is to end (by a signal, or since the supervisor is gone), and
    returns what says so. From the main thread."""
    stop = _StopSignals()
    watch_fd(stop.fd)
    if lifeline_fd is None:
        return lambda: stop.is_set
    lifeline = Lifeline(lifeline_fd)
    watch_fd(lifeline.fd)
    return lambda: stop.is_set or lifeline.is_cut()


class _StopSignals:
    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        self.is_set = False
        """One of the signals has come."""
        signal.set_wakeup_fd(self._write_fd)
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 # A handler's signature.
        self.is_set = True
