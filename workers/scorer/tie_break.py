"""Choosing among nodes with equal scores.

kube-scheduler takes any of the best. We take one that looks random but depends only on the seed and
on the attempt's number, so that a recorded run can be replayed, and that differs between scorers, so
that two of them do not both go for the same node.
"""

from collections.abc import Callable
from typing import Final

from shared.columns.table import NodeTable
from shared.engine.best_rows import Ties

BY_SEED: Final = "seed"
BY_NAME: Final = "name"
"""For comparisons with recorded decisions: it makes scorers meet on the same nodes."""

TieBreak = Callable[[Ties], int]
"""Chooses one of the rows (at least two) that are equally good."""
RunTieBreak = Callable[[Ties, int], int]
"""The same for the attempt with this ticket."""

_MASK: Final = (1 << 64) - 1


def mix(seed: int, number: int) -> int:
    """A well-mixed 64-bit number (the finaliser of SplitMix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & _MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _MASK
    return z ^ z >> 31


def by_seed(ties: Ties, seed: int, ticket: int) -> int:
    """One of `ties`, by seed and attempt."""
    return int(ties[mix(seed, ticket) % len(ties)])  # An array has numpy's integers.


def first_by_name(ties: Ties, nodes: NodeTable) -> int:
    """The one whose name sorts first: how the conformance scenarios break ties."""
    return min(ties.tolist(), key=nodes.name_of)
