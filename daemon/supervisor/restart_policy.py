"""When to start a dead child again, and when to give up. Pure.

A child that had run well and dies once is started again at once: pods wait for it. One that keeps
dying gets longer and longer pauses, so that it does not eat the machine and its log lines can still
be read, and after `ATTEMPTS_MAX` quick deaths in a row berth as a whole gives up: then something is
wrong that a restart does not mend, and whoever runs berth (systemd, Kubernetes) has to see it. Deaths of
an object do not count there, for a restart or two mend each of them; nor do lives that found a file
which is being rewritten: all others go on meanwhile.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from shared import exit_codes

STABLE_S: Final = 30.0
"""A child that ran for so long had started well (a start takes 2 s, 20 on an overloaded machine); what
it died of is a new story."""

FIRST_DELAY_S: Final = 0.5
"""Before the second restart in a row; the first comes at once. Doubles with each further one."""

DELAY_S_MAX: Final = 10.0

ATTEMPTS_MAX: Final = 8
"""Quick deaths in a row: 0 + 0.5 + 1 + 2 + 4 + 8 + 10 s of pauses, about 25 s in all."""


class Exit(NamedTuple):
    """One death of a child."""

    code: int
    """Exit code; -N: killed by signal N."""
    ran_s: float
    is_of_an_object: bool = False
    """Known by now (`deadly.py`): the next life is another, and soon goes without it."""
    was_killed: bool = False
    """By somebody else, and not as it was silent."""


class Restart(NamedTuple):
    after_s: float


class GiveUp(NamedTuple):
    reason: str


def next_step(exits: Sequence[Exit], *, is_optional: bool = False) -> Restart | GiveUp:
    """What to do after the last of these deaths, oldest first. An optional child is never given up."""
    assert exits, "nobody died"
    last = exits[-1]
    if last.code == exit_codes.LEASE_LOST:
        # No death at all: it ended in order, to begin anew as one that stands by.
        return Restart(after_s=0.0)
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
        return Restart(after_s=0.0)
    return Restart(after_s=min(FIRST_DELAY_S * 2.0 ** min(quick - 2, 16), DELAY_S_MAX))


def exit_text(code: int) -> str:
    """An exit code in words."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
