"""The engine: filter and score a class of pods over all nodes once, then only what changed.

The simple way evaluates every node for every pod; at 5,000 nodes that is most of a scheduler's time,
and nearly all of it repeats what was computed for the pod before. Here the results of a class stay
in arrays. A placement changes one row; the journal says which, and only the plugins that read what
changed are asked again, for that row alone. A plugin that computes its answer from more than the row
(`Scope`) names the rows to ask again, or makes the engine start that class afresh, so that a plugin
can be right without being clever.

The scorer uses the engine for all nodes, the owner uses `Checker` for the few rows that were
proposed. Both run the same plugin code on the same columns: where a worker and the committer
disagree on more than freshness, a proposal would loop for ever.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from shared.columns.journal import START, Changes, Journal
from shared.columns.schema import Bools, Rows
from shared.framework.class_filters import ClassFilters
from shared.framework.class_scores import ClassScores
from shared.framework.cluster_view import ClusterView, ObjectStore
from shared.framework.diagnosis import FitError, diagnose, filter_candidates, plugin_error
from shared.framework.plugin_api import Delta, Reads
from shared.framework.pod_info import PodInfo
from shared.framework.post_filter import FailedAttempt, PostFilterResult, run_post_filters
from shared.framework.preemption import Preemptor
from shared.framework.runtime import (
    MOVING,
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

POD_CHANGES_MAX: Final = 4096
"""So many pods that came and went since a class was last asked for are counted one by one; with more,
counting all pods again is quicker."""
ROWS_LIKE_ONE_CALL: Final = 256
"""A call of all fixed filters costs about 25 us, and about 0.1 us for each further row."""
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

    __slots__ = ("failure", "filtered", "filters", "framework", "info", "object_kinds",
                 "objects_version", "outcome", "own_uid", "pod_position", "position", "scores",
                 "stale_by")  # fmt: skip

    def __init__(
        self,
        info: PodInfo,
        framework: Framework,
        outcome: PreFilterOutcome,
        filters: ClassFilters,
        own_uid: str = "",
    ) -> None:
        self.info = info
        self.own_uid = own_uid
        """Of a pod that is evaluated by itself, because its own nomination does not count."""
        self.framework = framework
        self.outcome = outcome
        self.filters = filters
        self.stale_by: int = framework.filters_stale_by(outcome).value
        """Changes after which to start afresh, as bits of Reads."""
        self.object_kinds = framework.filters_object_kinds(outcome)
        """The same for objects; None: of any kind."""
        self.scores: ClassScores | None = None
        """None until a pod of the class has two feasible nodes to choose from."""
        self.position = START
        """Of the journal: everything before is contained."""
        self.pod_position = 0
        """The same of the log of pods."""
        self.objects_version = 0
        self.failure: FitError | None = None
        """The diagnosis, as long as nothing changed since."""
        self.filtered: FilterOutcome | None = None
        """What the diagnosis sums up."""

    @property
    def feasible(self) -> Bools:
        return self.filters.feasible

    @property
    def feasible_count(self) -> int:
        return self.filters.feasible_count


class Engine:
    """Evaluations of the classes in use, brought up to date when they are asked for."""

    def __init__(
        self, cluster: ClusterView, journal: Journal, frameworks: dict[str, Framework]
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._frameworks = frameworks
        self._kept: OrderedDict[int, ClassEvaluation] = OrderedDict()

    def evaluate(self, class_id: int, info: PodInfo, profile: str) -> ClassEvaluation:
        """The up-to-date evaluation of a class."""
        found = self._kept.get(class_id)
        if found is None:
            found = self._fresh(info, self._frameworks[profile])
            self._kept[class_id] = found
            self._evict()
        else:
            self._kept.move_to_end(class_id)
            if (
                found.position != self._journal.position
                or found.pod_position != self._cluster.pod_log.position
                or found.objects_version != self._cluster.objects.version
            ):
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
        if evaluation.framework.has_failed(evaluation.outcome) and self.failure(evaluation).error:
            return None
        if count == 1:
            return Choice(int(evaluation.feasible.argmax()), 0, 1)
        scores = evaluation.scores
        if scores is None:
            try:
                scores = evaluation.scores = ClassScores(
                    evaluation.framework,
                    evaluation.info,
                    self._cluster,
                    evaluation.filters.static_ok,
                    evaluation.feasible,
                )
            except PreScoreError as error:
                evaluation.failure = plugin_error(self._cluster, str(error))
                return None
        total = scores.total[: self._cluster.nodes.row_count]
        best = total.max()
        ties = (total == best).nonzero()[0]
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

    # Evaluating afresh -------------------------------------------------------------------------

    def _fresh(self, info: PodInfo, framework: Framework, own_uid: str = "") -> ClassEvaluation:
        outcome = framework.run_pre_filters(info, self._cluster)
        filters = ClassFilters(framework, info, self._cluster, outcome, own_uid)
        evaluation = ClassEvaluation(info, framework, outcome, filters, own_uid)
        evaluation.position = self._journal.position
        evaluation.pod_position = self._cluster.pod_log.position
        evaluation.objects_version = self._cluster.objects.version
        return evaluation

    # Catching up -------------------------------------------------------------------------------

    def _caught_up(self, evaluation: ClassEvaluation) -> ClassEvaluation:
        capacity = self._cluster.nodes.capacity
        changes = self._journal.since(evaluation.position)
        pods = self._cluster.pod_log.since(evaluation.pod_position, POD_CHANGES_MAX)
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
        evaluation.filtered = None
        delta = Delta(changes.node_rows, pods)
        refiltered = evaluation.filters.update(changes.usage_rows, delta)
        if refiltered is None:
            return self._fresh(evaluation.info, evaluation.framework)
        scores = evaluation.scores
        if scores is not None and (
            scores.stale_by & reads or not scores.update(changes.usage_rows, delta, refiltered)
        ):
            evaluation.scores = None
        return evaluation

    def _objects_caught_up(self, evaluation: ClassEvaluation) -> bool:
        """False where an object changed that the filters read; drops the scores for theirs."""
        objects = self._cluster.objects
        if evaluation.objects_version == objects.version:
            return True
        kinds = _kinds_changed(objects, evaluation.objects_version)
        if _has_say(kinds, evaluation.object_kinds):
            return False
        if evaluation.scores is not None and _has_say(kinds, evaluation.scores.object_kinds):
            evaluation.scores = None
        evaluation.objects_version = objects.version
        return True

    def _evict(self) -> None:
        # Four masks, two sums, and two arrays a score plugin (some have one, some counts beside).
        row_bytes = 20 + 16 * max((len(f.scores) for f in self._frameworks.values()), default=0)
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
        framework = checked.framework
        unknown = rows[~checked.known[rows]]
        if len(unknown):
            self._learn(checked, self._with_all_others(checked, unknown))
        passes = checked.static_ok[rows]
        if passes.any():
            passes &= framework.passing_of(
                checked.moving, info, self._cluster, checked.outcome, rows
            )
            passes = framework.passing_with_nominated(
                info, self._cluster, checked.outcome, rows, passes, own_uid
            )
        return passes

    def _with_all_others(self, checked: "_CheckedClass", unknown: Rows) -> Rows:
        """Rows to ask the fixed filters about: these, or all that are left once so many were asked
        about one by one that asking about all at once is cheaper."""
        checked.asked_count += len(unknown)
        present = self._cluster.nodes.present
        if checked.asked_count <= len(present) // ROWS_LIKE_ONE_CALL:
            return unknown
        checked.asked_count = 0
        return np.union1d(unknown, np.flatnonzero(present & ~checked.known))

    def _learn(self, checked: "_CheckedClass", rows: Rows) -> None:
        """Asks the fixed filters about `rows`."""
        framework = checked.framework
        passes = framework.passing_of(
            checked.fixed, checked.info, self._cluster, checked.outcome, rows
        )
        passes &= self._cluster.nodes.present[rows]
        if checked.outcome.node_names is not None:
            allowed = framework.candidate_rows(checked.outcome, self._cluster)
            passes &= np.isin(rows, allowed)
        checked.static_ok[rows] = passes
        checked.known[rows] = True

    def is_wide(self, class_id: int, info: PodInfo, profile: str) -> bool:
        """Whether pods elsewhere matter: then a verdict holds until the next pod is placed, and
        several pods of the class must be asked about one after the other."""
        return self._current(class_id, info, self._frameworks[profile]).is_wide

    def forget(self, class_id: int) -> None:
        self._kept.pop(class_id, None)

    def forget_all(self) -> None:
        self._kept.clear()

    def _current(self, class_id: int, info: PodInfo, framework: Framework) -> "_CheckedClass":
        kept = self._kept.get(class_id)
        if kept is None or not self._catch_up(kept):
            kept = _CheckedClass(framework, info, self._cluster, self._journal)
            self._kept[class_id] = kept
            if len(self._kept) > self.CLASSES_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(class_id)
        return kept

    def _catch_up(self, kept: "_CheckedClass") -> bool:
        """False where the class is to be prepared anew."""
        cluster = self._cluster
        if kept.objects_version != cluster.objects.version:
            if _has_say(_kinds_changed(cluster.objects, kept.objects_version), kept.object_kinds):
                return False
            kept.objects_version = cluster.objects.version
        if len(kept.known) != cluster.nodes.capacity:
            return False
        position, pod_position = self._journal.position, cluster.pod_log.position
        if kept.position == position and kept.pod_position == pod_position:
            return True
        if kept.stale_by & _MOVING:
            return False
        node_rows = self._journal.node.since(kept.position.node)
        if node_rows is None or (len(node_rows) and kept.stale_by & _EVERYTHING):
            return False
        kept.known[node_rows] = False
        if kept.updatable:
            pods = cluster.pod_log.since(kept.pod_position, POD_CHANGES_MAX)
            if pods is None:
                return False
            delta = Delta(node_rows, pods)
            for plugin, state in kept.updatable:
                if plugin.update_filter(state, kept.info, cluster, delta) is None:
                    return False
        kept.position, kept.pod_position = position, pod_position
        return True


class _CheckedClass:
    """What the checker remembers of a class."""

    __slots__ = ("asked_count", "fixed", "framework", "info", "is_wide", "known", "moving",
                 "object_kinds", "objects_version", "outcome", "pod_position", "position",
                 "stale_by", "static_ok", "updatable")  # fmt: skip

    def __init__(
        self, framework: Framework, info: PodInfo, cluster: ClusterView, journal: Journal
    ) -> None:
        self.framework = framework
        self.info = info
        self.asked_count = 0
        """Rows that the fixed filters were asked about since they were last asked about all."""
        self.outcome = framework.run_pre_filters(info, cluster)
        groups = framework.filter_groups(self.outcome)
        self.fixed = groups.fixed
        self.moving = groups.moving + groups.wide
        self.updatable = framework.updatable_filters(self.outcome)
        self.stale_by: int = framework.filters_stale_by(self.outcome).value
        self.object_kinds = framework.filters_object_kinds(self.outcome)
        self.is_wide = framework.is_wide(self.outcome)
        self.position = journal.position
        self.pod_position = cluster.pod_log.position
        self.objects_version = cluster.objects.version
        self.known: Bools = np.zeros(cluster.nodes.capacity, np.bool_)
        """`static_ok` holds the answer for this row."""
        self.static_ok: Bools = np.zeros(cluster.nodes.capacity, np.bool_)


def _kinds_changed(objects: ObjectStore, version: int) -> frozenset[str] | None:
    """Kinds of which an object changed after `version`; None: nobody remembers."""
    changes = objects.changes_since(version)
    return None if changes is None else frozenset(kind for kind, _ in changes)


def _has_say(changed: frozenset[str] | None, read: frozenset[str] | None) -> bool:
    """Whether some kind of object both changed and is read."""
    if changed is None or read is None:
        return read is None or bool(read)
    return bool(changed & read)


def _reads_changed(changes: Changes, *, has_pods: bool) -> int:
    """Bits of Reads: operations on the enumeration itself take a microsecond each."""
    if len(changes.node_rows):
        return _EVERYTHING  # A node that takes a row brings its own usage.
    if len(changes.usage_rows):
        return _MOVING
    return _PODS if has_pods else 0


_EVERYTHING: Final = (FIXED | MOVING).value
_MOVING: Final = MOVING.value
_PODS: Final = Reads.PODS.value
