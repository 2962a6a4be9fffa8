"""Which objects a child has died of. Pure.

A child that died with an object in hand may have died of something else (it was killed, the machine has
no memory); one that dies twice with the same one has died of it, for it takes them one by one
(`shared/in_hand.py`). It goes without that object for an hour; started later, it tries again, and
one death more is enough then.
"""

from typing import Final

from shared.limits import DEADLY_OBJECTS_MAX

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
