"""Workload-aware preemption: who has to go, from anywhere in the cluster, so that a pod group has room.

All that are less important than the group are taken off the copy. If the group can be placed then, they
are put back one after the other, the most important first and before all others those whose going a
budget forbids, as long as the group still has room. Who cannot be put back has to go. A group that is
disrupted as a whole is one victim, wherever its pods are. Of those of one priority the pods that elastic
gangs can do without are the last; each that has to go leaves its gang with fewer of these.

Upstream places the group once for each of them. Here many are put back at once, twice as many each
time that the group still has room, and half as many where it has not. That comes to the same unless the
group finds room beside all of them and would not beside some of them, which only the order in which
unlike pods take nodes from one another can do: a few victims are therefore put back one by one.

Rules: pkg/scheduler/framework/preemption/podgrouppreemption.go and types.go, v1.36.2. Among victims that
are alike in all that counts the order is that of the pod table; upstream's is random.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.runtime.what_if import WhatIf
from shared.messages.from_scorer import Failure, GroupRoom, Placements
from shared.messages.to_scorer import GroupPreemption
from shared.plugins.preemption.potential_victims import Budgets, VictimGroups, are_spare

NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
ONE_BY_ONE_MAX: Final = 64
"""Of so many victims each is put back by itself: about 1 ms each for a group of a hundred pods."""

Fits = Callable[[], Placements | Failure | None]
"""Where enough of the group's pods would go as things are; None where they have no room, and a failure
where that cannot be said."""


class VictimUnits(NamedTuple):
    """What may have to go, the most important first."""

    starts: Rows
    """Where each unit's pods begin, shape (n + 1,)."""
    pods: Rows
    """Rows of the pod table, shape (m,)."""
    priority: Int64s
    """Of each unit, shape (n,)."""

    def pods_of(self, units: Rows) -> Rows:
        return self.pods[_spans(self.starts[units], self.starts[units + 1] - self.starts[units])]


def make_room(
    cluster: ClusterView, task: GroupPreemption, fits: Fits, *, is_awaited: bool = False
) -> GroupRoom | Failure | str:
    """Who has to go, or why that is of no use: empty, where the group has no place even so; or what
    failed where all were gone. On return the copy is as before. `is_awaited`: pods go by themselves,
    each when it ends."""
    if task.refusal:
        return task.refusal
    whole = {} if is_awaited else cluster.derived(VictimGroups).whole
    units = victim_units(cluster, task.priority, whole)
    if not len(units.pods):
        return NO_VICTIMS
    is_violating = Budgets(cluster).violated_by(units.pods, units.starts)
    rows = np.unique(cluster.pods.node_row[units.pods]).astype(np.intp)
    try:
        with WhatIf(cluster, rows, with_pods=True) as what_if:
            search = _Search(cluster, what_if, units, is_violating, fits)
            room = search.without(search.in_order(np.arange(len(is_violating))))
    finally:
        cluster.journal.usage.extend(rows.tolist())
    if isinstance(room, GroupRoom) and is_awaited:
        room = msgspec.structs.replace(room, is_awaited=True)
    return room or ""


class _Search:
    """One, within its what-if."""

    def __init__(
        self,
        cluster: ClusterView,
        what_if: WhatIf,
        units: VictimUnits,
        is_violating: Bools,
        fits: Fits,
    ) -> None:
        self._cluster = cluster
        self._what_if = what_if
        self._units = units
        self._is_violating = is_violating
        self._fits = fits
        self._first_pods = units.pods[units.starts[:-1]]
        of_group = cluster.pods.group_id[self._first_pods]
        self._is_elastic = np.isin(of_group, cluster.derived(VictimGroups).elastic)

    def in_order(self, left: Rows) -> Rows:
        """Of putting back those that are left."""
        left = np.sort(left)
        one = np.zeros(len(left), np.intp)
        is_spare = are_spare(self._cluster, self._first_pods[left], one)
        keys = left, is_spare, -self._units.priority[left], ~self._is_violating[left]
        return left[np.lexsort(keys)]

    def without(self, order: Rows) -> GroupRoom | Failure | None:
        """Who has to go; None where not even all of them make room, and what failed then. Whoever is put
        back and has something fail has to go. `order`: of putting them back."""
        self._take_off(order)
        placements = self._fits()
        if not isinstance(placements, Placements):
            return placements
        victims: list[int] = []
        place, size, is_patient = 0, 1, len(order) <= ONE_BY_ONE_MAX
        while place < len(order):
            block = order[place : place + size]
            self._put_back(block)
            found = self._fits()
            if isinstance(found, Placements):
                placements = found
                place += len(block)
                size = 1 if is_patient else size * 2
                continue
            self._take_off(block)
            if len(block) == 1:
                victims += block.tolist()
                place += 1
                if self._is_elastic[block].any():
                    order[place:] = self.in_order(order[place:])
            size = max(1, len(block) // 2)
        gone = self._units.pods_of(np.array(sorted(victims), np.intp))
        return GroupRoom(gone.tolist(), placements)

    def _take_off(self, units: Rows) -> None:
        pods = self._units.pods_of(units)
        touched = self._cluster.pods.node_row[pods].tolist()
        self._what_if.take_off(pods)
        self._cluster.journal.usage.extend(touched)

    def _put_back(self, units: Rows) -> None:
        pods = self._units.pods_of(units)
        self._what_if.put_back(pods)
        self._cluster.journal.usage.extend(self._cluster.pods.node_row[pods].tolist())


def victim_units(cluster: ClusterView, below: int, whole: Mapping[int, int]) -> VictimUnits:
    """All that is less important than that (`moreImportantVictim` is the order). `whole` as in
    `VictimGroups`."""
    pods = cluster.pods
    used = pods.used_rows()
    group_id, priority = pods.group_id[used], cluster.usages.priorities(pods.class_id[used])
    is_in_unit = np.isin(group_id, np.array(list(whole), np.int64))
    priority[is_in_unit] = [whole[each] for each in group_id[is_in_unit].tolist()]
    # The pods of a unit side by side, all others units of their own.
    unit = np.where(is_in_unit, group_id, -1 - used)
    order = np.argsort(unit, kind="stable")
    order = order[priority[order] < below]
    _, starts, counts = np.unique(unit[order], return_index=True, return_counts=True)
    rows, firsts = used[order], order[starts]
    priority, is_grouped = priority[firsts], group_id[firsts] > 0
    start_s = np.minimum.reduceat(pods.start_s[rows], starts) if len(rows) else rows
    size = np.where(is_in_unit[firsts], counts, is_grouped)
    ranked = np.lexsort((used[firsts], start_s, -size, ~is_grouped, -priority))
    ordered = rows[_spans(starts[ranked], counts[ranked])]
    starts = np.concatenate((np.zeros(1, np.intp), np.cumsum(counts[ranked])))
    return VictimUnits(starts, ordered, priority[ranked])


def _spans(firsts: Rows, counts: Rows) -> Rows:
    """All places of these stretches, one after the other."""
    ends = np.cumsum(counts)
    return np.repeat(firsts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
