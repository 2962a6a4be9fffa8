"""Preemption: which less important pods would have to go so that a pod fits, and where best.

For every node that refuses the pod for a reason that removing pods may lift, all less important pods
are taken off; if the pod then passes the filters, they are put back one by one, the most important
first, as long as the pod still passes. What cannot be put back are the victims.

This is done on the real columns (`what_if.py`). Where the filters look at a node alone, all nodes
of a stretch are asked at once, and the number of passes is the number of pods on one node, not in
the cluster. Where a filter looks beyond the node (spread, affinity) and minds one of the pods that
could go, the node is asked by itself.

Rules: pkg/scheduler/framework/preemption/preemption.go and
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2. Differences: nodes
are tried in the order of the list of nodes instead of by goroutines, so that equal states give equal
answers; a worker's own placements that nobody has confirmed are never victims (`unconfirmed.py`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, overload

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.apart import ApartFramework, can_be_apart
from shared.framework.candidates import NO_CANDIDATES, NO_ROWS, Candidate, Candidates, in_order
from shared.framework.cluster_view import ClusterView
from shared.framework.diagnosis import FitError, node_verdicts
from shared.framework.dry_runs import DryRuns
from shared.framework.plugin_api import GonePods
from shared.framework.pod_info import PodInfo
from shared.framework.pod_shift import PodShift
from shared.framework.preemption_budgets import Budgets
from shared.framework.preemption_scope import (
    MindedClasses,
    moving_only,
    row_filters_read_pods,
    settled_by_row,
)
from shared.framework.runtime import (
    FilterOutcome,
    Framework,
    NodeVerdict,
    PreFilterOutcome,
)
from shared.framework.status import SUCCESS, Code, Status
from shared.framework.unconfirmed import unconfirmed_would_do
from shared.framework.what_if import WhatIf
from shared.plugin_names import DEFAULT_PREEMPTION

NEVER_POLICY: Final = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
SIZE_MIN: Final = 32
"""Fewer nodes are not asked about at a time, where it is known of most what comes of it."""
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


class Preemption(NamedTuple):
    """What preemption came to."""

    status: Status
    """Success: `best` is to be carried out. Otherwise why not, as PostFilter reports it."""
    ineligible_reason: str = ""
    potential: Rows = NO_ROWS
    """Nodes that were worth a try, in the order of trying."""
    candidates: Candidates = NO_CANDIDATES
    failed: Sequence[NodeVerdict] = ()
    """Nodes where it does not help, and why; where it helps on some node, those that were tried now."""
    best: Candidate | None = None
    tied: tuple[int, ...] = ()
    """Rows of the candidates as good as the best, if there are several."""
    ends_nomination: bool = False
    """Nothing helps: what the pod was nominated to is void as well."""
    is_open: bool = False
    """Nothing helps as long as this worker's own placements cannot be victims; with them gone it
    would: to be asked again once the owner has confirmed them."""


def preempt(
    framework: Framework,
    preemptor: Preemptor,
    cluster: ClusterView,
    outcome: PreFilterOutcome,
    filtered: FilterOutcome,
    settings: PreemptionSettings,
    tie_break: TieBreak,
    offset: int = 0,
    refused: Rows = NO_ROWS,
    dry_runs: DryRuns | None = None,
) -> Preemption:
    """The best way to make room for a pod that fits nowhere. `filtered` is what its filters said of
    all candidate nodes (of none, where PreFilter rejected it); `offset` says where to begin;
    `refused` are nodes that pass the filters and were refused by others, for now; `dry_runs` are
    those of the pod's class."""
    reason = _ineligible_reason(preemptor, cluster, outcome, filtered)
    if reason:
        return Preemption(_refused(reason), ineligible_reason=reason)
    potential = _potential_rows(cluster, outcome, filtered, refused)
    if len(potential):
        potential = np.roll(potential, -(offset % len(potential)))
    wanted = settings.candidates_wanted(len(potential))
    search = _Search(framework, preemptor, cluster, outcome)
    if not _is_above_any(cluster, preemptor):
        search.failed.add_without_victims(potential)
    elif dry_runs is not None and search.looks_at_nodes_alone():
        search.run_with(dry_runs, potential, wanted)
        if not len(search.candidates().rows):  # Somebody is told why, node by node.
            search = _Search(framework, preemptor, cluster, outcome)
            search.run(potential, wanted)
    else:
        search.run(potential, wanted)
    candidates, failed = search.candidates(), search.failed
    if not len(candidates.rows):
        status, ends = _no_candidate(cluster, failed)
        is_open = unconfirmed_would_do(
            framework, preemptor.info, preemptor.uid, cluster, outcome, potential
        )
        return Preemption(
            status, potential=potential, failed=failed, ends_nomination=ends, is_open=is_open
        )
    best, tied = pick(cluster, candidates, tie_break)
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
    cluster: ClusterView, outcome: PreFilterOutcome, filtered: FilterOutcome, refused: Rows
) -> Rows:
    """Nodes that refuse the pod and might not if pods were gone, in the order of the nodes."""
    order = cluster.nodes.order
    if not outcome.status.is_success:
        return order if outcome.status.code is Code.UNSCHEDULABLE else order[:0]
    is_potential = np.zeros(cluster.nodes.capacity, np.bool_)
    is_potential[filtered.rows[filtered.codes() == Code.UNSCHEDULABLE]] = True
    is_potential[refused] = True
    rows: Rows = order[is_potential[order]]
    return rows


