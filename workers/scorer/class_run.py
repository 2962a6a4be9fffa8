"""Runs: pods of one class placed one after the other, for less than one by one."""

from collections.abc import Callable

from shared.columns.pod_log import PodChange
from shared.columns.schema import NO_ROWS
from shared.columns.usage import PodUsage
from shared.engine.score_range import INVALID
from shared.engine.state_answers import NO_PODS, UNKNOWN, StateAnswers
from shared.framework.plugin_api import Delta
from workers.scorer.tie_break import RunTieBreak

Put = Callable[[list[int]], None]
"""Writes one pod of the class to each of these rows, which are distinct, and to the journal."""


class ClassRun:
    """Pods of one class placed one after the other, each on top of the one before, as the engine decides
    pod by pod, tie-breaks included. What is saved is the way there: what a placement makes of its row
    follows from the row's state (`StateAnswers`), and is written to the columns together with others.
    Plugins that look at pods elsewhere still follow each pod.

    The owner of the evaluation makes it, and hears of each write by `put`. It may end early (`is_over`);
    then pods are placed one by one."""

    def __init__(
        self,
        class_id: int,
        usage: PodUsage,
        answers: StateAnswers,
        tie_break: RunTieBreak,
        put: Put,
        *,
        is_heeded: bool,
    ) -> None:
        """`is_heeded`: to some plugin it matters where pods of the class itself are."""
        self._class_id = class_id
        self._usage = usage
        self._answers = answers
        self._best = answers.scores.best
        self._tie_break = tie_break
        self._put = put
        self._is_heeded = is_heeded
        answers.catch_up()
        self._of_row = answers.states.of_row
        """Ahead of the columns by what is not written yet."""
        self.is_over = False
        """What is kept of the class is of no use any more."""

    def place_up_to(self, count: int, first_ticket: int) -> list[int]:
        """The rows of the first pods, of which there are `count`, as many as can be placed. All are
        written."""
        rows: list[int] = []
        while len(rows) < count and not self.is_over:
            row = self._place(first_ticket + len(rows))
            if row is None:
                break
            rows.append(row)
        self._write(rows)
        return rows

    def _place(self, ticket: int) -> int | None:
        """The row for the next pod; None where it fits nowhere, or cannot be rated."""
        found = self._best.best()
        if found is None or found[0] >= INVALID:
            return None
        ties = found[1]
        row = ties[0] if len(ties) == 1 else self._tie_break(ties, ticket)
        answers, state = self._answers, self._of_row.item(row)
        if answers.one_more.item(state) == UNKNOWN:
            answers.look_ahead(self._usage, state, self._of_row[ties.rows()])
        self._of_row[row] = state = answers.one_more.item(state)
        delta = NO_PODS
        if self._is_heeded:
            delta = Delta(NO_ROWS, (PodChange(self._class_id, row, False, 1),))
        self.is_over = not answers.take_over(row, state, delta)
        return row

    def _write(self, rows: list[int]) -> None:
        distinct: dict[int, None] = {}
        for row in rows:
            if row in distinct:
                self._put(list(distinct))
                distinct.clear()
            distinct[row] = None
        if distinct:
            self._put(list(distinct))
