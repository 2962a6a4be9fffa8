"""The engine: filter and score a class of pods over all nodes once, then only what changed.

The simple way evaluates every node for every pod; at 5,000 nodes that is most of a scheduler's time,
and nearly all of it repeats what was computed for the pod before. Here the results of a class stay
in arrays. A placement changes one row; the journal says which, and only the plugins that read what
changed are asked again, for that row alone. What a plugin computes from more than the row itself
(`Scope`) makes the engine start that class afresh, so a plugin can be right without being clever.

The scorer uses the engine for all nodes, the owner uses `Checker` for the few rows that were
proposed. Both run the same plugin code on the same columns: where a worker and the committer
disagree on more than freshness, a proposal would loop for ever.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

import numpy as np

from shared.columns.journal import START, Changes, Journal
from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.diagnosis import FitError, diagnose, filter_candidates, plugin_error
from shared.framework.plugin_api import Dependence, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.post_filter import FailedAttempt, PostFilterResult, run_post_filters
from shared.framework.preemption import Preemptor
from shared.framework.runtime import (
    MOVING,
    ActiveScore,
    FilterOutcome,
    Framework,
    PreFilterOutcome,
    PreScoreError,
)

TieBreak = Callable[[Rows], int]
"""Chooses one of the rows (ascending, at least two) that share the best score."""

EVALUATION_BYTES_MAX: Final = 256 << 20
"""All kept classes together. A class takes about 60 bytes a node: 0.3 MB at 5,000 nodes, 60 MB at a
million; the least recently used go first, and one is always kept."""

FIXED: Final = Reads.NODE | Reads.IMAGES
"""What only an edited Node object changes."""


class Choice(NamedTuple):
    """Where a pod should go."""

    row: int
    score: int
    """Weighted total; 0 where a single feasible node made scoring unnecessary."""
    feasible_count: int


class ClassEvaluation:
    """One pod class over all rows. Arrays have the table's capacity."""

    __slots__ = ("failure", "feasible", "feasible_count", "filtered", "framework", "info", "outcome",
                 "own_uid", "position", "scores", "static_ok")  # fmt: skip

    def __init__(
        self, info: PodInfo, framework: Framework, outcome: PreFilterOutcome, own_uid: str = ""
    ) -> None:
        self.info = info
        self.own_uid = own_uid
        """Of a pod that is evaluated by itself, because its own nomination does not count."""
        self.framework = framework
        self.outcome = outcome
        self.static_ok: Bools = np.zeros(0, np.bool_)
        """Passes the filters that read nothing that a placement changes."""
        self.feasible: Bools = np.zeros(0, np.bool_)
        self.feasible_count = 0
        self.scores: _Scores | None = None
        """None until a pod of the class has two feasible nodes to choose from."""
        self.position = START
        """Of the journal: everything before is contained."""
        self.failure: FitError | None = None
        """The diagnosis, as long as nothing changed since."""
        self.filtered: FilterOutcome | None = None
        """What the diagnosis sums up."""


class _Scores:
    """Raw and weighted scores of one class."""

    __slots__ = ("active", "normalizations", "raws", "total")

    def __init__(self, active: list[ActiveScore], capacity: int) -> None:
        self.active = active
        self.raws: list[Int64s] = [np.zeros(capacity, np.int64) for _ in active]
        self.normalizations: list[Hashable] = [None] * len(active)
        self.total: Int64s = np.full(capacity, -1, np.int64)
        """-1 where the pod does not fit."""


