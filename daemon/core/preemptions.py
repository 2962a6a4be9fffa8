"""Who has to go so that a pod fits, or a pod group: checked on the newest state, and ordered.

A scorer proposes it; like a placement, that was right on its copy. Here it is checked again, with the
scorers' own filter code: the victims are still there, still less important (whom a group's disruption
mode keeps together goes together), and without them the pod passes, or those of a group where the scorer
put them, one on top of the other. Only then is the pod nominated (so that its room is not given away
while the victims go) and are the victims ordered to be deleted. What was ordered is in memory only:
after the owner's death victims that are still there are found anew.

Rules: pkg/scheduler/framework/preemption/{preemption,podgrouppreemption}.go, v1.36.2.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from daemon.core.cached_nodes import CachedPod
from daemon.core.dispatch import Found, Placed
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import QueuedPod
from shared.extenders.extender_config import asked_of_scorers
from shared.faults import reading
from shared.framework.cluster_view import ClusterView
from shared.framework.runtime.prepared_pod import prepared, run_filters_with_nominated
from shared.framework.runtime.what_if import WhatIf
from shared.kube.api.meta_v1 import ObjectMeta
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_group_rules import goes_as_a_whole, priority_of
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import PreemptionProposal
from shared.messages.to_binder import DeleteVictim
from shared.plugins.preemption.default_preemption import NEVER
from shared.plugins.preemption.victim_selector import fits_without, victims_on

WHOLE_CLUSTER: Final = "cluster"
"""Where room is made for a group, as events name it."""


class Preemptions(Part):
    _next_order_id: int = 1

    def commit(
        self,
        answer: Found,
        pod: QueuedPod,
        proposal: PreemptionProposal,
        placed: list[Placed] | None = None,
    ) -> int | None:
        """Keeps room for a pod and has the victims go, or says no (None): then the pod is to be tried
        again at once. Returns the number of victims; where all of them were going already nothing is to
        be done, so that it is 0 and nobody loses a nomination. ObjectError where that cannot be told;
        nothing was changed then. `placed`: others of the pod's group, on top of which that was found; it
        is added to them."""
        owner, row = self._owner, proposal.node_row
        with reading("pod", pod):
            victims = self._confirmed(pod, proposal, answer.proposals.generation)
            with in_place(owner.cache.view, placed or ()):
                is_right = victims is not None and self._makes_room(answer, pod, proposal)
        if victims is None or not is_right:
            owner.counters[Count.PREEMPTIONS_REJECTED] += bool(proposal.victims)
            owner.cache.touch_row(row)
            return None
        node_name = owner.cache.nodes.name_of(row)
        count = self._evict(victims, pod, pod.record, node_name)
        if count:  # Of a group a pod may be nominated that nobody is in the way of.
            self._clear_lower(pod, row, answer.now_s)
        owner.nominations.nominate(pod, node_name, [victim.record.uid for victim in victims])
        if placed is not None:
            placed.append((pod, row))
        return count

    def commit_group(
        self,
        answer: Found,
        first: QueuedPod,
        group: PodGroup,
        priority: int,
        placed: list[Placed],
        pod_rows: Sequence[int],
    ) -> int | None:
        """Has all go who are in the way of a group of that priority, of which the placed pods are, and
        `first`. Returns what `commit` does, ObjectError as there."""
        with reading("pod", first):
            victims = self._confirmed_for_group(priority, pod_rows, answer.proposals.generation)
            if victims is None or not self._fit_without(placed, victims):
                self._owner.counters[Count.PREEMPTIONS_REJECTED] += 1
                return None
        return self._evict(victims, first, group.metadata, WHOLE_CLUSTER, group.metadata.key)

    def _evict(
        self,
        victims: Sequence[CachedPod],
        pod: QueuedPod,
        preemptor: PodRecord | ObjectMeta,
        place: str,
        group_key: str = "",
    ) -> int:
        """For a pod, or for the group of this key, which `pod` is of; `place`: the node. Returns what
        `commit` does (prepareCandidateAsync and prepareCandidate in framework/preemption/executor.go,
        v1.36.2)."""
        owner = self._owner
        staying = [victim for victim in victims if not victim.record.deleted]
        for victim in staying:
            record = victim.record
            # One that waits on Permit is bound nowhere: it goes back to the queue.
            is_given_up = owner.waiting.preempt(record.uid)
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
                owner.binders.victims.append(order)
                owner.evictions.begin(record.uid)
                if not is_given_up:
                    owner.cache.mark_evicted(record.uid, is_evicted=True)
            owner.evictions.join(record.uid, preemptor.uid, group_key)
        owner.counters[Count.PREEMPTIONS] += bool(victims)
        if not victims or (owner.evictions.is_async and not staying):
            return 0
        owner.counters.observe("victims", (), len(victims))
        return len(victims)

    def _clear_lower(self, pod: QueuedPod, node_row: int, now_s: float) -> None:
        """Less important pods that are nominated to the node may fit there no more."""
        for other in self._owner.cache.view.nominations.on(node_row):
            queued = self._owner.queue.get(other.uid)
            if other.priority < pod.priority and queued is not None:
                self._owner.nominations.end(queued, now_s)

    def _confirmed(
        self, pod: QueuedPod, proposal: PreemptionProposal, generation: int
    ) -> list[CachedPod] | None:
        """The victims, if all are still what the scorer took them for, and the pod still waits."""
        cache, row = self._owner.cache, proposal.node_row
        if not (cache.shows(row) and pod.is_awaited):
            return None
        if proposal.victims and pod.tried_as.info.spec.preemption_policy == NEVER:
            return None
        node_name, victims = cache.nodes.name_of(row), cache.pods_in(proposal.victims, generation)
        is_right = all(
            victim.node_name == node_name and victim.pod_class.info.priority < pod.priority
            for victim in victims or ()
        )
        return victims if is_right else None

    def _makes_room(self, answer: Found, pod: QueuedPod, proposal: PreemptionProposal) -> bool:
        """Whether the pod fits without the victims; and where what there is to look at has changed
        since that was searched, whether a search on that node comes to the same victims now: none that
        could stay, and with those last whose going a budget forbids."""
        owner, cache, pod_class = self._owner, self._owner.cache, pod.tried_as
        framework = owner.frameworks[pod_class.profile]
        asked = prepared(framework, pod_class.info, cache.view, pod.uid)
        row, victims = proposal.node_row, proposal.victims
        changed_at = cache.generation if asked.plan.is_wide else int(cache.nodes.generation[row])
        # One of another host is not believed. Whom extenders want to go, no search of ours can tell.
        is_in_doubt = changed_at > answer.proposals.generation or answer.scorer.key_name
        if (
            victims
            and is_in_doubt
            and not asked_of_scorers(owner.settings.config.extenders, pod_class.info.spec)
        ):
            return set(victims_on(asked, row).tolist()) == set(victims)
        return fits_without(asked, row, np.array(victims, np.intp))

    def _confirmed_for_group(
        self, priority: int, pod_rows: Sequence[int], generation: int
    ) -> list[CachedPod] | None:
        """The pods of these rows, if all are what a scorer took them for on a copy of that generation.
        `priority`: of the group for which they are to go."""
        cache, groups = self._owner.cache, self._owner.groups
        victims = cache.pods_in(pod_rows, generation)
        going = {victim.record.uid for victim in victims or ()}
        for victim in victims or ():
            group = groups.of(victim.record.group_key) if victim.record.group else None
            if group is not None and goes_as_a_whole(group):
                mates = groups.uids(victim.record.group_key)
                is_whole = all(uid in going for uid in mates if cache.get_pod(uid) is not None)
                if not is_whole or priority_of(group) >= priority:
                    return None
            elif victim.pod_class.info.priority >= priority:
                return None
        return victims

    def _fit_without(self, placed: list[Placed], victims: Sequence[CachedPod]) -> bool:
        """Whether all of the pods pass where they would go, once the victims are gone. What they are
        nominated to themselves takes no room from them."""
        cache, view = self._owner.cache, self._owner.cache.view
        if not all(cache.shows(row) for _, row in placed):
            return False
        pod_rows = np.array([victim.row for victim in victims], np.intp)
        rows = np.union1d(view.pods.node_row[pod_rows], [row for _, row in placed]).astype(np.intp)
        with _unnominated(view, placed), WhatIf(view, rows, with_pods=True) as what_if:
            what_if.take_off(pod_rows)
            first = 0
            while first < len(placed):
                pod_class = placed[first][0].tried_as
                pod = prepared(self._owner.frameworks[pod_class.profile], pod_class.info, view)
                end = first + 1 if pod.plan.is_wide else _end_of_run(placed, first)
                asked = np.array([row for _, row in placed[first:end]], np.intp)
                if not run_filters_with_nominated(pod, asked).passes.all():
                    return False
                what_if.put_on(np.full(len(asked), pod_class.class_id), asked)
                first = end
        return True


@contextmanager
def in_place(view: ClusterView, placed: Sequence[Placed]) -> Iterator[None]:
    """What if these pods were where they are to go, and whoever has to go for them still there. What
    they claim is not taken, here as of a group: the scorer reserved it when it placed them, and
    upstream looks at none of this again."""
    if not placed:
        yield
        return
    rows = np.array([row for _, row in placed], np.intp)
    with _unnominated(view, placed), WhatIf(view, np.unique(rows), with_pods=True) as what_if:
        what_if.put_on(np.array([pod.tried_as.class_id for pod, _ in placed]), rows)
        yield


@contextmanager
def _unnominated(view: ClusterView, placed: Sequence[Placed]) -> Iterator[None]:
    own = [view.nominations.remove(pod.uid) for pod, _ in placed]
    try:
        yield
    finally:
        for nomination in filter(None, own):
            view.nominations.put(nomination)


def _end_of_run(placed: list[Placed], first: int) -> int:
    """Up to there all pods are of one class, and no two go to one node."""
    pod_class, rows = placed[first][0].tried_as, set[int]()
    for place, (pod, row) in enumerate(placed[first:], first):
        if pod.tried_as is not pod_class or row in rows:
            return place
        rows.add(row)
    return len(placed)
