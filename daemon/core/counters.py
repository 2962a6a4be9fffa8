"""What the owner counts and times since its start; `owner_counts.py` says what there is.

Pods that went together took equally long: they are counted first and observed once for all of them, at
the end of a turn, so that a figure costs a pod next to nothing. Times are the owner's own moments, those
that `handle` was called with.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from daemon.core.owner_counts import ALL_METRICS, Count, add_to
from daemon.core.queue.queued_pod import QueuedPod
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plugin_times import PluginTimes
from shared.messages.measured import Measured, measured_by
from shared.telemetry.tally import Tally

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"
"""Results, in kube-scheduler's words (pkg/scheduler/metrics/metrics.go, v1.36.2)."""
ATTEMPTS_LABELLED_MAX: Final = 15
"""Pods with so many attempts or more are one label (getAttemptsLabel in
pkg/scheduler/schedule_one.go, v1.36.2)."""
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
        self._failed: Counter[tuple[str, str, float]] = Counter()
        """(result, profile, when it was handed out) of attempts that ended since then."""
        self._bound: Counter[tuple[str, float, int, float]] = Counter()
        """(profile, when it was handed out, attempts, when it could first have been tried), both times
        later by what the end was heard of too late."""
        self.foreign_by_node: Counter[str] = Counter()
        """Node -> pods of ours that another scheduler bound there. A node that goes is forgotten."""
        self.last_error = ""
        """What was told of the last attempt that ended with an error."""
        self.recent: deque[tuple[float, str, str, str]] = deque(maxlen=RECENT_MAX)
        """How the last attempts ended: when they began, the pod's key, node, and the message of those
        without."""
        self._tally = Tally(ALL_METRICS)
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

    def bound(self, pod: QueuedPod, profile: str, ago_s: float) -> None:
        """The attempt led to a binding, which is part of it, `ago_s` before now."""
        since_s = pod.initial_attempt_s or pod.added_s
        self._bound[profile, pod.popped_s + ago_s, pod.attempts, since_s + ago_s] += 1
        if pod.was_flushed:
            self[Count.SCHEDULED_AFTER_FLUSH] += 1

    def refused(self, pod: QueuedPod, profile: str, *, is_error: bool) -> None:
        self._failed[ERROR if is_error else UNSCHEDULABLE, profile, pod.popped_s] += 1

    def flush(self, now_s: float) -> None:
        """Observes what was taken down in a turn, all of which happened now."""
        if self.passed:
            for (point, profile), times in self.passed.items():
                self.took(point, profile, 0.0, times)
            self.passed.clear()
        if self._took:
            for labels, (count, seconds) in self._took.items():
                self.observe("extension_point_s", labels, seconds / count, int(count))
            self._took.clear()
        for (result, profile, popped_s), count in self._failed.items():
            self.observe("attempt_s", (result, profile), max(0.0, now_s - popped_s), count)
        self._failed.clear()
        for (profile, popped_s, attempts, since_s), count in self._bound.items():
            self.observe("attempt_s", (SCHEDULED, profile), max(0.0, now_s - popped_s), count)
            is_many = attempts >= ATTEMPTS_LABELLED_MAX
            label = f"{ATTEMPTS_LABELLED_MAX}+" if is_many else f"{attempts}"
            self.observe("sli_s", (label,), max(0.0, now_s - since_s), count)
            self.observe("attempts", (), attempts, count)
        self._bound.clear()
        self.plugin_times.flush(self._tally)
        self.plugin_times.begin_round()

    def add(self, measured: Measured) -> None:
        if measured.counts or measured.histograms:
            add_to(self._tally, measured)

    def plain(self) -> dict[str, int]:
        """What has happened at all, by its name in messages."""
        return {count.key: times for count, times in self.items() if times}

    def measured(self) -> Measured:
        """All of it, in the order in which it first came up."""
        return measured_by(self._tally)