class Engine:
    """Evaluations of the classes in use, brought up to date when they are asked for."""

    def __init__(
        self, cluster: ClusterView, journal: Journal, frameworks: dict[str, Framework]
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._frameworks = frameworks
        self._kept: OrderedDict[int, ClassEvaluation] = OrderedDict()
        self._objects_version = cluster.objects.version

    def evaluate(self, class_id: int, info: PodInfo, profile: str) -> ClassEvaluation:
        """The up-to-date evaluation of a class."""
        if self._objects_version != self._cluster.objects.version:
            self.forget_all()
        found = self._kept.get(class_id)
        if found is None:
            found = self._fresh(info, self._frameworks[profile])
            self._kept[class_id] = found
            self._evict()
        else:
            self._kept.move_to_end(class_id)
            if found.position != self._journal.position:
                found = self._kept[class_id] = self._caught_up(found)
        return found

    def evaluate_alone(self, info: PodInfo, profile: str, own_uid: str) -> ClassEvaluation:
        """The evaluation of a nominated pod, whose own nomination takes no room from it."""
        return self._fresh(info, self._frameworks[profile], own_uid)

    def takes_nominated(self, evaluation: ClassEvaluation, row: int, own_uid: str) -> bool:
        """Whether the node that a pod of the class is nominated to takes it: then no other is looked
        at (evaluateNominatedNode in pkg/scheduler/schedule_one.go, v1.36.2)."""
        if row < 0 or not self._cluster.nodes.present[row]:
            return False
        if not evaluation.outcome.status.is_success:
            return False
        rows = np.array([row], np.intp)
        passes = evaluation.framework.passing(
            evaluation.info, self._cluster, evaluation.outcome, rows, own_uid=own_uid
        )
        return bool(passes[0])

    def choose(self, evaluation: ClassEvaluation, tie_break: TieBreak) -> Choice | None:
        """The best node, or None where the pod fits nowhere (see `failure`)."""
        count = evaluation.feasible_count
        if count == 0:
            return None
        if count == 1:
            return Choice(int(evaluation.feasible.argmax()), 0, 1)
        scores = evaluation.scores
        if scores is None:
            try:
                scores = evaluation.scores = self._scored(evaluation)
            except PreScoreError as error:
                evaluation.failure = plugin_error(self._cluster, str(error))
                return None
        best = scores.total.max()
        ties = np.flatnonzero(scores.total == best)
        row = int(ties[0]) if len(ties) == 1 else tie_break(ties)
        return Choice(row, int(best), count)

    def failure(self, evaluation: ClassEvaluation) -> FitError:
        """Why the class fits nowhere."""
        if evaluation.failure is None:
            evaluation.failure = diagnose(
                evaluation.framework,
                evaluation.info,
                self._cluster,
                evaluation.outcome,
                self._filtered(evaluation),
            )
        return evaluation.failure

    def post_filter(
        self,
        evaluation: ClassEvaluation,
        preemptor: Preemptor,
        tie_break: TieBreak,
        offset: int = 0,
    ) -> PostFilterResult:
        """Whether room can be made for a pod of a class that fits nowhere."""
        attempt = FailedAttempt(
            evaluation.framework,
            preemptor,
            self._cluster,
            evaluation.outcome,
            self._filtered(evaluation),
            tie_break,
            offset,
        )
        return run_post_filters(evaluation.framework.post_filters, attempt)

    def _filtered(self, evaluation: ClassEvaluation) -> FilterOutcome:
        if evaluation.filtered is None:
            evaluation.filtered = filter_candidates(
                evaluation.framework,
                evaluation.info,
                self._cluster,
                evaluation.outcome,
                evaluation.own_uid,
            )
        return evaluation.filtered

    def forget(self, class_id: int) -> None:
        self._kept.pop(class_id, None)

    def forget_all(self) -> None:
        self._kept.clear()
        self._objects_version = self._cluster.objects.version

    # Evaluating afresh -------------------------------------------------------------------------

    def _fresh(self, info: PodInfo, framework: Framework, own_uid: str = "") -> ClassEvaluation:
        cluster = self._cluster
        outcome = framework.run_pre_filters(info, cluster)
        evaluation = ClassEvaluation(info, framework, outcome, own_uid)
        evaluation.position = self._journal.position
        capacity = cluster.nodes.capacity
        evaluation.static_ok = np.zeros(capacity, np.bool_)
        evaluation.feasible = np.zeros(capacity, np.bool_)
        if not outcome.status.is_success:
            return evaluation
        rows = framework.candidate_rows(outcome, cluster)
        rows = rows[framework.passing(info, cluster, outcome, rows, excluding=MOVING)]
        evaluation.static_ok[rows] = True
        passes = framework.passing(info, cluster, outcome, rows, reading=MOVING, own_uid=own_uid)
        rows = rows[passes]
        evaluation.feasible[rows] = True
        evaluation.feasible_count = len(rows)
        return evaluation

    def _scored(self, evaluation: ClassEvaluation) -> _Scores:
        feasible = np.flatnonzero(evaluation.feasible)
        active, _ = evaluation.framework.run_pre_score(evaluation.info, self._cluster, feasible)
        scores = _Scores(active, len(evaluation.feasible))
        rows = np.flatnonzero(evaluation.static_ok)
        for raw, entry in zip(scores.raws, active, strict=True):
            # A node that a plugin cannot see from the feasible ones alone is still rated, as it
            # may become feasible; it does not take part in normalisation until then.
            raw[rows] = entry.plugin.score(entry.state, evaluation.info, self._cluster, rows)
        self._normalize(scores, feasible)
        return scores

    @staticmethod
    def _normalize(scores: _Scores, feasible: Rows) -> None:
        """Sums up and weighs all feasible rows."""
        scores.total.fill(-1)
        total = np.zeros(len(feasible), np.int64)
        for i, (_, weight, state, normalizer) in enumerate(scores.active):
            score = scores.raws[i][feasible]
            if normalizer is not None:
                normalization = normalizer.normalization(state, score)
                scores.normalizations[i] = normalization
                score = normalizer.normalize(score, normalization)
            total += score * weight
        scores.total[feasible] = total

    # Catching up -------------------------------------------------------------------------------

    def _caught_up(self, evaluation: ClassEvaluation) -> ClassEvaluation:
        changes = self._journal.since(evaluation.position)
        if (
            changes is None
            or len(evaluation.feasible) != self._cluster.nodes.capacity
            or _reaches_beyond_rows(evaluation, _reads_changed(changes))
            or (evaluation.outcome.node_names is not None and len(changes.node_rows))
            or len(changes.usage_rows) + len(changes.node_rows) > len(evaluation.feasible) // 4
        ):
            return self._fresh(evaluation.info, evaluation.framework)
        evaluation.position = self._journal.position
        evaluation.failure = None
        evaluation.filtered = None
        if not evaluation.outcome.status.is_success:
            return evaluation
        if len(changes.node_rows):
            self._refilter_fixed(evaluation, changes.node_rows)
            rows = np.union1d(changes.usage_rows, changes.node_rows)
        else:
            rows = changes.usage_rows
        flipped = self._refilter_moving(evaluation, rows)
        if evaluation.scores is not None:
            self._rescore(evaluation, evaluation.scores, rows, changes, flipped=flipped)
        return evaluation

    def _refilter_fixed(self, evaluation: ClassEvaluation, rows: Rows) -> None:
        present = self._cluster.nodes.present[rows]
        passes = evaluation.framework.passing(
            evaluation.info, self._cluster, evaluation.outcome, rows, excluding=MOVING
        )
        evaluation.static_ok[rows] = passes & present

    def _refilter_moving(self, evaluation: ClassEvaluation, rows: Rows) -> bool:
        """Brings `feasible` up to date in `rows`; says whether any of them flipped."""
        passes = evaluation.static_ok[rows]
        if passes.any():
            passes &= evaluation.framework.passing(
                evaluation.info, self._cluster, evaluation.outcome, rows, reading=MOVING
            )
        before = evaluation.feasible[rows]
        if bool((before == passes).all()):
            return False
        evaluation.feasible[rows] = passes
        evaluation.feasible_count += int(np.count_nonzero(passes)) - int(np.count_nonzero(before))
        return True

    def _rescore(
        self,
        evaluation: ClassEvaluation,
        scores: _Scores,
        rows: Rows,
        changes: Changes,
        *,
        flipped: bool,
    ) -> None:
        """Rates `rows` again; all feasible rows only where a normalisation changed."""
        reads = _reads_changed(changes)
        rated = rows[evaluation.static_ok[rows]]
        total = np.zeros(len(rated), np.int64)
        for i, (plugin, weight, state, normalizer) in enumerate(scores.active):
            raw = scores.raws[i]
            is_stale = bool(plugin.score_depends.reads & reads)
            if is_stale and len(rated):
                raw[rated] = plugin.score(state, evaluation.info, self._cluster, rated)
            score = raw[rated]
            if normalizer is not None:
                if is_stale or flipped:
                    summary = normalizer.normalization(state, raw[evaluation.feasible])
                    if summary != scores.normalizations[i]:
                        self._normalize(scores, np.flatnonzero(evaluation.feasible))
                        return
                score = normalizer.normalize(score, scores.normalizations[i])
            total += score * weight
        scores.total[rows] = -1
        scores.total[rated] = np.where(evaluation.feasible[rated], total, -1)

    def _evict(self) -> None:
        # static_ok and feasible, total, and a raw array a score plugin.
        row_bytes = 10 + 8 * max((len(f.scores) for f in self._frameworks.values()), default=0)
        class_bytes = row_bytes * self._cluster.nodes.capacity
        while len(self._kept) > 1 and len(self._kept) * class_bytes > EVALUATION_BYTES_MAX:
            self._kept.popitem(last=False)


class Checker:
    """Whether pods of a class pass every filter on given rows right now; for the owner.

    What a placement cannot change is remembered per class and row, so that the usual check costs
    the filters of NodeResourcesFit and the like on the proposed rows and nothing else.
    """

    CLASSES_MAX: Final = 4096

    def __init__(
        self, cluster: ClusterView, journal: Journal, frameworks: dict[str, Framework]
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._frameworks = frameworks
        self._kept: OrderedDict[int, _CheckedClass] = OrderedDict()

    def passing(
        self, class_id: int, info: PodInfo, profile: str, rows: Rows, own_uid: str = ""
    ) -> Bools:
        """Shape (n,): the pod may be placed on the row. Rows must be distinct. `own_uid` names a pod
        that is nominated itself."""
        checked = self._current(class_id, info, self._frameworks[profile])
        if not checked.outcome.status.is_success:
            return np.zeros(len(rows), np.bool_)
        unknown = rows[~checked.known[rows]]
        framework = checked.framework
        if len(unknown):
            passes = framework.passing(
                info, self._cluster, checked.outcome, unknown, excluding=MOVING
            )
            passes &= self._cluster.nodes.present[unknown]
            if checked.outcome.node_names is not None:
                allowed = framework.candidate_rows(checked.outcome, self._cluster)
                passes &= np.isin(unknown, allowed)
            checked.static_ok[unknown] = passes
            checked.known[unknown] = True
        passes = checked.static_ok[rows]
        if passes.any():
            passes &= framework.passing(
                info, self._cluster, checked.outcome, rows, reading=MOVING, own_uid=own_uid
            )
        return passes

    def forget(self, class_id: int) -> None:
        self._kept.pop(class_id, None)

    def forget_all(self) -> None:
        self._kept.clear()

    def _current(self, class_id: int, info: PodInfo, framework: Framework) -> "_CheckedClass":
        kept = self._kept.get(class_id)
        capacity = self._cluster.nodes.capacity
        if (
            kept is None
            or kept.objects_version != self._cluster.objects.version
            or len(kept.known) != capacity
        ) or framework.has_dependent_pre_filter:
            kept = self._made(info, framework, capacity)
        elif kept.position != self._journal.node.position:
            node_rows = self._journal.node.since(kept.position)
            if node_rows is None:
                kept = self._made(info, framework, capacity)
            else:
                kept.known[node_rows] = False
                kept.position = self._journal.node.position
        self._kept[class_id] = kept
        self._kept.move_to_end(class_id)
        if len(self._kept) > self.CLASSES_MAX:
            self._kept.popitem(last=False)
        return kept

    def _made(self, info: PodInfo, framework: Framework, capacity: int) -> "_CheckedClass":
        outcome = framework.run_pre_filters(info, self._cluster)
        return _CheckedClass(
            framework,
            outcome,
            capacity,
            self._journal.node.position,
            self._cluster.objects.version,
        )


class _CheckedClass:
    """What the checker remembers of a class."""

    __slots__ = ("framework", "known", "objects_version", "outcome", "position", "static_ok")

    def __init__(
        self,
        framework: Framework,
        outcome: PreFilterOutcome,
        capacity: int,
        position: int,
        objects_version: int,
    ) -> None:
        self.framework = framework
        self.outcome = outcome
        self.position = position
        self.objects_version = objects_version
        self.known: Bools = np.zeros(capacity, np.bool_)
        """`static_ok` holds the answer for this row."""
        self.static_ok: Bools = np.zeros(capacity, np.bool_)


def _reads_changed(changes: Changes) -> Reads:
    reads = Reads(0)
    if len(changes.usage_rows):
        reads |= MOVING
    if len(changes.node_rows):
        reads |= FIXED | MOVING  # A node that takes a row brings its own usage.
    return reads


def _pre_filter_is_stale(framework: Framework, reads: Reads) -> bool:
    return any(
        plugin.pre_filter_depends is not None and plugin.pre_filter_depends.reads & reads
        for plugin in framework.pre_filters
    )


def _reaches_beyond_rows(evaluation: ClassEvaluation, reads: Reads) -> bool:
    """Whether a change of `reads` may alter results in rows that did not change themselves."""
    framework = evaluation.framework
    if _pre_filter_is_stale(framework, reads):
        return True
    filters = (framework.filters[i] for i in framework.active_filters(evaluation.outcome))
    if any(_is_wide(plugin.filter_depends, reads) for plugin in filters):
        return True
    if evaluation.scores is None:
        return False
    for plugin, _, _, _ in evaluation.scores.active:
        pre_score: Dependence | None = getattr(plugin, "pre_score_depends", None)
        if _is_wide(plugin.score_depends, reads):
            return True
        if pre_score is not None and pre_score.reads & reads:
            return True
    return False


def _is_wide(depends: Dependence, reads: Reads) -> bool:
    return depends.scope is not Scope.ROW and bool(depends.reads & reads)
