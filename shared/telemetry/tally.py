"""What a process counts and times, under the names of `metrics.py`.

The owner keeps one for good. The others keep what came up since they last told the owner of it, who
adds it to its own: so `/metrics` is one process's answer, and a figure costs no message of its own.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from shared.limits import COUNT_MAX, LABEL_CHARACTERS_MAX, METRIC_SERIES_MAX
from shared.telemetry.metrics import METRICS, MetricFamily


class Histogram:
    """Counts by bucket. An observation that equals a bound belongs below it."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0


Labels = tuple[str, ...]
"""Values, in the order in which the table of metrics names the labels."""


OTHER: Final = "other"
"""What is beyond is counted under this in place of each label's value: sums stay right."""


class Tally:
    """Counts and histograms, told apart by labels."""

    def __init__(self, declared: Mapping[str, MetricFamily] = METRICS) -> None:
        self._declared = declared
        self.counts: Counter[tuple[str, Labels]] = Counter()
        self.histograms: dict[tuple[str, Labels], Histogram] = {}
        self._series: Counter[str] = Counter()

    def count(self, name: str, labels: Labels, by: int = 1) -> None:
        """`name` is no histogram."""
        assert not self._declared[name].bounds, f"{name} is a histogram"
        key = name, labels
        if key not in self.counts:
            key = self._admitted(key)
        self.counts[key] += by

    def observe(self, name: str, labels: Labels, measured: float, times: int = 1) -> None:
        """`times` equal observations; `name` is a histogram."""
        found = self.histograms.get((name, labels)) or self._histogram(name, labels)
        found.counts[bisect_left(found.bounds, measured)] += times
        found.sum += measured * times

    def add_histogram(self, name: str, labels: Labels, counts: Sequence[int], total: float) -> None:
        into = self._histogram(name, labels)
        into.counts = [mine + other for mine, other in zip(into.counts, counts, strict=True)]
        into.sum += total

    def _histogram(self, name: str, labels: Labels) -> Histogram:
        key = name, labels
        if key not in self.histograms:
            key = self._admitted(key)
        found = self.histograms.get(key)
        if found is None:
            found = self.histograms[key] = Histogram(self._declared[name].bounds)
        return found

    def _admitted(self, key: tuple[str, Labels]) -> tuple[str, Labels]:
        """A series that is not there yet, or what it is counted under."""
        name, labels = key
        is_told_apart = all(len(label) <= LABEL_CHARACTERS_MAX for label in labels)
        if is_told_apart and self._series[name] < METRIC_SERIES_MAX:
            self._series[name] += 1
            return key
        return name, (OTHER,) * len(labels)

    def clear(self) -> None:
        self.counts.clear()
        self.histograms.clear()
        self._series.clear()


def request_observer(tally: Tally, host: str) -> Callable[[str, str, float], None]:
    """Counts requests to the API server at `host`, as client-go does."""

    def observe(method: str, code: str, seconds: float) -> None:
        tally.count("requests", (code, method, host))
        tally.observe("request_s", (method, host), seconds)

    return observe


class LabelledCount(msgspec.Struct, array_like=True, frozen=True):
    name: str
    labels: list[str]
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
