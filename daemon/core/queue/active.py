"""Pods that can be tried now, the most important first; and who is kept out (PreEnqueue).

The order is the QueueSort plugin's, PrioritySort's by default: higher priority first, then the
earlier timestamp; the arrival number makes it total, so that the same calls always give the same
order. Pods whose placement the owner refused go before all others of their priority, in the same order
among themselves.

Rules: pkg/scheduler/framework/plugins/{queuesort,schedulinggates} and
pkg/scheduler/backend/queue/active_queue.go, v1.36.
"""

import heapq
from collections.abc import Callable

from daemon.core.queue.pod_line import Key, PodLine
from daemon.core.queue.queued_pod import Place, QueuedPod

PreEnqueue = Callable[[QueuedPod], str | None]
"""The plugin that keeps a pod out of the queue for now, or None. Asked whenever the pod could become
active, and not while nothing changes for it."""

QueueKey = Callable[[int, float], Key]
"""QueueSort: (priority, time of queueing in seconds) -> pods are taken in ascending order of it. The
first part is the pod's importance: pods whose placement was refused go before all others that have
the same."""


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
