"""RackLimit: at most so many pods of an application on a node.

The easy way: one pod and one node at a time, as plugins in Go are written. The bases make columns of
it. It costs some microseconds a node, and only for nodes that changed.
"""

from typing import Any, ClassVar

from shared.framework.per_node import FilterPerNode, NodeView, ScorePerNode
from shared.framework.plugin_args import ArgsStruct, parse_args
from shared.framework.pod_info import PodInfo
from shared.framework.status import SUCCESS, Code, Status


class RackLimitArgs(ArgsStruct):
    """`pluginConfig[].args`."""

    max_per_node: int = 2

    def problems(self) -> list[str]:
        """What is wrong although each field is of the right type."""
        found = self.max_per_node
        return [] if found > 0 else [f"maxPerNode: {found} must be above 0"]


class RackLimit(FilterPerNode, ScorePerNode):
    """Filter and Score."""

    NAME: ClassVar[str] = "RackLimit"
    reads_labels: ClassVar[frozenset[str]] = frozenset({"app"})

    def __init__(self, given: dict[str, Any]) -> None:
        self._max = parse_args(self.NAME, RackLimitArgs, given).max_per_node

    def filter_node(self, state: Any, pod: PodInfo, node: NodeView) -> Status:
        """Called for each node; the nodes' answers are kept until something about them changes."""
        if self._count(pod, node) < self._max:
            return SUCCESS
        return Status(Code.UNSCHEDULABLE, ("node(s) had enough pods of the application",))

    def score_node(self, state: Any, pod: PodInfo, node: NodeView) -> int:
        """0..100."""
        return 100 - 100 * min(self._count(pod, node), self._max) // self._max

    @staticmethod
    def _count(pod: PodInfo, node: NodeView) -> int:
        app = pod.labels.get("app")
        if app is None:
            return 0
        return sum(
            other.labels.get("app") == app and other.namespace == pod.namespace
            for other in node.pods
        )
