"""Pods that are being tried, and what happened in the cluster meanwhile.

A pod that comes back rejected may have been tried on a cluster that is already another one: an event
that would have woken it passed while nobody was parked. So events are logged while pods are in
flight, and a rejected pod first asks those that came after it was popped.

One log serves all attempts: each remembers the number of the first event after its start, and what
lies before the oldest attempt is dropped. The log is bounded: when it is full, its older half goes,
and an attempt that has lost events is treated as if one of them had helped. That costs at most one
attempt in vain for each such pod, where an unbounded log costs the memory of the process while one
binding hangs (kubernetes/kubernetes issue 120622).

Rules: pkg/scheduler/backend/queue/active_queue.go inFlightEvents, v1.36.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from daemon.core.queue.queued_pod import Place, QueuedPod
from daemon.core.queue.wakeups import Strategy, Wakeups
from shared.framework.cluster_event import ClusterEvent
from shared.framework.queueing_hints import Change
from shared.limits import EVENT_COUNT_MAX, OWN_EVENT_COUNT_MAX

POD_POPPED: Final = "PodPopped"
_LOST: Final = -1
"""As `first_event`: before any event that is still known."""


class InFlight:
    """Pods that are being tried (by whom: `dispatch.Scorer.attempts`), and the log of events."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._pods: OrderedDict[str, QueuedPod] = OrderedDict()
        """By uid, in the order in which they began. Not a plain dict: finding its first key takes as
        long as there were keys before it, and one attempt may outlast a million others."""
        self.get: Callable[[str], QueuedPod | None] = self._pods.get
        """By uid."""
        self._events: list[Change] = []
        self._events_start = 0
        """The number of the first event in the log."""
        self._grows_to = 0
        """With more events than that the log is trimmed."""
        self._last_of_kind: dict[ClusterEvent, int] = {}
        """The number of the last event of each kind."""
        self._verdicts: dict[tuple[int, int, frozenset[str], frozenset[str]], Strategy] = {}
        """Verdicts for attempts alike, as long as no further event comes."""

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def events_by_label(self) -> Counter[str]:
        """How many of each event are kept, those of single pods among them, with 0 of those that were
        in the log before; of pops, how many are under way (as scheduler_inflight_events in
        pkg/scheduler/backend/queue/active_queue.go, v1.36)."""
        self._trim()
        counts = Counter({event.label: 0 for event in self._last_of_kind})
        counts[POD_POPPED] = len(self._pods)
        counts.update(change.event.label for change in self._events)
        for pod in self._pods.values():
            counts.update(change.event.label for change in pod.own_events)
        return counts

    def start(self, pod: QueuedPod) -> None:
        uid = pod.record.uid
        assert uid not in self._pods, f"pod {uid} is tried twice at once"
        pod.place = Place.IN_FLIGHT
        pod.first_event = self._events_start + len(self._events)
        self._pods[uid] = pod

    def remove(self, pod: QueuedPod) -> None:
        """Ends an attempt; the caller gives the pod its next place."""
        del self._pods[pod.record.uid]
        pod.place = Place.GONE
        pod.own_events = ()
        if not self._pods:
            self._trim()

    def record(self, change: Change) -> None:
        """Notes an event for every attempt under way."""
        if not self._pods:
            return
        self._last_of_kind[change.event] = self._events_start + len(self._events)
        self._events.append(change)
        self._verdicts.clear()
        if len(self._events) > self._grows_to:
            self._trim()

    def record_own(self, pod: QueuedPod, change: Change) -> None:
        if len(pod.own_events) >= OWN_EVENT_COUNT_MAX:
            pod.first_event = _LOST
            return
        pod.own_events += (change,)

    def strategy(self, pod: QueuedPod) -> Strategy:
        """What to do with a pod whose attempt failed, given what happened meanwhile."""
        if pod.is_error or pod.first_event < self._events_start:
            return Strategy.AFTER_BACKOFF
        best = self._best_of(pod, pod.own_events)
        concerning = self._concerning(pod)
        if best is Strategy.IMMEDIATELY or not concerning:
            return best
        return max(best, self._shared_strategy(pod, concerning))

    def check_invariants(self) -> None:
        """Raises AssertionError if the log and the attempts contradict one another."""
        assert len(self._events) <= EVENT_COUNT_MAX, "the event log outgrew its bound"
        assert self._pods or not self._events, "events are kept for nobody"
        end = self._events_start + len(self._events)
        for uid, pod in self._pods.items():
            assert pod.record.uid == uid, f"attempt {uid} is of another pod"
            assert pod.first_event <= end, f"attempt {uid} starts after the last event"

    def _shared_strategy(self, pod: QueuedPod, concerning: set[ClusterEvent]) -> Strategy:
        """The verdict of the log, remembered for pods of the same class and the same start."""
        key = (pod.first_event, pod.class_id, pod.unschedulable_plugins, pod.pending_plugins)
        found = self._verdicts.get(key)
        if found is not None:
            return found
        since = self._events[pod.first_event - self._events_start :]
        verdict = self._best_of(pod, (each for each in since if each.event in concerning))
        if not any(self._wakeups.reads_identity(pod.rejected_by, event) for event in concerning):
            self._verdicts[key] = verdict
        return verdict

    def _best_of(self, pod: QueuedPod, events: Iterable[Change]) -> Strategy:
        best = Strategy.SKIP
        for change in events:
            best = max(best, self._wakeups.strategy(pod, change))
            if best is Strategy.IMMEDIATELY or (best and not pod.pending_plugins):
                break
        return best

    def _concerning(self, pod: QueuedPod) -> set[ClusterEvent]:
        """The events since the start that a plugin registered which rejected the pod."""
        plugins = pod.rejected_by
        interested = self._wakeups.interested
        return {
            event
            for event, number in self._last_of_kind.items()
            if number >= pod.first_event
            and (event.is_wildcard or not plugins.isdisjoint(interested.get(event, ())))
        }

    def _trim(self) -> None:
        """Drops the events that no attempt will ask for; of a full log the older half."""
        oldest, count = next(iter(self._pods.values()), None), len(self._events)
        dropped_count = count if oldest is None else max(0, oldest.first_event - self._events_start)
        if count > EVENT_COUNT_MAX:
            dropped_count = max(dropped_count, EVENT_COUNT_MAX // 2)
        del self._events[:dropped_count]
        self._events_start += dropped_count
        # A list drops its front in O(n): not again before it has about twice as many.
        self._grows_to = min(EVENT_COUNT_MAX, 64 + 2 * len(self._events))
