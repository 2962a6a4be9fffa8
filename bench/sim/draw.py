"""What the makers of a plan draw from, and what they make: actions.

Actions name their objects outright: what is left out of a list does not change what the rest means, and
a failing list can be made shorter.
"""

import random
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

STARTS_S: Final = 1.5
"""By then all processes have met, mostly."""


class Action(NamedTuple):
    """Something that happens at a time. `do` names a method of `world.World`."""

    at_s: float
    do: str
    what: Json

    def __str__(self) -> str:
        told = ", ".join(f"{key} {_short(value)}" for key, value in self.what.items())
        return f"{self.do.replace('_', ' ')}: {told}"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_short(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_short(each) for each in value) + "]"
    return str(value)


def create(path: str, name: str, at_s: float = 0.0, **fields: Any) -> Action:
    """Any object that nothing else is to be said of."""
    what = {"path": path, "body": {"metadata": {"name": name}, **fields}}
    return Action(at_s, "create", what)


class Draw:
    """What has been drawn of one seed so far."""

    def __init__(self, rng: random.Random, features: frozenset[str]) -> None:
        self.rng = rng
        self.features = features
        self.pods: list[Json] = []
        """Every pod that is created, as its namespace and name."""
        self.nodes: list[str] = []
        self.burst_times_s: list[float] = []
        self.shapes: list[Json] = []
        self.lasts_s = 0.0

    def time_s(self) -> float:
        """Things like to happen at the same time as others: half of all are drawn to a few moments."""
        rng = self.rng
        at_s = rng.random() * self.lasts_s
        if rng.random() < 0.5:
            at_s = round(at_s / 2) * 2 + rng.random() ** 3 * 0.05
        return STARTS_S + at_s

    def late_s(self, at_s: float) -> float:
        """When something comes that somebody wants who comes at that time."""
        rng = self.rng
        return max(0.0, at_s - 0.01) if rng.random() < 0.7 else at_s + rng.random() * 5

    def some(self, most: int) -> range:
        """One at least."""
        return range(self.rng.randint(1, most))

    def pod(self) -> Json:
        """One of those that are created."""
        return dict(self.rng.choice(self.pods))
