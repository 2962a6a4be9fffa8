"""Ahead: what rows would be like with one more pod of a class, found for many rows at once.

A run of equal pods asks after each placement what became of its row. Asked one by one, most of the
time goes into calling the plugins; asked in advance, of all rows that are likely to be next, it costs
a tenth. Only what a placement changes on the row itself is asked: the moving filters, and narrow
scores that do not normalise.
"""

from collections.abc import Sequence

import numpy as np

from shared.columns.rows import row_index
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.usage import PodUsage
from shared.engine.class_filters import ClassFilters
from shared.engine.row_states import RowStates
from shared.framework.filter_outcomes import ActiveScore


class Ahead:
    """The answers so far. Arrays have the table's capacity."""

    __slots__ = ("asked_alone", "fits", "known", "moving", "scores", "stale")

    def __init__(self, scores: Sequence[ActiveScore], capacity: int) -> None:
        self.scores = scores
        """The narrow moving plugins."""
        self.known: Bools = np.zeros(capacity, np.bool_)
        """The other arrays hold the answers for this row."""
        self.fits: Bools = np.zeros(capacity, np.bool_)
        """The moving filters would pass once more, after one more pod."""
        self.moving: Int64s = np.zeros(capacity, np.int64)
        """What `scores` would say, weighted and added up."""
        self.stale: set[int] = set()
        """Rows that were known and have changed since: others that will be asked about soon."""
        self.asked_alone = 0
        """Rows asked about one at a time since many were at once."""

    def forget(self, rows: Rows) -> None:
        """Something else came to these rows, or left them."""
        known = rows[self.known[rows]]
        if len(known):
            self.known[known] = False
            self.stale.update(known.tolist())

    def learn(self, filters: ClassFilters, usage: PodUsage, states: RowStates, rows: Rows) -> None:
        """Asks about `rows`, distinct, with one more pod each that takes `usage`, without ports. The
        columns are as they were afterwards."""
        index = row_index(rows)
        framework = filters.framework
        plugins = [framework.filters[i] for i in filters.moving]
        with states.one_more(rows, usage, [*plugins, *(entry.plugin for entry in self.scores)]):
            self.fits[index] = states.passing(
                framework, filters.moving, filters.pod, filters.outcome, rows
            )
            self.moving[index] = states.rated(self.scores, filters.pod, rows)
        self.known[index] = True
