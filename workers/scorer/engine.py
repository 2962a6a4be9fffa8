"""The engine: where pods go, from evaluations of all nodes that are kept from one pod to the next.

Chooses the best node, and places runs of equal pods. What is kept, what makes it stale, and why pods fit
nowhere: `shared/engine/evaluation.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np

from shared.columns.journal import PodChange
from shared.columns.rows import rows_where
from shared.columns.schema import NO_ROWS, Bools, Rows
from shared.columns.usage import PodUsage
from shared.dra.device_index import takes_devices
from shared.engine.best_rows import Ties
from shared.engine.evaluation import Alike, Evaluation, Evaluations
from shared.engine.row_states import RowStates
from shared.engine.state_answers import NO_PODS, UNKNOWN, StateAnswers
from shared.faults import changing
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Delta
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.diagnosis import FitError, invalid_score
from shared.framework.runtime.framework import (
    ADAPTIVE,
    ALL,
    INVALID,
    Framework,
    Sampling,
    out_of_range,
)
from shared.framework.runtime.plans import MOVING_BITS, PreScoreError
from shared.framework.runtime.prepared_pod import run_filters_with_nominated

BY_SEED: Final = "seed"
BY_NAME: Final = "name"
"""The one whose name sorts first, as in the conformance scenarios: for comparisons with recorded
decisions, as it makes scorers meet on the same nodes."""

TieBreak = Callable[[Ties], int]
"""Chooses one of the rows (at least two) that are equally good."""
RunTieBreak = Callable[[Ties, int], int]
"""The same for the attempt with this ticket."""

_MASK: Final = (1 << 64) - 1


def mix(seed: int, number: int) -> int:
    """A well-mixed 64-bit number (the finaliser of SplitMix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & _MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _MASK
    return z ^ z >> 31


def by_seed(ties: Ties, seed: int, ticket: int) -> int:
    """One of `ties`. kube-scheduler takes any of them. This one looks random, but depends on seed and
    attempt alone, so that a recorded run can be replayed, and differs between scorers, so that two of
    them do not both go for the same node."""
    return int(ties[mix(seed, ticket) % len(ties)])  # An array has numpy's integers.


Put = Callable[[list[int]], None]
"""Writes one pod of the class to each of these rows, to one that comes twice two, and to the journal."""


FEASIBLE_MIN: Final = 100
"""minFeasibleNodesToFind: so many are looked for whatever the percentage."""
ADAPTIVE_MAX: Final = 50
ADAPTIVE_MIN: Final = 5
NODES_A_PERCENT: Final = 125


def count_to_find(percentage: int, node_count: int) -> int:
    """How many feasible nodes are enough."""
    if node_count < FEASIBLE_MIN:
        return node_count
    if percentage == ADAPTIVE:
        percentage = max(ADAPTIVE_MIN, ADAPTIVE_MAX - node_count // NODES_A_PERCENT)
    return max(FEASIBLE_MIN, node_count * percentage // ALL)


class NodeSample:
    """Scores some of the feasible nodes, where the configuration asks for it: nodes are looked at in
    nodeTree order from where the search before ended, until enough of them take the pod, and only these
    are scored. One for all profiles, as upstream. Rules: findNodesThatPassFilters,
    numFeasibleNodesToFind and nodeScoreHeap in pkg/scheduler/schedule_one.go, v1.36.2, with
    `parallelism: 1`; else it looks at several nodes at a time, and in which order they come to its heap
    is chance. Nodes that a plugin named in PreFilter it takes in the random order of a map, we in
    nodeTree order."""

    def __init__(self) -> None:
        self._start = 0

    def take(
        self,
        order: Rows,
        candidates: Bools | None,
        feasible: Bools,
        percentage: int,
        *,
        is_scored: bool = True,
    ) -> Rows:
        """The rows to score, in the order in which they were looked at. `order`: all nodes;
        `candidates` and `feasible` by row, None for all. `is_scored`: one is
        not as good as any."""
        searched = order if candidates is None else order[candidates[order]]
        count = len(searched)
        if not count:
            return searched
        start = self._start % count
        searched = np.concatenate((searched[start:], searched[:start]))
        found = np.flatnonzero(feasible[searched])
        enough = count_to_find(percentage, count) if is_scored else 1
        # That it has enough is noticed at the next one that takes the pod.
        looked_at = found.item(enough) if len(found) > enough else count
        self._start = (self._start + looked_at) % len(order)
        return searched[found[:enough]]


def first_in_heap(is_best: Bools) -> int:
    """Which of those with the best score a binary heap has at its root that was made of the list as it
    is: the first of them in pre-order, as an element gives its place up to greater ones only, and of
    two equal children the left one moves up."""
    places = np.flatnonzero(is_best) + 1
    depth = np.floor(np.log2(places)).astype(np.int64)
    # In pre-order those come first whose subtree begins further left, and of a subtree its root.
    leftmost = places << (depth.max() - depth)
    return int(places[np.lexsort((depth, leftmost))[0]]) - 1


EVALUATIONS_BYTES_MAX: Final = 256 << 20
"""All classes together. One takes about 80 bytes a node: 0.4 MB at 5,000 nodes, 80 MB at a million."""


class Choice(NamedTuple):
    """Where a pod should go."""

    row: int
    score: int
    """Weighted total; 0 where a single feasible node made scoring unnecessary."""
    feasible_count: int


class Engine:
    """Evaluations of the classes in use, brought up to date when they are asked for."""

    def __init__(
        self,
        cluster: ClusterView,
        frameworks: dict[str, Framework],
        sample: NodeSample | None = None,
    ) -> None:
        """`sample`: of the engine before this one, to go on where it ended."""
        self._cluster = cluster
        self._frameworks = frameworks
        self._sample = sample or NodeSample()
        self.states = RowStates(cluster)
        self.evaluations = self._no_evaluations()
        """By the id of a class, or by `Alike`."""

    def _no_evaluations(self) -> Evaluations:
        row_bytes = row_bytes_of(self._frameworks.values())
        return Evaluations(self._cluster, row_bytes, EVALUATIONS_BYTES_MAX, self.states)

    @contextmanager
    def within(self, rows: Rows) -> Iterator[None]:
        """For as long as this lasts pods may go to these rows alone."""
        anywhere, self.evaluations = self.evaluations, self._no_evaluations()
        self._cluster.placement = rows
        try:
            yield
        finally:
            self._cluster.placement = None
            self.evaluations = anywhere

    def evaluate(
        self, key: int | Alike, info: PodInfo, profile: str, own_uid: str = ""
    ) -> Evaluation:
        """The up-to-date evaluation of a class, or of pods that are alike but for their claims.
        `own_uid`: of a nominated pod alone, from which its nomination takes no room."""
        framework = self._frameworks[profile]
        if own_uid:
            return self.evaluations.alone(info, framework, own_uid)
        return self.evaluations.of(key, info, framework)

    def takes_nominated(self, evaluation: Evaluation, row: int, own_uid: str) -> bool:
        """Whether the node that a pod of the class is nominated to takes it: then no other is looked
        at (evaluateNominatedNode in pkg/scheduler/schedule_one.go, v1.36.2)."""
        if row < 0 or not self._cluster.nodes.present[row]:
            return False
        if not evaluation.pod.outcome.status.is_success:
            return False
        if self._cluster.placement is not None and row not in self._cluster.placement:
            return False
        rows = np.array([row], np.intp)
        pod = evaluation.pod._replace(own_uid=own_uid)
        return bool(run_filters_with_nominated(pod, rows).passes[0])

    def choose(self, evaluation: Evaluation, tie_break: TieBreak) -> Choice | None:
        """The best node, or None where the pod fits nowhere (see `Evaluation.fit_error`)."""
        count = evaluation.feasible_count
        sampling = evaluation.pod.framework.sampling
        if count == 0:
            if sampling is not None and evaluation.pod.outcome.status.is_success:
                self._sampled(evaluation, sampling)
            return None
        if evaluation.pod.has_failed and evaluation.fit_error().error:
            return None
        if sampling is not None:
            return self._choose_of_some(evaluation, sampling, tie_break)
        if count == 1:
            return Choice(int(evaluation.feasible.argmax()), 0, 1)
        scores = evaluation.scored()
        found = None if scores is None else scores.best.best()
        if found is None:
            return None
        best, ties = found
        if best >= INVALID:  # A score is out of range: the attempt is an error.
            if evaluation.failure is None:
                problem = invalid_score(evaluation.pod, rows_where(evaluation.feasible))
                evaluation.failure = FitError(self._cluster.node_count, error=problem)
            return None
        row = ties[0] if len(ties) == 1 else tie_break(ties)
        return Choice(row, best, count)

    def _sampled(self, evaluation: Evaluation, sampling: Sampling) -> Rows:
        """The rows to score, in the order in which they were looked at."""
        framework, outcome = evaluation.pod.framework, evaluation.pod.outcome
        cluster = self._cluster
        candidates: Bools | None = None
        if outcome.node_names is not None or cluster.placement is not None:
            candidates = np.zeros(cluster.nodes.capacity, np.bool_)
            candidates[framework.candidate_rows(outcome, cluster)] = True
        order, feasible = cluster.nodes.order, evaluation.feasible
        percentage, is_scored = sampling.percentage, bool(framework.scores)
        return self._sample.take(order, candidates, feasible, percentage, is_scored=is_scored)

    def _choose_of_some(
        self, evaluation: Evaluation, sampling: Sampling, tie_break: TieBreak
    ) -> Choice | None:
        """The best of the nodes of a sample. Nothing of it is kept: the next sample is another."""
        framework, cluster = evaluation.pod.framework, self._cluster
        looked_at = self._sampled(evaluation, sampling)
        rows = np.sort(looked_at)
        if len(rows) == 1:
            return Choice(rows.item(0), 0, 1)
        try:
            active = framework.prepare_scores(evaluation.pod.info, cluster, rows).active
        except PreScoreError as error:
            evaluation.failure = FitError(cluster.node_count, error=str(error))
            return None
        _, scores, total = framework.run_scores(evaluation.pod.info, cluster, active, rows)
        problem = out_of_range(active, scores)
        if problem:
            evaluation.failure = FitError(cluster.node_count, error=problem)
            return None
        best = total.max().item()
        if sampling.is_compatible:
            is_best = total[np.searchsorted(rows, looked_at)] == best
            return Choice(looked_at.item(first_in_heap(is_best)), best, len(rows))
        ties = rows[total == best]
        row = ties.item(0) if len(ties) == 1 else tie_break(ties)
        return Choice(row, best, len(rows))

    def place_run(
        self,
        class_id: int,
        info: PodInfo,
        profile: str,
        usage: PodUsage,
        tickets: range,
        tie_break: RunTieBreak,
        put: Put,
    ) -> tuple[list[int], bool] | None:
        """Places pods of one class one after the other, each on top of the one before, as `choose`
        decides pod by pod. The rows of the first of these attempts, as many as can be placed, which all
        are written; and whether what was kept of the class was dropped after the last of them: then the
        next run may place more. None where pods have to be placed one by one.

        What is saved is the way there: what a placement makes of its row follows from the row's state
        (`StateAnswers`), and is written to the columns together with others. Plugins that look at pods
        elsewhere still follow each pod."""
        evaluation = self.evaluate(class_id, info, profile)
        answers = self._answers_for_run(evaluation, usage)
        if answers is None:
            return None
        is_heeded = bool(evaluation.heeded_of({class_id}))
        best, delta = answers.scores.best, NO_PODS
        answers.catch_up()
        of_row = answers.states.of_row  # Ahead of the columns by what is not written yet.
        rows: list[int] = []
        is_over = False
        for ticket in tickets:
            found = best.best()
            if found is None or found[0] >= INVALID:
                break
            ties = found[1]
            row = ties[0] if len(ties) == 1 else tie_break(ties, ticket)
            state = of_row.item(row)
            if answers.one_more.item(state) == UNKNOWN:
                answers.look_ahead(usage, state, of_row[ties.rows()])
            of_row[row] = state = answers.one_more.item(state)
            if is_heeded:
                delta = Delta(NO_ROWS, (PodChange(class_id, row, False, 1),))
            rows.append(row)
            is_over = not answers.take_over(row, state, delta)
            if is_over:
                break
        if rows:
            assert evaluation.is_current, "nobody else is placed during a run"
            with changing():
                put(rows)
                evaluation.placed()
                self.states.placed()
        if is_over:
            self.evaluations.forget(class_id)
        return rows, is_over

    def _answers_for_run(self, evaluation: Evaluation, usage: PodUsage) -> StateAnswers | None:
        """None where a run of such pods cannot be placed by them."""
        pod = evaluation.pod
        if usage.ports or pod.info.takes_claims or takes_devices(pod.info, self._cluster):
            return None
        if evaluation.feasible_count < 2 or pod.has_failed or pod.framework.sampling is not None:
            return None
        scores = evaluation.scored()
        if scores is None or (evaluation.stale_by | scores.stale_by) & MOVING_BITS:
            return None
        answers = evaluation.answers(scores)
        return answers if answers.are_all else None


def row_bytes_of(frameworks: Iterable[Framework]) -> int:
    """About what is kept of a row in an evaluation with scores."""
    # Four masks, two sums, two arrays a score plugin (some have one, some counts beside), and what is
    # known of states, of which there may be as many as nodes.
    return 38 + 16 * max((len(framework.scores) for framework in frameworks), default=0)
