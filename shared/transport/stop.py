"""Signals for poll loops: a file descriptor that becomes readable when the process is told to stop.

A Python signal handler alone does not wake up a poll in ZeroMQ for sure; the wake-up descriptor does.
"""

import os
import signal
from collections.abc import Iterable
from types import FrameType


class StopSignals:
    """Takes the given signals over, from the main thread."""

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        self._is_set = False
        signal.set_wakeup_fd(self._write_fd)
        for number in signals:
            signal.signal(number, self._on_signal)

    @property
    def is_set(self) -> bool:
        """One of the signals has come."""
        return self._is_set

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 # A handler's signature.
        self._is_set = True
