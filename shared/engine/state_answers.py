"""StateAnswers: a class of pods follows a few placements of others, row by row in plain numbers.

Where the pods of several classes come in turn, each class finds a few rows changed since its pod
before. Asking the plugins about these takes longer than anything else, though nodes that are alike in
what resource plugins read (`RowStates`) get the same answer. Here a class remembers its answer for
each state that a row of it came to be in, and takes it over.

Only for classes of which nothing but resources changes with a placement, and only where no row begins
or ceases to take the pod; else the class is brought up to date in the usual way. The result is the
same.
"""

from typing import Any, Final

import numpy as np

from shared.engine.class_filters import ClassFilters
from shared.engine.class_scores import ClassScores
from shared.engine.row_states import RowStates, rated, reads_resources_only
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ClassDiscerning

ROWS_MAX: Final = 32
"""With more rows, asking about all at once is cheaper."""
ANSWERS_MAX: Final = 1 << 14
"""About 100 bytes each."""


class StateAnswers:
    """Of one evaluation, as long as its filters and scores are the same objects."""

    __slots__ = ("_answers", "_can_tell", "_cluster", "_filters", "_followers", "_is_possible",
                 "_reads_rows", "_states", "_states_version", "_without_effect", "scores")  # fmt: skip

    def __init__(
        self,
        cluster: ClusterView,
        states: RowStates,
        filters: ClassFilters,
        scores: ClassScores,
    ) -> None:
        self._cluster = cluster
        self._states = states
        self._filters = filters
        self.scores = scores
        self._followers: list[tuple[Any, Any]] = [*filters.updatable, *scores.followers]
        self._can_tell = all(isinstance(plugin, ClassDiscerning) for plugin, _ in self._followers)
        """Every plugin that looks at pods elsewhere knows which classes matter to it."""
        self._is_possible = (
            all(reads_resources_only(filters.framework.filters[i]) for i in filters.moving)
            and all(reads_resources_only(entry.plugin) for entry in scores.moving)
            and not any(entry.normalizer for entry in scores.moving)
        )
        self._reads_rows = bool(filters.moving or scores.moving)
        self._without_effect: set[int] = set()
        """Classes whose pods matter to no plugin that looks at pods elsewhere."""
        self._answers: dict[int, tuple[bool, int]] = {}
        """State -> whether the moving filters pass, and what the moving scores give together."""
        self._states_version = -1

    @property
    def is_worth_it(self) -> bool:
        """Whether `follow` has a chance."""
        return (
            self._is_possible
            and not len(self._cluster.nominations)
            and not (self._reads_rows and self._states.are_many)
        )

    def depends_on_any(self, class_ids: set[int]) -> bool:
        """Whether pods of these classes that come or go matter to some plugin that looks at pods
        elsewhere."""
        if not self._can_tell:
            return True
        for class_id in class_ids - self._without_effect:
            if any(
                plugin.depends_on_class(state, class_id, self._cluster)
                for plugin, state in self._followers
            ):
                return True
            self._without_effect.add(class_id)
        return False

    def follow(self, rows: list[int]) -> bool:
        """Takes over what became of `rows`, distinct, to which pods came or which they left that
        it matters to nobody. False: nothing was done, the usual way has to be taken."""
        if not self._reads_rows:
            return True
        if len(rows) > ROWS_MAX:
            return False
        filters, scores = self._filters, self.scores
        taken: list[tuple[int, int]] = []
        for row, state in zip(rows, self._states.of(rows), strict=True):
            if not filters.static_ok.item(row):
                continue
            fits, moving = self._answer(state)
            takes = fits and filters.wide_ok.item(row)
            if takes is not filters.feasible.item(row) or fits is not filters.moving_ok.item(row):
                return False
            taken.append((row, moving))
        for row, moving in taken:
            scores.take_over(row, moving)
        if scores.ahead is not None:
            scores.ahead.forget(np.array(rows, np.intp))
        return True

    def _answer(self, state: int) -> tuple[bool, int]:
        if self._states_version != self._states.version or len(self._answers) > ANSWERS_MAX:
            self._answers.clear()
            self._states_version = self._states.version
        answer = self._answers.get(state)
        if answer is None:
            view, row, filters = self._states.followed, np.array([state], np.intp), self._filters
            passes = filters.framework.passing_of(
                filters.moving, filters.pod, view, filters.outcome, row
            )
            moving = rated(self.scores.moving, filters.pod, view, row)
            answer = self._answers[state] = passes.item(0), moving.item(0)
        return answer
