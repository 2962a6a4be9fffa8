"""How long attempts and whole waits took, for the metrics.

Pods that were handed out together and are settled together took equally long: they are counted first
and observed once for all of them, so that a figure costs a pod next to nothing. Times are the owner's
own moments, those that `handle` was called with.
"""

from collections import Counter
from typing import Final

from daemon.core.counters import Counters
from daemon.core.queue.queued_pod import QueuedPod
from shared.telemetry.metrics import Count

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"
"""Results, in kube-scheduler's words (pkg/scheduler/metrics/metrics.go, v1.36.2)."""
ATTEMPTS_LABELLED_MAX: Final = 15
"""Pods with so many attempts or more are one label (getAttemptsLabel in
pkg/scheduler/schedule_one.go, v1.36.2)."""


class AttemptTimes:
    """Of the attempts that ended since the last `flush`."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._ended: Counter[tuple[str, str, float]] = Counter()
        """(result, profile, when it was handed out, later by what its end was heard of too late)"""
        self._bound: Counter[tuple[int, float]] = Counter()
        """(attempts, when it could first have been tried, likewise)"""

    def bound(self, pod: QueuedPod, profile: str, ago_s: float) -> None:
        """The attempt led to a binding, which is part of it, `ago_s` before now."""
        self._ended[SCHEDULED, profile, pod.popped_s + ago_s] += 1
        self._bound[pod.attempts, (pod.initial_attempt_s or pod.added_s) + ago_s] += 1
        if pod.was_flushed:
            self._counters[Count.SCHEDULED_AFTER_FLUSH] += 1

    def refused(self, pod: QueuedPod, profile: str, *, is_error: bool) -> None:
        """The attempt came to nothing."""
        self._ended[ERROR if is_error else UNSCHEDULABLE, profile, pod.popped_s] += 1

    def flush(self, now_s: float) -> None:
        """Observes what was taken down, all of which happened now."""
        if not self._ended:
            return
        observe = self._counters.observe
        for (result, profile, popped_s), count in self._ended.items():
            observe("attempt_s", (result, profile), max(0.0, now_s - popped_s), count)
        for (attempts, since_s), count in self._bound.items():
            is_many = attempts >= ATTEMPTS_LABELLED_MAX
            label = f"{ATTEMPTS_LABELLED_MAX}+" if is_many else f"{attempts}"
            observe("sli_s", (label,), max(0.0, now_s - since_s), count)
            observe("attempts", (), attempts, count)
        self._ended.clear()
        self._bound.clear()
