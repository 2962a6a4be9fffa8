"""The scheduling queue's public face: every pending pod of the cluster, in exactly one place.

      add, update                     pop_batch                        done (bound)
    ------------->  ACTIVE  ------------------------>  IN_FLIGHT  ------------------> gone
         |  PreEnqueue   ^ ^                           |  |   |  requeue_head
         |  says no      | |  back-off is over         |  |   '--------------> ACTIVE, at the head, or
         |               | |                           |  |                    BACKOFF: too many in a row
         v               | '------------  BACKOFF  <---'  |
    UNSCHEDULABLE        |  event, PreEnqueue  ^ \\        |  requeue_unschedulable:
     (gated_by) ---------'                     |  '--> IN_FLIGHT, early, when nothing is active
    UNSCHEDULABLE  <---------------------------+----------'
     (rejected)  --- an event may help: ACTIVE, or BACKOFF while that lasts

`delete` takes a pod from any place. A pod is its uid: one that is created again under the same name
is another pod.

It decides and does nothing else: time is passed in, nothing is random, and equal calls in equal order
give equal results. Callers may rely on `next_wakeup_s`: until then nothing changes here by itself.
What comes late (a result for a pod that was deleted meanwhile) is answered by None or False.

Rules: pkg/scheduler/backend/queue/scheduling_queue.go, v1.36. Differences: back-off windows are full
seconds of the clock that the caller passes in; update compares with what the queue holds instead of
being told; requeue_head is berth's own.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from daemon.core.pod_classes import PodClass, Reclassed
from daemon.core.queue.in_flight import InFlight
from daemon.core.queue.nominator import Nominator
from daemon.core.queue.object_changes import pod_update_events
from daemon.core.queue.pod_line import ActiveQueue, BackoffQueue, QueueKey
from daemon.core.queue.queued_pod import NO_PLUGINS, Place, QueuedPod
from daemon.core.queue.unschedulable import UnschedulablePods
from daemon.core.queue.wakeups import Strategy, Wakeups
from shared.framework.cluster_event import (
    ASSIGNED_POD_DELETE,
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    PROPOSAL_REJECTED,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    Action,
    ClusterEvent,
)
from shared.framework.queueing_hints import Change, ChangedObject, PodView
from shared.kube.pod_record import PodRecord
from shared.limits import POD_INITIAL_BACKOFF_S, POD_MAX_BACKOFF_S
from shared.messages.admin import QueueLengths
from shared.plugin_names import DEFAULT_PREEMPTION

REFUSALS_IN_A_ROW_MAX: Final = 8
"""A scorer of which too much is refused has its window halved, from 512 pods to the least, 16, in five
steps (`daemon.core.dispatch`): a pod that is refused more often than this is not held up by others."""


PreEnqueue = Callable[[QueuedPod], str | None]
"""The plugin that keeps a pod out of the queue for now, or None. Asked whenever the pod could become
active, and not while nothing changes for it."""


class SchedulingQueue:
    def __init__(
        self,
        wakeups: Wakeups,
        *,
        start_s: float,
        release: Callable[[PodClass], None],
        pre_enqueue: PreEnqueue,
        queue_key: QueueKey,
        initial_backoff_s: float = POD_INITIAL_BACKOFF_S,
        max_backoff_s: float = POD_MAX_BACKOFF_S,
        pops_early: bool = True,
        leftover_after_s: float,
    ) -> None:
        """`start_s` is the first moment; looking for leftovers happens every 30 s from it. `release`
        takes the share of a class back that came with a pod. `max_backoff_s`: 0 turns back-off off.
        `pops_early`: pods in back-off are tried early where there is nothing else to try, and PreEnqueue
        is asked when they go there, otherwise when they leave. `leftover_after_s`: a pod parked for
        longer than this is tried again without a reason, as hints may be wrong."""
        self._release = release
        self.nominator = Nominator()
        self.incoming: Counter[tuple[str, str]] = Counter()
        """(place, event label) -> pods that came there so (queue_incoming_pods_total)."""
        self.wakeups = wakeups
        self._pre_enqueue = pre_enqueue
        self._pods: dict[str, QueuedPod] = {}
        self.get: Callable[[str], QueuedPod | None] = self._pods.get
        """By uid, in any place. Asked several times for each pod, so without a function around it."""
        self._active = ActiveQueue(queue_key)
        self.first_in_line: Callable[[], QueuedPod | None] = self._active.first_in_line
        """The pod that `pop_batch` would give out first, in the usual case that pods came in order."""
        self._backoff = BackoffQueue(
            initial_backoff_s, max_backoff_s, queue_key, pops_early=pops_early
        )
        self._parked = UnschedulablePods(start_s, leftover_after_s)
        self.in_flight = InFlight(wakeups)
        self._places: dict[Place, ActiveQueue | BackoffQueue | UnschedulablePods | InFlight] = {
            Place.ACTIVE: self._active,
            Place.BACKOFF: self._backoff,
            Place.UNSCHEDULABLE: self._parked,
            Place.IN_FLIGHT: self.in_flight,
        }
        self._arrivals = 0

    # What is here ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    @property
    def poppable_count(self) -> int:
        """How many pods `pop_batch` could give out at this moment."""
        return self._active.count + self._backoff.pops_early * self._backoff.rejected.count

    def pending_lengths(self) -> QueueLengths:
        """Pods by place; gated ones are not counted as unschedulable."""
        return QueueLengths(
            active=self._active.count,
            backoff=len(self._backoff),
            unschedulable=len(self._parked) - self._parked.gated_count,
            gated=self._parked.gated_count,
            in_flight=len(self.in_flight),
        )

    def next_wakeup_s(self) -> float:
        """When `flush` may next have something to do; infinity for never."""
        return min(self._backoff.next_completion_s(), self._parked.next_leftovers_s())

    # The cluster's pods come, change and go -------------------------------------------------------

    def add(self, record: PodRecord, pod_class: PodClass, now_s: float) -> QueuedPod:
        """Takes in a pod without a node that is not here yet, and the caller's share of its class."""
        assert record.uid not in self._pods, f"pod {record.uid} is here already"
        self._arrivals += 1
        pod = QueuedPod(
            record=record,
            pod_class=pod_class,
            tried_as=pod_class,
            priority=pod_class.priority,
            timestamp_s=now_s,
            arrival=self._arrivals,
            added_s=now_s,
        )
        self._pods[record.uid] = pod
        self._move_to_active(pod, now_s, UNSCHEDULED_POD_ADD)
        return pod

    def update(
        self, record: PodRecord, pod_class: PodClass, now_s: float, *, is_assumed: bool = False
    ) -> QueuedPod:
        """Takes in the newest state of a pod that is here, and the caller's share of its class. A parked
        pod is woken if a plugin that rejected it says that the change may help. A pod in flight stays
        so: the change counts when it comes back. One that `is_assumed` takes its room itself, whatever
        its status says of a nomination."""
        known = self._pods[record.uid]
        if not is_assumed:
            self.nominator.update(known.record, record)
        old = known.view
        match known.place:
            case Place.IN_FLIGHT:
                self._take_over(known, record, pod_class)
                new = known.view
                for event in pod_update_events(old, new):
                    change = Change(event, old, new)
                    if event.action is Action.UPDATE_POD_LABEL:  # It may be as good as on a node.
                        self.in_flight.record(change)
                    else:
                        self.in_flight.record_own(known, change)
            case Place.UNSCHEDULABLE:
                self._take_over(known, record, pod_class)
                self._requeue_updated(old, known, now_s)
            case Place.ACTIVE | Place.BACKOFF:
                self._refile(known, record, pod_class)
            case Place.GONE:
                raise AssertionError(f"pod {record.uid} is known but nowhere")
        return known

    def reclass(self, reclassed: Reclassed) -> list[QueuedPod]:
        """Pods that were of one class may be told apart by now. No update: it wakes nobody. Those that
        are of another."""
        moved: list[QueuedPod] = []
        for pod in list(self):
            pod_class = reclassed(pod.record, pod.pod_class)
            if pod_class is None:
                continue
            moved.append(pod)
            self.nominator.touch(pod.uid)
            self._take_over(pod, pod.record, pod_class)
        return moved

    def delete(self, uid: str) -> QueuedPod | None:
        """Forgets a pod, wherever it is; the result of an attempt under way will find nothing."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self.nominator.clear(pod.uid)
        self._places[pod.place].remove(pod)
        self._release(pod.pod_class)
        return pod

    # Attempts -------------------------------------------------------------------------------------

    def pop_batch(self, limit: int, now_s: float) -> list[QueuedPod]:
        """The next pods to try, most important first; each is in flight from now on. When no pod is
        active, pods in back-off are taken early rather than leaving the scorers idle, but not those that
        failed with an error."""
        popped: list[QueuedPod] = []
        while len(popped) < limit:
            pod = self._active.pop()
            if pod is None:
                pod = self._backoff.pop_early()
                if pod is None:
                    break
                self.incoming[Place.ACTIVE, POP_FROM_BACKOFF] += 1
            self._begin_attempt(pod, now_s)
            popped.append(pod)
        return popped

    def pop_these(self, uids: Iterable[str], now_s: float) -> list[QueuedPod]:
        """Of these pods all that wait anywhere here and may be tried, back-off or not; each is in flight
        from now on (PopSpecificPod upstream)."""
        popped: list[QueuedPod] = []
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is None or pod.place is Place.IN_FLIGHT:
                continue
            if pod.place is not Place.ACTIVE:
                self.activate((uid,), now_s)
            if pod.place is Place.ACTIVE:
                self._active.remove(pod)
                self._renumber(pod)
                self._begin_attempt(pod, now_s)
                popped.append(pod)
        return popped

    def requeue_unschedulable(
        self, uid: str, plugins: Iterable[str], pending_plugins: Iterable[str], now_s: float
    ) -> Place | None:
        """Ends an attempt that plugins refused (AddUnschedulablePodIfNotPresent upstream). The pod is
        parked unless something happened since it was popped that may help it. Where it went is returned;
        None if it is not in flight (any more). Without any plugin it is an error, and the pod is tried
        again after a back-off."""
        pod = self.in_flight.get(uid)
        if pod is None:
            return None
        pod.unschedulable_plugins = frozenset(plugins)
        pod.pending_plugins = frozenset(pending_plugins)
        pod.refused_count = 0
        pod.was_flushed = False
        return self._requeue_failed(pod, now_s, SCHEDULE_ATTEMPT_FAILURE)

    def requeue_head(self, uid: str, now_s: float, *, is_refused: bool = True) -> Place | None:
        """Ends an attempt whose answer the owner could not use, because the cluster had changed
        meanwhile, or that had none.

        The pod goes before all others of its priority, without back-off, and the attempt does not
        count: nothing is wrong with the pod. But one that `is_refused` too often in a row has an error
        like any other: whatever makes owner and scorers disagree, no pod can keep them busy with it.
        """
        pod = self.in_flight.get(uid)
        if pod is None:
            return None
        pod.refused_count += is_refused
        if pod.refused_count > REFUSALS_IN_A_ROW_MAX:
            return self._requeue_failed(pod, now_s, PROPOSAL_REJECTED)
        self.in_flight.remove(pod)
        pod.attempts -= 1
        assert pod.initial_attempt_s is not None, f"pod {uid} was tried, so it was active"
        return self._admit(pod, self._active.push_head, PROPOSAL_REJECTED)

    def fail(self, uid: str, now_s: float) -> None:
        """What the last attempt of a pod set going has failed, so that nothing else would wake it. The
        attempt counts as one with an error: upstream makes the pod active at once, and where the API
        server refuses the same thing each time, the two go on as fast as it answers."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        if pod.place is Place.IN_FLIGHT:
            self.in_flight.record_own(pod, Change(FORCE_ACTIVATE, None, pod.view))
        elif pod.place is Place.UNSCHEDULABLE and pod.gated_by in ("", DEFAULT_PREEMPTION):
            self._parked.remove(pod)
            pod.unschedulable_plugins = pod.pending_plugins = NO_PLUGINS
            self._count_failure(pod, now_s)
            self._requeue(pod, Strategy.AFTER_BACKOFF, now_s, SCHEDULE_ATTEMPT_FAILURE)

    def done(self, uid: str) -> QueuedPod | None:
        """Ends an attempt that succeeded: the pod is bound and leaves. None if it is not in flight."""
        pod = self.in_flight.get(uid)
        if pod is None:
            return None
        self.in_flight.remove(pod)
        del self._pods[uid]
        if self.nominator.node_by_uid:
            self.nominator.clear(pod.uid)
        self._release(pod.pod_class)
        return pod

    # What wakes pods ------------------------------------------------------------------------------

    def activate(self, uids: Iterable[str], now_s: float) -> None:
        """Makes pods active because a plugin asks for it, back-off or not. A pod in flight is tried
        again when it comes back; pods that are not here are ignored."""
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is None:
                continue
            match pod.place:
                case Place.UNSCHEDULABLE:
                    self._move_to_active(pod, now_s, FORCE_ACTIVATE.label)
                case Place.BACKOFF:
                    self._backoff.remove(pod)
                    self._end_backoff(pod, FORCE_ACTIVATE.label)
                case Place.IN_FLIGHT:
                    self.in_flight.record_own(pod, Change(FORCE_ACTIVATE, None, pod.view))
                case Place.ACTIVE | Place.GONE:
                    pass

    def move_all_to_active_or_backoff(
        self,
        event: ClusterEvent,
        old: ChangedObject | None,
        new: ChangedObject | None,
        now_s: float,
        *,
        priority_max: int | None = None,
        but: str = "",
    ) -> None:
        """Wakes every parked pod that the event may help. Attempts under way will ask about it when they
        fail. `priority_max` leaves out more important pods: a nomination that ends helps only those that
        had to respect it. `but` leaves out one pod (uid): the one that brought the event about."""
        if event not in self.wakeups.interested:
            return
        change = Change(event, old, new)
        for pod, strategy in self.wakeups.woken(change, self._parked) if self._parked.count else ():
            if pod.uid == but or (priority_max is not None and pod.priority > priority_max):
                continue
            self._parked.remove(pod)
            self._requeue(pod, strategy, now_s, event.label)
        self.in_flight.record(change)

    def wake_after_nomination(
        self, view: PodView, now_s: float, node_name: str = "", priority: int | None = None
    ) -> None:
        """A pod is nominated no more, to the node that its status names or to `node_name`: pods of no
        higher priority had to leave its room alone, and may use it now. `priority`: as which it was
        nominated, where that is not its own."""
        if node_name:
            record = msgspec.structs.replace(view.record, nominated_node_name=node_name)
            view = view._replace(record=record)
        highest = view.info.priority if priority is None else priority
        wake = self.move_all_to_active_or_backoff
        wake(ASSIGNED_POD_DELETE, view, None, now_s, priority_max=highest)

    def let_in(self, uids: Iterable[str], gate: str, label: str, now_s: float) -> None:
        """Something happened (the event's `label`) after which the plugin `gate` is asked again about
        those of these pods that it keeps out."""
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is not None and pod.gated_by == gate:
                self._parked.remove(pod)
                self._requeue(pod, Strategy.AFTER_BACKOFF, now_s, label)

    def flush(self, now_s: float) -> None:
        """Does what time alone brings about. Call at `next_wakeup_s`. Pods whose back-off is over become
        active; every 30 s those that were parked for too long are tried again."""
        for pod in self._backoff.pop_completed(now_s):
            self._end_backoff(pod, BACKOFF_COMPLETE)
        leftovers = self._parked.leftovers(now_s)
        for pod in leftovers:
            if pod.gated_by not in ("", DEFAULT_PREEMPTION):
                continue  # No passing of time opens a gate, but that of an eviction.
            self._parked.remove(pod)
            pod.was_flushed = True
            self._requeue(pod, Strategy.AFTER_BACKOFF, now_s, UNSCHEDULABLE_TIMEOUT.label)
        if leftovers:
            self.in_flight.record(Change(UNSCHEDULABLE_TIMEOUT, None, None))

    # Checks ---------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Raises AssertionError unless every pod is in exactly the place that it claims."""
        found: dict[str, Place] = {}
        for place, pods in self._places.items():
            listed = list(pods)
            counted = f"{place.name} counts {len(pods)} pods, holds {len(listed)}"
            assert len(listed) == len(pods), counted
            for pod in listed:
                uid = pod.record.uid
                assert uid not in found, f"pod {uid} is in {found[uid]} and in {place}"
                assert pod is self._pods.get(uid), f"pod {uid} in {place} is not the one known"
                assert pod.place is place, f"pod {uid} is in {place} and says {pod.place}"
                assert not pod.gated_by or place is Place.UNSCHEDULABLE, f"gated {uid} in {place}"
                found[uid] = place
        assert found.keys() == self._pods.keys(), "pods are known but in no place"
        self._parked.check_invariants()
        self.in_flight.check_invariants()

    # Moves ----------------------------------------------------------------------------------------

    def _requeue_updated(self, old: PodView, pod: QueuedPod, now_s: float) -> None:
        """Gives a parked pod that was updated its next place, where the update may help it."""
        new = pod.view
        for event in pod_update_events(old, new):
            strategy = self.wakeups.strategy(pod, Change(event, old, new))
            if strategy is not Strategy.SKIP:
                self._requeue(pod, strategy, now_s, event.label)
                if pod.place is not Place.UNSCHEDULABLE:
                    return

    def _refile(self, pod: QueuedPod, record: PodRecord, pod_class: PodClass) -> None:
        """Takes an update over. Under another priority, which the API does not allow to happen, the pod
        has another place in the line; so it has in back-off once it is in a group, or in none."""
        line: ActiveQueue | BackoffQueue = self._active
        is_moved = pod_class.priority != pod.priority
        if pod.place is Place.BACKOFF:
            line = self._backoff
            is_moved |= bool(record.group) is not bool(pod.record.group)
        if is_moved:
            line.remove(pod)
            self._renumber(pod)
        self._take_over(pod, record, pod_class)
        if is_moved:
            line.push(pod)

    def _renumber(self, pod: QueuedPod) -> None:
        """Whatever entry of the pod is left in a line is dead for good."""
        self._arrivals += 1
        pod.arrival = self._arrivals

    def _requeue_failed(self, pod: QueuedPod, now_s: float, label: str) -> Place:
        """Ends an attempt of which the pod says who rejected it; of an error, nobody."""
        self._count_failure(pod, now_s)
        # Events are of pods: what may help a group, none says (determineSchedulingHintForInFlightPod).
        is_member = bool(pod.record.group)
        strategy = Strategy.AFTER_BACKOFF if is_member else self.in_flight.strategy(pod)
        self.in_flight.remove(pod)
        return self._requeue(pod, strategy, now_s, label)

    def _begin_attempt(self, pod: QueuedPod, now_s: float) -> None:
        pod.attempts += 1
        pod.popped_s = now_s
        pod.unschedulable_plugins = NO_PLUGINS
        pod.pending_plugins = NO_PLUGINS
        self.in_flight.start(pod)

    def _count_failure(self, pod: QueuedPod, now_s: float) -> None:
        if pod.is_error:
            pod.consecutive_errors_count += 1
        else:
            pod.unschedulable_count += 1
            pod.consecutive_errors_count = 0
        self._renumber(pod)
        pod.timestamp_s = now_s
        self._backoff.set_end(pod)

    def _requeue(self, pod: QueuedPod, strategy: Strategy, now_s: float, label: str) -> Place:
        """Gives a pod that is in no place, or is parked and may be helped, its next one."""
        if strategy is Strategy.SKIP:
            self._parked.add(pod)
            self.incoming[pod.place, label] += 1
            return pod.place
        backoff = self._backoff
        if strategy is Strategy.AFTER_BACKOFF and pod.backoff_until_s >= backoff.moment_s(now_s):
            return self._admit(pod, backoff.push, label, asks=backoff.pops_early)
        return self._move_to_active(pod, now_s, label)

    def _move_to_active(self, pod: QueuedPod, now_s: float, label: str) -> Place:
        """Makes a pod that is in no place, or is parked, active, if PreEnqueue lets it."""
        place = self._admit(pod, self._active.push, label)
        if place is Place.ACTIVE and pod.initial_attempt_s is None:
            pod.initial_attempt_s = now_s
            if pod.record.nominated_node_name:
                # As long as a pod is held back it takes no room from others. Of one that was tried the
                # status may be behind what came of that.
                self.nominator.nominate(pod.uid, pod.record.nominated_node_name)
        return place

    def _end_backoff(self, pod: QueuedPod, label: str) -> None:
        """Makes a pod active that was tried before, where PreEnqueue has let it in, or does now."""
        place = self._admit(pod, self._active.push, label, asks=not self._backoff.pops_early)
        if place is not Place.ACTIVE:
            self._renumber(pod)  # It may come back to the line that it has left.

    def _admit(
        self, pod: QueuedPod, push: Callable[[QueuedPod], None], label: str, *, asks: bool = True
    ) -> Place:
        """Gives a pod that is in no place, or is parked, that of `push`, if PreEnqueue lets it; else
        parks it. One that stays parked has not come there anew (addOrUpdate upstream)."""
        gate = self._pre_enqueue(pod) if asks else None
        was = pod.place
        if was is Place.UNSCHEDULABLE:
            self._parked.remove(pod)
        if gate is None:
            pod.gated_by = ""
            push(pod)
        else:
            pod.gated_by = gate
            pod.unschedulable_plugins |= {gate}
            self._parked.add(pod)
        if pod.place is not was:
            self.incoming[pod.place, label] += 1
        return pod.place

    def _take_over(self, pod: QueuedPod, record: PodRecord, pod_class: PodClass) -> None:
        """Parked pods lie by their class, so one of them is filed anew."""
        is_parked = pod.place is Place.UNSCHEDULABLE
        if is_parked:
            self._parked.remove(pod)
        self._release(pod.pod_class)
        pod.record = record
        pod.pod_class = pod_class
        pod.priority = pod_class.priority
        if is_parked:
            self._parked.add(pod)
