"""Preemption: which less important pods would have to go so that a pod fits, and where best.

For every node that refuses the pod for a reason that removing pods may lift, all less important pods
are taken off; if the pod then passes the filters, they are put back one by one, the most important
first, as long as the pod still passes. What cannot be put back are the victims.

This is done on the real columns (`what_if.py`). Where the filters look at a node alone, all nodes
of a stretch are asked at once, and the number of passes is the number of pods on one node, not in
the cluster. Where a filter looks beyond the node (spread, affinity), each node is asked by itself.

Rules: pkg/scheduler/framework/preemption/preemption.go and
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2. Differences: nodes
are tried in the order of the list of nodes instead of by goroutines, so that equal states give equal
answers; a worker's own placements that nobody has confirmed are never victims.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.diagnosis import FitError, node_verdicts
from shared.framework.pod_info import PodInfo
from shared.framework.preemption_budgets import Budgets
from shared.framework.runtime import (
    FilterOutcome,
    Framework,
    NodeVerdict,
    PodShift,
    PreFilterOutcome,
)
from shared.framework.status import SUCCESS, Code, Status
from shared.framework.what_if import WhatIf
from shared.plugin_names import DEFAULT_PREEMPTION

NEVER_POLICY: Final = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
PRIORITY_SHIFT: Final = 1 << 31
"""Added to each priority of a sum, so that of two pods with negative priority one is better."""

TieBreak = Callable[[Rows], int]
"""Chooses one of the node rows that are equally good."""


class PreemptionSettings(NamedTuple):
    """How many nodes are tried (DefaultPreemptionArgs)."""

    min_candidates_percentage: int = 10
    min_candidates_absolute: int = 100

    def candidates_wanted(self, potential_count: int) -> int:
        """After so many candidates the search ends."""
        wanted = potential_count * self.min_candidates_percentage // 100
        return min(max(wanted, self.min_candidates_absolute), potential_count)


class Preemptor(NamedTuple):
    """The pod that found no room."""

    info: PodInfo
    uid: str = ""
    nominated_row: int = -1
    """The node that it is nominated to; -1: to none, or to one that is gone."""
    is_nominated: bool = False
    """Its status names a node."""


class Candidate(NamedTuple):
    """A node on which the pod would fit if the victims were gone."""

    row: int
    victims: tuple[int, ...]
    """Rows of the pod table, the most important first; at least one."""
    pdb_violations: int


class Candidates(NamedTuple):
    """Many of them, as columns of shape (n,)."""

    rows: Rows
    violations: Int64s
    counts: Int64s
    """Victims of each."""
    victims: Rows
    """Of all, one node's after the other's."""

    def at(self, position: int) -> Candidate:
        first = int(self.counts[:position].sum())
        victims: list[int] = self.victims[first : first + int(self.counts[position])].tolist()
        return Candidate(int(self.rows[position]), tuple(victims), int(self.violations[position]))

    def all(self) -> list[Candidate]:
        return [self.at(position) for position in range(len(self.rows))]


_NO_ROWS: Final[Rows] = np.zeros(0, np.intp)
_NO_COUNTS: Final[Int64s] = np.zeros(0, np.int64)
NO_CANDIDATES: Final = Candidates(_NO_ROWS, _NO_COUNTS, _NO_COUNTS, _NO_ROWS)


class Preemption(NamedTuple):
    """What preemption came to."""

    status: Status
    """Success: `best` is to be carried out. Otherwise why not, as PostFilter reports it."""
    ineligible_reason: str = ""
    potential: Rows = _NO_ROWS
    """Nodes that were worth a try, in the order of trying."""
    candidates: Candidates = NO_CANDIDATES
    failed: tuple[NodeVerdict, ...] = ()
    """Nodes where it does not help, and why."""
    best: Candidate | None = None
    tied: tuple[int, ...] = ()
    """Rows of the candidates as good as the best, if there are several."""
    ends_nomination: bool = False
    """Nothing helps: what the pod was nominated to is void as well."""


def preempt(
    framework: Framework,
    preemptor: Preemptor,
    cluster: ClusterView,
    outcome: PreFilterOutcome,
    filtered: FilterOutcome,
    settings: PreemptionSettings,
    tie_break: TieBreak,
    offset: int = 0,
) -> Preemption:
    """The best way to make room for a pod that fits nowhere. `filtered` is what its filters said of
    all candidate nodes (of none, where PreFilter rejected it); `offset` says where to begin."""
    reason = _ineligible_reason(preemptor, cluster, outcome, filtered)
    if reason:
        return Preemption(_refused(reason), ineligible_reason=reason)
    potential = _potential_rows(cluster, outcome, filtered)
    if len(potential):
        potential = np.roll(potential, -(offset % len(potential)))
    search = _Search(framework, preemptor, cluster, outcome)
    search.run(potential, settings.candidates_wanted(len(potential)))
    candidates, failed = search.candidates(), tuple(search.failed)
    if not len(candidates.rows):
        status, ends = _no_candidate(cluster, failed)
        return Preemption(status, potential=potential, failed=failed, ends_nomination=ends)
    best, tied = _pick(cluster, candidates, tie_break)
    return Preemption(
        SUCCESS, potential=potential, candidates=candidates, failed=failed, best=best, tied=tied
    )


# Who may, and where ---------------------------------------------------------------------------------


def _ineligible_reason(
    preemptor: Preemptor, cluster: ClusterView, outcome: PreFilterOutcome, filtered: FilterOutcome
) -> str:
    """Why the pod may not preempt now; empty if it may (PodEligibleToPreemptOthers)."""
    if preemptor.info.spec.preemption_policy == "Never":
        return NEVER_POLICY
    row = preemptor.nominated_row
    if not preemptor.is_nominated or row < 0 or not cluster.nodes.present[row]:
        return ""
    if _code_of(row, outcome, filtered) == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    pods = cluster.pods
    going = pods.rows_on(row)
    going = going[pods.is_preempted[going]]
    is_lower = _priorities(cluster, going) < preemptor.info.priority
    return VICTIMS_TERMINATING if is_lower.any() else ""


def _code_of(row: int, outcome: PreFilterOutcome, filtered: FilterOutcome) -> int:
    """The code of one node; nodes that were not looked at have that of PreFilter."""
    if not outcome.status.is_success:
        return outcome.status.code
    at = np.flatnonzero(filtered.rows == row)
    if not len(at):
        return Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return int(filtered.codes()[at[0]])


def _potential_rows(
    cluster: ClusterView, outcome: PreFilterOutcome, filtered: FilterOutcome
) -> Rows:
    """Nodes that refuse the pod and might not if pods were gone, in the order of the nodes."""
    order = cluster.nodes.order
    if not outcome.status.is_success:
        return order if outcome.status.code is Code.UNSCHEDULABLE else order[:0]
    is_potential = np.zeros(cluster.nodes.capacity, np.bool_)
    is_potential[filtered.rows[filtered.codes() == Code.UNSCHEDULABLE]] = True
    rows: Rows = order[is_potential[order]]
    return rows


def _priorities(cluster: ClusterView, pod_rows: Rows) -> Int64s:
    indices = cluster.usages.indices(cluster.pods.class_id[pod_rows])
    return cluster.usages.priority[indices]


def _no_candidate(cluster: ClusterView, failed: tuple[NodeVerdict, ...]) -> tuple[Status, bool]:
    """The answer where nothing helps, and whether that ends the pod's nomination."""
    errors = [verdict.status.message for verdict in failed if verdict.status.code is Code.ERROR]
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return Status(Code.ERROR, (f"preemption: {text}",), DEFAULT_PREEMPTION), False
    reasons: Counter[str] = Counter()
    for verdict in failed:
        reasons.update(verdict.status.reasons)
    node_count = len(cluster.nodes.order)
    if len(failed) < node_count:
        reasons[NOT_HELPFUL] += node_count - len(failed)
    error = FitError(node_count, "", reasons, frozenset(), frozenset())
    return _refused(error.message()), True


