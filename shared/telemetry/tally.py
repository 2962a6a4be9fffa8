"""What a process counts and times, under the names of `metrics.py`.

The owner keeps one for good. The others keep what came up since they last told the owner of it, who
adds it to its own: so `/metrics` is one process's answer, and a figure costs no message of its own.
"""

from collections.abc import Callable, Sequence

from shared.telemetry.histogram import Histogram
from shared.telemetry.metrics import HISTOGRAMS, LABELLED

Labels = tuple[str, ...]
"""Values, in the order in which the table of metrics names the labels."""


class Tally:
    """Counts and histograms, told apart by labels."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, Labels], int] = {}
        self.histograms: dict[tuple[str, Labels], Histogram] = {}

    def count(self, name: str, labels: Labels, by: int = 1) -> None:
        """`name` is one of `LABELLED`."""
        assert name in LABELLED, f"{name} is not declared"
        key = name, labels
        self.counts[key] = self.counts.get(key, 0) + by

    def observe(self, name: str, labels: Labels, measured: float, times: int = 1) -> None:
        """`times` equal observations; `name` is one of `HISTOGRAMS`."""
        key = name, labels
        histogram = self.histograms.get(key)
        if histogram is None:
            histogram = self.histograms[key] = Histogram(HISTOGRAMS[name].bounds)
        histogram.observe(measured, times)

    def add_histogram(self, name: str, labels: Labels, counts: Sequence[int], total: float) -> None:
        """What another process observed. `counts` are as long as the bounds, and one."""
        key = name, labels
        histogram = self.histograms.get(key)
        if histogram is None:
            histogram = self.histograms[key] = Histogram(HISTOGRAMS[name].bounds)
        histogram.add(counts, total)

    def clear(self) -> None:
        """Begins anew."""
        self.counts.clear()
        self.histograms.clear()


def request_observer(tally: Tally, host: str) -> Callable[[str, str, float], None]:
    """Counts requests to the API server at `host`, as client-go does."""

    def observe(method: str, code: str, seconds: float) -> None:
        tally.count("requests", (code, method, host))
        tally.observe("request_s", (method, host), seconds)

    return observe
