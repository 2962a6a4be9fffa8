"""Parked pods: those that no plugin would let run, and those that a PreEnqueue plugin holds.

The simple way is a list of pods that every cluster event walks through; with 10,000 parked pods and
hundreds of events a second that walk is all the owner would do. Here pods lie in groups that hints
cannot tell apart (same rejecting plugins, same class), and the groups are indexed by rejecting
plugin. An event that none of these plugins registered touches nothing; one that concerns them asks
a hint once for a group, however many pods are in it.

Hints may be wrong, so a pod that is parked for too long is tried without a reason. It is looked for at
full 30 s from the start, however late the caller is and whatever else woke it, so that equal histories
give equal answers.

Rules: pkg/scheduler/backend/queue/unschedulable_pods.go and flushUnschedulablePodsLeftover in
scheduling_queue.go, v1.36.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from daemon.core.queue.queued_pod import Place, QueuedPod
from shared.grouped import Grouped

LEFTOVERS_EVERY_S: Final = 30.0


class GroupKey(NamedTuple):
    gated_by: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    class_id: int


Group = dict[str, QueuedPod]
"""Parked pods by uid, alike but for identity, in the order of parking; never empty while indexed."""


class UnschedulablePods:
    def __init__(self, start_s: float, leftover_after_s: float) -> None:
        self._start_s = self._next_look_s = start_s
        self._leftover_after_s = leftover_after_s
        self._groups: dict[GroupKey, Group] = {}
        self._by_plugin: dict[str, Grouped[int, GroupKey, Group]] = {}
        """Plugin -> class -> groups: of many that wait, an event may concern few."""
        self.count = 0

    def __len__(self) -> int:
        return self.count

    @property
    def gated_count(self) -> int:
        return sum(len(group) for key, group in self._groups.items() if key.gated_by)

    def __iter__(self) -> Iterator[QueuedPod]:
        for group in self._groups.values():
            yield from group.values()

    def add(self, pod: QueuedPod) -> None:
        assert not pod.is_error, "a pod that nobody rejected is never parked: nothing would wake it"
        key = _key_of(pod)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = {}
            for plugin in pod.rejected_by:
                by_class = self._by_plugin.setdefault(plugin, Grouped())
                by_class.put(key.class_id, key, group)
        pod.place = Place.UNSCHEDULABLE
        group[pod.record.uid] = pod
        self.count += 1

    def remove(self, pod: QueuedPod) -> None:
        """Takes a pod out; the caller gives it its next place. Before its plugins are changed."""
        assert pod.place is Place.UNSCHEDULABLE, "only a parked pod can be taken from here"
        key = _key_of(pod)
        group = self._groups[key]
        del group[pod.record.uid]
        if not group:
            del self._groups[key]
            for plugin in pod.rejected_by:
                by_class = self._by_plugin[plugin]
                by_class.drop(key.class_id, key)
                if not by_class:
                    del self._by_plugin[plugin]
        pod.place = Place.GONE
        self.count -= 1

    def groups_rejected_by(
        self, plugins: Iterable[str], classes_of: Callable[[str], Collection[int] | None]
    ) -> dict[GroupKey, Group]:
        """Groups that one of the plugins rejected; of the gated, only those that one of them gates.
        `classes_of` says of which classes those of a plugin are wanted; None: of all."""
        wanted = frozenset(plugins)
        found: dict[GroupKey, Group] = {}
        for plugin in plugins:
            by_class = self._by_plugin.get(plugin)
            if not by_class:
                continue
            ids = classes_of(plugin)
            for class_id in by_class if ids is None else filter(by_class.__contains__, ids):
                found.update(by_class[class_id])
        return {key: g for key, g in found.items() if not key.gated_by or key.gated_by in wanted}

    def leftovers(self, now_s: float) -> list[QueuedPod]:
        """Pods that no event woke for too long; none before the next look is due."""
        if now_s < self._next_look_s:
            return []
        looks = math.floor((now_s - self._start_s) / LEFTOVERS_EVERY_S)
        look_s = self._start_s + looks * LEFTOVERS_EVERY_S
        self._next_look_s = look_s + LEFTOVERS_EVERY_S
        return [pod for pod in self if pod.timestamp_s < look_s - self._leftover_after_s]

    def next_leftovers_s(self) -> float:
        """When there may be leftovers; infinity for never."""
        return self._next_look_s if self.count else math.inf

    def check_invariants(self) -> None:
        """Raises AssertionError if the indexes contradict one another."""
        count = 0
        for key, group in self._groups.items():
            assert group, f"group {key} is empty"
            count += len(group)
            for uid, pod in group.items():
                assert pod.record.uid == uid, f"pod {uid} is filed under another's uid"
                assert _key_of(pod) == key, f"pod {uid} changed while it was parked"
                for plugin in pod.rejected_by:
                    of_class = self._by_plugin[plugin][key.class_id]
                    assert of_class[key] is group, f"{plugin} cannot find its group"
        assert self.count == count, "parked pods counted"
        for plugin, by_class in self._by_plugin.items():
            assert by_class, f"empty index for {plugin}"
            for groups in by_class.values():
                assert groups, f"{plugin} knows a class without groups"
                assert groups.keys() <= self._groups.keys(), f"{plugin} knows a group that is gone"


def _key_of(pod: QueuedPod) -> GroupKey:
    return GroupKey(pod.gated_by, pod.unschedulable_plugins, pod.pending_plugins, pod.class_id)
