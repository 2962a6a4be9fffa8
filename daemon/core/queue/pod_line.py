"""Pods in the order of a key; those that are taken out may be anywhere in it.

Taking one out leaves a dead entry, which is skipped; when half of all are dead they are swept out. So
every operation is O(log n), for pods that come in order O(1), and memory is at most twice the pods.

Pods that can be tried now are such a line. Their order is the QueueSort plugin's, PrioritySort's by
default: higher priority first, then the earlier timestamp; the arrival number makes it total, so that
the same calls always give the same order. Pods whose placement the owner refused go before all others of
their priority, in the same order among themselves.

Rules: pkg/scheduler/framework/plugins/queuesort, pkg/scheduler/backend/queue/{active,backoff}_queue.go,
v1.36.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from daemon.core.queue.queued_pod import Place, QueuedPod

Key = tuple[float, ...]
Entry = tuple[Key, int, QueuedPod]
"""The key; the pod's arrival number, which makes the order total; the pod."""

QueueKey = Callable[[int, float], Key]
"""QueueSort: (priority, time of queueing in seconds) -> pods are taken in ascending order of it. The
first part is the pod's importance: pods whose placement was refused go before all others that have
the same."""


WINDOW_S: Final = 1.0
"""Ends of back-off are cut to a multiple of this."""

_SHIFT_MAX: Final = 64
"""2**64 s is longer than any maximum; more doublings would only overflow the float."""


class PodLine:
    """All pods that are in one place, or a part of them."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._line: deque[Entry] = deque()
        """Ascending: what comes after all of it (nearly everything) joins it; the heap has the rest."""
        self._heap: list[Entry] = []
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[QueuedPod]:
        for entries in (self._line, self._heap):
            yield from (entry[2] for entry in entries if self._is_alive(entry))

    def put(self, pod: QueuedPod, key: Key) -> None:
        pod.place = self._place
        self.count += 1
        entry = (key, pod.arrival, pod)
        if not self._line or self._line[-1] < entry:
            self._line.append(entry)
        else:
            heapq.heappush(self._heap, entry)

    def first(self) -> Entry | None:
        """Left where it is."""
        line, heap = self._line, self._heap
        while line and not self._is_alive(line[0]):
            line.popleft()
        while heap and not self._is_alive(heap[0]):
            heapq.heappop(heap)
        if line and heap:
            return min(line[0], heap[0])
        return line[0] if line else heap[0] if heap else None

    def pop(self) -> QueuedPod | None:
        """The first pod, taken out; None when there is none."""
        line, heap = self._line, self._heap
        while line or heap:
            is_heap_first = bool(heap) and (not line or heap[0] < line[0])
            entry = heapq.heappop(heap) if is_heap_first else line.popleft()
            if self._is_alive(entry):
                self.count -= 1
                return entry[2]
        return None

    def remove(self, pod: QueuedPod) -> None:
        """Takes a pod out; the caller gives it its next place, and to return another arrival number."""
        assert pod.place is self._place, f"only a pod that is {self._place} can be taken from here"
        pod.place = Place.GONE
        self.count -= 1
        if len(self._line) + len(self._heap) > 2 * self.count:
            self._line = deque(filter(self._is_alive, self._line))
            self._heap = list(filter(self._is_alive, self._heap))
            heapq.heapify(self._heap)

    def _is_alive(self, entry: Entry) -> bool:
        """A pod that was taken out and came back has another arrival number than its old entry."""
        _, arrival, pod = entry
        return pod.arrival == arrival and pod.place is self._place


class ActiveQueue(PodLine):
    """By importance; whether the pod was not refused; and its key."""

    def __init__(self, queue_key: QueueKey) -> None:
        super().__init__(Place.ACTIVE)
        self._queue_key = queue_key

    def push(self, pod: QueuedPod) -> None:
        key = self._queue_key(pod.priority, pod.timestamp_s)
        self.put(pod, (key[0], True, *key))

    def push_head(self, pod: QueuedPod) -> None:
        key = self._queue_key(pod.priority, pod.timestamp_s)
        pod.place = Place.ACTIVE
        self.count += 1
        heapq.heappush(self._heap, ((key[0], False, *key), pod.arrival, pod))

    def first_in_line(self) -> QueuedPod | None:
        """The most important pod, left where it is; None also where somebody has pushed in."""
        first = self.first() if self._line and not self._heap else None
        return None if first is None else first[2]


class BackoffQueue:
    """Pods that failed a moment ago and wait before they are tried again: two lines by the end of the
    back-off, then in the order of the active queue.

    The wait doubles with each failure, from `initial_s` up to `max_s`. Its end is cut to the full
    second, and a pod leaves once that is over: so whole seconds of pods leave together, ordered by
    importance rather than by milliseconds (SEMANTICS of v1.36: the pod moves at most one second later).
    Where none is taken early (`pops_early`), nothing is cut.

    Pods that failed with an error wait in a line of their own: the other one may be emptied early, when
    nothing else is left to try, but hammering an API server that is in trouble helps nobody. So do pods
    of groups: whatever happens they come back here (upstream tries them on and on while nothing else is
    left).
    """

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
