"""The heartbeat: how the supervisor notices that a child hangs.

Some memory that the two share (a memfd, option `--heartbeat-fd`): no disk that may be full, no
socket that somebody has to read, and a beat is two stores. The child counts its turns up and says
what it has in hand; the supervisor looks whether the count still moves (`Silence`).
The page outlives the child, so what it died of can be read. It also takes a note of the child's, some
text for people (`note`), which the supervisor passes on to `berth status`.

A loop beats in each turn, at least once each `QUIET_S`, and within a turn before each step that may be
long. What beats beside the work, as a thread would, would only tell that the process exists.
"""

import asyncio
import mmap
import os
from typing import Final, Self

from shared.errors import ConfigurationError
from shared.limits import QUIET_S

_COUNT: Final = 0
_IN_HAND: Final = 1
_NOTE_SERIAL: Final = 2
"""Odd while the note is written."""
_NOTE_LENGTH: Final = 3
_NOTE_START: Final = 64
PAGE_BYTES: Final = 16_384
NOTE_BYTES_MAX: Final = PAGE_BYTES - _NOTE_START
"""8 problems (`shared/kube/connection_problems.py`) of 400 characters and 40 concerns take 12 kB."""
_EARLY_S: Final = 0.01
"""A timer that fires a moment too early has fired."""


def until_beat_s(now_s: float) -> float:
    """To the next of the moments, `QUIET_S` apart, in which all processes of this host say that they
    are there: what they tell the owner shares a turn. `now_s` by the clock of event loops."""
    return QUIET_S - (now_s + _EARLY_S) % QUIET_S + _EARLY_S


class Heartbeat:
    """One process's view of the page. Only the child beats."""

    def __init__(self, fd: int | None = None) -> None:
        """`fd`: from the supervisor, taken over; None: nobody looks. ConfigurationError if it is no
        page."""
        try:
            self._share(-1 if fd is None else fd)
        except (OSError, ValueError) as error:
            problem = f"{error}; the supervisor passes a page of memory"
            raise ConfigurationError(f"--heartbeat-fd {fd}", [problem]) from error
        if fd is not None:
            os.close(fd)

    def _share(self, fd: int) -> None:
        self._map = mmap.mmap(fd, PAGE_BYTES)
        self._words = memoryview(self._map).cast("Q")

    @classmethod
    def made(cls) -> tuple[Self, int]:
        """The supervisor's view, and the descriptor for the child, to be closed when it has it;
        OSError where there is no memory or no descriptor left."""
        fd = os.memfd_create("heartbeat", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, PAGE_BYTES)
            heartbeat = cls()
            heartbeat._share(fd)
        except BaseException:
            os.close(fd)
            raise
        return heartbeat, fd

    def beat(self, in_hand: int = 0) -> None:
        """Another turn, or a step of one; `in_hand` says which, by a number that its owner knows."""
        self._words[_IN_HAND] = in_hand
        self._words[_COUNT] += 1

    def keep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Beats as long as the event loop turns. What is in hand stays: a process that ends in order
        after an exception turns on for a while."""
        self.beat(self.in_hand)
        loop.call_later(until_beat_s(loop.time()), self.keep, loop)

    def write_note(self, note: bytes) -> None:
        """Puts this in place of the last one; one that is too long is left out."""
        if len(note) > NOTE_BYTES_MAX:
            return
        self._words[_NOTE_SERIAL] += 1
        self._words[_NOTE_LENGTH] = len(note)
        self._map[_NOTE_START : _NOTE_START + len(note)] = note
        self._words[_NOTE_SERIAL] += 1

    def read_note(self) -> tuple[int, bytes] | None:
        """A number, another for each note, and the note; None while it is being written."""
        serial = self._words[_NOTE_SERIAL]
        note = self._map[_NOTE_START : _NOTE_START + self._words[_NOTE_LENGTH]]
        is_whole = serial % 2 == 0 and serial == self._words[_NOTE_SERIAL]
        return (serial, note) if is_whole else None

    @property
    def count(self) -> int:
        return self._words[_COUNT]

    @property
    def in_hand(self) -> int:
        """What was begun last; 0: nothing in particular."""
        return self._words[_IN_HAND]
