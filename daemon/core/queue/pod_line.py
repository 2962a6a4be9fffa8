"""Pods in the order of a key; those that are taken out may be anywhere in it.

Taking one out leaves a dead entry, which is skipped; when half of all are dead they are swept out. So
every operation is O(log n), for pods that come in order O(1), and memory is at most twice the pods.
"""

import heapq
from collections import deque
from collections.abc import Iterator

from daemon.core.queue.queued_pod import Place, QueuedPod

Key = tuple[float, ...]
Entry = tuple[Key, int, QueuedPod]
"""The key; the pod's arrival number, which makes the order total; the pod."""


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