def _refused(text: str) -> Status:
    return Status(Code.UNSCHEDULABLE, (f"preemption: {text}",), DEFAULT_PREEMPTION)


# Victims --------------------------------------------------------------------------------------------


class _Stretch(NamedTuple):
    """The pods that could go from some nodes. Arrays of shape (m,), a node's pods together, in the
    order in which they are put back: those whose budget would be violated first, then the others,
    each the most important first."""

    rows: Rows
    """The nodes, shape (n,)."""
    starts: Rows
    """Where each node's pods begin, shape (n + 1,)."""
    pods: Rows
    """Rows of the pod table."""
    importance: Rows
    """Each pod's place on its node when budgets do not matter; 0 is the most important."""
    violates: Bools


class _Search:
    """One search for candidates."""

    def __init__(
        self,
        framework: Framework,
        preemptor: Preemptor,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
    ) -> None:
        self._framework = framework
        self._preemptor = preemptor
        self._cluster = cluster
        self._outcome = outcome
        self._is_wide = framework.is_wide(outcome)
        self._reads_pods = framework.reads_pods(outcome)
        self._shift = (
            PodShift(framework, preemptor.info, cluster, outcome) if self._is_wide else None
        )
        self._budgets = Budgets(cluster)
        self._found: list[Candidates] = []
        self._keeping_count = 0
        """Candidates that violate no budget."""
        self._count = 0
        self.failed: list[NodeVerdict] = []

    def candidates(self) -> Candidates:
        """In the order in which they were found."""
        if not self._found:
            return NO_CANDIDATES
        return Candidates(*(np.concatenate(columns) for columns in zip(*self._found, strict=True)))

    def run(self, potential: Rows, wanted: int) -> None:
        """Tries nodes in order until enough candidates are found, one of them without violation."""
        start, size = 0, max(wanted, 1)
        while start < len(potential) and not self._is_enough(wanted):
            stretch = self._stretch(potential[start : start + size])
            if self._is_wide:
                for position in range(len(stretch.rows)):
                    if self._is_enough(wanted):
                        break
                    self._try(_one_node(stretch, position), wanted)
            else:
                self._try(stretch, wanted)
            start += size
            size *= 2

    def _is_enough(self, wanted: int) -> bool:
        return self._keeping_count > 0 and self._count >= wanted

    def _stretch(self, rows: Rows) -> _Stretch:
        """The less important pods on some nodes; nodes without any are done with at once."""
        cluster = self._cluster
        pods = cluster.pods
        position = np.full(cluster.nodes.capacity + 1, -1, np.int64)  # Last: pods on no node.
        position[rows] = np.arange(len(rows))
        found = np.flatnonzero(position[pods.node_row[: pods.row_count]] >= 0)
        priority = _priorities(cluster, found)
        is_lower = priority < self._preemptor.info.priority
        found, priority = found[is_lower], priority[is_lower]
        at = position[pods.node_row[found]]
        order = np.lexsort((found, pods.start_s[found], -priority, at))
        found, at = found[order], at[order]
        counts = np.bincount(at, minlength=len(rows))
        for position_without in np.flatnonzero(counts == 0).tolist():
            status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_VICTIMS,))
            self.failed.append(NodeVerdict(int(rows[position_without]), status))
        kept = counts > 0
        starts = np.concatenate((np.zeros(1, np.intp), np.cumsum(counts[kept])))
        importance = np.arange(len(found)) - np.repeat(starts[:-1], counts[kept])
        violates = self._budgets.violations(found, starts)
        if violates.any():
            order = np.lexsort((importance, ~violates, at))
            found, importance, violates = found[order], importance[order], violates[order]
        return _Stretch(rows[kept], starts, found, importance, violates)

    def _try(self, stretch: _Stretch, wanted: int) -> None:
        """Finds the victims on each node of a stretch."""
        if not len(stretch.rows):
            return
        is_victim = np.ones(len(stretch.pods), np.bool_)
        shift = self._shift
        with WhatIf(
            self._cluster,
            stretch.rows,
            with_pods=self._is_wide or self._reads_pods,
            on_change=None if shift is None else shift.move,
        ) as what_if:
            what_if.take_off(stretch.pods)
            filtered = self._filter(stretch.rows)
            fits = filtered.passes
            self.failed += node_verdicts(self._framework, filtered)
            counts = np.diff(stretch.starts)
            for rank in range(int(counts[fits].max(initial=0))):
                asked = np.flatnonzero(fits & (counts > rank))
                places = stretch.starts[asked] + rank
                what_if.put_back(stretch.pods[places])
                still_fits = self._filter(stretch.rows[asked]).passes
                is_victim[places] = ~still_fits
                what_if.take_off(stretch.pods[places[~still_fits]])
        self._keep(stretch, fits, is_victim, wanted)

    def _keep(self, stretch: _Stretch, fits: Bools, is_victim: Bools, wanted: int) -> None:
        """Adds the nodes with victims to what was found, as many as are wanted."""
        spans = stretch.starts[:-1]
        counts = np.add.reduceat(is_victim, spans, dtype=np.int64)
        violations = np.add.reduceat(is_victim & stretch.violates, spans, dtype=np.int64)
        for node in np.flatnonzero(fits & (counts == 0)).tolist():
            row = int(stretch.rows[node])
            name = self._cluster.nodes.name_of(row)
            text = f'expected at least one victim pod on node "{name}"'
            self.failed.append(NodeVerdict(row, Status(Code.ERROR, (text,))))
        chosen = np.flatnonzero(fits & (counts > 0))
        keeping = self._keeping_count + np.cumsum(violations[chosen] == 0)
        total = self._count + np.arange(1, len(chosen) + 1)
        enough = np.flatnonzero((keeping > 0) & (total >= wanted))
        if len(enough):
            chosen = chosen[: int(enough[0]) + 1]
        if not len(chosen):
            return
        is_chosen = np.zeros(len(stretch.rows), np.bool_)
        is_chosen[chosen] = True
        node_of_pod = np.repeat(np.arange(len(stretch.rows)), np.diff(stretch.starts))
        places = np.flatnonzero(is_victim & is_chosen[node_of_pod])
        places = places[np.lexsort((stretch.importance[places], node_of_pod[places]))]
        self._keeping_count = int(keeping[len(chosen) - 1])
        self._count += len(chosen)
        self._found.append(
            Candidates(
                stretch.rows[chosen], violations[chosen], counts[chosen], stretch.pods[places]
            )
        )

    def _filter(self, rows: Rows) -> FilterOutcome:
        framework, pod, uid = self._framework, self._preemptor.info, self._preemptor.uid
        return framework.run_filters(
            pod, self._cluster, self._outcome, rows, uid, shift=self._shift
        )


