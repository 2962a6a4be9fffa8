"""What preemption has set going: who has room kept on which node, and who waits for whose end.

Nominations live in the queue's nominator, by name; this keeps the view's columns (and through them
the scorers') up to date with it. After the owner's death the pods' own status says who is nominated
where. Who decides is `preemptions.py`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from daemon.core.cache import Cache
from daemon.core.pod_groups import PodGroups
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from daemon.core.status_patches import StatusPatches, nomination_of
from shared.columns.nomination_columns import Nomination
from shared.kube.pod_record import PodRecord

ENDED: Final = -1


class Evictions(msgspec.Struct, eq=False):
    """Which pods wait for victims that a binder is to delete: they are not tried meanwhile, as the
    events of each victim would have them tried in vain (PreEnqueue of DefaultPreemption)."""

    _cache: Cache
    _groups: PodGroups
    is_async: bool
    """The feature gate SchedulerAsyncPreemption. What is left of it here, where preemption never keeps
    anybody waiting: without it nobody is held back, with it nothing at all is done where all victims are
    going already."""
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
    def __init__(self, cache: Cache, queue: SchedulingQueue, patches: StatusPatches) -> None:
        """`patches` takes what pods' statuses are to say."""
        self._cache = cache
        self._queue = queue
        self._patches = patches
        self._topology_version = -1
        self._victims_of: dict[str, Sequence[str]] = {}
        """Uid of a nominated pod -> uids of all that its preemption chose, for `awaited_victims`."""

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

    def nominate(self, pod: QueuedPod, node_name: str, victims: Sequence[str]) -> None:
        """Keeps room for the pod, which it has once the victims (uids) are gone."""
        self._queue.nominator.nominate(pod.uid, node_name)
        self._patch(pod.record, node_name)
        self.refresh()
        self._victims_of[pod.uid] = victims

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
        if not self._cache.shows(row):
            return None
        priority = self._queue.nominator.priorities.get(uid, pod.priority)
        return Nomination(uid, pod.class_id, priority, row)
