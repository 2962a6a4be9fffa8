"""Preemption's search: on which node room is made for a pod that fits nowhere, and who has to go there;
and what a scorer says of such a pod (`RoomMaker`).

What it goes by are the rules in `shared/plugins/preemption`. Here is where it is worth a try, how nodes
are tried, how the answer comes of what was found, and which candidate is the best. Nodes are asked about
many at a time, and one by one only where their filters demand it; what is found, and in which order, is
as if all had been tried one after the other.

Rules: pkg/scheduler/framework/preemption/preemption.go, v1.36.2. Differences: nodes are tried in the
order of the list of nodes instead of by goroutines, so that equal states give equal answers; a scorer's
own placements that nobody has confirmed are never victims.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from shared.columns.nomination_columns import Nomination
from shared.columns.pod_table import PodTable
from shared.columns.schema import NO_NODE, NO_ROWS, Rows
from shared.engine.evaluation import DryRuns, Evaluation
from shared.errors import as_one_error
from shared.extenders.extender_config import EXTENDER
from shared.faults import changing
from shared.framework.cluster_view import ClusterView
from shared.framework.post_filter import (
    NO_CANDIDATES,
    Candidate,
    Candidates,
    FailedAttempt,
    PostFilterResult,
    Preemption,
    in_order,
    joined,
    run_post_filters,
)
from shared.framework.runtime.diagnosis import FitError, reasons_of
from shared.framework.runtime.plans import FilterOutcome, told_of
from shared.framework.runtime.prepared_pod import (
    PreFilterExtensions,
    PreparedPod,
    prepared,
    run_filters_with_nominated,
)
from shared.framework.runtime.what_if import WhatIf
from shared.framework.status import SUCCESS, Code, Status
from shared.messages.from_scorer import Failure, PreemptionProposal
from shared.messages.to_scorer import PodTask
from shared.plugin_names import DEFAULT_PREEMPTION
from shared.plugins.preemption.default_preemption import refusal
from shared.plugins.preemption.potential_victims import (
    Budgets,
    PotentialVictims,
    are_spare,
    potential_victims_on,
)
from shared.plugins.preemption.victim_selector import NO_VICTIMS, FailedNodes, VictimSelector
from workers.scorer.engine import RunTieBreak, TieBreak
from workers.scorer.replica import NOTHING, Replica, Reserved

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
PRIORITY_SHIFT: Final = 1 << 31
"""Added to each priority of a sum, so that of two pods with negative priority one is better."""

SIZE_MIN: Final = 32
"""Fewer nodes are not asked about at a time, however few candidates are still wanted."""


def post_filter(
    evaluation: Evaluation,
    tie_break: TieBreak,
    offset: int = 0,
    filtered: FilterOutcome | None = None,
    refused: Rows = NO_ROWS,
    forbidden: str = "",
) -> PostFilterResult:
    """Whether room can be made for a pod of a class that fits nowhere; `filtered` (None: what the
    filters said) and `refused` as in `FailedAttempt`."""
    pod, framework = evaluation.pod, evaluation.pod.framework
    if not (framework.fails_by_class or pod.own_uid):
        # What a plugin leaves in a state is not for the next pod of the class.
        pod = prepared(framework, pod.info, pod.cluster)
    attempt = FailedAttempt(
        pod,
        evaluation.filtered() if filtered is None else filtered,
        partial(preempt, tie_break, offset, evaluation.dry_runs),
        refused,
        forbidden,
    )
    return run_post_filters(framework.post_filters, attempt)


def preempt(
    tie_break: TieBreak,
    offset: int,
    dry_runs: DryRuns | None,
    attempt: FailedAttempt,
    candidates_wanted: Callable[[int], int],
) -> Preemption:
    """As `Preempt` has it. `offset`: where among the nodes to begin; `dry_runs`: what is known from
    other pods of the class, if somebody keeps it."""
    pod = attempt.pod
    potential = potential_nodes(attempt)
    if len(potential):
        potential = np.roll(potential, -(offset % len(potential)))
    wanted = candidates_wanted(len(potential))
    found, failed = _searched(pod, potential, wanted, dry_runs)
    came_to = Preemption(SUCCESS, "", potential, found, failed.verdicts)
    if not len(found.rows):
        status, ends = _no_candidate(pod.cluster, failed)
        is_open = _unconfirmed_would_do(pod, potential)
        return came_to._replace(status=status, ends_nomination=ends, is_open=is_open)
    best, tied = pick(pod.cluster, found, tie_break)
    return came_to._replace(best=best, tied=tied)


def _searched(
    pod: PreparedPod, potential: Rows, wanted: int, dry_runs: DryRuns | None
) -> tuple[Candidates, FailedNodes]:
    """Where it helps, and where it does not."""
    if not is_above_any(pod):
        failed = FailedNodes()
        failed.add_alike(potential, NO_VICTIMS)
        return NO_CANDIDATES, failed
    selector = VictimSelector(pod)
    known = dry_runs if selector.holds_until_changed else None
    found = CandidateSearch(selector, wanted).run(potential, known)
    if known is not None and not len(found.rows):
        # Somebody is told why, node by node.
        selector = VictimSelector(pod)
        found = CandidateSearch(selector, wanted).run(potential)
    return found, selector.failed


class CandidateSearch:
    """One search for as many candidates as are `wanted`, one of them without violation. Of those with
    violations it keeps no more than that, and the same of the others (`candidateList` in types.go)."""

    def __init__(self, selector: VictimSelector, wanted: int) -> None:
        self._selector = selector
        self._wanted = wanted
        self._found: list[Candidates] = []
        self._keeping_count = 0
        """Candidates that violate no budget."""
        self._count = 0

    def run(self, potential: Rows, dry_runs: DryRuns | None = None) -> Candidates:
        """Tries nodes in order until enough candidates are found, which come in that order. `dry_runs`:
        what comes of nodes that were tried before, where that holds until they change."""
        if dry_runs is not None:
            dry_runs.catch_up()
        start, size, growth = 0, max(self._wanted, 1), 1
        while start < len(potential) and not self._is_enough:
            rows = potential[start : start + size]
            if self._selector.looks_beyond:
                self._try_wide(self._selector.potential(rows))
            elif dry_runs is None:
                self._take(self._tried(rows))
            else:
                unknown = dry_runs.unknown(rows)
                if len(unknown):
                    dry_runs.learn(unknown, self._tried(unknown))
                self._take(dry_runs.candidates(rows))
            start += size
            growth *= 2
            size = max(self._wanted - self._count, SIZE_MIN) * growth
        return joined(self._found)

    def _tried(self, rows: Rows) -> Candidates:
        victims = self._selector.potential(rows)
        return self._selector.select(victims) if len(victims.rows) else NO_CANDIDATES

    def _try_wide(self, victims: PotentialVictims) -> None:
        """Nodes are asked about together where that can be done, the others one by one."""
        selector = self._selector
        victims = selector.pruned(victims)
        if not len(victims.rows):
            return
        if not selector.can_be_independent:
            for position in range(len(victims.rows)):
                if not self._is_enough:
                    alone = victims.at(np.array([position]))
                    self._take(selector.select(alone, is_alone=True))
            return
        has_nominated = selector.have_nominated(victims.rows)
        plain = victims.at(np.flatnonzero(~has_nominated))
        found = [selector.select(plain, are_independent=True)] if len(plain.rows) else []
        enough = self._enough_at(found[0]) if found else -1
        end = len(victims.rows)
        if enough >= 0:
            end = int(np.flatnonzero(victims.rows == found[0].rows[enough])[0])
        found += [
            selector.select(victims.at(np.array([position])), is_alone=True)
            for position in np.flatnonzero(has_nominated[:end]).tolist()
        ]
        self._take(in_order(found, victims.rows))

    @property
    def _is_enough(self) -> bool:
        return self._keeping_count > 0 and self._count >= self._wanted

    def _enough_at(self, found: Candidates) -> int:
        """Which of the candidates is the last one that is wanted; -1: more than these are."""
        keeping = self._keeping_count + np.cumsum(found.violations == 0)
        total = self._count + np.arange(1, len(found.rows) + 1)
        enough = np.flatnonzero((keeping > 0) & (total >= self._wanted))
        return int(enough[0]) if len(enough) else -1

    def _take(self, found: Candidates) -> None:
        """Adds to what was found, as much as is wanted."""
        if not len(found.rows):
            return
        keeps, enough = found.violations == 0, self._enough_at(found)
        keeping = self._keeping_count + np.cumsum(keeps)
        violating = self._count - self._keeping_count + np.cumsum(~keeps)
        is_taken = np.where(keeps, keeping, violating) <= self._wanted
        if enough >= 0:
            is_taken[enough + 1 :] = False
        found = found.only(is_taken)
        self._keeping_count += int(np.count_nonzero(keeps[is_taken]))
        self._count += len(found.rows)
        self._found.append(found)


def potential_nodes(attempt: FailedAttempt) -> Rows:
    """Nodes that refuse the pod and might not if pods were gone, in the order of the nodes
    (nodesWherePreemptionMightHelp)."""
    pod, filtered = attempt.pod, attempt.filtered
    nodes, status = pod.cluster.nodes, pod.outcome.status
    if not status.is_success:
        return nodes.order if status.code is Code.UNSCHEDULABLE else nodes.order[:0]
    is_potential = np.zeros(nodes.capacity, np.bool_)
    is_potential[filtered.rows[filtered.codes == Code.UNSCHEDULABLE]] = True
    is_potential[attempt.refused] = True
    rows: Rows = nodes.order[is_potential[nodes.order]]
    return rows


def is_above_any(pod: PreparedPod) -> bool:
    """Whether a pod on some node is less important; where all are alike there is nothing to try."""
    return len(rows_below(pod.cluster, pod.cluster.pods, pod.info.priority)) > 0


def _unconfirmed_would_do(pod: PreparedPod, potential: Rows) -> bool:
    """Whether the pod passes on one of these nodes if all less important pods are gone from it, and
    some of these are this scorer's own placements. They have no row in the table of pods until the
    owner has confirmed them, so no proposal can name them; that nobody else helps is not the last word
    then: no event would ever wake the pod."""
    cluster, priority, tentative = pod.cluster, pod.info.priority, pod.cluster.tentative
    own = rows_below(cluster, tentative, priority)
    own = own[np.isin(tentative.node_row[own], potential)]
    if not len(own):
        return False
    rows = np.unique(tentative.node_row[own]).astype(np.intp)
    extensions = PreFilterExtensions(pod) if pod.plan.is_wide else None
    on_change = None if extensions is None else extensions.add_and_remove
    # Where pods elsewhere count, each question is about one node alone.
    for asked in [rows] if extensions is None else np.split(rows, len(rows)):
        others, _ = potential_victims_on(cluster, Budgets(cluster), asked, priority)
        with WhatIf(cluster, asked, with_pods=True, on_change=on_change) as what_if:
            what_if.take_off(others.pods)
            what_if.take_off(own[np.isin(tentative.node_row[own], asked)], of=tentative)
            filtered = run_filters_with_nominated(pod, asked, extensions)
        if filtered.passes.any():
            return True
    return False


def rows_below(cluster: ClusterView, table: PodTable, priority: int) -> Rows:
    """The pods of a table that are less important."""
    rows = table.used_rows()
    return rows[cluster.usages.priorities(table.class_id[rows]) < priority]


def _no_candidate(cluster: ClusterView, failed: FailedNodes) -> tuple[Status, bool]:
    """The answer where nothing helps, and whether that ends the pod's nomination."""
    errors = failed.errors
    if errors:
        text = f"preemption: {as_one_error(errors)}"
        return Status(Code.ERROR, (text,), DEFAULT_PREEMPTION), False
    reasons = failed.reasons.copy()
    node_count = cluster.node_count
    if failed.count < node_count:
        reasons[NOT_HELPFUL] += node_count - failed.count
    error = FitError(node_count, "", reasons, frozenset(), frozenset())
    return refusal(error.message()), True


