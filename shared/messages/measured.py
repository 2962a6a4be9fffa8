"""What a process counted and timed since it last told the owner; travels with what it says anyway."""

from typing import Final

import msgspec

from shared.limits import COUNT_MAX
from shared.telemetry.tally import Tally


class LabelledCount(msgspec.Struct, array_like=True, frozen=True):
    name: str
    labels: list[str]
    """Values, in the order in which `shared/telemetry/metrics.py` names the labels."""
    count: int


class HistogramState(msgspec.Struct, array_like=True, frozen=True):
    name: str
    labels: list[str]
    counts: list[int]
    """Of each bucket alone; the last is for what is above all bounds."""
    sum: float


class Measured(msgspec.Struct, array_like=True, frozen=True):
    """Additions to the owner's counts."""

    counts: list[LabelledCount]
    histograms: list[HistogramState]


NOTHING: Final = Measured([], [])


def measured_by(tally: Tally) -> Measured:
    """All that is in it, as far as a message can say it."""
    return Measured(
        [
            LabelledCount(name, list(labels), min(count, COUNT_MAX))
            for (name, labels), count in tally.counts.items()
        ],
        [
            HistogramState(name, list(labels), [min(n, COUNT_MAX) for n in one.counts], one.sum)
            for (name, labels), one in tally.histograms.items()
        ],
    )
