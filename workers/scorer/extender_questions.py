"""What is asked of extenders and what they answer, between the two threads of a scorer."""

from typing import NamedTuple

from shared.extenders.extender_verdicts import ExtenderVerdicts
from shared.extenders.extender_wire import MetaVictims, PodName


class FilterQuestion(NamedTuple):
    """Which of these nodes may the pod have, and how good are they?"""

    number: int
    pod: PodName
    extenders: tuple[int, ...]
    """Positions of those that are interested, in the order of the calls."""
    node_names: list[str]


class PreemptQuestion(NamedTuple):
    """Which of these ways to make room may be gone?"""

    number: int
    pod: PodName
    extenders: tuple[int, ...]
    victims: dict[str, MetaVictims]
    """By node."""
    pods: dict[str, PodName]
    """All victims, by uid."""


Question = FilterQuestion | PreemptQuestion


class ExtenderAnswer(NamedTuple):
    """To the question of this number."""

    number: int
    error: str = ""
    """Not empty: an extender that must not be ignored failed, or the pod could not be read."""
    verdicts: ExtenderVerdicts | None = None
    victims: dict[str, MetaVictims] | None = None
