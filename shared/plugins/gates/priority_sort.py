"""PrioritySort: the order of the active queue.

Rule: pkg/scheduler/framework/plugins/queuesort/priority_sort.go, v1.36.2.
"""

from typing import ClassVar

from shared.plugin_names import PRIORITY_SORT


class PrioritySort:
    """Higher priority first, then whoever was queued first."""

    NAME: ClassVar[str] = PRIORITY_SORT

    def queue_key(self, priority: int, queued_at_s: float) -> tuple[int, float]:
        """Pods are taken in ascending order of this key."""
        return (-priority, queued_at_s)
