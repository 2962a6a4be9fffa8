"""Pods that can be tried now, the most important first; and who is kept out (PreEnqueue).

The order is the QueueSort plugin's, PrioritySort's by default: higher priority first, then the
earlier timestamp; the arrival number makes it total, so that the same calls always give the same
order. Pods whose placement the owner
refused go before all others of their priority, in the order in which they were tried.

Deleting leaves a dead entry, which `pop` skips; when half of all are dead they are swept out. So every
operation is O(log n), for pods that come in order O(1), and memory is at most twice the pods.

Rules: pkg/scheduler/framework/plugins/{queuesort,schedulinggates} and
pkg/scheduler/backend/queue/active_queue.go, v1.36.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator

from daemon.core.queue.queued_pod import Place, QueuedPod

PreEnqueue = Callable[[QueuedPod], str | None]
"""The plugin that keeps a pod out of the queue for now, or None. Asked whenever the pod could become
active, and not while nothing changes for it."""

QueueKey = Callable[[int, float], tuple[float, ...]]
"""QueueSort: (priority, time of queueing in seconds) -> pods are taken in ascending order of it. The
first part is the pod's importance: pods whose placement was refused go before all others that have
the same."""

_Entry = tuple[tuple[float, ...], int, QueuedPod]


class ActiveQueue:
    """A heap of pods by importance."""

    def __init__(self, queue_key: QueueKey) -> None:
        self._queue_key = queue_key
        self._line: deque[_Entry] = deque()
        """In ascending order: what comes after all of it joins its end, which is nearly everything. The
        heap is for the rest."""
        self._heap: list[_Entry] = []
        self._returned: list[_Entry] = []
        """Pods that go before all others of their priority; same order among themselves."""
        self._dead_count = 0

    def __len__(self) -> int:
        return len(self._line) + len(self._heap) + len(self._returned) - self._dead_count

    def __iter__(self) -> Iterator[QueuedPod]:
        for heap in (self._returned, self._line, self._heap):
            for entry in heap:
                if entry[2].place is Place.ACTIVE:
                    yield entry[2]

    def push(self, pod: QueuedPod) -> None:
        pod.place = Place.ACTIVE
        entry = self._entry(pod)
        if not self._line or self._line[-1] < entry:
            self._line.append(entry)
        else:
            heapq.heappush(self._heap, entry)

    def push_head(self, pod: QueuedPod) -> None:
        """Puts a pod before all others of its priority."""
        pod.place = Place.ACTIVE
        heapq.heappush(self._returned, self._entry(pod))

    def pop(self) -> QueuedPod | None:
        """The most important pod, taken out; None when there is none."""
        while True:
            entry = self._pop_entry()
            if entry is None:
                return None
            pod = entry[2]
            if pod.place is Place.ACTIVE:
                return pod
            self._dead_count -= 1

    def first_in_line(self) -> QueuedPod | None:
        """The most important pod, left where it is; None also where somebody has pushed in."""
        line = self._line
        if self._heap or self._returned:
            return None
        while line and line[0][2].place is not Place.ACTIVE:
            line.popleft()
            self._dead_count -= 1
        return line[0][2] if line else None

    def discard(self, pod: QueuedPod) -> None:
        """Takes a pod out for good. It never comes back as the same object (see `_rebuild`)."""
        assert pod.place is Place.ACTIVE, "only an active pod leaves the active queue"
        pod.place = Place.GONE
        self._dead_count += 1
        if self._dead_count > len(self):
            self._rebuild()

    def _entry(self, pod: QueuedPod) -> _Entry:
        return (self._queue_key(pod.priority, pod.timestamp_s), pod.arrival, pod)

    def _pop_entry(self) -> _Entry | None:
        line, heap, returned = self._line, self._heap, self._returned
        is_heap_first = bool(heap) and (not line or heap[0] < line[0])
        if returned:
            first = heap[0] if is_heap_first else line[0] if line else None
            if first is None or first[0][0] >= returned[0][0][0]:
                return heapq.heappop(returned)
        if is_heap_first:
            return heapq.heappop(heap)
        return line.popleft() if line else None

    def _rebuild(self) -> None:
        self._line = deque(entry for entry in self._line if entry[2].place is Place.ACTIVE)
        self._heap = [entry for entry in self._heap if entry[2].place is Place.ACTIVE]
        self._returned = [entry for entry in self._returned if entry[2].place is Place.ACTIVE]
        heapq.heapify(self._heap)
        heapq.heapify(self._returned)
        self._dead_count = 0
