"""How long attempts and whole waits took, for the metrics.

Pods that were handed out together and are settled together took equally long: they are counted first
and observed once for all of them, so that a figure costs a pod next to nothing. Times are the owner's
own moments, those that `handle` was called with.
"""

from collections import Counter
from typing import Final

from daemon.core.counters import Counters
from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import QueuedPod

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
        self._failed: Counter[tuple[str, str, float]] = Counter()
        """(result, profile, when it was handed out)"""
        self._bound: Counter[tuple[str, float, int, float]] = Counter()
        """(profile, when it was handed out, attempts, when it could first have been tried), both times
        later by what the end was heard of too late"""

    def bound(self, pod: QueuedPod, profile: str, ago_s: float) -> None:
        """The attempt led to a binding, which is part of it, `ago_s` before now."""
        since_s = pod.initial_attempt_s or pod.added_s
        self._bound[profile, pod.popped_s + ago_s, pod.attempts, since_s + ago_s] += 1
        if pod.was_flushed:
            self._counters[Count.SCHEDULED_AFTER_FLUSH] += 1

    def refused(self, pod: QueuedPod, profile: str, *, is_error: bool) -> None:
        """The attempt came to nothing."""
        self._failed[ERROR if is_error else UNSCHEDULABLE, profile, pod.popped_s] += 1

    def flush(self, now_s: float) -> None:
        """Observes what was taken down, all of which happened now."""
        if not (self._failed or self._bound):
            return
        observe = self._counters.observe
        for (result, profile, popped_s), count in self._failed.items():
            observe("attempt_s", (result, profile), max(0.0, now_s - popped_s), count)
        for (profile, popped_s, attempts, since_s), count in self._bound.items():
            observe("attempt_s", (SCHEDULED, profile), max(0.0, now_s - popped_s), count)
            is_many = attempts >= ATTEMPTS_LABELLED_MAX
            label = f"{ATTEMPTS_LABELLED_MAX}+" if is_many else f"{attempts}"
            observe("sli_s", (label,), max(0.0, now_s - since_s), count)
            observe("attempts", (), attempts, count)
        self._failed.clear()
        self._bound.clear()
