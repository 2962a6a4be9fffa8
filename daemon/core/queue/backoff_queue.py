"""Pods that failed a moment ago and wait before they are tried again.

The wait doubles with each failure, from `initial_s` up to `max_s`. Its end is cut to the full second,
and a pod leaves once that second is over: so whole seconds of pods leave together, ordered by
importance rather than by milliseconds (SEMANTICS of v1.36: the pod moves at most one second later).
Where none is taken early (`pops_early`), nothing is cut.

Pods that failed with an error wait in a queue of their own: the other one may be emptied early, when
nothing else is left to try, but hammering an API server that is in trouble helps nobody. So do pods of
groups: whatever happens they come back here (upstream tries them on and on while nothing else is left).

Rules: pkg/scheduler/backend/queue/backoff_queue.go, v1.36.
"""

import math
from collections.abc import Iterator
from typing import Final

from daemon.core.queue.pod_line import PodLine, QueueKey
from daemon.core.queue.queued_pod import Place, QueuedPod

WINDOW_S: Final = 1.0
"""Ends of back-off are cut to a multiple of this."""

_SHIFT_MAX: Final = 64
"""2**64 s is longer than any maximum; more doublings would only overflow the float."""


class BackoffQueue:
    """Two lines by the end of the back-off, then in the order of the active queue."""

    def __init__(
        self, initial_s: float, max_s: float, queue_key: QueueKey, *, pops_early: bool = True
    ) -> None:
        assert initial_s >= 0, "a back-off cannot end before it begins"
        assert max_s >= 0, "a back-off cannot end before it begins"
        self._initial_s = initial_s
        self._max_s = max_s
        self._queue_key = queue_key
        self.pops_early = pops_early
        self.rejected = PodLine(Place.BACKOFF)
        """Those that may be taken before their back-off is over."""
        self._errors = PodLine(Place.BACKOFF)

    def __len__(self) -> int:
        return self.rejected.count + self._errors.count

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self.rejected
        yield from self._errors

    def set_end(self, pod: QueuedPod) -> None:
        """Works out when the pod may be tried again, from its counts and its timestamp."""
        count = pod.consecutive_errors_count or pod.unschedulable_count
        if self._max_s:
            pod.backoff_until_s = self.moment_s(pod.timestamp_s + self.duration_s(count))

    def moment_s(self, time_s: float) -> float:
        """A time, as ends of back-off are compared with it."""
        return float(math.floor(time_s)) if self.pops_early else time_s

    def duration_s(self, count: int) -> float:
        """The length of the back-off after `count` failures in a row."""
        factor: float = 2.0 ** min(count - 1, _SHIFT_MAX)
        if self._initial_s > self._max_s / factor:
            return self._max_s
        return self._initial_s * factor

    def push(self, pod: QueuedPod) -> None:
        key = self._queue_key(pod.priority, pod.timestamp_s)
        self._of(pod).put(pod, (pod.backoff_until_s, *key))

    def remove(self, pod: QueuedPod) -> None:
        """Takes a pod out; the caller gives it its next place."""
        self._of(pod).remove(pod)

    def pop_early(self) -> QueuedPod | None:
        """The rejected pod whose back-off ends first, taken out before it does, if that may be."""
        return self.rejected.pop() if self.pops_early else None

    def pop_completed(self, now_s: float) -> list[QueuedPod]:
        now_s = self.moment_s(now_s)
        done: list[QueuedPod] = []
        for waiting in (self.rejected, self._errors):
            while (first := waiting.first()) is not None and first[0][0] < now_s:
                waiting.pop()
                done.append(first[2])
        return done

    def next_completion_s(self) -> float:
        """When the next pod leaves; infinity when none is here."""
        if not (self.rejected.count or self._errors.count):
            return math.inf
        firsts = (self.rejected.first(), self._errors.first())
        return math.floor(min(each[0][0] for each in firsts if each is not None)) + WINDOW_S

    def _of(self, pod: QueuedPod) -> PodLine:
        return self._errors if pod.waits_in_full else self.rejected
