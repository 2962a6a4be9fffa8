"""The scheduling cycle of a pod that extenders have a say in, cut where one has to wait for them.

What is before a call and what is after it are decided on the copy as it is then: a node that filled
up meanwhile is not taken, and scores are those of the moment of choosing. Pure, like `cycle.py`.

Rules: schedulePod in pkg/scheduler/schedule_one.go, v1.36.2.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.engine.class_scores import ClassScores
from shared.engine.evaluation import Evaluation
from shared.engine.score_range import INVALID, invalid_score
from shared.extenders.extender_verdicts import ExtenderVerdicts
from shared.framework.pod_info import PodInfo
from shared.framework.post_filter import Candidate, Candidates
from shared.framework.runtime.diagnosis import FitError, plugin_error
from shared.framework.runtime.filter_outcomes import PreScoreError
from shared.framework.runtime.what_if import WhatIf
from shared.messages.from_scorer import Failure
from shared.messages.to_scorer import ExtendedTask, PodTask
from shared.plugins.preemption.victim_selector import fits_without
from workers.scorer.cycle import NO_NODES, Cycle
from workers.scorer.evaluator import pick
from workers.scorer.room_maker import Refusals, RoomSearch

NO_CANDIDATE: Final = "no candidate node for preemption"


class ExtendedCycle(Cycle):
    """`Cycle`, and its steps one by one."""

    def info_of(self, task: ExtendedTask) -> PodInfo | None:
        """The pod; None if its class is gone, and the pod with it."""
        pod_class = self._replica.classes.get(task.class_id)
        return None if pod_class is None else pod_class.info

    def nominated_node(self, task: ExtendedTask) -> str:
        """The node that the pod is nominated to, if it takes the pod; else empty."""
        if not task.is_nominated:
            return ""
        pod_class = self._replica.classes[task.class_id]
        view = self._replica.view
        row = view.nominations.row_of(task.uid)
        evaluation = self._engine.evaluate(task.class_id, pod_class.info, pod_class.profile)
        if not self._engine.takes_nominated(evaluation, row, task.uid):
            return ""
        return view.nodes.name_of(row)

    def feasible_nodes(self, task: ExtendedTask) -> list[str]:
        """The nodes that pass the filters; none if a filter failed."""
        evaluation = self._evaluation(task)
        if evaluation.pod.has_failed and evaluation.fit_error().error:
            return []
        rows = np.flatnonzero(evaluation.feasible)
        return [self._replica.nodes.name_of(row) for row in rows.tolist()]

    def place_on_nominated(self, task: ExtendedTask, node: str, proposal_sequence: int) -> int:
        """The row of the node, where the pod still fits; -1 otherwise."""
        if self.nominated_node(task) != node:
            return -1
        row = self._replica.nodes.row_of(node)
        self._take(task, row, proposal_sequence)
        return row

    def place_among(
        self, task: ExtendedTask, verdicts: ExtenderVerdicts, proposal_sequence: int
    ) -> int | FitError:
        """The row of the best node that extenders left and that is still feasible; -1 if there is
        none any more, FitError if the nodes cannot be rated."""
        evaluation = self._evaluation(task)
        nodes = self._replica.nodes
        rows = np.array([nodes.row_of(name) for name in verdicts.passing], np.intp)
        rows = np.sort(rows[rows >= 0])
        rows = rows[evaluation.feasible[rows]]
        if not len(rows):
            return -1
        row = int(rows[0])
        if len(rows) > 1:
            try:
                total = self._totals(evaluation, rows, are_bare=verdicts.are_bare)
            except PreScoreError as error:
                return plugin_error(self._replica.view, str(error))
            if total.max() >= INVALID:
                return plugin_error(self._replica.view, invalid_score(evaluation.pod, rows))
            scores = (verdicts.scores.get(nodes.name_of(r), 0) for r in rows.tolist())
            total += np.fromiter(scores, np.int64, len(rows))
            ties = rows[total == total.max()]
            row = int(ties[0]) if len(ties) == 1 else self._among(ties, task.ticket)
        self._take(task, row, proposal_sequence)
        return row

    def search_room(self, task: ExtendedTask, verdicts: ExtenderVerdicts | None) -> RoomSearch:
        """What could be done for a pod that nothing was left for; nothing is taken yet."""
        evaluation = self._evaluation(task)
        refusals = None if verdicts is None else self._refusals(verdicts)
        return self._room_maker(0).attempt(_plain(task), evaluation, refusals)

    def failure(self, task: ExtendedTask, search: RoomSearch, proposal_sequence: int) -> Failure:
        """What the owner is told of it."""
        if not len(self._replica.nodes.order):
            return Failure([task.ticket], NO_NODES, [], [], False)
        room_maker = self._room_maker(proposal_sequence)
        return room_maker.conclude(_plain(task), self._evaluation(task), search)

    def best_of(self, task: ExtendedTask, candidates: Candidates) -> Candidate:
        """The best of what extenders left of the candidates."""
        view = self._replica.view
        return pick(view, candidates, lambda ties: self._among(ties, task.ticket))[0]

    def makes_room(self, task: ExtendedTask, row: int, victims: Rows) -> bool:
        """Whether the pod fits without these pods, all of them less important and still there."""
        evaluation = self._evaluation(task)
        view = self._replica.view
        priorities = view.usages.priorities(view.pods.class_id[victims])
        if (priorities >= evaluation.pod.info.priority).any():
            return False
        return fits_without(evaluation.pod, row, victims)

    def _evaluation(self, task: ExtendedTask) -> Evaluation:
        return self._evaluated(_plain(task), self._replica.classes[task.class_id])

    def _take(self, task: ExtendedTask, row: int, proposal_sequence: int) -> None:
        pod_class = self._replica.classes[task.class_id]
        self._put(_plain(task), pod_class, row, proposal_sequence)

    def _totals(self, evaluation: Evaluation, rows: Rows, *, are_bare: bool) -> Int64s:
        """What the plugins say of these rows, normalised over them alone."""
        scores, view = evaluation.scores, self._replica.view
        if scores is None or are_bare or len(rows) != evaluation.feasible_count:
            allowed = np.zeros_like(evaluation.feasible)
            allowed[rows] = True
            with WhatIf(view, rows, with_pods=False) as what_if:
                if are_bare:
                    what_if.bare()
                scores = ClassScores(evaluation.pod, evaluation.filters.static_ok, allowed)
        totals: Int64s = scores.total[rows]
        return totals

    def _refusals(self, verdicts: ExtenderVerdicts) -> Refusals:
        def known(names: Iterable[str]) -> Rows:
            rows = np.array([self._replica.nodes.row_of(name) for name in names], np.intp)
            return rows[rows >= 0]

        named = known((*verdicts.refused, *verdicts.unresolvable))
        return Refusals(verdicts.reasons(), named, known(verdicts.refused))


def _plain(task: ExtendedTask) -> PodTask:
    return PodTask(task.ticket, task.class_id, task.uid if task.is_nominated else "")
