"""Watch events applied to cache and queue, and what each one wakes up.

A pod with a node belongs to the cache, one without to the queue if its schedulerName is one of our
profiles (pkg/scheduler/eventhandlers.go, v1.36.2). `adapter_links.py` says what has changed.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from daemon.core.cached_nodes import CachedPod
from daemon.core.holdings import ClusterFacts
from daemon.core.owner_counts import Count
from daemon.core.queue.object_changes import node_update_events, pod_update_events
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.status_patches import verdict_of
from daemon.core.suspects import PARKED
from shared import feature_gates
from shared.errors import ObjectError
from shared.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    Action,
    ClusterEvent,
    EventResource,
    Resource,
)
from shared.framework.queueing_hints import Change, ChangedObject, PodView
from shared.kube.api.core_v1 import Node
from shared.kube.decode import decode_object
from shared.kube.pod_group_rules import quorum
from shared.kube.pod_record import PodRecord, scheduler_name_of
from shared.kube.resources import ALL_KINDS, POD_GROUPS, is_custom
from shared.limits import RESOURCES_MAX
from shared.plugin_names import DYNAMIC_RESOURCES, GANG_SCHEDULING

_RESOURCES: Final = {
    kind.plural: resource
    for resource in Resource
    for kind in ALL_KINDS
    if kind.struct_type.__name__.lower() == resource.rpartition("/")[2].lower()
}
"""Kinds whose changes may wake pods, beside those that plugins name."""

_NEW_POD: Final = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.ADD)
LATE_S: Final = 0.5
"""The longest that what nobody waits for goes untold."""


def _resource_of(kind: str) -> EventResource | None:
    known = _RESOURCES.get(kind)
    return kind if known is None and is_custom(kind) else known


class ClusterChanges:
    def __init__(self, facts: ClusterFacts, *, may_be_late: bool = True) -> None:
        """Without `may_be_late` each word is taken when it comes."""
        self._facts = facts
        self._cache, self._queue, self._groups = facts.cache, facts.queue, facts.groups
        self._profiles = facts.frameworks.keys()
        self._wakes_by_new = facts.settings.gates[feature_gates.GANG_SCHEDULING]
        """A new pod may be whom others wait for."""
        self.events: dict[ClusterEvent | str, int] = defaultdict(int)
        """What was taken in since this was last cleared: events of the cluster, labels of others."""
        self._may_be_late = may_be_late
        self._reclassed_count = 0
        """So many pods were on nodes when their classes were looked at last."""
        self.late: dict[str, PodRecord] = {}
        """By uid: pods on nodes as they are now, with the spec that they had. They are held as they
        were: the kubelet says when it began and what its containers have, the API server labels a pod
        with its zone as it binds it, which counts where somebody selects by that, and each time all
        would be void that is foreseen of others. Told together, as by a watch that is late."""
        self.late_at_s = math.inf
        """When these are told at the latest."""

    def reclass(self, now_s: float) -> bool:
        """Brings pods to their classes once somebody selects by labels that nobody selected by before.
        To be called before anything is decided with what was taken in. While lists come in, now and
        then: who comes later is of the right class at once, and pods are looked at twice at most. Says
        whether all labels count from now on, as there are too many of those."""
        count, classes = self._cache.pod_count(), self._cache.classes
        if not self._facts.syncs.is_synced and count < 2 * self._reclassed_count:
            return False
        reclassed = classes.take_changes()
        if reclassed is None:
            return False
        self._reclassed_count = count
        self._cache.reclass(reclassed)
        for pod in self._queue.reclass(reclassed):
            self._unpark(pod, now_s)
        return classes.labels.are_all

    def take_late(self) -> list[PodRecord]:
        """To be told now, each as any other change of a pod."""
        late = list(self.late.values())
        self.late, self.late_at_s = {}, math.inf
        return late

    def nodes_changed(
        self, nodes: Sequence[Node], refuse: Callable[[ObjectError], None], now_s: float
    ) -> None:
        """Nodes that were listed, added or modified. They come in crowds: with every list, and when
        a cluster grows. Those that cannot be understood are left out, and `refuse` is told."""
        for old, new in self._cache.add_nodes(nodes, refuse):
            for event in [NODE_ADD] if old is None else node_update_events(old, new):
                self._wake(event, old, new, now_s)

    def requeue(self, pod: CachedPod, now_s: float) -> None:
        """A pod that was assumed and never confirmed is pending again, as far as anyone knows."""
        self._enqueue(pod.record, self._queue.get(pod.record.uid), now_s)

    def wake_as_removed(self, view: PodView, node_name: str, now_s: float, but: str = "") -> None:
        """What waits for room may use that of a pod which took something up on the node, and is gone or
        was forgotten; `but` names a pod (uid) that is not to be woken."""
        # An assumed pod's record names no node yet, and hints look for one.
        gone = view._replace(record=msgspec.structs.replace(view.record, node_name=node_name))
        self.events[ASSIGNED_POD_DELETE] += 1
        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, gone, None, now_s, but=but)

    def pod_changed(self, record: PodRecord, now_s: float, *, is_late: bool = False) -> None:
        """`is_late`: of those in `late`."""
        if record.group and not self._facts.settings.groups.is_on:
            record = msgspec.structs.replace(record, group="")
        held = self._cache.get_pod(record.uid)
        queued = self._queue.get(record.uid)
        known = held or queued
        if known is not None and record.resource_version and known.record == record:
            return  # As in `object_changed`.
        self.late.pop(record.uid, None)
        if record.node_name:
            self._assigned_pod_changed(record, held, now_s, is_late=is_late)
        elif held is None:
            if queued is None:
                new = self._enqueue(record, None, now_s)
                if new is not None:
                    self.events[UNSCHEDULED_POD_ADD] += 1
                    if self._wakes_by_new:
                        self._wake_by_new(new, now_s)
            else:
                old = queued.view
                updated = self._enqueue(record, queued, now_s)
                if updated is not None:
                    changes = pod_update_events(old, updated.view)
                    for label in {UNSCHEDULED_POD_UPDATE, *(each.label for each in changes)}:
                        self.events[label] += 1
                if old.record.nominated_node_name not in ("", record.nominated_node_name):
                    self._queue.wake_after_nomination(old, now_s)
        elif not self._cache.is_assumed_pod(record.uid):
            self._cache.unbind_pod(record.uid)
            self.wake_as_removed(held.view, held.node_name, now_s)
            self._enqueue(record, queued, now_s)
        elif queued is not None:
            self._assumed_pod_changed(held, queued, record, now_s)
        # Else it is bound, and the watch has yet to say so.

    def _wake_by_new(self, pod: QueuedPod, now_s: float) -> None:
        """A pod without a node has come (addPodToSchedulingQueue in pkg/scheduler/eventhandlers.go,
        v1.36.2): of those that wait nearly always nobody is even looked at."""
        change = Change(_NEW_POD, None, pod.view)
        if self._queue.wakeups.concerns_any(change):
            self._queue.move_all_to_active_or_backoff(*change, now_s)

    def _assumed_pod_changed(
        self, held: CachedPod, queued: QueuedPod, record: PodRecord, now_s: float
    ) -> None:
        """A pod on its way to its node changed: that counts if it comes back. One that is being deleted
        cannot be bound any more, and gives its room up at once, whatever its finalizers wait for
        (handleAssumedPodDeletion upstream)."""
        self._enqueue(record, queued, now_s, is_assumed=True)
        if record.deleted and not self._facts.waiting.reject_deleted(record.uid):
            self._cache.forget_pod(record.uid)
            self.wake_as_removed(held.view, held.node_name, now_s)

    def _assigned_pod_changed(
        self, record: PodRecord, held: CachedPod | None, now_s: float, *, is_late: bool
    ) -> None:
        was_assumed = was_pending = self._cache.is_assumed_pod(record.uid)
        old, before, node_name = None, None, ""
        if held is not None:
            old, before, node_name = held.view, held.record, held.node_name
            if (
                not is_late
                and self._may_be_late
                # Neither binding nor status makes a pod another generation, as a new spec does.
                and record.generation == before.generation
                and (was_assumed or record.generation > 0)
                and (record.node_name, record.group) == (node_name, before.group)
                and (record.deleted, record.is_preempted) == (before.deleted, before.is_preempted)
                and (
                    record.started != before.started or not self._cache.is_same_class(record, held)
                )
            ):
                self.late[record.uid] = record
                self.late_at_s = min(self.late_at_s, now_s + LATE_S)
                if not was_assumed:
                    return
                as_held = {"template": before.template, "started": before.started}
                record = msgspec.structs.replace(record, **as_held)
        new = self._cache.add_pod(record).view
        if record.group or (before is not None and before.group):
            self._join_group(before, record, ASSIGNED_POD_ADD.label, now_s)
        if old is not None and node_name != record.node_name:
            self.wake_as_removed(old, node_name, now_s)
        if held is None and self._queue.delete(record.uid) is not None:
            self._facts.counters[Count.FOREIGN_BINDS] += 1
            self._facts.counters.foreign_by_node[record.node_name] += 1
            was_pending = True
        if was_pending:  # It is so no more, which is an event of its own.
            self.events[UNSCHEDULED_POD_DELETE] += 1
        if old is None or was_assumed:
            self._wake(ASSIGNED_POD_ADD, None, new, now_s)
            return
        self.events[ASSIGNED_POD_UPDATE] += 1
        for event in pod_update_events(old, new):
            self._wake(event, old, new, now_s)

    def _enqueue(
        self, record: PodRecord, known: QueuedPod | None, now_s: float, *, is_assumed: bool = False
    ) -> QueuedPod | None:
        """The pod as it is in the queue by now, `known` as it was; None: it is another scheduler's."""
        try:
            pod_class = self._cache.classes.acquire(record)
        except ObjectError as error:
            self.refuse_pod(record, scheduler_name_of(record.template), str(error))
            raise
        asked_count = len(pod_class.info.requests.scalars)
        if asked_count > RESOURCES_MAX and pod_class.profile in self._profiles:
            self._cache.classes.release(pod_class)
            most = f"{RESOURCES_MAX} at most are read"
            problem = f"asks for {asked_count} different resources, and {most}"
            self.refuse_pod(record, pod_class.profile, problem)
            raise ObjectError("spec.containers[].resources.requests", problem)
        if pod_class.profile not in self._profiles:
            self._cache.classes.release(pod_class)
            self._queue.delete(record.uid)
            self._facts.counters[Count.FOREIGN_PODS] += 1
            return None
        if known is None:
            if record.group:
                self._join_group(None, record, UNSCHEDULED_POD_ADD, now_s)
            return self._queue.add(record, pod_class, now_s)
        old, old_class = known.record, known.pod_class
        pod = self._queue.update(record, pod_class, now_s, is_assumed=is_assumed)
        self._join_group(old, record, UNSCHEDULED_POD_UPDATE, now_s)
        if old_class is not pod_class:
            self._unpark(pod, now_s)
        return pod

    def _unpark(self, pod: QueuedPod, now_s: float) -> None:
        """It is of another class than before: what it was parked for may be gone."""
        if pod.gated_by == PARKED:
            self._queue.activate([pod.uid], now_s)

    def _join_group(
        self, old: PodRecord | None, record: PodRecord, label: str, now_s: float
    ) -> None:
        """Who is in the group that the pod names is let in, where it completes that."""
        let_in: list[str] = []
        if old is not None and old.group != record.group:
            # It is named by a label, say, which may change.
            self._groups.remove(old)
            let_in.append(record.uid)
        if record.group:
            let_in += self._groups.add(record)
        if let_in:
            self._queue.let_in(let_in, GANG_SCHEDULING, label, now_s)

    def refuse_pod(self, record: PodRecord, profile: str, problem: str) -> None:
        """A pending pod cannot be looked at as it is now, and the world is told. As it was before it is
        not to be placed either."""
        self._queue.delete(record.uid)
        self._groups.remove(record)
        if profile in self._profiles:
            self._facts.patches.add(verdict_of(0, record, profile, problem, is_error=True))

    def pass_over(self, pod: QueuedPod, now_s: float) -> None:
        """A pod is not to be tried any more and leaves the queue. One that is being deleted, whatever
        its finalizers wait for, will not come to what it is nominated to: others may have that."""
        node_name = self._queue.nominator.node_of(pod.uid)
        self._queue.done(pod.uid)
        if node_name is not None:
            self._queue.wake_after_nomination(pod.view, now_s, node_name)

    def pod_deleted(self, uid: str, now_s: float, last: PodRecord | None = None) -> None:
        """`last`: what was last seen of it, if that is known; it may be held nowhere any more."""
        self.late.pop(uid, None)
        node_name = self._queue.nominator.node_of(uid) or ""
        queued = self._queue.delete(uid)
        removed = self._cache.remove_pod(uid)
        gone = queued or removed
        record = last if gone is None else gone.record
        if record is not None and record.group:
            self._groups.remove(record)
        if queued is not None:
            self.events[UNSCHEDULED_POD_DELETE] += 1
        if removed is not None:
            self.wake_as_removed(removed.view, removed.node_name, now_s)
        elif queued is not None and (node_name or queued.record.nominated_node_name):
            self._queue.wake_after_nomination(queued.view, now_s, node_name)

    def node_deleted(self, name: str, now_s: float) -> None:
        self._facts.counters.foreign_by_node.pop(name, None)
        node = self._cache.remove_node(name)
        if node is not None:
            self._wake(NODE_DELETE, node, None, now_s)

    def object_changed(self, kind: str, key: str, body: msgspec.Raw, now_s: float) -> None:
        old = self._cache.objects.get(kind, key)
        is_same = self._cache.holds_object(kind, key, body)
        if old is not None and is_same and old.metadata.resource_version:
            # A list repeats what was known, which is no event (OnUpdate in staging/src/k8s.io/client-go/
            # tools/cache/shared_informer.go, v1.36.2).
            return
        value = decode_object(kind, body)
        self._cache.put_object(kind, key, body, value)
        resource = _resource_of(kind)
        action = Action.ADD if old is None else Action.UPDATE
        if resource is not None:
            self._wake(ClusterEvent(resource, action), old, value, now_s)
        if kind == POD_GROUPS.plural and (old is None or quorum(old) != quorum(value)):
            label = ClusterEvent(Resource.POD_GROUP, action).label
            for plugin in (DYNAMIC_RESOURCES, GANG_SCHEDULING):
                self._queue.let_in(self._groups.uids(key), plugin, label, now_s)

    def object_deleted(self, kind: str, key: str, now_s: float) -> None:
        old = self._cache.objects.get(kind, key)
        if not self._cache.remove_object(kind, key):
            return
        resource = _resource_of(kind)
        if resource is not None:
            self._wake(ClusterEvent(resource, Action.DELETE), old, None, now_s)

    def _wake(
        self,
        event: ClusterEvent,
        old: ChangedObject | None,
        new: ChangedObject | None,
        now_s: float,
    ) -> None:
        self.events[event] += 1
        self._queue.move_all_to_active_or_backoff(event, old, new, now_s)