def _is_above_any(cluster: ClusterView, preemptor: Preemptor) -> bool:
    """Whether a pod on some node is less important; where all are alike there is nothing to try."""
    placed = np.flatnonzero(cluster.pods.node_row[: cluster.pods.row_count] >= 0)
    return bool((_priorities(cluster, placed) < preemptor.info.priority).any())


def _priorities(cluster: ClusterView, pod_rows: Rows) -> Int64s:
    indices = cluster.usages.indices(cluster.pods.class_id[pod_rows])
    return cluster.usages.priority[indices]


def _no_candidate(cluster: ClusterView, failed: "FailedNodes") -> tuple[Status, bool]:
    """The answer where nothing helps, and whether that ends the pod's nomination."""
    errors = failed.errors()
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return Status(Code.ERROR, (f"preemption: {text}",), DEFAULT_PREEMPTION), False
    reasons = failed.reasons()
    node_count = len(cluster.nodes.order)
    if len(failed) < node_count:
        reasons[NOT_HELPFUL] += node_count - len(failed)
    error = FitError(node_count, "", reasons, frozenset(), frozenset())
    return _refused(error.message()), True


def _refused(text: str) -> Status:
    return Status(Code.UNSCHEDULABLE, (f"preemption: {text}",), DEFAULT_PREEMPTION)


# Victims --------------------------------------------------------------------------------------------


