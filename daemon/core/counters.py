"""What the owner counts and times since its start; `owner_counts.py` says what there is.

What is measured is taken down, and put into its bucket once a second (`flush`), or when somebody asks: a
lone pod pays for an entry of a table, and pods that went together, which took equally long, for one of
them all. Times are the owner's own moments, those that `handle` was called with.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from daemon.core.owner_counts import ALL_METRICS, Count, add_to
from daemon.core.queue.queued_pod import QueuedPod
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plugin_times import PluginTimes
from shared.telemetry.metrics import Labels, Measured, Tally, measured_by

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
        self.observed: defaultdict[tuple[str, Labels, float], int] = defaultdict(int)
        """(what is measured, its labels, how much) -> how often since the last `flush`. What each pod
        comes by is added without a call."""
        self.foreign_by_node: Counter[str] = Counter()
        """Node -> pods of ours that another scheduler bound there. A node that goes is forgotten."""
        self.last_error = ""
        """What was told of the last attempt that ended with an error."""
        self.recent: deque[tuple[float, str, str, str]] = deque(maxlen=RECENT_MAX)
        """How the last attempts ended: when they began, the pod's key, its node, else the message."""
        self._tally = Tally(ALL_METRICS)
        self.plugin_times = PluginTimes(stopwatch, self._tally)
        self.count = self._tally.count
        """What is told apart by labels."""

    def observe(self, name: str, labels: Labels, measured: float, times: int = 1) -> None:
        """`times` equal observations of what is measured."""
        self.observed[name, labels, measured] += times

    def took(
        self, point: str, profile: str, seconds: float, times: int = 1, status: str = "Success"
    ) -> None:
        """An extension point took so long for `times` pods together."""
        self.observed["extension_point_s", (point, status, profile), seconds / times] += times

    def bound(self, pod: QueuedPod, at_s: float) -> None:
        """The attempt led to a binding, which is part of it."""
        since_s = pod.initial_attempt_s or pod.added_s
        is_many = pod.attempts >= ATTEMPTS_LABELLED_MAX
        label = f"{ATTEMPTS_LABELLED_MAX}+" if is_many else f"{pod.attempts}"
        profile = pod.pod_class.profile
        self.observed["attempt_s", ("scheduled", profile), at_s - pod.popped_s] += 1
        self.observed["sli_s", (label,), at_s - since_s] += 1
        self.observed["attempts", (), pod.attempts] += 1
        if pod.was_flushed:
            self[Count.SCHEDULED_AFTER_FLUSH] += 1

    def refused(self, pod: QueuedPod, now_s: float, *, is_error: bool) -> None:
        """The results are in kube-scheduler's words (pkg/scheduler/metrics/metrics.go, v1.36.2)."""
        labels = "error" if is_error else "unschedulable", pod.pod_class.profile
        self.observed["attempt_s", labels, now_s - pod.popped_s] += 1

    def flush(self) -> None:
        """Puts what was measured into its buckets."""
        for (name, labels, measured), times in self.observed.items():
            self._tally.observe(name, labels, max(0.0, measured), times)
        self.observed.clear()

    def add(self, measured: Measured) -> None:
        add_to(self._tally, measured)

    def plain(self) -> dict[str, int]:
        """What has happened at all, by its name in messages."""
        return {count.key: times for count, times in self.items() if times}

    def measured(self) -> Measured:
        """All of it, in the order in which it first came up."""
        self.flush()
        return measured_by(self._tally)
