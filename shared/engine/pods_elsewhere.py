"""The plugins of an evaluation that look at pods elsewhere, and the classes whose pods matter to none.

A class of pods that is rarely asked about has much to catch up with, and most of it matters to nobody.
"""

from typing import Any

from shared.columns.class_values import REMEMBERED_MAX
from shared.engine.class_filters import ClassFilters
from shared.engine.class_scores import ClassScores
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ClassDiscerning


class PodsElsewhere:
    """As long as filters and scores are the same objects."""

    __slots__ = ("_can_tell", "_cluster", "_unheeded", "followers", "scores")

    def __init__(
        self, cluster: ClusterView, filters: ClassFilters, scores: ClassScores | None
    ) -> None:
        self._cluster = cluster
        self.scores = scores
        self.followers: list[tuple[Any, Any]] = [*filters.updatable]
        """The plugins, with their state."""
        if scores is not None:
            self.followers += scores.followers
        self._can_tell = all(isinstance(plugin, ClassDiscerning) for plugin, _ in self.followers)
        self._unheeded: set[int] = set()
        """Classes whose pods matter to none of them."""

    def heeds_any(self, class_ids: set[int]) -> bool:
        """Whether pods of these classes that come or go matter to some of them."""
        if not self._can_tell:
            return True
        if len(self._unheeded) > REMEMBERED_MAX:
            # So that plugins are told something, and begin anew if they remember too many as well.
            self._unheeded.clear()
            return True
        for class_id in class_ids - self._unheeded:
            for plugin, state in self.followers:
                if plugin.depends_on_class(state, class_id, self._cluster):
                    return True
            self._unheeded.add(class_id)
        return False
