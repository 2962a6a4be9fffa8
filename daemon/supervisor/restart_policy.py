"""When a child is silent for too long; when a dead one is started again and without which objects; and
when to give up. Pure: counts, times and what the kernel says come in.

For silence that time counts in which the child could have said something, so that a busy machine or
one that slept kills nobody: while it waits for a core or for the disk (state R or D), only the CPU
time that it got; otherwise (asleep, or stopped by a signal) all time. And a look that comes late is
our own pause: a machine that was suspended, or has no core for us either. Then everybody begins anew.

A child that had run well and dies once is started again at once: pods wait for it. One that keeps
dying gets longer and longer pauses, so that it does not eat the machine and its log lines can still
be read, and after `ATTEMPTS_MAX` quick deaths in a row berth as a whole gives up: then something is
wrong that a restart does not mend, and whoever runs berth (systemd, Kubernetes) has to see it. Deaths of
an object do not count there, for a restart or two mend each of them; nor do lives that found a file
which is being rewritten: all others go on meanwhile.

A child that died with an object in hand may have died of something else; one that dies twice with the
same one has died of it, for it takes them one by one (`shared/in_hand.py`). It goes without that
object for an hour; started later, it tries again, and one death more is enough then.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from shared import exit_codes
from shared.limits import DEADLY_OBJECTS_MAX

STABLE_S: Final = 30.0
"""A child that ran for so long had started well (a start takes 2 s, 20 on an overloaded machine); what
it died of is a new story."""
FIRST_DELAY_S: Final = 0.5
DELAY_S_MAX: Final = 10.0
ATTEMPTS_MAX: Final = 8
"""Quick deaths in a row: 0 + 0.5 + 1 + 2 + 4 + 8 + 10 s of pauses, about 25 s in all."""


class Exit(NamedTuple):
    """One death of a child."""

    code: int
    """Exit code; -N: killed by signal N."""
    ran_s: float
    is_of_an_object: bool = False
    """Known by now (`Deadly`): the next life is another, and soon goes without it."""
    was_killed: bool = False
    """By somebody else, and not as it was silent."""


class GiveUp(NamedTuple):
    reason: str


def next_step(exits: Sequence[Exit], *, is_optional: bool = False) -> float | GiveUp:
    """After the last of these deaths, oldest first: the pause in seconds before it is started again. An
    optional child is never given up."""
    assert exits, "nobody died"
    last = exits[-1]
    if last.code == exit_codes.LEASE_LOST:
        # No death at all: it ended in order, to begin anew as one that stands by.
        return 0.0
    if last.code == exit_codes.UNUSABLE and not is_optional:
        return GiveUp("its arguments or configuration cannot be used (see its own log line)")
    quick, in_vain = 0, 0
    for one in reversed(exits):
        if one.ran_s >= STABLE_S:
            break
        quick += one.code != exit_codes.LEASE_LOST
        in_vain += one.code not in exit_codes.NO_DEATHS and not one.is_of_an_object
    if in_vain >= ATTEMPTS_MAX and not is_optional:
        return GiveUp(
            f"it ended {quick} times in a row within {STABLE_S:g} s of its start, the last time"
            f" with {exit_text(last.code)}"
        )
    if quick <= 1:
        return 0.0
    return min(FIRST_DELAY_S * 2.0 ** min(quick - 2, 16), DELAY_S_MAX)


def exit_text(code: int) -> str:
    """An exit code in words."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


DEATHS_MAX: Final = 2
LEFT_OUT_S: Final = 3600.0


class Deadly:
    """Of one place in the table of children."""

    def __init__(self) -> None:
        self._deaths: dict[int, tuple[int, float]] = {}
        """By the object's number, the last death last: how many, and when the last was."""

    def add(self, in_hand: int, now_s: float) -> bool:
        """The child died with this in hand (0: with nothing); whether that helps its successor."""
        if not in_hand:
            return False
        times, _ = self._deaths.pop(in_hand, (0, 0.0))
        self._deaths[in_hand] = times + 1, now_s
        if len(self._deaths) <= DEADLY_OBJECTS_MAX:
            return True
        del self._deaths[next(iter(self._deaths))]
        return False

    def left_out(self, now_s: float) -> list[int]:
        """What a child that is started now goes without."""
        return [
            number
            for number, (times, last_s) in self._deaths.items()
            if times >= DEATHS_MAX and now_s - last_s < LEFT_OUT_S
        ]


OWN_PAUSE_S: Final = 5.0
"""Looks are two seconds apart (`LOOK_PERIOD_S`)."""


class Use(NamedTuple):
    """A process, as the kernel has it."""

    cpu_s: float
    is_waiting: bool
    """It works, or would if it were let: for a core (state R) or for a disk (state D)."""


class Silence:
    """One life of a child."""

    def __init__(self, bound_s: float, now_s: float) -> None:
        self._bound_s = bound_s
        self._looked_s = now_s
        self._count = -1
        self._use: Use | None = None
        self.silent_s = 0.0

    def look(self, count: int, now_s: float, measure: Callable[[], Use | None]) -> bool:
        """Whether it has been silent for too long. `measure` is asked of the silent only; what it cannot
        tell counts for nobody."""
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        if count != self._count or passed_s > OWN_PAUSE_S:
            self._count, self._use, self.silent_s = count, None, 0.0
            return False
        if self._use is None and self.silent_s + passed_s <= self._bound_s / 5:
            self.silent_s += passed_s  # As everybody with nothing to do (`QUIET_S`): not worth one.
            return False
        before, self._use = self._use, measure()
        if self._use is None:
            return False
        if self._use.is_waiting:
            got_s = self._use.cpu_s - before.cpu_s if before is not None else 0.0
            passed_s = min(passed_s, got_s)
        self.silent_s += passed_s
        return self.silent_s >= self._bound_s
