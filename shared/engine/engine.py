"""The engine: filter and score a class of pods over all nodes once, then only what changed.

The simple way evaluates every node for every pod; at 5,000 nodes that is most of a scheduler's time,
and nearly all of it repeats what was computed for the pod before. Here the results of a class stay
in arrays. A placement changes one row; the journal says which, and only the plugins that read what
changed are asked again, for that row alone. A plugin that computes its answer from more than the row
(`Scope`) names the rows to ask again, or makes the engine start that class afresh, so that a plugin
can be right without being clever.

The scorer uses the engine for all nodes, the owner `Checker` (`checker.py`) for the few rows that were
proposed.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from shared.columns.journal import START, Changes, Journal
from shared.columns.pod_log import PodChange
from shared.columns.rows import rows_where
from shared.columns.schema import NO_ROWS, Bools, Rows
from shared.columns.usage import PodUsage
from shared.engine.best_rows import Ties
from shared.engine.class_filters import ClassFilters
from shared.engine.class_run import ClassRun, Put, RunTieBreak, run_of
from shared.engine.class_scores import ClassScores
from shared.engine.class_shift import ClassShift
from shared.engine.dry_runs import DryRuns
from shared.engine.filter_update import refreshed, rows_within
from shared.engine.row_states import RowStates
from shared.framework.cluster_view import ClusterView
from shared.framework.diagnosis import FitError, diagnose, filter_candidates, plugin_error
from shared.framework.node_sample import NodeSample, Sampling, first_in_heap
from shared.framework.nominated_pods import (
    counting_own_node,
    passing,
    run_filters_with_nominated,
)
from shared.framework.object_news import has_say, kinds_changed
from shared.framework.outcomes import FilterOutcome, PreScoreError
from shared.framework.plans import EDITED_BITS, MOVING_BITS
from shared.framework.plugin_api import Delta, Reads
from shared.framework.pod_info import PodInfo
from shared.framework.prepared_pod import PreparedPod, prepared
from shared.framework.runtime import Framework
from shared.framework.score_range import INVALID, invalid_score, out_of_range

TieBreak = Callable[[Ties], int]
"""Chooses one of the rows (ascending, at least two) that share the best score."""

EVALUATION_BYTES_MAX: Final = 256 << 20
"""All kept classes together. A class takes about 60 bytes a node: 0.3 MB at 5,000 nodes, 60 MB at a
million; the least recently used go first, and one is always kept."""

POD_CHANGES_MAX: Final = 4096
"""So many pods that came and went since a class was last asked for are counted one by one; with more,
counting all pods again is quicker."""
OUTDATED_MAX: Final = 64
"""So many times a class is brought up to date without being asked why it fits nowhere."""


class Choice(NamedTuple):
    """Where a pod should go."""

    row: int
    score: int
    """Weighted total; 0 where a single feasible node made scoring unnecessary."""
    feasible_count: int


class ClassEvaluation:
    """One pod class over all rows. Arrays have the table's capacity."""

    __slots__ = ("dry_runs", "failure", "filtered", "filters", "framework", "info", "object_kinds",
                 "objects_version", "outcome", "outdated", "own_uid", "pod", "pod_position",
                 "position", "scores", "shift", "stale_by")  # fmt: skip

    def __init__(self, pod: PreparedPod, filters: ClassFilters) -> None:
        self.pod = pod
        self.info = pod.info
        self.own_uid = pod.own_uid
        """Of a pod that is evaluated by itself, because its own nomination does not count."""
        self.framework = pod.framework
        self.outcome = pod.outcome
        self.filters = filters
        plan = pod.plan
        self.stale_by: int = plan.stale_by.value
        """Changes after which to start afresh, as bits of Reads."""
        self.object_kinds = plan.object_kinds
        """The same for objects; None: of any kind."""
        self.scores: ClassScores | None = None
        """None until a pod of the class has two feasible nodes to choose from."""
        self.shift: ClassShift | None = None
        """Made with the scores when first needed."""
        self.position = START
        """Of the journal: everything before is contained."""
        self.pod_position = 0
        """The same of the log of pods."""
        self.objects_version = 0
        self.failure: FitError | None = None
        """The diagnosis, as long as nothing changed since."""
        self.filtered: FilterOutcome | None = None
        """What the diagnosis sums up, but for the rows in `outdated`."""
        self.outdated: list[Rows] = []
        self.dry_runs: DryRuns | None = None
        """What is known of making room for pods of the class."""

    @property
    def feasible(self) -> Bools:
        return self.filters.feasible

    @property
    def feasible_count(self) -> int:
        return self.filters.feasible_count