def _one_node(stretch: _Stretch, position: int) -> _Stretch:
    first, end = stretch.starts[position], stretch.starts[position + 1]
    return _Stretch(
        stretch.rows[position : position + 1],
        np.array([0, end - first], np.intp),
        stretch.pods[first:end],
        stretch.importance[first:end],
        stretch.violates[first:end],
    )


# Choosing -------------------------------------------------------------------------------------------


def _pick(
    cluster: ClusterView, candidates: Candidates, tie_break: TieBreak
) -> tuple[Candidate, tuple[int, ...]]:
    """The best candidate, and all that are as good (pickOneNodeForPreemption)."""
    if len(candidates.rows) == 1:
        return candidates.at(0), ()
    counts, victims = candidates.counts, candidates.victims
    starts = np.cumsum(counts) - counts
    priority = _priorities(cluster, victims)
    highest = priority[starts]
    is_highest = priority == np.repeat(highest, counts)
    start_s = np.where(is_highest, cluster.pods.start_s[victims], np.iinfo(np.int64).max)
    worse = (
        candidates.violations,
        highest,
        np.add.reduceat(priority + PRIORITY_SHIFT, starts),
        counts,
        -np.minimum.reduceat(start_s, starts),
    )
    left = np.arange(len(candidates.rows))
    for column in worse:
        values = column[left]
        left = left[values == values.min()]
    if len(left) == 1:
        return candidates.at(int(left[0])), ()
    rows = np.sort(candidates.rows[left])
    row = tie_break(rows)
    best = int(np.flatnonzero(candidates.rows == row)[0])
    return candidates.at(best), tuple(rows.tolist())
