"""A histogram as Prometheus has it: how many observations fell below each bound, and their sum."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts by bucket. An observation that equals a bound belongs below it."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Of each bucket alone; the last is for what is above all bounds."""
        self.sum = 0.0

    def observe(self, measured: float, times: int = 1) -> None:
        """`times` observations of the same."""
        self.counts[bisect_left(self.bounds, measured)] += times
        self.sum += measured * times

    def add(self, counts: Sequence[int], total: float) -> None:
        """What another histogram of the same bounds has."""
        self.counts = [mine + other for mine, other in zip(self.counts, counts, strict=True)]
        self.sum += total
