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

import msgspec

from daemon.core.queue.queued_pod import Place, QueuedPod
from daemon.core.queue.wakeups import Strategy, Wakeups
from shared.framework.cluster_event import ClusterEvent
from shared.framework.queueing_hints import Change
from shared.limits import EVENT_COUNT_MAX, OWN_EVENT_COUNT_MAX

POD_POPPED: Final = "PodPopped"


class InFlightPod(msgspec.Struct, eq=False, gc=False):
    """One pod being tried, and what it has seen. Which answer it waits for: `dispatch.Attempt`."""

    pod: QueuedPod
    first_event: int
    """Number of the first event that the attempt has not seen."""
    own_events: tuple[Change, ...] = ()
    """What concerns this pod alone: its own updates, or a plugin that activates it."""


class InFlight:
    """Attempts by uid, and the log of events."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._attempts: OrderedDict[str, InFlightPod] = OrderedDict()
        """By uid, in the order in which they began. Not a plain dict: finding its first key takes as
        long as there were keys before it, and one attempt may outlast a million others."""
        self.get: Callable[[str], InFlightPod | None] = self._attempts.get
        """By uid."""
        self._events: list[Change] = []
        self._events_start = 0
        """The number of the first event in the log."""
        self._last_of_kind: dict[ClusterEvent, int] = {}
        """The number of the last event of each kind."""
        self._verdicts: dict[tuple[int, int, frozenset[str], frozenset[str]], Strategy] = {}
        """Verdicts for attempts alike, as long as no further event comes."""

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[QueuedPod]:
        for attempt in self._attempts.values():
            yield attempt.pod

    def events_by_label(self) -> Counter[str]:
        """How many of each event the log holds; of pops, how many are under way (as
        scheduler_inflight_events in pkg/scheduler/backend/queue/active_queue.go, v1.36)."""
        counts = Counter({POD_POPPED: len(self._attempts)})
        counts.update(change.event.label for change in self._events)
        return counts

    def start(self, pod: QueuedPod) -> None:
        """Begins an attempt: events from now on count for it."""
        uid = pod.record.uid
        assert uid not in self._attempts, f"pod {uid} is tried twice at once"
        pod.place = Place.IN_FLIGHT
        self._attempts[uid] = InFlightPod(pod, self._events_start + len(self._events))

    def finish(self, uid: str) -> QueuedPod:
        """Ends an attempt; the caller gives the pod its next place."""
        is_oldest = next(iter(self._attempts)) == uid
        attempt = self._attempts.pop(uid)
        attempt.pod.place = Place.GONE
        if is_oldest and self._events:
            self._trim()
        return attempt.pod

    def record(self, change: Change) -> None:
        """Notes an event for every attempt under way."""
        if not self._attempts:
            return
        self._last_of_kind[change.event] = self._events_start + len(self._events)
        self._events.append(change)
        if self._verdicts:
            self._verdicts.clear()
        if len(self._events) > EVENT_COUNT_MAX:
            dropped_count = EVENT_COUNT_MAX // 2
            del self._events[:dropped_count]
            self._events_start += dropped_count

    def record_own(self, attempt: InFlightPod, change: Change) -> None:
        """Notes an event that concerns one pod only."""
        if len(attempt.own_events) >= OWN_EVENT_COUNT_MAX:
            attempt.first_event = _LOST
            return
        attempt.own_events += (change,)

    def strategy(self, attempt: InFlightPod) -> Strategy:
        """What to do with the pod of an attempt that failed, given what happened meanwhile."""
        pod = attempt.pod
        if pod.is_error or attempt.first_event < self._events_start:
            return Strategy.AFTER_BACKOFF
        best = self._best_of(pod, attempt.own_events)
        concerning = self._concerning(attempt)
        if best is Strategy.IMMEDIATELY or not concerning:
            return best
        return max(best, self._shared_strategy(attempt, concerning))

    def check_invariants(self) -> None:
        """Raises AssertionError if the log and the attempts contradict one another."""
        assert len(self._events) <= EVENT_COUNT_MAX, "the event log outgrew its bound"
        assert self._attempts or not self._events, "events are kept for nobody"
        end = self._events_start + len(self._events)
        for uid, attempt in self._attempts.items():
            assert attempt.pod.record.uid == uid, f"attempt {uid} is of another pod"
            assert attempt.first_event <= end, f"attempt {uid} starts after the last event"

    def _shared_strategy(self, attempt: InFlightPod, concerning: set[ClusterEvent]) -> Strategy:
        """The verdict of the log, remembered for pods of the same class and the same start."""
        pod = attempt.pod
        plugins = pod.unschedulable_plugins | pod.pending_plugins
        key = (
            attempt.first_event,
            pod.class_id,
            pod.unschedulable_plugins,
            pod.pending_plugins,
        )
        found = self._verdicts.get(key)
        if found is not None:
            return found
        since = self._events[attempt.first_event - self._events_start :]
        verdict = self._best_of(pod, (each for each in since if each.event in concerning))
        if not self._wakeups.reads_identity(plugins):
            self._verdicts[key] = verdict
        return verdict

    def _best_of(self, pod: QueuedPod, events: Iterable[Change]) -> Strategy:
        best = Strategy.SKIP
        for change in events:
            best = max(best, self._wakeups.strategy(pod, change))
            if best is Strategy.IMMEDIATELY or (best and not pod.pending_plugins):
                break
        return best

    def _concerning(self, attempt: InFlightPod) -> set[ClusterEvent]:
        """The events since the start that a plugin registered which rejected the pod."""
        pod = attempt.pod
        plugins = pod.unschedulable_plugins | pod.pending_plugins
        interested = self._wakeups.interested
        return {
            event
            for event, number in self._last_of_kind.items()
            if number >= attempt.first_event
            and (event.is_wildcard or not plugins.isdisjoint(interested.get(event, ())))
        }

    def _trim(self) -> None:
        """Drops the events that no attempt will ask for."""
        oldest = next(iter(self._attempts.values()), None)
        if oldest is None:
            self._events_start += len(self._events)
            self._events.clear()
            return
        unneeded_count = oldest.first_event - self._events_start
        # A list drops its front in O(n): wait until that is half of it.
        if unneeded_count * 2 > len(self._events):
            del self._events[:unneeded_count]
            self._events_start += unneeded_count


_LOST: Final = -1
"""As `first_event`: before any event that is still known."""
