"""An attempt decided the slow way, and where the engine comes to something else.

The framework is asked about one node at a time, everything from nothing: each filter, each score, and
for preemption each node by itself. Nothing is shared with what the engine keeps from one attempt to the
next or finds out of many nodes at once, so that the two never agree by having the same mistake in that.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from daemon.core.checker import Checker
from shared.columns.schema import Int64s, Rows
from shared.columns.table import NodeTable
from shared.engine.best_rows import Ties
from shared.engine.evaluation import Evaluation
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import UNRATED
from shared.framework.post_filter import (
    Candidate,
    FailedAttempt,
    PostFilterPlugin,
    PostFilterResult,
    Preemption,
    run_post_filters,
)
from shared.framework.runtime.diagnosis import FitError, diagnose, node_verdicts
from shared.framework.runtime.framework import Framework, out_of_range
from shared.framework.runtime.plans import FilterOutcome, PreScoreError, ScoringPlugin, told_of
from shared.framework.runtime.prepared_pod import (
    PreparedPod,
    counting_own_node,
    run_filters_with_nominated,
)
from shared.framework.status import Status
from shared.plugins.preemption.victim_selector import VictimSelector
from workers.scorer.engine import Choice, Engine
from workers.scorer.evaluator import is_above_any, post_filter, preempt
from workers.scorer.lone_pods import LonePods

TieBreak = Callable[[Rows | Ties], int]


class Scored(NamedTuple):
    """How the feasible nodes are rated: a list for each plugin that has a say."""

    active: list[ScoringPlugin]
    raws: list[Int64s]
    normalized: list[Int64s]
    totals: Int64s


def rows_without_verdict(filtered: FilterOutcome) -> Rows:
    """The rows that passed every filter."""
    return filtered.rows[filtered.passes]


class SlowAttempt:
    """One pod in one state of the cluster. Everything is worked out when it is first asked for, so
    the cluster may not change in between."""

    def __init__(self, pod: PreparedPod, tie_break: TieBreak, offset: int = 0) -> None:
        self.pod = pod
        self.framework, _, self.view, self.outcome, *_ = pod
        self.tie_break = tie_break
        self.offset = offset
        """Where among the nodes a search for candidates begins."""

    @cached_property
    def asked(self) -> PreparedPod:
        """What the search goes by: of a nominated pod, with what its own node said."""
        if self.pod.own_uid and not self.takes_nominated:
            return counting_own_node(self.pod)
        return self.pod

    @cached_property
    def filtered(self) -> FilterOutcome:
        """What the filters say of all candidate nodes; of none, where PreFilter rejected the pod."""
        return self._one_by_one(self.asked.candidate_rows())

    def _one_by_one(self, rows: Rows) -> FilterOutcome:
        alone = [rows[at : at + 1] for at in range(len(rows))]
        return told_of(rows, (run_filters_with_nominated(self.pod, row) for row in alone))

    @cached_property
    def takes_nominated(self) -> bool:
        """The node that the pod is nominated to takes it: no other is looked at."""
        row = self.pod.nominated_row
        if row < 0 or not self.view.nodes.present[row] or not self.outcome.status.is_success:
            return False
        return bool(self._one_by_one(np.array([row], np.intp)).passes[0])

    @cached_property
    def feasible(self) -> Rows:
        if self.takes_nominated:
            return np.array([self.pod.nominated_row], np.intp)
        return rows_without_verdict(self.filtered)

    @cached_property
    def failure(self) -> FitError:
        """Why no node takes the pod, or the error that the attempt ends with."""
        return diagnose(self.asked, self.filtered)

    @cached_property
    def filter_error(self) -> str:
        """What PreFilter or Filter failed with; empty where none did."""
        nowhere = not len(self.feasible)  # Which the filters are asked for.
        if self.takes_nominated or not (nowhere or self.pod.has_failed):
            return ""
        return self.failure.error

    @cached_property
    def error(self) -> str:
        """What a plugin failed with; empty where none did."""
        if self.filter_error or len(self.feasible) < 2:
            return self.filter_error
        try:
            scored = self.scored
        except PreScoreError as error:
            return str(error)
        return out_of_range(scored.active, scored.normalized)

    @cached_property
    def scored(self) -> Scored:
        """Raises PreScoreError for a pod that a plugin cannot make sense of."""
        framework, info, view = self.framework, self.pod.info, self.view
        active = framework.prepare_scores(info, view, self.feasible).active
        raws: list[Int64s] = []
        normalized: list[Int64s] = []
        totals = np.zeros(len(self.feasible), np.int64)
        for entry in active:
            plugin, weight, state, normalizer, *_ = entry
            each = [
                plugin.score(state, info, view, self.feasible[at : at + 1])
                for at in range(len(self.feasible))
            ]
            raw = score = np.concatenate(each)
            if normalizer is not None:
                score = normalizer.normalize(raw, normalizer.normalization(state, raw))
            raws.append(np.where(raw == UNRATED, 0, raw))
            normalized.append(score)
            totals += score * weight
        return Scored(active, raws, normalized, totals)

    @cached_property
    def choice(self) -> Choice | None:
        """Where the pod goes; None where it fits nowhere or a plugin failed."""
        if self.error or not len(self.feasible):
            return None
        if len(self.feasible) == 1:
            return Choice(int(self.feasible[0]), 0, 1)
        totals = self.scored.totals
        best = int(totals.max())
        return Choice(self.tie_break(self.feasible[totals == best]), best, len(self.feasible))

    @cached_property
    def post_filtered(self) -> PostFilterResult:
        """What PostFilter comes to for a pod that fits nowhere."""
        return self.post_filter(self.framework.post_filters)

    def post_filter(self, plugins: Sequence[PostFilterPlugin]) -> PostFilterResult:
        """The same of some plugins."""
        search = partial(preempt, self.tie_break, self.offset, None)
        return run_post_filters(plugins, FailedAttempt(self.asked, self.filtered, search))

    def dry_run(self, row: int) -> tuple[list[Candidate], list[Status]]:
        """Who would have to go from one node; or why that is no help."""
        selector = VictimSelector(self.pod)
        found: list[Candidate] = []
        potential = selector.potential(np.array([row], np.intp))
        if len(potential.rows):
            found = selector.select(potential, is_alone=selector.looks_beyond).all()
        return found, [verdict.status for verdict in selector.failed.verdicts()]


class FastWays:
    """All that keeps results from one attempt to the next: what a scorer decides by, and the owner."""

    def __init__(self, view: ClusterView, frameworks: dict[str, Framework]) -> None:
        self.engine = Engine(view, frameworks)
        self.lone_pods = LonePods(view, frameworks, self.engine)
        self.checker = Checker(view, frameworks)


def disagreements(
    slow: SlowAttempt, fast: FastWays, class_id: int, profile: str, *, seeks_room: bool = True
) -> list[str]:
    """Where a fast way says otherwise than the slow one about the same pod; empty: nowhere.
    `seeks_room`: PostFilter is run as well."""
    engine = fast.engine
    evaluation = engine.evaluate(class_id, slow.pod.info, profile)
    if slow.pod.own_uid:
        takes = engine.takes_nominated(evaluation, slow.pod.nominated_row, slow.pod.own_uid)
        if takes or slow.takes_nominated:
            return _unequal("takes_nominated", takes, slow.takes_nominated)
        evaluation = engine.evaluate(class_id, slow.pod.info, profile, slow.pod.own_uid)
    nodes = slow.view.nodes
    found = _unequal("pre_filter", evaluation.pod.outcome.status, slow.outcome.status)
    passing = np.flatnonzero(evaluation.feasible)
    found += _unequal("feasible", _names(nodes, passing), _names(nodes, slow.feasible))
    found += _unequal("feasible_count", evaluation.feasible_count, len(slow.feasible))
    found += _unequal("choice", engine.choose(evaluation, slow.tie_break), slow.choice)
    found += _apart_otherwise(slow, fast, class_id, profile)
    if slow.choice is not None and slow.choice.feasible_count > 1 and not found:
        scores = evaluation.scored()
        assert scores is not None, "something was chosen by them"
        totals = scores.total[slow.feasible].tolist()
        found += _unequal("scores", totals, slow.scored.totals.tolist())
    if slow.choice is None and not found:
        found += _failed_otherwise(slow, evaluation, seeks_room=seeks_room)
    return found


def _apart_otherwise(slow: SlowAttempt, fast: FastWays, class_id: int, profile: str) -> list[str]:
    """Of the pod as one without its like, and what the owner makes of each node."""
    info, own_uid = slow.pod.info, slow.pod.own_uid
    found: list[str] = []
    if not own_uid:
        alone = fast.lone_pods.choose(class_id, info, profile, slow.tie_break)
        if alone is not None:
            found = _unequal("choice without its like", alone, slow.choice)
    if not slow.filter_error:
        rows = slow.view.nodes.present_rows()
        passing = rows[fast.checker.passing(class_id, info, rows, own_uid)]
        nodes = slow.view.nodes
        found += _unequal("owner", _names(nodes, passing), _names(nodes, slow.feasible))
    return found


def _failed_otherwise(slow: SlowAttempt, evaluation: Evaluation, *, seeks_room: bool) -> list[str]:
    failure = evaluation.fit_error()
    if slow.error or failure.error:
        return _unequal("error", failure.error, slow.error)
    found = _unequal("failure", failure, slow.failure)
    kept = node_verdicts(slow.framework, evaluation.filtered())
    fresh = node_verdicts(slow.framework, slow.filtered)
    found += _unequal("filter", sorted(kept), sorted(fresh))
    if not seeks_room:
        return found
    result = post_filter(evaluation, slow.tie_break, slow.offset)
    found += _unequal("post_filter", said(result), said(slow.post_filtered))
    if result.preemption is not None:
        found += _preempts_otherwise(slow, result.preemption)
    return found


def said(result: PostFilterResult) -> tuple[object, ...]:
    """All that anybody is told; why nodes failed only where none is a candidate, since a search that
    found some did not look at each."""
    preemption = result.preemption
    if preemption is None:
        return (result.status, result.freed_claims)
    candidates = preemption.candidates.all()
    return (
        result.status, result.freed_claims, preemption.potential.tolist(), candidates,
        preemption.best, preemption.tied, preemption.is_open, preemption.ends_nomination,
        [] if candidates else sorted(preemption.failed()),
    )  # fmt: skip


def _preempts_otherwise(slow: SlowAttempt, preemption: Preemption) -> list[str]:
    """Where a search over many nodes found other victims than each node by itself would give. A
    search may end before it has looked at all."""
    if not is_above_any(slow.pod):
        return _unequal("candidates", preemption.candidates.all(), [])
    said_of = {verdict.row: verdict.status for verdict in preemption.failed()}
    helps = {candidate.row: candidate for candidate in preemption.candidates.all()}
    found: list[str] = []
    for row in preemption.potential.tolist():
        if helps and row not in helps and row not in said_of:
            continue
        candidates, failed = slow.dry_run(row)
        name = slow.view.nodes.name_of(row)
        found += _unequal(f"victims on {name}", helps.get(row), next(iter(candidates), None))
        if not helps:
            found += _unequal(f"no help on {name}", said_of.get(row), next(iter(failed), None))
    return found


def _names(nodes: NodeTable, rows: Rows) -> list[str]:
    return sorted(nodes.name_of(row) for row in rows.tolist())


def _unequal(what: str, engines: object, slow: object) -> list[str]:
    return [] if engines == slow else [f"{what}: the engine {engines}, one by one {slow}"]
