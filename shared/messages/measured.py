"""What a process counted and timed since it last told the owner; travels with what it says anyway."""

import math
from typing import Final

import msgspec

from shared.limits import COUNT_MAX
from shared.telemetry.metrics import HISTOGRAMS, LABELLED
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


def add_to(tally: Tally, measured: Measured) -> None:
    """Takes in what another process tells. Names and shapes that this owner does not know, as of a
    worker of another version, are left out: they would be nobody's metrics. So are figures that no
    process counts."""
    for count in measured.counts:
        declared = LABELLED.get(count.name)
        is_known = declared is not None and len(count.labels) == len(declared.label_names)
        if is_known and count.count >= 0:
            tally.count(count.name, tuple(count.labels), count.count)
    for state in measured.histograms:
        histogram = HISTOGRAMS.get(state.name)
        if histogram is None or len(state.labels) != len(histogram.label_names):
            continue
        if len(state.counts) != len(histogram.bounds) + 1 or min(state.counts) < 0:
            continue
        if math.isfinite(state.sum):
            tally.add_histogram(state.name, tuple(state.labels), state.counts, state.sum)
