"""ClassRun: pods of one class placed one after the other, each on top of the one before.

The decisions are those of the engine pod by pod (`Engine.evaluate`, `Engine.choose`), tie-breaks
included. What is saved is the way there: a placement takes what the lookahead knows of its row in
place of asking the plugins, and is written to the columns together with others. Plugins that look at
pods elsewhere still follow each pod.

Not every class can be placed so (`can_run`), and a run may end early (`is_over`); then pods are placed
one by one.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from shared.columns.pod_log import PodChange
from shared.columns.rows import rows_where
from shared.columns.schema import NO_ROWS
from shared.columns.usage import PodUsage
from shared.dra.device_index import takes_devices
from shared.engine.ahead import Ahead
from shared.engine.best_rows import RowSet, Ties
from shared.engine.class_filters import ClassFilters
from shared.engine.class_scores import ClassScores
from shared.engine.row_states import RowStates
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Delta, Reads
from shared.framework.score_range import INVALID

RunTieBreak = Callable[[Ties, int], int]
"""(rows with equal scores, ticket) -> one of them."""
Put = Callable[[list[int]], None]
"""Writes one pod of the class to each of these rows, which are distinct, and to the journal."""

ROWS_LIKE_ONE_CALL: Final = 800
"""Asking the plugins about one row costs as much as that many rows more in one call."""
SHARED_ROWS_LIKE_ONE: Final = 10
"""The same for rows that share the answers of their states."""
SMALL: Final = 1 << 13
"""Up to so many rows are looked at ahead at once, without waiting for signs of use."""
_ROW_ONLY: Final = Reads.NODE | Reads.USAGE
_NO_PODS: Final = Delta(NO_ROWS, ())


class ClassRun:
    """One run. The owner of the evaluation makes it, and hears of each write by `put`."""

    def __init__(
        self,
        class_id: int,
        usage: PodUsage,
        filters: ClassFilters,
        scores: ClassScores,
        states: RowStates,
        tie_break: RunTieBreak,
        put: Put,
        *,
        is_followed: bool,
    ) -> None:
        """`is_followed`: to some plugin it matters where pods of the class itself are."""
        self._class_id = class_id
        self._usage = usage
        self._filters = filters
        self._scores = scores
        if scores.ahead is None:
            scores.ahead = Ahead(scores.moving, len(scores.total))
        self._ahead = scores.ahead
        self._states = states
        self._tie_break = tie_break
        self._put = put
        self._pending: list[int] = []
        """Placed, and not yet written to the columns; distinct."""
        self._is_followed = is_followed
        self.is_over = False
        """What is kept of the class is of no use any more."""

    def place_up_to(self, count: int, first_ticket: int) -> list[int]:
        """The rows of the first pods, of which there are `count`, as many as can be placed. All are
        written."""
        rows: list[int] = []
        for ticket in range(first_ticket, first_ticket + count):
            row = self._place(ticket)
            if row is None:
                break
            rows.append(row)
            if self.is_over:
                break
        self._write()
        return rows

    def _place(self, ticket: int) -> int | None:
        """The row for the next pod; None where it fits nowhere, or cannot be rated."""
        scores, ahead = self._scores, self._ahead
        found = scores.best.best()
        if found is None or found[0] >= INVALID:
            return None
        ties = found[1]
        row = ties[0] if len(ties) == 1 else self._tie_break(ties, ticket)
        if not ahead.known.item(row):
            self._look_ahead(row, ties)
        self._pending.append(row)
        ahead.known[row] = False
        if self._is_followed or not ahead.fits.item(row):
            self._settle(row)
        else:
            scores.take_over(row, ahead.moving.item(row))
        return row

    def _write(self) -> None:
        """What is not written yet."""
        rows = self._pending
        if not rows:
            return
        self._pending = []
        self._ahead.stale.update(rows)
        self._put(rows)

    def _settle(self, row: int) -> None:
        """The row takes no more, or others are affected too."""
        delta = _NO_PODS
        if self._is_followed:
            delta = Delta(NO_ROWS, (PodChange(self._class_id, row, False, 1),))
        ahead = self._ahead
        refiltered = self._filters.place(row, fits=ahead.fits.item(row), delta=delta)
        if refiltered is None or not self._scores.place(row, ahead, delta, refiltered):
            self.is_over = True

    def _look_ahead(self, row: int, ties: RowSet) -> None:
        """Learns about a row and others that are likely to be next."""
        self._write()
        ahead = self._ahead
        asks_all = False
        if row not in ahead.stale:
            ahead.stale.add(row)
            ahead.asked_alone += 1
            is_cheap = self._states.is_shared_by(len(ties))
            rows_a_call = ROWS_LIKE_ONE_CALL * (SHARED_ROWS_LIKE_ONE if is_cheap else 1)
            asks_all = len(ties) <= max(SMALL, ahead.asked_alone * rows_a_call)
        rows = np.array(sorted(ahead.stale), np.intp)
        if asks_all:
            ahead.asked_alone = 0
            wanted = np.zeros(len(ahead.known), np.bool_)
            wanted[ties.rows()] = True
            wanted &= ~ahead.known
            wanted[rows] = True
            rows = rows_where(wanted)
        ahead.learn(self._filters, self._usage, self._states, rows)
        ahead.stale.clear()


def can_run(
    cluster: ClusterView, usage: PodUsage, filters: ClassFilters, scores: ClassScores
) -> bool:
    """False where pods have to be placed one by one: nominated pods, host ports, or a plugin that
    looks at more of the row than usage."""
    if usage.ports or filters.pod.takes_claims or len(cluster.nominations):
        return False
    if takes_devices(filters.pod, cluster):
        return False
    plugins = filters.framework.filters
    return not any(
        plugins[index].filter_depends.reads & ~_ROW_ONLY for index in filters.moving
    ) and not any(
        entry.normalizer is not None or entry.plugin.score_depends.reads & ~_ROW_ONLY
        for entry in scores.moving
    )
