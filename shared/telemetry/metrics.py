"""What is counted and timed by more than the owner, or told apart by labels, and how it is kept.

Names are kube-scheduler's where it has such a metric (pkg/scheduler/metrics/metrics.go, v1.36.2), so
that its dashboards work; the others begin with `berth_`. What the owner alone counts is declared in
`daemon/core/owner_counts.py`. `/metrics` shows all of it (`daemon/endpoints/metrics_text.py`).

The owner keeps a `Tally` for good. The others keep what came up since they last told the owner of it,
who adds it to its own: so `/metrics` is one process's answer, and a figure costs no message of its
own.
"""

import enum
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import accumulate, repeat
from operator import mul
from typing import Final, NamedTuple

import msgspec

from shared.limits import COUNT_MAX, LABEL_CHARACTERS_MAX, METRIC_SERIES_MAX


class Kind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"


class MetricFamily(NamedTuple):
    name: str
    label_names: tuple[str, ...]
    sentence: str
    bounds: tuple[float, ...] = ()
    """Of a histogram's buckets; empty: it is a count."""
    kind: Kind = Kind.COUNTER
    """Of a count."""


def doubling(first: float, count: int) -> tuple[float, ...]:
    """Bounds that double. Rounded: 0.0016 and not what binary arithmetic makes of it."""
    return tuple(round(first * 2**step, 6) for step in range(count))


def half_more(first: float, count: int) -> tuple[float, ...]:
    """Bounds each half more than the one before, to the last digit of binary arithmetic."""
    return tuple(accumulate(repeat(1.5, count - 1), mul, initial=first))


METRICS: Final[dict[str, MetricFamily]] = {
    "algorithm_s": MetricFamily(
        "scheduler_scheduling_algorithm_duration_seconds",
        (),
        "The scoring worker's own time for a pod.",
        doubling(0.001, 15),
    ),
    "podgroup_algorithm_s": MetricFamily(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        (),
        "The scoring worker's own time for a pod group.",
        doubling(0.001, 15),
    ),
    "extension_point_s": MetricFamily(
        "scheduler_framework_extension_point_duration_seconds",
        ("extension_point", "status", "profile"),
        "All plugins of an extension point together.",
        doubling(0.0001, 12),
    ),
    "plugin_s": MetricFamily(
        "scheduler_plugin_execution_duration_seconds",
        ("plugin", "extension_point", "status"),
        "One call of a plugin, about a class of pods and many nodes; every tenth batch is looked at.",
        half_more(0.00001, 20),
    ),
    "request_s": MetricFamily(
        "rest_client_request_duration_seconds",
        ("verb", "host"),
        "Requests to the API server, from sending to the answer (of a watch, to its beginning).",
        (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
    ),
    "device_wait_s": MetricFamily(
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        ("profile", "driver", "status"),
        "How long pods waited before their binding until drivers had prepared devices.",
        doubling(0.1, 14),
    ),
    "requests": MetricFamily(
        "rest_client_requests_total",
        ("code", "method", "host"),
        "Requests to the API server, by the answer's status code.",
    ),
    "plugin_evaluations": MetricFamily(
        "scheduler_plugin_evaluation_total",
        ("plugin", "extension_point", "profile"),
        "Calls of plugins, each about a class of pods and many nodes.",
    ),
    "device_waits": MetricFamily(
        "scheduler_dra_bindingconditions_allocations_total",
        ("profile", "driver", "status"),
        "Devices that were waited for until a driver had prepared them.",
    ),
    "claim_creates": MetricFamily(
        "scheduler_resourceclaim_creates_total",
        ("status",),
        "Resource claims that were to be made for extended resources.",
    ),
}
"""Name in messages -> what it is to the outside; bounds are kube-scheduler's."""


Labels = tuple[str, ...]
"""Values, in the order in which the table of metrics names the labels."""


class LabelledCount(msgspec.Struct, array_like=True, frozen=True):
    name: str
    labels: Labels
    count: int


class HistogramState(msgspec.Struct, array_like=True):
    """An observation that equals a bound belongs below it."""

    name: str
    labels: Labels
    counts: list[int]
    """Of each bucket alone; the last is for what is above all bounds."""
    sum: float


class Measured(msgspec.Struct, array_like=True, frozen=True):
    """Additions to the owner's counts."""

    counts: list[LabelledCount]
    histograms: list[HistogramState]


NOTHING: Final = Measured([], [])

OTHER: Final = "other"
"""What is beyond is counted under this in place of each label's value: sums stay right."""


class Tally:
    """Counts and histograms, told apart by labels."""

    def __init__(self, declared: Mapping[str, MetricFamily] = METRICS) -> None:
        self._declared = declared
        self.counts: Counter[tuple[str, Labels]] = Counter()
        self.histograms: dict[tuple[str, Labels], HistogramState] = {}
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
        found.counts[bisect_left(self._declared[name].bounds, measured)] += times
        found.sum += measured * times

    def add_histogram(self, one: HistogramState) -> None:
        """What another process observed. Its counts are as long as the bounds, and one."""
        into = self._histogram(one.name, one.labels)
        into.counts = [mine + other for mine, other in zip(into.counts, one.counts, strict=True)]
        into.sum += one.sum

    def _histogram(self, name: str, labels: Labels) -> HistogramState:
        key = name, labels
        if key not in self.histograms:
            key = self._admitted(key)
        found = self.histograms.get(key)
        if found is None:
            zeros = [0] * (len(self._declared[name].bounds) + 1)
            found = self.histograms[key] = HistogramState(*key, zeros, 0.0)
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


def measured_by(tally: Tally) -> Measured:
    """All that is in it, as far as a message can say it."""
    return Measured(
        [LabelledCount(*key, min(count, COUNT_MAX)) for key, count in tally.counts.items()],
        [
            msgspec.structs.replace(one, counts=[min(count, COUNT_MAX) for count in one.counts])
            for one in tally.histograms.values()
        ],
    )