class FailedNodes(Sequence[NodeVerdict]):
    """Verdicts that are made when somebody wants them: mostly nobody does, and a search may have
    thousands."""

    def __init__(self) -> None:
        self._parts: list[Callable[[], list[NodeVerdict]]] = []
        self._made: list[NodeVerdict] | None = None
        self._errors: list[str] = []
        self._reasons: Counter[str] = Counter()
        self._size = 0

    def add(self, framework: Framework, filtered: FilterOutcome) -> None:
        """Nodes that the pod does not fit even without the others."""
        if not filtered.verdicts:
            return
        self._parts.append(lambda: node_verdicts(framework, filtered))
        for index, _, verdicts in filtered.verdicts:
            failed = verdicts.codes != 0
            self._size += int(np.count_nonzero(failed))
            for bit, text in enumerate(verdicts.texts):
                count = np.count_nonzero(verdicts.reasons[failed] >> bit & 1)
                if count:
                    self._reasons[text] += int(count)
            for at in (verdicts.codes == Code.ERROR).nonzero()[0].tolist():
                status = verdicts.status(at, framework.filters[index].NAME)
                self._errors.append(status.message)

    def add_without_victims(self, rows: Rows) -> None:
        if not len(rows):
            return
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_VICTIMS,))
        self._parts.append(lambda: [NodeVerdict(row, status) for row in rows.tolist()])
        self._reasons[NO_VICTIMS] += len(rows)
        self._size += len(rows)

    def add_error(self, row: int, text: str) -> None:
        self._parts.append(lambda: [NodeVerdict(row, Status(Code.ERROR, (text,)))])
        self._errors.append(text)
        self._reasons[text] += 1
        self._size += 1

    def errors(self) -> list[str]:
        """What plugins failed with, in the order of the nodes here."""
        return self._errors

    def reasons(self) -> Counter[str]:
        """How many nodes there are for each reason."""
        return self._reasons.copy()

    def _all(self) -> list[NodeVerdict]:
        if self._made is None:
            self._made = [verdict for part in self._parts for verdict in part()]
        return self._made

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> NodeVerdict: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeVerdict]: ...

    def __getitem__(self, index: int | slice) -> NodeVerdict | Sequence[NodeVerdict]:
        return self._all()[index]


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
        self._reads_pods = row_filters_read_pods(framework, outcome)
        self._shift: PodShift | None = None
        self._minded: MindedClasses | None = None
        """Where some filter looks beyond the node."""
        self._apart: ApartFramework | None = None
        if framework.is_wide(outcome):
            self._shift = PodShift(framework, preemptor.info, cluster, outcome)
            self._minded = MindedClasses(framework, cluster, outcome)
            if can_be_apart(framework, outcome):
                info, uid = preemptor.info, preemptor.uid
                self._apart = ApartFramework(framework, info, uid, cluster, outcome)
        self._budgets = Budgets(cluster)
        self._found: list[Candidates] = []
        self._keeping_count = 0
        """Candidates that violate no budget."""
        self._count = 0
        self.failed = FailedNodes()

    def candidates(self) -> Candidates:
        """In the order in which they were found."""
        if not self._found:
            return NO_CANDIDATES
        return Candidates(*(np.concatenate(columns) for columns in zip(*self._found, strict=True)))

    def looks_at_nodes_alone(self) -> bool:
        """What is found of a node holds until that node changes."""
        return (
            self._outcome.status.is_success
            and self._minded is None
            and not self._preemptor.is_nominated
        )

    def run_with(self, dry_runs: DryRuns, potential: Rows, wanted: int) -> None:
        """As `run`, and only tries nodes of which it is not known what comes of that."""
        dry_runs.catch_up()
        start, size, growth = 0, max(wanted, 1), 1
        while start < len(potential) and not self._is_enough(wanted):
            rows = potential[start : start + size]
            unknown = dry_runs.unknown(rows)
            if len(unknown):
                stretch = self._stretch(unknown)
                found = self._tried(stretch) if len(stretch.rows) else NO_CANDIDATES
                dry_runs.learn(unknown, found)
            self._take(dry_runs.candidates(rows), wanted)
            start += size
            growth *= 2
            size = max(wanted - self._count, SIZE_MIN) * growth

    def run(self, potential: Rows, wanted: int) -> None:
        """Tries nodes in order until enough candidates are found, one of them without violation."""
        start, size = 0, max(wanted, 1)
        while start < len(potential) and not self._is_enough(wanted):
            stretch = self._stretch(potential[start : start + size])
            if self._minded is None:
                self._try(stretch, wanted)
            else:
                self._try_wide(stretch, wanted, self._minded)
            start += size
            size *= 2

    def _try_wide(self, stretch: _Stretch, wanted: int, minded: MindedClasses) -> None:
        """Nodes are asked about together where that can be done, the others one by one."""
        stretch = self._pruned(stretch)
        if not len(stretch.rows):
            return
        if self._apart is None:
            self._try_in_turn(stretch, wanted, minded)
            return
        slots = self._cluster.nominations.slots_on(
            stretch.rows, self._preemptor.info.priority, self._preemptor.uid
        )
        is_marked = np.isin(stretch.rows, self._cluster.nominations.node_row[slots])
        plain = _kept(stretch, ~is_marked)
        found = [self._tried(plain, apart=self._apart)] if len(plain.rows) else []
        enough = self._enough_at(found[0], wanted) if found else -1
        end = len(stretch.rows)
        if enough >= 0:
            end = int(np.flatnonzero(stretch.rows == found[0].rows[enough])[0])
        for position in np.flatnonzero(is_marked[:end]).tolist():
            one = _part(stretch, position, position + 1)
            found.append(self._tried(one, is_loud=True))
        self._take(in_order(found, stretch.rows), wanted)

    def _try_in_turn(self, stretch: _Stretch, wanted: int, minded: MindedClasses) -> None:
        """Nodes whose pods no wide filter minds are asked about together, the others one by one, all
        in their order."""
        is_minded = minded.are_minded(self._cluster.pods.class_id[stretch.pods])
        is_loud = np.logical_or.reduceat(is_minded, stretch.starts[:-1])
        edges = np.flatnonzero(np.diff(is_loud)) + 1
        for first, end in pairwise([0, *edges.tolist(), len(is_loud)]):
            if not is_loud[first]:
                self._try(_part(stretch, first, end), wanted)
            for position in range(first, end) if is_loud[first] else ():
                if self._is_enough(wanted):
                    return
                self._try(_part(stretch, position, position + 1), wanted, is_loud=True)
            if self._is_enough(wanted):
                return

    def _pruned(self, stretch: _Stretch) -> _Stretch:
        """Without the nodes that fail a filter that looks at the node alone even when all pods that
        could go are gone. Nodes with nominated pods are left for a closer look."""
        cluster, preemptor = self._cluster, self._preemptor
        framework = settled_by_row(self._framework, self._outcome)
        is_rejected = not self._outcome.status.is_success  # Perhaps no more, with the pods gone.
        if not len(stretch.rows) or not framework.filters or is_rejected:
            return stretch
        with WhatIf(cluster, stretch.rows, with_pods=self._reads_pods) as what_if:
            what_if.take_off_all(stretch.pods, stretch.starts[:-1])
            slots = cluster.nominations.slots_on(
                stretch.rows, preemptor.info.priority, preemptor.uid
            )
            is_plain = ~np.isin(stretch.rows, cluster.nominations.node_row[slots])
            filtered = framework.run_filters(
                preemptor.info, cluster, self._outcome, stretch.rows[is_plain], preemptor.uid
            )
        if filtered.passes.all():
            return stretch
        self.failed.add(framework, filtered)
        is_kept = np.ones(len(stretch.rows), np.bool_)
        is_kept[np.flatnonzero(is_plain)[~filtered.passes]] = False
        return _kept(stretch, is_kept)

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
        self.failed.add_without_victims(rows[counts == 0])
        kept = counts > 0
        starts = np.concatenate((np.zeros(1, np.intp), np.cumsum(counts[kept])))
        importance = np.arange(len(found)) - np.repeat(starts[:-1], counts[kept])
        violates = self._budgets.violations(found, starts)
        if violates.any():
            order = np.lexsort((importance, ~violates, at))
            found, importance, violates = found[order], importance[order], violates[order]
        return _Stretch(rows[kept], starts, found, importance, violates)

    def _try(self, stretch: _Stretch, wanted: int, *, is_loud: bool = False) -> None:
        if len(stretch.rows):
            self._take(self._tried(stretch, is_loud=is_loud), wanted)

    def _tried(
        self, stretch: _Stretch, *, is_loud: bool = False, apart: ApartFramework | None = None
    ) -> Candidates:
        """Finds the victims on each node of a stretch. `is_loud`: it is a single node, and filters
        that look beyond it mind its pods. `apart`: they are asked so that this does not matter."""
        is_victim = np.ones(len(stretch.pods), np.bool_)
        shift = self._shift
        with WhatIf(
            self._cluster,
            stretch.rows,
            with_pods=is_loud or self._reads_pods,
            on_change=shift.move if is_loud and shift is not None else None,
        ) as what_if:
            what_if.take_off_all(stretch.pods, stretch.starts[:-1])
            filtered = self._filter(stretch, is_victim, stretch.rows, apart, is_first=True)
            fits = filtered.passes
            self.failed.add(self._framework, filtered)
            counts = np.diff(stretch.starts)
            for rank in range(int(counts[fits].max(initial=0))):
                asked = np.flatnonzero(fits & (counts > rank))
                places = stretch.starts[asked] + rank
                what_if.put_back(stretch.pods[places], one_each=True)
                is_victim[places] = False
                again = self._filter(stretch, is_victim, stretch.rows[asked], apart, is_first=False)
                still_fits = again.passes
                is_victim[places] = ~still_fits
                what_if.take_off(stretch.pods[places[~still_fits]], one_each=True)
        return self._with_victims(stretch, fits, is_victim)

    def _with_victims(self, stretch: _Stretch, fits: Bools, is_victim: Bools) -> Candidates:
        """The nodes with victims."""
        spans = stretch.starts[:-1]
        counts = np.add.reduceat(is_victim, spans, dtype=np.int64)
        violations = np.add.reduceat(is_victim & stretch.violates, spans, dtype=np.int64)
        for node in np.flatnonzero(fits & (counts == 0)).tolist():
            row = int(stretch.rows[node])
            name = self._cluster.nodes.name_of(row)
            text = f'expected at least one victim pod on node "{name}"'
            self.failed.add_error(row, text)
        chosen = np.flatnonzero(fits & (counts > 0))
        is_chosen = np.zeros(len(stretch.rows), np.bool_)
        is_chosen[chosen] = True
        node_of_pod = np.repeat(np.arange(len(stretch.rows)), np.diff(stretch.starts))
        places = np.flatnonzero(is_victim & is_chosen[node_of_pod])
        if violations.any():
            places = places[np.lexsort((stretch.importance[places], node_of_pod[places]))]
        return Candidates(
            stretch.rows[chosen], violations[chosen], counts[chosen], stretch.pods[places]
        )

    def _enough_at(self, found: Candidates, wanted: int) -> int:
        """Which of the candidates is the last one that is wanted; -1: more than these are."""
        keeping = self._keeping_count + np.cumsum(found.violations == 0)
        total = self._count + np.arange(1, len(found.rows) + 1)
        enough = np.flatnonzero((keeping > 0) & (total >= wanted))
        return int(enough[0]) if len(enough) else -1

    def _take(self, found: Candidates, wanted: int) -> None:
        """Adds to what was found, as much as is wanted."""
        if not len(found.rows):
            return
        keeping = self._keeping_count + np.cumsum(found.violations == 0)
        enough = self._enough_at(found, wanted)
        if enough >= 0:
            found = found.first(enough + 1)
        self._keeping_count = int(keeping[len(found.rows) - 1])
        self._count += len(found.rows)
        self._found.append(found)

    def _filter(
        self,
        stretch: _Stretch,
        is_gone: Bools,
        rows: Rows,
        apart: ApartFramework | None,
        *,
        is_first: bool,
    ) -> FilterOutcome:
        """Some rows of a stretch with some of its pods gone. All filters are asked at first."""
        if apart is not None:
            pods = stretch.pods[is_gone]
            node_of_pod = np.repeat(stretch.rows, np.diff(stretch.starts))
            gone = GonePods(self._cluster.pods.class_id[pods], node_of_pod[is_gone])
            return apart.filter(rows, gone, moving_only=not is_first)
        framework = self._framework if is_first else moving_only(self._framework)
        pod, uid = self._preemptor.info, self._preemptor.uid
        return framework.run_filters(
            pod, self._cluster, self._outcome, rows, uid, shift=self._shift
        )