def pick(
    cluster: ClusterView, candidates: Candidates, tie_break: TieBreak
) -> tuple[Candidate, tuple[int, ...]]:
    """The best candidate, and all that are as good (pickOneNodeForPreemption)."""
    if len(candidates.rows) == 1:
        return candidates.at(0), ()
    counts, victims = candidates.counts, candidates.victims
    starts = np.cumsum(counts) - counts
    priority = cluster.usages.priorities(cluster.pods.class_id[victims])
    # Of victims that an extender has named, the first need not be the most important.
    highest = np.maximum.reduceat(priority, starts)
    is_highest = priority == np.repeat(highest, counts)
    is_spare = are_spare(cluster, victims, np.repeat(np.arange(len(counts)), counts))
    start_s = np.where(is_highest, cluster.pods.start_s[victims], np.iinfo(np.int64).max)
    worse = (
        candidates.violations,
        priority[starts],
        np.logical_or.reduceat(is_highest & ~is_spare, starts),
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


SEARCHES_MAX: Final = 64
"""In one batch. A search takes about 1 ms at 5,000 nodes; what more pods find on a copy that is so much
older is likely to be refused."""
WIDE_SEARCH_WEIGHT: Final = 8
"""A search for a pod for which pods elsewhere count takes 6 to 30 ms, and is so many."""


class SearchLimits(NamedTuple):
    """What a batch may ask for."""

    searches_max: int = SEARCHES_MAX
    forbidden: str = ""
    """Why nobody has to go for its pods; empty: somebody may."""
    takes_room: bool = False
    """Who has others go counts as placed there for those that follow, which may need it near, or the
    devices that it takes (`podGroupPodSchedulingAlgorithm` in schedule_one_podgroup.go)."""


USUAL_LIMITS: Final = SearchLimits()


class Refusals(NamedTuple):
    """What extenders had against nodes. On those it is their word that counts, also where filters had
    something against them (findNodesThatPassExtenders in schedule_one.go)."""

    reasons: Counter[str]
    """Also of nodes that do not exist: kube-scheduler counts them."""
    named: Rows
    rows: Rows
    """Those of them that might be won by removing pods."""


class RoomSearch(NamedTuple):
    """What was found for a pod that fits nowhere."""

    fit_error: FitError
    result: PostFilterResult | None = None
    """None: nothing was looked for."""

    @property
    def is_open(self) -> bool:
        """No answer yet: less important pods that this scorer placed itself are in the way, and the
        owner has not confirmed them."""
        preemption = None if self.result is None else self.result.preemption
        return preemption is not None and preemption.is_open


class RoomMaker:
    """The preemptions of one batch: room that was found for one pod is kept from the next ones by a
    nomination of the scorer's own, until the owner has settled the proposal."""

    def __init__(
        self,
        replica: Replica,
        seed: int,
        tie_break: RunTieBreak,
        reserve: Callable[[PodTask, int], Reserved],
        limits: SearchLimits = USUAL_LIMITS,
    ) -> None:
        """`reserve` assumes what a pod takes on a row beside room (volumes, devices), under the uid that
        it returns."""
        self._replica = replica
        self._seed = seed
        self._tie_break = tie_break
        self._reserve = reserve
        self._limits = limits
        self._found_count = 0

    @property
    def has_searched_enough(self) -> bool:
        """So much was looked for and found that the owner should hear of it first."""
        return self._found_count >= self._limits.searches_max

    def attempt(
        self, task: PodTask, evaluation: Evaluation, refusals: Refusals | None = None
    ) -> RoomSearch:
        """Looks for room, and takes none yet. `refusals`: what extenders had against nodes."""
        fit_error = evaluation.fit_error()
        filtered = None
        if refusals is not None:
            found = evaluation.filtered()
            # Their word counts, as if all nodes that they named had been looked at and had passed.
            everywhere = np.union1d(found.rows, refusals.named).astype(np.intp)
            filtered = told_of(everywhere, (found, told_of(refusals.named, ())))
            reasons = reasons_of(evaluation.pod, filtered, refusals.reasons.total())
            fit_error = fit_error._replace(
                reasons=reasons + refusals.reasons, plugins=fit_error.plugins | {EXTENDER}
            )
        has_search = evaluation.pod.framework.post_filters and self._replica.view.node_count
        if fit_error.error or not has_search:
            return RoomSearch(fit_error)
        result = post_filter(
            evaluation,
            lambda ties: self._tie_break(ties, task.ticket),
            # Another place to begin for each pod, so that they do not all meet on the same nodes.
            offset=(self._seed + task.ticket) * 7919,
            filtered=filtered,
            refused=NO_ROWS if refusals is None else refusals.rows,
            forbidden=self._limits.forbidden,
        )
        return RoomSearch(fit_error, result)

    def conclude(self, task: PodTask, evaluation: Evaluation, search: RoomSearch) -> Failure:
        """What the owner is told; the room that was found is kept from the pods that follow."""
        fit_error, result = search.fit_error, search.result
        plugins, pending = sorted(fit_error.plugins), sorted(fit_error.pending_plugins)
        if result is None:
            # Nobody looks for room: the pod keeps no claim to what was found for it earlier.
            told, is_error = fit_error.error or fit_error.message(), bool(fit_error.error)
            return Failure([task.ticket], told, plugins, pending, is_error, ends_nomination=True)
        preemption = result.preemption
        proposal = None
        if preemption is not None and preemption.best is not None:
            best, info = preemption.best, evaluation.pod.info
            proposal = PreemptionProposal(best.row, list(best.victims))
            self._found_count += WIDE_SEARCH_WEIGHT if evaluation.is_wide else 1
            uid, kept_row = task.uid or f"ticket {task.ticket}", best.row
            takes_room = self._limits.takes_room
            reserved = self._reserve(task, best.row) if takes_room else NOTHING
            with changing():
                if takes_room:
                    self._replica.place(task.class_id, best.row, reserved)
                    kept_row = NO_NODE
                self._replica.nominate(Nomination(uid, task.class_id, info.priority, kept_row))
        return Failure(
            tickets=[task.ticket],
            message=fit_error.message(result.status.message),
            plugins=plugins,
            pending_plugins=pending,
            is_error=False,
            preemption=proposal,
            ends_nomination=preemption is not None and preemption.ends_nomination,
            was_room_sought=preemption is not None,
            freed_claims=list(result.freed_claims),
        )
