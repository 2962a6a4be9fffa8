"""What if some pods were not on their nodes, or others were: a view changed in place, and put back.

A copy of the columns for each question would cost more than the answer. So the questions of
preemption (these pods gone) and of nominations (those pods there) are asked of the real columns,
changed in the rows concerned and restored at the end; nobody else looks meanwhile, since one process
has one thread. The journal hears nothing of it: afterwards nothing has changed.

    with WhatIf(cluster, rows, with_pods=True) as what_if:
        what_if.take_off(pod_rows)
        ... filter `rows` ...

`with_pods` also hides and shows rows of the pod tables, which only plugins that count pods beyond
one node read. Without it many nodes can be asked about at once, as if each were the only one.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shared.columns.journal import PodChange
from shared.columns.pod_table import NEVER_STARTED, PodTable
from shared.columns.schema import Int64s, Rows
from shared.columns.table import NodeTable, PortTuple
from shared.columns.usage import add_usage
from shared.framework.class_index import EXTRA_COLUMNS, HAS_PORTS
from shared.framework.cluster_view import ClusterView


class WhatIf:
    """Changes to `rows` (node rows) of a view, undone on leaving."""

    def __init__(
        self,
        cluster: ClusterView,
        rows: Rows,
        *,
        with_pods: bool,
        on_change: Callable[[list[PodChange]], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._rows = rows
        self._with_pods = with_pods
        self._on_change = on_change
        """Hears of every pod, of those that return at the end as well. Only `with_pods`."""
        self._hidden: dict[PodTable, dict[int, int]] = {}
        """By row of a table of pods: its node."""

    def __enter__(self) -> Self:
        nodes, rows = self._cluster.nodes, self._rows
        self._first_shown = self._cluster.tentative.row_count
        self._requested = nodes.requested[:, rows]
        self._columns = [column[rows] for column in _columns(nodes)]
        return self

    def __exit__(self, *_: object) -> None:
        nodes, rows = self._cluster.nodes, self._rows
        count = len(self._requested)
        nodes.requested[:count, rows] = self._requested
        nodes.requested[count:, rows] = 0
        for column, before in zip(_columns(nodes), self._columns, strict=True):
            column[rows] = before
        for table, hidden in self._hidden.items():
            for pod_row, node_row in hidden.items():
                table.put_back(pod_row, node_row)
        tentative = self._cluster.tentative
        shown = np.arange(self._first_shown, tentative.row_count)
        class_ids, node_rows = tentative.class_id[shown], _node_rows(tentative, shown)
        for row in shown.tolist():
            tentative.clear(row)
        tentative.row_count = self._first_shown
        # Last, when all is as it was: a plugin may fail.
        for table, hidden in self._hidden.items():
            pod_rows = np.fromiter(hidden, np.intp, len(hidden))
            self._tell(table.class_id[pod_rows], _node_rows(table, pod_rows), 1)
        self._tell(class_ids, node_rows, -1)

    def bare(self) -> None:
        """The rows as Node objects alone: whatever is known of them beyond that is gone, as in a
        NodeInfo that was only given its node."""
        self._cluster.nodes.requested[:, self._rows] = 0
        for column in _columns(self._cluster.nodes):
            column[self._rows] = 0

    def take_off(
        self, pod_rows: Rows, *, of: PodTable | None = None, one_each: bool = False
    ) -> None:
        """Pods of `cluster.pods`, or of another of its tables, are not there. `one_each`: no two are of
        the same node."""
        pods = self._cluster.pods if of is None else of
        class_ids, node_rows = pods.class_id[pod_rows], _node_rows(pods, pod_rows)
        if self._with_pods:
            hidden = self._hidden.setdefault(pods, {})
            for pod_row, node_row in zip(pod_rows.tolist(), node_rows.tolist(), strict=True):
                hidden[pod_row] = node_row
                pods.clear(pod_row)
        self._add(class_ids, node_rows, -1, one_each=one_each)
        self._tell(class_ids, node_rows, -1)

    def put_back(self, pod_rows: Rows, *, one_each: bool = False) -> None:
        """Pods of `cluster.pods` that were taken off are there after all."""
        pods = self._cluster.pods
        if self._with_pods:
            hidden = self._hidden[pods]
            for pod_row in pod_rows.tolist():
                pods.put_back(pod_row, hidden.pop(pod_row))
        class_ids, node_rows = pods.class_id[pod_rows], _node_rows(pods, pod_rows)
        self._add(class_ids, node_rows, 1, one_each=one_each)
        self._tell(class_ids, node_rows, 1)

    def put_on(self, class_ids: Int64s, node_rows: Rows) -> None:
        """More pods, of these classes on these nodes."""
        self._add(class_ids, node_rows, 1)
        if self._with_pods:
            tentative = self._cluster.tentative
            for class_id, node_row in zip(class_ids.tolist(), node_rows.tolist(), strict=True):
                row = tentative.row_count
                tentative.reserve(row + 1)
                tentative.write(row, class_id, node_row, NEVER_STARTED, is_terminating=False)
        self._tell(class_ids, node_rows, 1)

    def _tell(self, class_ids: Int64s, node_rows: Rows, count: int) -> None:
        if self._on_change is None or not len(class_ids):
            return
        # A pod that is terminating is taken off as if it were not, although plugins that leave out
        # such pods never counted it: so upstream (AddPod and RemovePod of PodTopologySpread).
        self._on_change(
            [
                PodChange(class_id, node_row, is_terminating=False, difference=count)
                for class_id, node_row in zip(class_ids.tolist(), node_rows.tolist(), strict=True)
            ]
        )

    def _add(
        self, class_ids: Int64s, node_rows: Rows, sign: int, *, one_each: bool = False
    ) -> None:
        if not len(class_ids):
            return
        usages, nodes = self._cluster.usages, self._cluster.nodes
        indices = usages.indices(class_ids)
        if len(class_ids) == 1:
            # For less, as wide filters ask of single pods thousands of times.
            usage = usages.usages[indices.item(0)]
            add_usage(nodes, node_rows.item(0), usage, sign)
            if usage.ports:
                self._change_ports(indices, node_rows, np.zeros(1, np.intp), sign)
            return
        amounts, targets = sign * usages.matrix[indices], node_rows
        with_ports = amounts[:, HAS_PORTS].nonzero()[0]
        if not one_each:
            order = np.argsort(node_rows, kind="stable")
            targets, starts = np.unique(node_rows[order], return_index=True)
            amounts = np.add.reduceat(amounts[order], starts)
        nodes.pod_count[targets] += amounts[:, 0]
        nodes.nonzero_cpu_milli[targets] += amounts[:, 1]
        nodes.nonzero_memory_bytes[targets] += amounts[:, 2]
        width = min(amounts.shape[1] - EXTRA_COLUMNS, len(nodes.requested))
        nodes.requested[:width, targets] += amounts[:, EXTRA_COLUMNS : EXTRA_COLUMNS + width].T
        if len(with_ports):
            self._change_ports(indices, node_rows, with_ports, sign)

    def _change_ports(self, indices: Rows, node_rows: Rows, which: Rows, sign: int) -> None:
        """A set, as the cache keeps it: what one of two pods with a port gives back is free. But not
        what a pod has that is only thought to be there, in place of the one that is taken off."""
        usages, nodes = self._cluster.usages, self._cluster.nodes
        for position in which.tolist():
            row = int(node_rows[position])
            ports = usages.usages[int(indices[position])].ports
            used = nodes.ports.values[nodes.ports_id.item(row)]
            changed = used | ports if sign > 0 else (used - ports) | (ports & self._held_ports(row))
            nodes.ports_id[row] = nodes.ports.id_of(changed)

    def _held_ports(self, row: int) -> frozenset[PortTuple]:
        """Of pods that are thought to be on this node."""
        usages, tentative = self._cluster.usages, self._cluster.tentative
        class_ids = tentative.class_id[tentative.rows_on(row)]
        held = (usages.usages[index].ports for index in usages.indices(class_ids).tolist())
        return frozenset().union(*held)


def _columns(nodes: NodeTable) -> tuple[NDArray[Any], ...]:
    """What is known of a node beside its object, but for `requested`, which has a row a resource."""
    return (
        nodes.pod_count,
        nodes.nonzero_cpu_milli,
        nodes.nonzero_memory_bytes,
        nodes.ports_id,
        nodes.images_id,
    )


def _node_rows(pods: PodTable, pod_rows: Rows) -> Rows:
    rows: Rows = pods.node_row[pod_rows].astype(np.intp)
    return rows
