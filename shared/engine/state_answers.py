"""StateAnswers: what a placement does to a class of pods, by the state of the node in plain numbers.

Asking plugins about the few rows that changed takes longer than anything else, though nodes that are
alike in what resource plugins read (`RowStates`) get the same answer. Here a class remembers its answer
for each state: whether the moving filters pass, and what the moving scores give together. So it follows
the placements of others, where pods of several classes come in turn; and as it also remembers the state
that one more of its own pods leads to, a run of them (`Engine.place_run`) asks nobody about most pods.

Only for classes of which nothing but resources changes with a placement; else the class is brought up
to date in the usual way. The result is the same.
"""

from typing import Final

import numpy as np

from shared.columns.schema import NO_ROWS, Bools, Int64s, Rows, Table
from shared.columns.usage import PodUsage
from shared.engine.class_filters import ClassFilters
from shared.engine.class_scores import ClassScores
from shared.engine.row_states import RowStates, rated
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Delta

ROWS_MAX: Final = 32
"""With more rows, asking about all at once is cheaper."""
NO_PODS: Final = Delta(NO_ROWS, ())
UNKNOWN: Final = -1
FIRST_CAPACITY: Final = 64
AHEAD_MIN: Final = 256
"""So many states are looked at ahead at once, and as many more each time as were before: a call of the
plugins costs as much as hundreds of states more in it."""


class StateAnswers(Table):
    """Of one evaluation, as long as its filters and scores are the same objects. A row is a state."""

    is_known: Bools
    fits: Bools
    """The moving filters that the state is enough for pass."""
    ratings: Int64s
    """What the moving scores give, together."""
    one_more: Int64s
    """The state that one more pod of the class leads to, which is known; UNKNOWN for most."""

    def __init__(
        self, cluster: ClusterView, states: RowStates, filters: ClassFilters, scores: ClassScores
    ) -> None:
        super().__init__(FIRST_CAPACITY, unused={"one_more": UNKNOWN})
        self._cluster = cluster
        self.states = states
        self.filters = filters
        self.scores = scores
        self._by_state: list[int] = []
        """The moving filters that a node's state is enough for."""
        self._by_row: list[int] = []
        """The others, which are asked about each row."""
        framework, info, *_ = filters.pod
        for index in filters.moving:
            is_enough = states.can_answer(framework.filters[index], info)
            (self._by_state if is_enough else self._by_row).append(index)
        self._is_possible = all(
            states.can_answer(entry.plugin, info) and not entry.normalizer
            for entry in scores.moving
        )
        self._reads_rows = bool(filters.moving or scores.moving)
        self._states_version = -1

    @property
    def are_possible(self) -> bool:
        """What a placement makes of a row follows from its state, but for filters that are asked about
        the row."""
        return self._is_possible and not len(self._cluster.nominations)

    @property
    def are_all(self) -> bool:
        """The same without exception."""
        return self.are_possible and not self._by_row

    def can_follow(self, row_count: int) -> bool:
        """Whether to take over so many rows is possible, and quicker than the usual way."""
        if not self.are_possible:
            return False
        return not self._reads_rows or (row_count <= ROWS_MAX and not self.states.are_many)

    def follow(self, rows: list[int]) -> bool:
        """Takes over what became of `rows`, distinct, to which pods came or which they left that it
        matters to nobody. As `take_over`."""
        if not self._reads_rows:
            return True
        self.catch_up()
        for row in rows:
            if self.filters.static_ok.item(row):
                state = self.states.of_row.item(row)
                if not self.is_known.item(state):
                    self._ask(np.array([state], np.intp))
                passes = True
                if self._by_row:
                    alone = np.array([row], np.intp)
                    passes = self.filters.pod.passing_of(self._by_row, alone).item()
                if not self.take_over(row, state, NO_PODS, passes=passes):
                    return False
        return True

    def take_over(self, row: int, state: int, delta: Delta, *, passes: bool = True) -> bool:
        """The row, which passes the fixed filters, came to be in this state, which is known; `passes`:
        what filters say that are asked about each row. `delta` may leave pods out that matter to nobody
        elsewhere. False: what is kept is of no use any more."""
        filters, fits, rating = self.filters, self.fits.item(state), self.ratings.item(state)
        fits = fits and passes
        if not delta.pods and fits is filters.moving_ok.item(row):
            takes = fits and filters.wide_ok.item(row)
            if takes is filters.feasible.item(row):
                self.scores.take_over(row, rating)
                return True
        refiltered = filters.place(row, fits=fits, delta=delta)
        return refiltered is not None and self.scores.place(row, rating, delta, refiltered)

    def look_ahead(self, usage: PodUsage, state: int, others: Rows) -> None:
        """Finds `one_more` of this state, and of others that are likely to be asked about next. `usage`:
        of the class, always the same. After `catch_up`."""
        is_next = np.zeros(len(self.one_more), np.bool_)
        is_next[others] = True
        is_next &= self.one_more == UNKNOWN
        is_next[state] = False
        known_count = int(np.count_nonzero(self.one_more != UNKNOWN))
        ahead = is_next.nonzero()[0][: max(AHEAD_MIN, known_count)]
        before = np.append(ahead, state)
        after = self.states.with_one_more(before, usage)
        self.reserve(self.states.count)
        self._ask(after[~self.is_known[after]])
        self.one_more[before] = after

    def catch_up(self) -> None:
        """Takes in what became of the rows."""
        self.states.follow()
        if self._states_version != self.states.version:
            self._states_version = self.states.version
            self.start_over(FIRST_CAPACITY)
        self.reserve(self.states.count)

    def _ask(self, states: Rows) -> None:
        pod = self.filters.pod
        self.fits[states] = self.states.asked(pod, self._by_state, states)
        self.ratings[states] = rated(self.scores.moving, pod.info, self.states.view, states)
        self.is_known[states] = True