class Engine:
    """Evaluations of the classes in use, brought up to date when they are asked for."""

    def __init__(
        self,
        cluster: ClusterView,
        journal: Journal,
        frameworks: dict[str, Framework],
        states: RowStates | None = None,
        bytes_max: int = EVALUATION_BYTES_MAX,
        sample: NodeSample | None = None,
    ) -> None:
        """`states`: of another engine of the same cluster, to share them. `bytes_max`: about what all
        that is kept may take. `sample`: of the engine before this one, to go on where it ended."""
        self._bytes_max = bytes_max
        self._cluster = cluster
        self._journal = journal
        self._frameworks = frameworks
        self._sample = sample or NodeSample()
        self.states = states or RowStates(cluster, journal)
        self._kept: OrderedDict[int, ClassEvaluation] = OrderedDict()

    def knows(self, class_id: int) -> bool:
        """Whether an evaluation of the class is kept."""
        return class_id in self._kept

    def evaluate(self, class_id: int, info: PodInfo, profile: str) -> ClassEvaluation:
        """The up-to-date evaluation of a class."""
        found = self._kept.get(class_id)
        if found is None:
            found = self._fresh(info, self._frameworks[profile])
            self._kept[class_id] = found
            self._evict()
        else:
            self._kept.move_to_end(class_id)
            if not self._is_current(found):
                found = self._kept[class_id] = self._caught_up(found)
        return found

    def evaluate_alone(self, info: PodInfo, profile: str, own_uid: str) -> ClassEvaluation:
        """The evaluation of a nominated pod whose node has refused it. Its own nomination takes no
        room from it."""
        return self._fresh(info, self._frameworks[profile], own_uid)

    def takes_nominated(self, evaluation: ClassEvaluation, row: int, own_uid: str) -> bool:
        """Whether the node that a pod of the class is nominated to takes it: then no other is looked
        at (evaluateNominatedNode in pkg/scheduler/schedule_one.go, v1.36.2)."""
        if row < 0 or not self._cluster.nodes.present[row]:
            return False
        if not evaluation.outcome.status.is_success:
            return False
        rows = np.array([row], np.intp)
        return bool(passing(evaluation.pod._replace(own_uid=own_uid), rows)[0])

    def choose(self, evaluation: ClassEvaluation, tie_break: TieBreak) -> Choice | None:
        """The best node, or None where the pod fits nowhere (see `failure`)."""
        count = evaluation.feasible_count
        sampling = evaluation.framework.sampling
        if count == 0:
            if sampling is not None and evaluation.outcome.status.is_success:
                self._sampled(evaluation, sampling)
            return None
        if evaluation.framework.has_failed(evaluation.outcome) and self.failure(evaluation).error:
            return None
        if sampling is not None:
            return self._choose_of_some(evaluation, sampling, tie_break)
        if count == 1:
            return Choice(int(evaluation.feasible.argmax()), 0, 1)
        scores = self.scores_of(evaluation)
        found = None if scores is None else scores.best.best()
        if found is None:
            return None
        best, ties = found
        if best >= INVALID:
            self._note_invalid(evaluation)
            return None
        row = ties[0] if len(ties) == 1 else tie_break(ties)
        return Choice(row, best, count)

    def _note_invalid(self, evaluation: ClassEvaluation) -> None:
        """A score is out of range: the attempt is an error."""
        if evaluation.failure is None:
            problem = invalid_score(
                evaluation.framework,
                evaluation.info,
                self._cluster,
                rows_where(evaluation.feasible),
            )
            evaluation.failure = plugin_error(self._cluster, problem)

    def _sampled(self, evaluation: ClassEvaluation, sampling: Sampling) -> Rows:
        """The rows to score, in the order in which they were looked at."""
        framework, outcome, cluster = evaluation.framework, evaluation.outcome, self._cluster
        candidates: Bools | None = None
        if outcome.node_names is not None:
            candidates = np.zeros(cluster.nodes.capacity, np.bool_)
            candidates[framework.candidate_rows(outcome, cluster)] = True
        order, feasible = cluster.nodes.order, evaluation.feasible
        return self._sample.take(order, candidates, feasible, sampling.percentage)

    def _choose_of_some(
        self, evaluation: ClassEvaluation, sampling: Sampling, tie_break: TieBreak
    ) -> Choice | None:
        """The best of the nodes of a sample. Nothing of it is kept: the next sample is another."""
        framework, cluster = evaluation.framework, self._cluster
        looked_at = self._sampled(evaluation, sampling)
        rows = np.sort(looked_at)
        if len(rows) == 1:
            return Choice(rows.item(0), 0, 1)
        try:
            active, _ = framework.run_pre_score(evaluation.info, cluster, rows)
        except PreScoreError as error:
            evaluation.failure = plugin_error(cluster, str(error))
            return None
        _, scores, total = framework.run_scores(evaluation.info, cluster, active, rows)
        problem = out_of_range(active, scores)
        if problem:
            evaluation.failure = plugin_error(cluster, problem)
            return None
        best = total.max().item()
        if sampling.is_compatible:
            is_best = total[np.searchsorted(rows, looked_at)] == best
            return Choice(looked_at.item(first_in_heap(is_best)), best, len(rows))
        ties = rows[total == best]
        row = ties.item(0) if len(ties) == 1 else tie_break(ties)
        return Choice(row, best, len(rows))

    def scores_of(self, evaluation: ClassEvaluation) -> ClassScores | None:
        """Of a class with two feasible nodes; None, with `failure`, where a plugin cannot rate it."""
        if evaluation.scores is None:
            try:
                evaluation.scores = ClassScores(
                    evaluation.framework,
                    evaluation.info,
                    self._cluster,
                    evaluation.filters.static_ok,
                    evaluation.feasible,
                    self.states,
                )
            except PreScoreError as error:
                evaluation.failure = plugin_error(self._cluster, str(error))
        return evaluation.scores

    def start_run(
        self,
        class_id: int,
        info: PodInfo,
        profile: str,
        usage: PodUsage,
        tie_break: RunTieBreak,
        put: Put,
    ) -> ClassRun | None:
        """A way to place several pods of a class that costs less a pod; None where there is none.
        Nobody else may be placed in between. `put` must write to the journal."""
        evaluation = self.evaluate(class_id, info, profile)
        framework, outcome = evaluation.framework, evaluation.outcome
        if evaluation.feasible_count < 2 or framework.has_failed(outcome):
            return None
        if framework.sampling is not None:
            return None
        scores = self.scores_of(evaluation)
        if scores is None or (evaluation.stale_by | scores.stale_by) & MOVING_BITS:
            return None

        def put_and_note(rows: list[int]) -> None:
            assert self._is_current(evaluation), "nobody else is placed during a run"
            put(rows)
            # The evaluation knows already.
            evaluation.position = self._journal.position
            evaluation.pod_position = self._cluster.pod_log.position
            evaluation.failure = evaluation.filtered = None

        shift = self._shift(evaluation, scores)
        return run_of(
            class_id, self._cluster, self.states, evaluation.filters, scores, shift, usage,
            tie_break, put_and_note,
        )  # fmt: skip

    def _shift(self, evaluation: ClassEvaluation, scores: ClassScores) -> ClassShift:
        """What follows placements for the class as long as its scores are these."""
        shift = evaluation.shift
        if shift is None or shift.scores is not scores:
            filters = evaluation.filters
            shift = ClassShift(self._cluster, self.states, filters, scores)
            evaluation.shift = shift
        return shift

    def _is_current(self, evaluation: ClassEvaluation) -> bool:
        return (
            evaluation.position == self._journal.position
            and evaluation.pod_position == self._cluster.pod_log.position
            and evaluation.objects_version == self._cluster.objects.version
        )

    def failure(self, evaluation: ClassEvaluation) -> FitError:
        """Why the class fits nowhere."""
        if evaluation.failure is None:
            evaluation.failure = diagnose(evaluation.pod, self.filtered(evaluation))
        return evaluation.failure

    def dry_runs(self, evaluation: ClassEvaluation) -> DryRuns | None:
        """What is known of making room for pods of the class; None for a pod by itself."""
        if evaluation.dry_runs is None and not evaluation.own_uid:
            evaluation.dry_runs = DryRuns(self._cluster, self._journal)
        return evaluation.dry_runs

    def filtered(self, evaluation: ClassEvaluation) -> FilterOutcome:
        """What the filters say of all candidate nodes to a class that fits nowhere."""
        filtered, outdated = evaluation.filtered, evaluation.outdated
        if filtered is not None and not outdated:
            return filtered
        rows = rows_within(outdated, filtered.rows) if filtered is not None else NO_ROWS
        if filtered is None or len(rows) > len(filtered.rows) // 4:
            filtered = filter_candidates(evaluation.pod)
        else:
            filtered = refreshed(filtered, run_filters_with_nominated(evaluation.pod, rows))
        outdated.clear()
        evaluation.filtered = filtered
        return filtered

    def forget(self, class_id: int) -> None:
        self._kept.pop(class_id, None)

    def forget_all(self) -> None:
        self._kept.clear()

    # Evaluating afresh -------------------------------------------------------------------------

    def _fresh(self, info: PodInfo, framework: Framework, own_uid: str = "") -> ClassEvaluation:
        pod = prepared(framework, info, self._cluster, own_uid)
        if own_uid:
            pod = counting_own_node(pod)
        evaluation = ClassEvaluation(pod, ClassFilters(pod, self.states))
        evaluation.position = self._journal.position
        evaluation.pod_position = self._cluster.pod_log.position
        evaluation.objects_version = self._cluster.objects.version
        return evaluation

    # Catching up -------------------------------------------------------------------------------

    def _caught_up(self, evaluation: ClassEvaluation) -> ClassEvaluation:
        shift = self._shift_of(evaluation)
        pods: Sequence[PodChange] | None = ()
        if shift is None:
            pods = self._cluster.pod_log.since(evaluation.pod_position, POD_CHANGES_MAX)
        elif self._is_shifted(evaluation, shift):
            return evaluation
        capacity = self._cluster.nodes.capacity
        if shift is None:
            changes = self._journal.since(evaluation.position)
        else:
            usage_rows = self._journal.usage.since(evaluation.position.usage)
            changes = None if usage_rows is None else Changes(usage_rows, NO_ROWS, NO_ROWS)
        if (
            changes is None
            or pods is None
            or len(evaluation.feasible) != capacity
            or len(changes.usage_rows) + len(changes.node_rows) > capacity // 4
            or (evaluation.outcome.node_names is not None and len(changes.node_rows))
        ):
            return self._fresh(evaluation.info, evaluation.framework)
        reads = _reads_changed(changes, has_pods=bool(pods))
        if evaluation.stale_by & reads or not self._objects_caught_up(evaluation):
            return self._fresh(evaluation.info, evaluation.framework)
        evaluation.position = self._journal.position
        evaluation.pod_position = self._cluster.pod_log.position
        evaluation.failure = None
        delta = Delta(changes.node_rows, pods)
        refiltered = evaluation.filters.update(changes.usage_rows, delta)
        if refiltered is None:
            return self._fresh(evaluation.info, evaluation.framework)
        if evaluation.filtered is not None:
            evaluation.outdated.append(refiltered.rows)
            is_wide = evaluation.framework.plan(evaluation.outcome).is_wide
            if is_wide or len(changes.node_rows) or len(evaluation.outdated) > OUTDATED_MAX:
                evaluation.filtered = None
                evaluation.outdated.clear()
        scores = evaluation.scores
        if scores is not None and (
            scores.stale_by & reads or not scores.update(changes.usage_rows, delta, refiltered)
        ):
            evaluation.scores = None
        return evaluation

    def _shift_of(self, evaluation: ClassEvaluation) -> ClassShift | None:
        """None unless all that happened is that pods came and went that matter to the class by the
        room they take alone."""
        scores = evaluation.scores
        if (
            scores is None
            or evaluation.position.node != self._journal.node.position
            or evaluation.objects_version != self._cluster.objects.version
            or len(evaluation.feasible) != self._cluster.nodes.capacity
            or (evaluation.stale_by | scores.stale_by) & MOVING_BITS
        ):
            return None
        class_ids = self._cluster.pod_log.classes_since(evaluation.pod_position, POD_CHANGES_MAX)
        if class_ids is None:
            return None
        shift = self._shift(evaluation, scores)
        return None if shift.minds_any(class_ids) else shift

    def _is_shifted(self, evaluation: ClassEvaluation, shift: ClassShift) -> bool:
        """Takes over a few placements."""
        if evaluation.filtered is not None or not shift.is_worth_it:
            return False
        rows = self._journal.usage.since(evaluation.position.usage)
        if rows is None or not shift.follow(rows.tolist()):
            return False
        evaluation.position = self._journal.position
        evaluation.pod_position = self._cluster.pod_log.position
        evaluation.failure = None
        return True

    def _objects_caught_up(self, evaluation: ClassEvaluation) -> bool:
        """False where an object changed that the filters read; drops the scores for theirs."""
        objects = self._cluster.objects
        if evaluation.objects_version == objects.version:
            return True
        kinds = kinds_changed(objects, evaluation.objects_version)
        if has_say(kinds, evaluation.object_kinds):
            return False
        if evaluation.scores is not None and has_say(kinds, evaluation.scores.object_kinds):
            evaluation.scores = None
        evaluation.objects_version = objects.version
        return True

    @property
    def class_bytes(self) -> int:
        """About what is kept of a class."""
        # Four masks, two sums, and two arrays a score plugin (some have one, some counts beside).
        row_bytes = 20 + 16 * max((len(f.scores) for f in self._frameworks.values()), default=0)
        return row_bytes * self._cluster.nodes.capacity

    def _evict(self) -> None:
        class_bytes = self.class_bytes
        while len(self._kept) > 1 and len(self._kept) * class_bytes > self._bytes_max:
            self._kept.popitem(last=False)


def _reads_changed(changes: Changes, *, has_pods: bool) -> int:
    """Bits of Reads."""
    if len(changes.node_rows):
        return EDITED_BITS
    if len(changes.usage_rows):
        return MOVING_BITS
    return _PODS if has_pods else 0


_PODS: Final = Reads.PODS.value
