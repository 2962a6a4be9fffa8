"""How long to wait after a failure: doubling, with a bound, and never twice the same."""

import random
from typing import Final

FIRST_S: Final = 0.8
MAX_S: Final = 30.0
"""As client-go's reflector: 0.8 s to 30 s, doubled each time, reset by progress."""


class Backoff:
    """Delays of one retrying party. Deterministic for a given random generator."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._failure_count = 0

    def next_s(self) -> float:
        """The delay before the next try: between half and all of the current step."""
        # Past 2^30 the bound has long been reached; the exponent stays small.
        step_s = min(MAX_S, FIRST_S * 2.0 ** min(self._failure_count, 30))
        self._failure_count += 1
        return step_s * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        """There was progress: the next failure is a first one again."""
        self._failure_count = 0
