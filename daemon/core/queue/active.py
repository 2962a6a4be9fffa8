"""Pods that can be tried now, the most important first; and who is kept out (PreEnqueue).

The order is PrioritySort's: higher priority first, then the earlier timestamp; the arrival number
makes it total, so that the same calls always give the same order. Pods whose placement the owner
refused go before all others of their priority, in the order in which they were tried.

Deleting leaves a dead entry in the heap, which `pop` skips; when half of the heap is dead it is
rebuilt. So every operation is O(log n), and memory is at most twice the pods.

Rules: pkg/scheduler/framework/plugins/{queuesort,schedulinggates} and
pkg/scheduler/backend/queue/active_queue.go, v1.36.
"""

import heapq
from collections.abc import Callable, Iterator

from daemon.core.queue.queued_pod import Place, QueuedPod
from shared.plugin_names import SCHEDULING_GATES

PreEnqueue = Callable[[QueuedPod], str | None]
"""The plugin that keeps a pod out of the queue for now, or None. Asked whenever the pod could become
active, and not while nothing changes for it."""

_Entry = tuple[int, float, int, QueuedPod]


def scheduling_gates(pod: QueuedPod) -> str | None:
    """SchedulingGates' PreEnqueue: a pod waits until its last gate is taken away."""
    return SCHEDULING_GATES if pod.info.spec.scheduling_gates else None


class ActiveQueue:
    """A heap of pods by importance."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._returned: list[_Entry] = []
        """Pods that go before all others of their priority; same order among themselves."""
        self._dead_count = 0

    def __len__(self) -> int:
        return len(self._heap) + len(self._returned) - self._dead_count

    def __iter__(self) -> Iterator[QueuedPod]:
        for heap in (self._returned, self._heap):
            for entry in heap:
                if entry[3].place is Place.ACTIVE:
                    yield entry[3]

    def push(self, pod: QueuedPod) -> None:
        pod.place = Place.ACTIVE
        heapq.heappush(self._heap, (-pod.priority, pod.timestamp_s, pod.arrival, pod))

    def push_head(self, pod: QueuedPod) -> None:
        """Puts a pod before all others of its priority."""
        pod.place = Place.ACTIVE
        heapq.heappush(self._returned, (-pod.priority, pod.timestamp_s, pod.arrival, pod))

    def pop(self) -> QueuedPod | None:
        """The most important pod, taken out; None when there is none."""
        while True:
            heap = self._first_heap()
            if not heap:
                return None
            pod = heapq.heappop(heap)[3]
            if pod.place is Place.ACTIVE:
                return pod
            self._dead_count -= 1

    def discard(self, pod: QueuedPod) -> None:
        """Takes a pod out for good. It never comes back as the same object (see `_rebuild`)."""
        assert pod.place is Place.ACTIVE, "only an active pod leaves the active queue"
        pod.place = Place.GONE
        self._dead_count += 1
        if self._dead_count * 2 > len(self._heap) + len(self._returned):
            self._rebuild()

    def _first_heap(self) -> list[_Entry]:
        if not self._returned:
            return self._heap
        if self._heap and self._heap[0][0] < self._returned[0][0]:
            return self._heap
        return self._returned

    def _rebuild(self) -> None:
        self._heap = [entry for entry in self._heap if entry[3].place is Place.ACTIVE]
        self._returned = [entry for entry in self._returned if entry[3].place is Place.ACTIVE]
        heapq.heapify(self._heap)
        heapq.heapify(self._returned)
        self._dead_count = 0
