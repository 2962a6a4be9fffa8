"""Pods that can be tried now, the most important first; and who is kept out (PreEnqueue).

The order is the QueueSort plugin's, PrioritySort's by default: higher priority first, then the
earlier timestamp; the arrival number makes it total, so that the same calls always give the same
order. Pods whose placement the owner refused go before all others of their priority, in the same order
among themselves.

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

_Entry = tuple[float, bool, tuple[float, ...], int, QueuedPod]
"""Importance; whether the pod was not refused; the key, of which importance is the first part; the
pod's number; the pod."""


class ActiveQueue:
    def __init__(self, queue_key: QueueKey) -> None:
        self._queue_key = queue_key
        self._line: deque[_Entry] = deque()
        """In ascending order: what comes after all of it joins its end, which is nearly everything. The
        heap is for the rest."""
        self._heap: list[_Entry] = []
        self._dead_count = 0

    def __len__(self) -> int:
        return len(self._line) + len(self._heap) - self._dead_count

    def __iter__(self) -> Iterator[QueuedPod]:
        for entries in (self._line, self._heap):
            yield from (entry[-1] for entry in entries if _is_alive(entry))

    def push(self, pod: QueuedPod) -> None:
        pod.place = Place.ACTIVE
        entry = self._entry(pod, is_new=True)
        if not self._line or self._line[-1] < entry:
            self._line.append(entry)
        else:
            heapq.heappush(self._heap, entry)

    def push_head(self, pod: QueuedPod) -> None:
        pod.place = Place.ACTIVE
        heapq.heappush(self._heap, self._entry(pod, is_new=False))

    def pop(self) -> QueuedPod | None:
        """The most important pod, taken out; None when there is none."""
        line, heap = self._line, self._heap
        while line or heap:
            is_heap_first = bool(heap) and (not line or heap[0] < line[0])
            entry = heapq.heappop(heap) if is_heap_first else line.popleft()
            if _is_alive(entry):
                return entry[-1]
            self._dead_count -= 1
        return None

    def first_in_line(self) -> QueuedPod | None:
        """The most important pod, left where it is; None also where somebody has pushed in."""
        line = self._line
        if self._heap:
            return None
        while line and not _is_alive(line[0]):
            line.popleft()
            self._dead_count -= 1
        return line[0][-1] if line else None

    def remove(self, pod: QueuedPod) -> None:
        """Takes a pod out. If it comes back, it does with another arrival number."""
        assert pod.place is Place.ACTIVE, "only an active pod leaves the active queue"
        pod.place = Place.GONE
        self._dead_count += 1
        if self._dead_count > len(self):
            self._rebuild()

    def _entry(self, pod: QueuedPod, *, is_new: bool) -> _Entry:
        key = self._queue_key(pod.priority, pod.timestamp_s)
        return (key[0], is_new, key, pod.arrival, pod)

    def _rebuild(self) -> None:
        self._line = deque(filter(_is_alive, self._line))
        self._heap = list(filter(_is_alive, self._heap))
        heapq.heapify(self._heap)
        self._dead_count = 0


def _is_alive(entry: _Entry) -> bool:
    """A pod that was taken out and came back has another arrival number than its old entry."""
    *_, arrival, pod = entry
    return pod.arrival == arrival and pod.place is Place.ACTIVE
