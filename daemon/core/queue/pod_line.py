"""Pods in the order of a key; those that are taken out may be anywhere in it.

Taking one out leaves a dead entry, which is skipped; when half of all are dead they are swept out. So
every operation is O(log n), for pods that come in order O(1), and memory is at most twice the pods.

Pods that can be tried now are such a line. Their order is the QueueSort plugin's, PrioritySort's by
default: higher priority first, then the earlier timestamp; the arrival number makes it total, so that
the same calls always give the same order. Pods whose placement the owner refused go before all others of
their priority, in the same order among themselves.

Rules: pkg/scheduler/framework/plugins/queuesort and pkg/scheduler/backend/queue/active_queue.go, v1.36.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator

from daemon.core.queue.queued_pod import Place, QueuedPod

Key = tuple[float, ...]
Entry = tuple[Key, int, QueuedPod]
"""The key; the pod's arrival number, which makes the order total; the pod."""

QueueKey = Callable[[int, float], Key]
"""QueueSort: (priority, time of queueing in seconds) -> pods are taken in ascending order of it. The
first part is the pod's importance: pods whose placement was refused go before all others that have
the same."""


class PodLine:
    """All pods that are in one place, or a part of them."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._line: deque[Entry] = deque()
        """In ascending order: what comes after all of it joins its end, which is nearly everything. The
        heap is for the rest."""
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
        """Takes a pod out; the caller gives it its next place. If it comes back, it does with another
        arrival number."""
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
