"""What the owner counts and times since its start; `owner_counts.py` and `metrics_table.py` say what
there is."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from daemon.core.metrics_table import add_to, owner_tally
from daemon.core.owner_counts import Count
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plugin_times import PluginTimes
from shared.messages.measured import Measured, measured_by

RECENT_MAX: Final = 40
"""Decisions that are remembered for people: a screen of them."""


def begin_at_zero(counters: "Counters", frameworks: Mapping[str, Framework]) -> None:
    """Series that kube-scheduler tells of before anything has happened (metrics without labels, and
    NewFramework in pkg/scheduler/framework/runtime/framework.go, v1.36.2)."""
    for name in ("victims", "attempts", "algorithm_s"):
        counters.observe(name, (), 0.0, times=0)
    for profile, framework in frameworks.items():
        scorers = [entry.plugin for entry in framework.scores]
        points: dict[str, Sequence[object]] = {
            "PreFilter": framework.pre_filters,
            "Filter": framework.filters,
            "PreScore": [plugin for plugin in scorers if hasattr(plugin, "pre_score")],
            "Score": scorers,
        }
        for point, plugins in points.items():
            for plugin in plugins:
                name = getattr(plugin, "NAME")  # noqa: B009  # Whatever it can do, it has one.
                counters.count("plugin_evaluations", (name, point, profile), 0)


class Counters(dict[Count, int]):
    """How often each has happened; and what is told apart by labels, or measured."""

    def __init__(self, stopwatch: Callable[[], float] = lambda: 0.0) -> None:
        """`stopwatch`: seconds since whenever, for what is only told. No decision may depend on it."""
        super().__init__(dict.fromkeys(Count, 0))
        self.stopwatch = stopwatch
        self.plugin_times = PluginTimes(stopwatch)
        self._took: dict[tuple[str, str, str], list[float]] = {}
        """(extension point, status, profile) -> pods and seconds since the last `flush`."""
        self.passed: Counter[tuple[str, str]] = Counter()
        """(extension point, profile) -> pods since then that nobody was asked about."""
        self.foreign_by_node: Counter[str] = Counter()
        """Node -> pods of ours that another scheduler bound there. A node that goes is forgotten."""
        self.last_error = ""
        """What was told of the last attempt that ended with an error."""
        self.recent: deque[tuple[float, str, str, str]] = deque(maxlen=RECENT_MAX)
        """How the last attempts ended: when they began, the pod's key, node, and the message of those
        without."""
        self._tally = owner_tally()
        self.count, self.observe = self._tally.count, self._tally.observe
        """What is told apart by labels, and what is measured."""

    def took(
        self, point: str, profile: str, seconds: float, times: int = 1, status: str = "Success"
    ) -> None:
        """An extension point took so long for `times` pods together."""
        key = point, status, profile
        known = self._took.get(key)
        if known is None:
            known = self._took[key] = [0, 0.0]
        known[0] += times
        known[1] += seconds

    def flush(self) -> None:
        """Observes what `took` was told of, at the end of a turn. Of pods that went together each took
        equally long."""
        if self.passed:
            for (point, profile), times in self.passed.items():
                self.took(point, profile, 0.0, times)
            self.passed.clear()
        if self._took:
            for labels, (count, seconds) in self._took.items():
                self.observe("extension_point_s", labels, seconds / count, int(count))
            self._took.clear()
        self.plugin_times.flush(self._tally)
        self.plugin_times.begin_round()

    def add(self, measured: Measured) -> None:
        """What another process counted and timed."""
        if measured.counts or measured.histograms:
            add_to(self._tally, measured)

    def plain(self) -> dict[str, int]:
        """What has happened at all, by its name in messages."""
        return {count.key: times for count, times in self.items() if times}

    def measured(self) -> Measured:
        """All of it, in the order in which it first came up."""
        return measured_by(self._tally)
