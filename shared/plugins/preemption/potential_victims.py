"""PotentialVictims: which pods could go from some nodes, and in which order they are put back.

Budgets may be violated; victims that violate none are preferred. Violations are counted per node, since
only one node's victims go: each victim takes one from every budget that selects it, the most important
first.

A gang that says that it is elastic has pods that it can do without: those above minCount. They go before
all others of their priority. Which pods these are is a matter of who may go: of those that may, the
least important, so many that minCount stay. The annotation is berth's own, and without it nothing here
differs from upstream.

Rules: `SelectVictimsOnNode` and `filterPodsWithPDBViolation` in
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from shared.columns.pod_table import group_id, name_hash
from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.cluster_view import ClusterView, Follower
from shared.kube.api.policy_v1 import PodDisruptionBudget
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_group_rules import goes_as_a_whole, is_elastic, priority_of, quorum
from shared.kube.resources import POD_GROUPS
from shared.selectors.label_selector import NOTHING, Selector, SelectorError, parse_label_selector

BUDGETS: Final = "poddisruptionbudgets"
_GROUPS: Final = frozenset({POD_GROUPS.plural})


class _Budget(NamedTuple):
    namespace: str
    selector: Selector
    allowed: int
    let_go: frozenset[int]
    """Hashes of the names of pods that the API server has already counted."""


class Budgets:
    """The budgets of one view at one moment."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        found = cluster.objects.all(BUDGETS)
        self._budgets = [_parsed(found[key]) for key in sorted(found)]
        self._by_class: dict[int, list[int]] = {}

    def violations(self, pod_rows: Rows, starts: Rows) -> Bools:
        """Which pods violate a budget if all go, shape (m,). `starts` (n + 1) says where each node's
        pods begin; they are in order of importance."""
        violates = np.zeros(len(pod_rows), np.bool_)
        left: list[int] = []
        last_node = -1
        for place, node, budgets in self._taking(pod_rows, starts):
            if node != last_node:
                last_node = node
                left = [budget.allowed for budget in self._budgets]
            for index in budgets:
                left[index] -= 1
                if left[index] < 0:
                    violates[place] = True
        return violates

    def violated_by(self, pod_rows: Rows, starts: Rows) -> Bools:
        """Of units of pods that go together, in order of importance, those whose going violates a
        budget, shape (n,); `starts` (n + 1) says where each one's pods begin. Budgets are counted over
        all units (`filterVictimsWithPDBViolation`), each pod up to the first that it violates."""
        violates = np.zeros(len(starts) - 1, np.bool_)
        left = [budget.allowed for budget in self._budgets]
        for _, unit, budgets in self._taking(pod_rows, starts):
            if violates[unit]:
                continue
            for index in budgets:
                left[index] -= 1
                if left[index] < 0:
                    violates[unit] = True
                    break
        return violates

    def _taking(self, pod_rows: Rows, starts: Rows) -> Iterator[tuple[int, int, list[int]]]:
        """Each pod that takes from a budget: its place among `pod_rows`, the number of the stretch that
        it lies in, and the budgets."""
        if not self._budgets or not len(pod_rows):
            return
        pods = self._cluster.pods
        class_ids = pods.class_id[pod_rows]
        counted = [c for c in np.unique(class_ids).tolist() if self._of_class(c)]
        places = np.flatnonzero(np.isin(class_ids, counted))
        stretches = np.searchsorted(starts, places, "right") - 1
        for place, stretch in zip(places.tolist(), stretches.tolist(), strict=True):
            name = int(pods.name_hash[pod_rows[place]])
            selecting = self._of_class(int(class_ids[place]))
            yield place, stretch, [i for i in selecting if name not in self._budgets[i].let_go]

    def _of_class(self, class_id: int) -> list[int]:
        """The budgets that select the pods of a class."""
        found = self._by_class.get(class_id)
        if found is None:
            info = self._cluster.classes[class_id]
            found = [
                i
                for i, budget in enumerate(self._budgets)
                if budget.namespace == info.namespace
                and info.is_labelled
                and budget.selector.matches(info.labels)
            ]
            self._by_class[class_id] = found
        return found


def _parsed(budget: PodDisruptionBudget) -> _Budget:
    """A budget whose selector is empty or cannot be read protects nothing."""
    try:
        selector = parse_label_selector(budget.spec.selector)
    except SelectorError:
        selector = NOTHING
    return _Budget(
        budget.metadata.namespace,
        NOTHING if selector.is_empty else selector,
        budget.status.disruptions_allowed,
        frozenset(name_hash(name) for name in budget.status.disrupted_pods or ()),
    )


