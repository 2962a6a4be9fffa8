"""For plugins written as kube-scheduler's are, one pod and one node at a time.

`FilterPerNode` and `ScorePerNode` are bases that give such a plugin the shape that berth runs: they
loop over the rows. That costs some 5 us a node where a column costs a few ns, but only when a class of
pods is first seen and for nodes that changed since: results are kept as those of any plugin are.
"""

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from shared.columns.schema import Int32s, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Dependence, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.status import ReasonBits, Status, Verdicts

ON_WHOLE_NODE = Dependence(Reads.NODE | Reads.USAGE | Reads.PODS | Reads.IMAGES, Scope.ROW)
"""Everything that a `NodeView` shows."""


class NodeView:
    """One node with the pods on it (NodeInfo upstream). Read only; good for the call it came with."""

    def __init__(
        self, cluster: ClusterView, row: int, pods_on: Callable[[int], list[PodInfo]]
    ) -> None:
        self._nodes = cluster.nodes
        self._row = row
        self._pods_on = pods_on

    @cached_property
    def name(self) -> str:
        return self._nodes.name_of(self._row)

    @cached_property
    def labels(self) -> dict[str, str]:
        return self._nodes.labels_of(self._row)

    @property
    def taints(self) -> tuple[tuple[str, str, str], ...]:
        """(key, value, effect)"""
        return self._nodes.taints.values[int(self._nodes.taints_id[self._row])]

    @property
    def unschedulable(self) -> bool:
        return bool(self._nodes.unschedulable[self._row])

    @property
    def images(self) -> frozenset[str]:
        return self._nodes.images.values[int(self._nodes.images_id[self._row])]

    @property
    def pod_count(self) -> int:
        return int(self._nodes.pod_count[self._row])

    @property
    def allowed_pod_count(self) -> int:
        return int(self._nodes.allowed_pod_count[self._row])

    def allocatable(self, resource: str) -> int:
        """cpu in thousandths, everything else in its unit; 0 for what the node does not have."""
        return self._amount(self._nodes.allocatable, resource)

    def requested(self, resource: str) -> int:
        """What the pods on the node ask for, in the units of `allocatable`."""
        return self._amount(self._nodes.requested, resource)

    @cached_property
    def pods(self) -> list[PodInfo]:
        """The pods on the node, those included that are on their way to it."""
        return self._pods_on(self._row)

    def _amount(self, matrix: Int64s, resource: str) -> int:
        index = self._nodes.resources.find(resource)
        return int(matrix[index, self._row]) if index >= 0 else 0


def _views(cluster: ClusterView, rows: Rows) -> list[NodeView]:
    @cache
    def pods_by_row() -> tuple[Int32s, Int64s]:
        """The pods of all nodes, sorted by node when first asked for."""
        tables = cluster.pod_tables
        node_rows = np.concatenate([table.node_row[: table.row_count] for table in tables])
        class_ids = np.concatenate([table.class_id[: table.row_count] for table in tables])
        order = np.argsort(node_rows, kind="stable")
        return node_rows[order], class_ids[order]

    def pods_on(row: int) -> list[PodInfo]:
        node_rows, class_ids = pods_by_row()
        first, last = np.searchsorted(node_rows, (row, row + 1))
        return [cluster.classes[class_id] for class_id in class_ids[first:last].tolist()]

    return [NodeView(cluster, row, pods_on) for row in rows.tolist()]


class FilterPerNode:
    """A base: define NAME and `filter_node`."""

    filter_depends: ClassVar[Dependence] = ON_WHOLE_NODE
    """Say less if you read less, more if you read more: `OBJECTS`, or a wider scope."""

    def filter_node(self, state: Any, pod: PodInfo, node: NodeView) -> Status:
        """SUCCESS, or why this node cannot take the pod. `state` is that of your `pre_filter`."""
        raise NotImplementedError

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        codes = np.zeros(len(rows), np.uint8)
        reasons = np.zeros(len(rows), np.int64)
        told = ReasonBits()
        for position, node in enumerate(_views(cluster, rows)):
            status = self.filter_node(state, pod, node)
            if status.is_success:
                continue
            codes[position] = status.code
            for text in status.reasons:
                reasons[position] |= told.mask(text)
        return Verdicts(codes, reasons, told.texts)


class ScorePerNode:
    """A base: define NAME and `score_node`, 0..100 unless the plugin normalises."""

    score_depends: ClassVar[Dependence] = ON_WHOLE_NODE

    def score_node(self, state: Any, pod: PodInfo, node: NodeView) -> int:
        """More is better. `state` is that of your `pre_score`."""
        raise NotImplementedError

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        scores = [self.score_node(state, pod, node) for node in _views(cluster, rows)]
        return np.array(scores, np.int64)
