"""Throughput and latency figures from times. Pure.

Throughput is sampled as upstream does (test/integration/scheduler_perf/util.go
`throughputCollector`, v1.36): once per interval the bound pods are counted; the first count that is
not zero only starts the measurement; an interval without a binding is added to the next one; the
last interval, cut short, is left out. Upstream's interval is a second, and a run of less than two
has no figure there. Here the interval shrinks until there are enough samples, and the result says
which one it was; `overall` (pods by the time from the first creation to the last binding) is always
there and is what to compare when runs are short.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from daemon.core.owner_counts import ALL_METRICS
from shared.telemetry.metrics import HistogramState

INTERVALS_S: Final = (1.0, 0.25, 0.05, 0.01)
SAMPLES_MIN: Final = 5


class Percentiles(msgspec.Struct, frozen=True):
    """Of the samples."""

    average: float
    p50: float
    p90: float
    p95: float
    p99: float


class Throughput(msgspec.Struct, frozen=True):
    """Pods per second."""

    average: float
    p50: float
    p90: float
    p95: float
    p99: float
    overall: float
    """Bound pods by the time from the first creation to the last binding."""
    sample_interval_s: float
    sample_count: int


def percentiles(values: Sequence[float]) -> Percentiles | None:
    """Nearest rank, as upstream; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)

    def at(percent: int) -> float:
        return ordered[math.ceil(len(ordered) * percent / 100) - 1]

    return Percentiles(sum(ordered) / len(ordered), at(50), at(90), at(95), at(99))


def rate_samples(
    bound_s: Sequence[float], start_s: float, end_s: float, interval_s: float
) -> list[float]:
    """Pods/s of each interval; `bound_s` is sorted."""
    samples: list[float] = []
    last_count, last_tick = 0, 0
    is_started = False
    for tick in range(1, int((end_s - start_s) / interval_s + 1e-9) + 1):
        count = bisect_right(bound_s, start_s + tick * interval_s)
        if count == 0:
            continue
        if not is_started:
            is_started, last_count, last_tick = True, count, tick
            continue
        if count == last_count:
            continue
        ticks = tick - last_tick
        samples.extend([(count - last_count) / (ticks * interval_s)] * ticks)
        last_count, last_tick = count, tick
    return samples


def throughput(
    pods: Sequence[tuple[float, float]], start_s: float, end_s: float
) -> Throughput | None:
    """Of pods as (created, bound); None when none was bound in the time measured."""
    within = [(created, bound) for created, bound in pods if start_s <= bound <= end_s]
    if not within:
        return None
    bound_s = sorted(bound for _, bound in within)
    from_s = max(start_s, min(created for created, _ in within))
    overall = len(within) / max(bound_s[-1] - from_s, 1e-9)
    samples: list[float] = []
    interval_s = INTERVALS_S[0]
    for interval_s in INTERVALS_S:
        samples = rate_samples(bound_s, start_s, end_s, interval_s)
        if len(samples) >= SAMPLES_MIN:
            break
    figures = percentiles(samples) or Percentiles(overall, overall, overall, overall, overall)
    return Throughput(
        figures.average,
        figures.p50,
        figures.p90,
        figures.p95,
        figures.p99,
        overall,
        interval_s,
        len(samples),
    )


class Buckets(NamedTuple):
    """A histogram of seconds of the owner; empty when there is none."""

    bounds: Sequence[float] = ()
    counts: Sequence[int] = ()
    """Of each bucket alone; the last is for what is above all bounds."""
    sum: float = 0.0

    def __sub__(self, earlier: "Buckets") -> "Buckets":
        """What came since an earlier look at the same histogram."""
        before = earlier.counts or [0] * len(self.counts)
        counts = [now - then for now, then in zip(self.counts, before, strict=True)]
        return Buckets(self.bounds, counts, self.sum - earlier.sum)

    def percentiles_ms(self) -> Percentiles | None:
        """As upstream reads its histograms: even within a bucket, so as exact as the buckets are
        narrow; what is above all bounds counts as the last bound."""
        total = sum(self.counts)
        if total == 0:
            return None

        def at(percent: int) -> float:
            left, below = total * percent / 100, 0.0
            for bound, count in zip(self.bounds, self.counts, strict=False):
                if count and left <= count:
                    return (below + (bound - below) * left / count) * 1000
                left, below = left - count, bound
            return self.bounds[-1] * 1000

        return Percentiles(self.sum / total * 1000, at(50), at(90), at(95), at(99))


def buckets_of(states: Sequence[HistogramState], name: str) -> dict[str, Buckets]:
    """A histogram by its first label, summed over the others, as the owner tells it."""
    found: dict[str, list[Buckets]] = {}
    for state in states:
        if state.name == name:
            one = Buckets(ALL_METRICS[name].bounds, state.counts, state.sum)
            found.setdefault(state.labels[0], []).append(one)
    return {label: total(each) for label, each in found.items()}


def total(histograms: Sequence[Buckets]) -> Buckets:
    """Of histograms with the same bounds."""
    there = [each for each in histograms if each.counts]
    if not there:
        return Buckets()
    counts = [sum(column) for column in zip(*(each.counts for each in there), strict=True)]
    return Buckets(there[0].bounds, counts, sum(each.sum for each in there))


def latencies_ms(
    pods: Sequence[tuple[float, float]], start_s: float, end_s: float
) -> Percentiles | None:
    """From created to bound, of the pods that were bound in the time measured."""
    return percentiles(
        [(bound - created) * 1000 for created, bound in pods if start_s <= bound <= end_s]
    )
