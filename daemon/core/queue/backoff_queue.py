"""Pods that failed a moment ago and wait before they are tried again.

The wait doubles with each failure, from `initial_s` up to `max_s`. Its end is cut to the full second,
and a pod leaves once that second is over: so whole seconds of pods leave together, ordered by
importance rather than by milliseconds (SEMANTICS of v1.36: the pod moves at most one second later).

Pods that failed with an error wait in a queue of their own: the other one may be emptied early, when
nothing else is left to try, but hammering an API server that is in trouble helps nobody. So do pods of
groups: whatever happens they come back here (upstream tries them on and on while nothing else is left).

Rules: pkg/scheduler/backend/queue/backoff_queue.go, v1.36.
"""

import heapq
import math
from collections.abc import Iterator
from typing import Final

from daemon.core.queue.active import QueueKey
from daemon.core.queue.queued_pod import Place, QueuedPod

WINDOW_S: Final = 1.0
"""Ends of back-off are cut to a multiple of this."""

_SHIFT_MAX: Final = 64
"""2**64 s is longer than any maximum; more doublings would only overflow the float."""

_Entry = tuple[float, tuple[float, ...], int, QueuedPod]


class BackoffQueue:
    """Two heaps by the end of the back-off, then in the order of the active queue."""

    def __init__(self, initial_s: float, max_s: float, queue_key: QueueKey) -> None:
        assert initial_s >= 0, "a back-off cannot end before it begins"
        assert max_s >= 0, "a back-off cannot end before it begins"
        self._initial_s = initial_s
        self._max_s = max_s
        self._queue_key = queue_key
        self._rejected: list[_Entry] = []
        self._errors: list[_Entry] = []
        self._rejected_count = 0
        self._error_count = 0

    def __len__(self) -> int:
        return self._rejected_count + self._error_count

    def __iter__(self) -> Iterator[QueuedPod]:
        for heap in (self._rejected, self._errors):
            for entry in heap:
                if _is_alive(entry):
                    yield entry[3]

    @property
    def poppable_count(self) -> int:
        """Pods that may be taken before their back-off is over."""
        return self._rejected_count

    def set_end(self, pod: QueuedPod) -> None:
        """Works out when the pod may be tried again, from its counts and its timestamp."""
        count = pod.consecutive_errors_count or pod.unschedulable_count
        if count == 0 or self._max_s == 0:
            pod.backoff_until_s = 0.0
            return
        pod.backoff_until_s = float(math.floor(pod.timestamp_s + self.duration_s(count)))

    def duration_s(self, count: int) -> float:
        """The length of the back-off after `count` failures in a row."""
        factor: float = 2.0 ** min(count - 1, _SHIFT_MAX)
        if self._initial_s > self._max_s / factor:
            return self._max_s
        return self._initial_s * factor

    def is_backing_off(self, pod: QueuedPod, now_s: float) -> bool:
        """Whether the pod has to wait. It does through the whole second in which its time ends."""
        if self._max_s == 0 or not (pod.consecutive_errors_count or pod.unschedulable_count):
            return False
        return pod.backoff_until_s >= math.floor(now_s)

    def push(self, pod: QueuedPod) -> None:
        pod.place = Place.BACKOFF
        key = self._queue_key(pod.priority, pod.timestamp_s)
        entry = (pod.backoff_until_s, key, pod.arrival, pod)
        if pod.waits_in_full:
            heapq.heappush(self._errors, entry)
            self._error_count += 1
        else:
            heapq.heappush(self._rejected, entry)
            self._rejected_count += 1

    def remove(self, pod: QueuedPod) -> None:
        """Takes a pod out; the caller gives it its next place."""
        assert pod.place is Place.BACKOFF, "only a pod in back-off leaves the back-off queue"
        pod.place = Place.GONE
        if pod.waits_in_full:
            self._error_count -= 1
            self._errors = _compacted(self._errors, self._error_count)
        else:
            self._rejected_count -= 1
            self._rejected = _compacted(self._rejected, self._rejected_count)

    def pop_early(self) -> QueuedPod | None:
        """The rejected pod whose back-off ends first, taken out before it does."""
        _drop_dead(self._rejected)
        if not self._rejected:
            return None
        pod = heapq.heappop(self._rejected)[3]
        self._rejected_count -= 1
        return pod

    def pop_completed(self, now_s: float) -> list[QueuedPod]:
        """All pods whose back-off is over, taken out."""
        if not (self._rejected or self._errors):
            return []
        done = _pop_before(self._rejected, math.floor(now_s))
        self._rejected_count -= len(done)
        failed = _pop_before(self._errors, math.floor(now_s))
        self._error_count -= len(failed)
        return done + failed

    def next_completion_s(self) -> float:
        """When the next pod leaves; infinity when none is here."""
        if not (self._rejected or self._errors):
            return math.inf
        _drop_dead(self._rejected)
        _drop_dead(self._errors)
        first = min(
            self._rejected[0][0] if self._rejected else math.inf,
            self._errors[0][0] if self._errors else math.inf,
        )
        return first + WINDOW_S


def _is_alive(entry: _Entry) -> bool:
    """A pod that left and came back has another arrival number than its old entry."""
    pod = entry[3]
    return pod.place is Place.BACKOFF and pod.arrival == entry[2]


def _drop_dead(heap: list[_Entry]) -> None:
    while heap and not _is_alive(heap[0]):
        heapq.heappop(heap)


def _pop_before(heap: list[_Entry], window: int) -> list[QueuedPod]:
    popped = []
    while heap and heap[0][0] < window:
        entry = heapq.heappop(heap)
        if _is_alive(entry):
            popped.append(entry[3])
    return popped


def _compacted(heap: list[_Entry], alive_count: int) -> list[_Entry]:
    """The heap without its dead entries once they are more than the living ones."""
    if len(heap) <= 2 * alive_count + 16:
        return heap
    alive = [entry for entry in heap if _is_alive(entry)]
    heapq.heapify(alive)
    return alive