class VictimGroups:
    """What pod groups mean for who has to go: of all that there are, by `group_id`."""

    def __init__(self, cluster: ClusterView) -> None:
        self._objects = cluster.objects
        self._follower = Follower(cluster)
        self.whole: Mapping[int, int] = {}
        """Priority of each group whose pods go together or not at all."""
        self.elastic: Int64s = np.zeros(0, np.int64)
        """Ascending."""
        self.quorums: Int64s = self.elastic
        """Of the elastic ones."""

    def catch_up(self) -> None:
        """Reads all of them again where one changed."""
        if self._follower.concerns(_GROUPS):
            groups: Mapping[str, PodGroup] = self._objects.all(POD_GROUPS.plural)
            whole = {k: priority_of(each) for k, each in groups.items() if goes_as_a_whole(each)}
            self.whole = {group_id(key): priority for key, priority in whole.items()}
            elastic = sorted((group_id(k), quorum(g)) for k, g in groups.items() if is_elastic(g))
            self.elastic, self.quorums = np.array(elastic, np.int64).reshape(-1, 2).T
        self._follower.note_objects()


def are_spare(cluster: ClusterView, pods: Rows, candidates: Rows) -> Bools:
    """Which of these pods an elastic gang can do without, shape (m,), if the others of them stay. They
    are in order of importance; `candidates` says of which candidate each may be a victim. Pods that are
    taken off their nodes and not among them are gone; those that are going already are spare."""
    is_spare = np.zeros(len(pods), np.bool_)
    groups, table = cluster.derived(VictimGroups), cluster.pods
    if not len(groups.elastic):
        return is_spare
    at = np.flatnonzero(np.isin(table.group_id[pods], groups.elastic))
    is_spare[at] = table.is_terminating[pods[at]]
    at = at[~is_spare[at]]
    there = np.union1d(table.used_rows(), pods)
    there_ids = table.group_id[there[~table.is_terminating[there]]]
    there_ids = there_ids[np.isin(there_ids, groups.elastic)]
    count = len(groups.elastic)
    counts = np.bincount(np.searchsorted(groups.elastic, there_ids), minlength=count)
    gangs = np.searchsorted(groups.elastic, table.group_id[pods[at]])
    asked = candidates[at] * count + gangs
    order = np.lexsort((-at, asked))  # Of each gang the least important first.
    from_last = np.arange(len(at)) - np.searchsorted(asked[order], asked[order])
    is_spare[at[order]] = from_last < (counts - groups.quorums)[gangs[order]]
    return is_spare


class PotentialVictims(NamedTuple):
    """The pods that could go from some nodes so that another one fits, and these nodes. Arrays of shape
    (m,) unless stated, a node's pods together, in the order in which they are put
    back: those whose budget would be violated first, then the others, each the most important first.
    There is a pod at least on each node."""

    rows: Rows
    """The nodes, shape (n,)."""
    starts: Rows
    """Where each node's pods begin, shape (n + 1,)."""
    pods: Rows
    """Rows of the pod table."""
    importance: Rows
    """Each pod's place on its node when budgets do not matter; 0 is the most important."""
    violates: Bools

    @property
    def counts(self) -> Int64s:
        """Pods of each node, shape (n,)."""
        return np.diff(self.starts)

    def at(self, positions: Rows) -> "PotentialVictims":
        """Some of the nodes."""
        first = self.starts[positions]
        counts = self.starts[positions + 1] - first
        starts = _starts(counts)
        pods = np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])
        of_pods = self.pods[pods], self.importance[pods], self.violates[pods]
        return PotentialVictims(self.rows[positions], starts, *of_pods)


def potential_victims_on(
    cluster: ClusterView, budgets: Budgets, rows: Rows, priority: int
) -> tuple[PotentialVictims, Rows]:
    """The pods on some nodes that are less important than `priority`; and the nodes without any."""
    pods = cluster.pods
    position = np.full(cluster.nodes.capacity + 1, -1, np.int64)  # Last: pods on no node.
    position[rows] = np.arange(len(rows))
    found = np.flatnonzero(position[pods.node_row[: pods.row_count]] >= 0)
    priorities = cluster.usages.priorities(pods.class_id[found])
    is_lower = priorities < priority
    found, priorities = found[is_lower], priorities[is_lower]
    at = position[pods.node_row[found]]
    order = np.lexsort((found, pods.start_s[found], -priorities, at))
    found, at, priorities = found[order], at[order], priorities[order]
    is_spare = are_spare(cluster, found, at)
    if is_spare.any():
        order = np.lexsort((is_spare, -priorities, at))
        found, at = found[order], at[order]
    counts = np.bincount(at, minlength=len(rows))
    kept = counts > 0
    starts = _starts(counts[kept])
    importance = np.arange(len(found)) - np.repeat(starts[:-1], counts[kept])
    violates = budgets.violations(found, starts)
    if violates.any():
        order = np.lexsort((importance, ~violates, at))
        found, importance, violates = found[order], importance[order], violates[order]
    return PotentialVictims(rows[kept], starts, found, importance, violates), rows[~kept]


def _starts(counts: Int64s) -> Rows:
    return np.concatenate((np.zeros(1, np.intp), np.cumsum(counts)))
