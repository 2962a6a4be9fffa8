"""Preemption: which less important pods would have to go so that a pod fits, and where best.

Who may (`preemptor.py`), where it would help (`candidate_search.py`) and what has to go there
(`victim_finder.py`); here is how the answer comes of these, and which of the nodes is the best.

Rules: pkg/scheduler/framework/preemption/preemption.go and
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2. Differences: nodes
are tried in the order of the list of nodes instead of by goroutines, so that equal states give equal
answers; a worker's own placements that nobody has confirmed are never victims (`unconfirmed.py`).
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from shared.columns.schema import Rows
from shared.framework.candidate_search import CandidateSearch
from shared.framework.candidates import NO_CANDIDATES, NO_ROWS, Candidate, Candidates
from shared.framework.cluster_view import ClusterView
from shared.framework.diagnosis import FitError
from shared.framework.dry_runs import DryRuns
from shared.framework.failed_nodes import FailedNodes
from shared.framework.nominated_pods import run_filters_with_nominated
from shared.framework.outcomes import FilterOutcome, NodeVerdict, PreFilterOutcome
from shared.framework.pod_shift import PodShift
from shared.framework.preemptor import (
    Preemptor,
    ineligible_reason,
    is_above_any,
    potential_rows,
)
from shared.framework.runtime import Framework
from shared.framework.status import SUCCESS, Code, Status
from shared.framework.unconfirmed import unconfirmed_would_do
from shared.framework.victim_finder import VictimFinder
from shared.framework.what_if import WhatIf
from shared.plugin_names import DEFAULT_PREEMPTION

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
    reason = ineligible_reason(preemptor, cluster, outcome, filtered)
    if reason:
        return Preemption(_refused(reason), ineligible_reason=reason)
    potential = potential_rows(cluster, outcome, filtered, refused)
    if len(potential):
        potential = np.roll(potential, -(offset % len(potential)))
    wanted = settings.candidates_wanted(len(potential))
    candidates, failed = _searched(
        framework, preemptor, cluster, outcome, potential, wanted, dry_runs
    )
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


def _searched(
    framework: Framework,
    preemptor: Preemptor,
    cluster: ClusterView,
    outcome: PreFilterOutcome,
    potential: Rows,
    wanted: int,
    dry_runs: DryRuns | None,
) -> tuple[Candidates, FailedNodes]:
    """Where it helps, and where it does not."""
    if not is_above_any(cluster, preemptor):
        failed = FailedNodes()
        failed.add_without_victims(potential)
        return NO_CANDIDATES, failed
    finder = VictimFinder(framework, preemptor, cluster, outcome)
    if dry_runs is not None and finder.holds_until_changed:
        search = CandidateSearch(finder, wanted)
        search.run_with(dry_runs, potential)
        found = search.candidates()
        if len(found.rows):
            return found, finder.failed
        # Somebody is told why, node by node.
        finder = VictimFinder(framework, preemptor, cluster, outcome)
    search = CandidateSearch(finder, wanted)
    search.run(potential)
    return search.candidates(), finder.failed


def _no_candidate(cluster: ClusterView, failed: FailedNodes) -> tuple[Status, bool]:
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
        filtered = run_filters_with_nominated(
            framework, info, cluster, outcome, rows, preemptor.uid, shift
        )
        return bool(filtered.passes[0])


def victims_on(
    framework: Framework, preemptor: Preemptor, cluster: ClusterView, row: int
) -> frozenset[int]:
    """Rows of the pods that a search would have go from one node; none where it would not choose the
    node."""
    outcome = framework.run_pre_filters(preemptor.info, cluster)
    if not outcome.status.is_success and outcome.status.code is not Code.UNSCHEDULABLE:
        return frozenset()
    search = CandidateSearch(VictimFinder(framework, preemptor, cluster, outcome), 1)
    search.run(np.array([row], np.intp))
    found = search.candidates()
    return frozenset(found.at(0).victims) if len(found.rows) else frozenset()


def pick(
    cluster: ClusterView, candidates: Candidates, tie_break: TieBreak
) -> tuple[Candidate, tuple[int, ...]]:
    """The best candidate, and all that are as good (pickOneNodeForPreemption)."""
    if len(candidates.rows) == 1:
        return candidates.at(0), ()
    counts, victims = candidates.counts, candidates.victims
    starts = np.cumsum(counts) - counts
    priority = cluster.usages.priorities(cluster.pods.class_id[victims])
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