def _part(stretch: _Stretch, first: int, end: int) -> _Stretch:
    """Some nodes that follow one another."""
    starts = stretch.starts[first : end + 1]
    pods = slice(starts[0], starts[-1])
    return _Stretch(
        stretch.rows[first:end],
        starts - starts[0],
        stretch.pods[pods],
        stretch.importance[pods],
        stretch.violates[pods],
    )


def _kept(stretch: _Stretch, is_kept: Bools) -> _Stretch:
    """Some of the nodes."""
    counts = np.diff(stretch.starts)
    pods = np.repeat(is_kept, counts)
    starts = np.concatenate((np.zeros(1, np.intp), np.cumsum(counts[is_kept])))
    return _Stretch(
        stretch.rows[is_kept],
        starts,
        stretch.pods[pods],
        stretch.importance[pods],
        stretch.violates[pods],
    )


def fits_without(
    framework: Framework, preemptor: Preemptor, cluster: ClusterView, row: int, victims: Rows
) -> bool:
    """Whether the pod passes every filter on one node once these pods of it are gone."""
    info = preemptor.info
    outcome = framework.run_pre_filters(info, cluster)
    if not outcome.status.is_success and outcome.status.code is not Code.UNSCHEDULABLE:
        return False  # Else PreFilter may change its mind, with the victims gone.
    shift = PodShift(framework, info, cluster, outcome)
    rows = np.array([row], np.intp)
    with WhatIf(cluster, rows, with_pods=True, on_change=shift.move) as what_if:
        what_if.take_off(victims)
        filtered = framework.run_filters(info, cluster, outcome, rows, preemptor.uid, shift=shift)
        return bool(filtered.passes[0])


# Choosing -------------------------------------------------------------------------------------------


def pick(
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
