"""Preemption's commit: nominations, and victims that are ordered to go.

A scorer proposes which pods must go so that one fits; like a placement, that was right on its copy.
Here it is checked again on the newest state, with the scorers' own filter code: the victims are
still there, still less important, and the pod passes without them. Only then is the pod nominated
(so that its room is not given away while the victims go) and are the victims ordered to be deleted.

Nominations live in the queue's nominator, by name; this keeps the view's columns (and through them
the scorers') up to date with it. What was ordered is in memory only: after the owner's death the
pods' own status says who is nominated where, victims that are still there are found anew.

Rules: pkg/scheduler/framework/preemption/preemption.go `prepareCandidateAsync`, v1.36.2.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from daemon.core.cache import Cache
from daemon.core.cached_nodes import CachedPod
from daemon.core.dispatch import Attempt, Placed
from daemon.core.group_victims import in_place
from daemon.core.pod_groups import PodGroups
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from daemon.core.status_patches import StatusPatches, nomination_of
from shared.columns.nomination_columns import Nomination
from shared.faults import reading
from shared.framework.cluster_event import ASSIGNED_POD_DELETE
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.prepared_pod import prepared
from shared.kube.api.meta_v1 import ObjectMeta
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import PreemptionProposal
from shared.messages.to_binder import DeleteVictim, ReleaseClaim
from shared.plugin_names import DEFAULT_PREEMPTION
from shared.plugins.preemption.default_preemption import NEVER
from shared.plugins.preemption.victim_selector import fits_without, victims_on

ENDED: Final = -1
WHOLE_CLUSTER: Final = "cluster"
"""Where room is made for a group, as events name it."""


class Evictions(msgspec.Struct, eq=False):
    """Which pods wait for victims that a binder is to delete: they are not tried meanwhile, as the
    events of each victim would have them tried in vain (PreEnqueue of DefaultPreemption)."""

    _cache: Cache
    _groups: PodGroups
    is_async: bool
    """Of preemptions (`Settings.preempts_async`); else nobody is held back."""
    victims: dict[str, set[str]] = {}
    """By uid of a preemptor: the uids of those that are to go for it."""
    _preemptors: dict[str, dict[str, str]] = {}
    """By uid of a victim: the uid of each preemptor that chose it -> the group's key, or nothing for a
    pod. More than one, as a more important pod may want the same room."""
    _failed: set[str] = set()

    def begin(self, victim_uid: str) -> None:
        """The victim is ordered to go."""
        self._preemptors.setdefault(victim_uid, {})

    def join(self, victim_uid: str, preemptor_uid: str, group_key: str) -> None:
        """The preemptor (a pod, if there is no key) waits for the victim, if that is still to go."""
        if victim_uid in self._preemptors:
            self._preemptors[victim_uid][preemptor_uid] = group_key
            self.victims.setdefault(preemptor_uid, set()).add(victim_uid)

    def end(self, victim_uid: str, *, is_failed: bool) -> dict[str, bool]:
        """The pods (uids) that wait for nobody any more, and whether one of theirs did not go."""
        ended: dict[str, bool] = {}
        for uid, group_key in self._preemptors.pop(victim_uid, {}).items():
            if is_failed:
                self._failed.add(uid)
            self.victims[uid].discard(victim_uid)
            if self.victims[uid]:
                continue
            del self.victims[uid]
            uids = self._groups.uids(group_key) if group_key else (uid,)
            ended |= dict.fromkeys(uids, uid in self._failed)
            self._failed.discard(uid)
        return ended

    def holds_back(self, record: PodRecord) -> bool:
        """Whether a victim of the pod, or its group, is still there as if nothing had been asked of it
        (isRunningPreemption in pkg/scheduler/framework/preemption/executor.go, v1.36.2)."""
        uid = self._groups.preemptor_uid(record)
        held = map(self._cache.get_pod, self.victims.get(uid, ()) if self.is_async else ())
        return any(victim is not None and not victim.record.deleted for victim in held)


class NominationBook:
    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        frameworks: dict[str, Framework],
        patches: StatusPatches,
        preempt_waiting: Callable[[str], bool],
        evictions: Evictions,
    ) -> None:
        """`patches` takes what pods' statuses are to say. `preempt_waiting` has a pod (uid) that waits
        on Permit give its place up; says whether it was waiting."""
        self._preempt_waiting = preempt_waiting
        self._evictions = evictions
        self._cache = cache
        self._queue = queue
        self._frameworks = frameworks
        self._patches = patches
        self._topology_version = -1
        self._next_order_id = 1
        self.victims: list[DeleteVictim] = []
        self.releases: list[ReleaseClaim] = []
        """Resource claims to be freed that a pod which fits nowhere could use otherwise. Both until they
        are handed over to the binders."""
        self._victims_of: dict[str, list[str]] = {}
        """Uid of a nominated pod -> uids of all that its preemption chose, for `awaited_victims`."""

    # Nominations ---------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Brings the view up to date with the nominator, and with nodes that came or went."""
        nominator = self._queue.nominator
        version = self._cache.nodes.topology_version
        if version != self._topology_version:
            self._topology_version = version
            nominator.changed.update(dict.fromkeys(nominator.node_by_uid))
        if not nominator.changed:
            return
        for uid in nominator.changed:
            self._show(uid)
            if nominator.node_of(uid) is None:
                self._victims_of.pop(uid, None)
                if self._queue.get(uid) is None:
                    self._patches.drop(uid)  # It is gone: there is nothing to be told.
        nominator.changed.clear()

    def placed(self, uid: str) -> None:
        """The pod is assumed: it takes its room itself from now on."""
        self._queue.nominator.clear(uid)
        self.refresh()

    def not_placed(self, pod: QueuedPod | None, *, is_announced: bool = False) -> None:
        """The placement came to nothing, and so did the nomination that led to it
        (clearNominatedNode in pkg/scheduler/schedule_one.go, v1.36). `is_announced`: the pod's status
        has it, though the watch may not have said so yet."""
        if pod is None:
            return
        self._queue.nominator.clear(pod.uid)
        if is_announced or pod.record.nominated_node_name:
            self._patch(pod.record, "")

    def announce(self, record: PodRecord, node_name: str) -> None:
        """The pod is assumed, but its binding takes time: its status tells the world (the cluster
        autoscaler, say) that the node is needed. It takes no room, as the pod itself does."""
        if record.nominated_node_name != node_name:
            self._patch(record, node_name)

    def awaited_victims(self, uid: str) -> list[str]:
        """Uids of the victims that are still on the node to which the pod is nominated, those that
        were going away already included."""
        node_name = self._queue.nominator.node_of(uid)
        held = [self._cache.get_pod(victim) for victim in self._victims_of.get(uid, ())]
        return [pod.record.uid for pod in held if pod is not None and pod.node_name == node_name]

    def end(self, pod: QueuedPod, now_s: float) -> None:
        """A pod is nominated no more. Whoever had to leave the room alone is woken by its status, once
        that does not name the node any more, or here, where it has not come to name it."""
        node_name = self._queue.nominator.node_of(pod.uid) or ""
        self._queue.nominator.clear(pod.uid)
        if pod.record.nominated_node_name:
            self._patch(pod.record, "")
        elif pod.uid in self._victims_of:
            self._patch(pod.record, "")
            self._queue.wake_after_nomination(pod.view, now_s, node_name)

    def _patch(self, record: PodRecord, node_name: str) -> None:
        pod = self._queue.get(record.uid)
        self._patches.add(nomination_of(0 if pod is None else pod.ticket, record, node_name))

    def _show(self, uid: str) -> None:
        """Writes one pod's nomination into the view, or takes it out."""
        view = self._cache.view
        before = view.nominations.get(uid)
        now = self._resolved(uid)
        if before == now:
            return
        if before is not None:
            view.nominations.remove(uid)
            self._cache.touch_row(before.node_row)
        if now is not None:
            view.nominations.put(now)
            self._cache.touch_row(now.node_row)
        self._cache.nomination_news[uid] = now or Nomination(uid, 0, 0, ENDED)

    def _resolved(self, uid: str) -> Nomination | None:
        node_name = self._queue.nominator.node_of(uid)
        pod = self._queue.get(uid)
        if node_name is None or pod is None or self._cache.get_pod(uid) is not None:
            return None
        row = self._cache.nodes.row_of(node_name)
        if row < 0 or not self._cache.nodes.present[row]:
            return None
        priority = self._queue.nominator.priorities.get(uid, pod.priority)
        return Nomination(uid, pod.class_id, priority, row)

    # Preemption ----------------------------------------------------------------------------------

    def commit(
        self,
        attempt: Attempt,
        proposal: PreemptionProposal,
        generation: int,
        now_s: float,
        *,
        searched_at: int,
        placed: list[Placed] | None = None,
    ) -> int | None:
        """Carries a preemption out, or says no (None): then the pod is to be tried again at once.
        Returns the number of victims; where all of them were going already nothing is to be done, so
        that it is 0 and nobody loses a nomination. ObjectError where that cannot be told; nothing was
        changed then. `searched_at`: what was there at this generation is known to need these victims.
        `placed`: others of the pod's group, on top of which that was found; it is added to them."""
        with reading("pod", attempt.pod):
            victims = self._confirmed(attempt, proposal, generation)
            with in_place(self._cache.view, placed or ()):
                is_right = victims is not None and self._makes_room(attempt, proposal, searched_at)
        if victims is None or not is_right:
            self._cache.touch_row(proposal.node_row)
            return None
        pod = attempt.pod
        node_name = self._cache.nodes.name_of(proposal.node_row)
        staying = [victim for victim in victims if not victim.record.deleted]
        # prepareCandidateAsync and prepareCandidate in framework/preemption/executor.go, v1.36.2.
        # Of a group a pod may be nominated that nobody is in the way of.
        does_nothing = not (staying if self._evictions.is_async else victims)
        if not does_nothing:
            self._clear_lower(pod, proposal.node_row, now_s)
        self._queue.nominator.nominate(pod.uid, node_name)
        self._patch(pod.record, node_name)
        self._evict(staying, pod, pod.record, node_name)
        self.refresh()
        self._victims_of[pod.record.uid] = [victim.record.uid for victim in victims]
        if placed is not None:
            placed.append((attempt, proposal.node_row))
        return 0 if does_nothing else len(victims)

    def commit_group(self, pod: QueuedPod, group: PodGroup, victims: Sequence[CachedPod]) -> int:
        """Has these pods go for a group, which `pod` is of. Returns their number, as `commit`."""
        staying = [victim for victim in victims if not victim.record.deleted]
        self._evict(staying, pod, group.metadata, WHOLE_CLUSTER, group.metadata.key)
        return 0 if self._evictions.is_async and not staying else len(victims)

    def _evict(
        self,
        victims: Sequence[CachedPod],
        pod: QueuedPod,
        preemptor: PodRecord | ObjectMeta,
        place: str,
        group_key: str = "",
    ) -> None:
        """For a pod, or for the group of this key, which `pod` is of; `place`: the node."""
        for victim in victims:
            record = victim.record
            # One that waits on Permit is bound nowhere: it goes back to the queue.
            is_given_up = self._preempt_waiting(record.uid)
            if is_given_up or not victim.is_evicted:
                order = DeleteVictim(
                    order_id=self._next_order_id,
                    profile=pod.pod_class.profile,
                    namespace=record.namespace,
                    name=record.name,
                    uid=record.uid,
                    resource_version=record.resource_version,
                    node_name=place,
                    preemptor_namespace=preemptor.namespace,
                    preemptor_name=preemptor.name,
                    preemptor_uid=preemptor.uid,
                    observed_generation=record.generation,
                    is_given_up=is_given_up,
                    ticket=pod.ticket,
                    is_for_group=bool(group_key),
                )
                self._next_order_id += 1
                self.victims.append(order)
                self._evictions.begin(record.uid)
                if not is_given_up:
                    self._cache.mark_evicted(record.uid, is_evicted=True)
            self._evictions.join(record.uid, preemptor.uid, group_key)

    def _clear_lower(self, pod: QueuedPod, node_row: int, now_s: float) -> None:
        """Less important pods that are nominated to the node may fit there no more."""
        for other in self._cache.view.nominations.on(node_row):
            queued = self._queue.get(other.uid)
            if other.priority < pod.priority and queued is not None:
                self.end(queued, now_s)

    def _confirmed(
        self, attempt: Attempt, proposal: PreemptionProposal, generation: int
    ) -> list[CachedPod] | None:
        """The victims, if all are still what the scorer took them for, and the pod still waits."""
        nodes, row = self._cache.nodes, proposal.node_row
        if not 0 <= row < nodes.row_count or not nodes.present[row]:
            return None
        if not attempt.is_awaited:
            return None
        if attempt.pod_class.info.spec.preemption_policy == NEVER:
            return None
        node_name, victims = nodes.name_of(row), self._cache.pods_in(proposal.victims, generation)
        is_right = all(
            victim.node_name == node_name and victim.pod_class.info.priority < attempt.pod.priority
            for victim in victims or ()
        )
        return victims if is_right else None

    def _makes_room(self, attempt: Attempt, proposal: PreemptionProposal, searched_at: int) -> bool:
        """Whether the pod fits without the victims; and where what there is to look at has changed
        since that was searched, whether a search on that node comes to the same victims now: none that
        could stay, and with those last whose going a budget forbids."""
        pod_class, cache = attempt.pod_class, self._cache
        framework = self._frameworks[pod_class.profile]
        pod = prepared(framework, pod_class.info, cache.view, attempt.pod.record.uid)
        row, victims = proposal.node_row, proposal.victims
        changed_at = cache.generation if pod.plan.is_wide else int(cache.nodes.generation[row])
        if victims and changed_at > searched_at:
            return set(victims_on(pod, row).tolist()) == set(victims)
        return fits_without(pod, row, np.array(victims, np.intp))

    def settle(self, order: DeleteVictim, problem: str, now_s: float) -> None:
        """A deletion was carried out, or failed for good: then whoever waits for it is tried again. So
        is who was kept out while something happened that helps: who goes last need not help him."""
        if problem:
            self._cache.mark_evicted(order.uid, is_evicted=False)
        for uid, is_failed in self._evictions.end(order.uid, is_failed=bool(problem)).items():
            if is_failed:
                self._queue.fail(uid, now_s)
            else:
                label = ASSIGNED_POD_DELETE.label
                self._queue.let_in((uid,), DEFAULT_PREEMPTION, label, now_s)
