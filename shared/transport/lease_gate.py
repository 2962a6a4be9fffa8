"""The lease gate: until when this berth may write, told by one process and asked by the others.

With leader election only the holder of a lease may bind. Whoever holds it (`daemon/leader`) writes
here until when, and in which term; owner and binders look right before they act. A message would not
do: one that says "stop" comes late to a process that hangs, and a process that was stopped for a
minute would still act on an old "go". Here silence closes: whoever is asked compares with the clock.

It is one 64-bit number in a file of the runtime directory, mapped into memory. One process stores it
whole, so readers see the old or the new one. The clock is CLOCK_BOOTTIME, which all processes of a
machine share and which, other than CLOCK_MONOTONIC, also counts the time that a machine sleeps.

A term is the time from taking the lease to losing it. Decisions made in one term are void in the next:
in between another berth may have decided otherwise.
"""

import mmap
import os
from pathlib import Path
from typing import Final

from shared.clock import Clock

GATE_NAME: Final = "lease.gate"

_TERM_BITS: Final = 20
"""A million terms, then they begin anew; the other 44 bits are milliseconds, enough for 557 years."""
_TERM_MASK: Final = (1 << _TERM_BITS) - 1
_SIZE: Final = 8


class LeaseGate:
    """One process's view of the gate in a runtime directory. Only one process may set it."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Opens the gate; one that does not exist yet is made, closed."""
        self._clock = clock
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size < _SIZE:
                # Not ftruncate: a hole on a full disk would end us by SIGBUS when it is written.
                os.posix_fallocate(fd, 0, _SIZE)
            self._map = mmap.mmap(fd, _SIZE)
        finally:
            os.close(fd)
        self._word = memoryview(self._map).cast("Q")

    def open_term(self) -> int:
        """The term in which this berth may act now; 0: it may not."""
        word = self._word[0]
        is_open = self._clock.boot_s() * 1000 < word >> _TERM_BITS
        return word & _TERM_MASK if is_open else 0

    def lapsed_s(self) -> float:
        """For how long the gate has been closed by time alone: nobody renewed, closed or gave it up.
        0 if it is open, or was closed in order."""
        until_ms = self._word[0] >> _TERM_BITS
        return max(0.0, self._clock.boot_s() - until_ms / 1000) if until_ms else 0.0

    @property
    def until_s(self) -> float:
        return (self._word[0] >> _TERM_BITS) / 1000

    def extend(self, until_s: float) -> None:
        """The lease was renewed; the term goes on. To be called while the gate is open only."""
        self._word[0] = int(until_s * 1000) << _TERM_BITS | self._word[0] & _TERM_MASK

    def begin_term(self, until_s: float) -> int:
        """The lease was taken; returns the new term."""
        term = (self._word[0] & _TERM_MASK) % _TERM_MASK + 1
        self._word[0] = int(until_s * 1000) << _TERM_BITS | term
        return term

    def close(self) -> None:
        """The lease is lost or given up: nothing may be written from now on. The term's number stays,
        so that the next one gets another."""
        self._word[0] = self._word[0] & _TERM_MASK
