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
from types import TracebackType
from typing import Self

import numpy as np

from shared.columns.pod_log import PodChange
from shared.columns.pod_table import NEVER_STARTED
from shared.columns.schema import Int32s, Int64s, Rows
from shared.columns.usage import add_to
from shared.framework.class_index import EXTRA_COLUMNS
from shared.framework.cluster_view import ClusterView

OnChange = Callable[[list[PodChange]], None]


class WhatIf:
    """Changes to `rows` (node rows) of a view, undone on leaving."""

    def __init__(
        self,
        cluster: ClusterView,
        rows: Rows,
        *,
        with_pods: bool,
        on_change: OnChange | None = None,
    ) -> None:
        self._cluster = cluster
        self._rows = rows
        self._with_pods = with_pods
        self._on_change = on_change
        """Hears of every pod, of those that return at the end as well."""
        self._hidden: dict[int, int] = {}
        """Row of the pod table -> its node."""
        self._hidden_own: dict[int, int] = {}
        """The same of the table of placements that nobody has confirmed."""
        self._images_id: Int32s | None = None

    def __enter__(self) -> Self:
        nodes, rows = self._cluster.nodes, self._rows
        self._first_shown = self._cluster.tentative.row_count
        self._shown_count = 0
        self._requested = nodes.requested[:, rows]
        self._pod_count = nodes.pod_count[rows]
        self._nonzero_cpu = nodes.nonzero_cpu_milli[rows]
        self._nonzero_memory = nodes.nonzero_memory_bytes[rows]
        self._ports_id = nodes.ports_id[rows]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        nodes, rows = self._cluster.nodes, self._rows
        count = len(self._requested)
        nodes.requested[:count, rows] = self._requested
        nodes.requested[count:, rows] = 0
        nodes.pod_count[rows] = self._pod_count
        nodes.nonzero_cpu_milli[rows] = self._nonzero_cpu
        nodes.nonzero_memory_bytes[rows] = self._nonzero_memory
        nodes.ports_id[rows] = self._ports_id
        if self._images_id is not None:
            nodes.images_id[rows] = self._images_id
        pods, tentative = self._cluster.pods, self._cluster.tentative
        for pod_row, node_row in self._hidden.items():
            pods.put_back(pod_row, node_row)
        for row, node_row in self._hidden_own.items():
            tentative.put_back(row, node_row)
        shown = np.arange(self._first_shown, self._first_shown + self._shown_count)
        class_ids, node_rows = tentative.class_id[shown], tentative.node_row[shown]
        for row in shown.tolist():
            tentative.clear(row)
        tentative.row_count = self._first_shown
        # Last, when all is as it was: a plugin may fail.
        hidden = np.fromiter(self._hidden, np.intp, len(self._hidden))
        self._tell(pods.class_id[hidden], self._node_rows(hidden), 1)
        own = np.fromiter(self._hidden_own, np.intp, len(self._hidden_own))
        self._tell(tentative.class_id[own], tentative.node_row[own].astype(np.intp), 1)
        self._tell(class_ids, node_rows.astype(np.intp), -1)

    def bare(self) -> None:
        """The rows as Node objects alone: whatever is known of them beyond that is gone, as in a
        NodeInfo that was only given its node."""
        nodes, rows = self._cluster.nodes, self._rows
        self._images_id = nodes.images_id[rows]
        nodes.images_id[rows] = 0
        nodes.requested[:, rows] = 0
        nodes.pod_count[rows] = 0
        nodes.nonzero_cpu_milli[rows] = 0
        nodes.nonzero_memory_bytes[rows] = 0
        nodes.ports_id[rows] = 0

    def take_off(self, pod_rows: Rows, *, one_each: bool = False) -> None:
        """Pods of `cluster.pods` are not there. `one_each`: no two are of the same node."""
        pods = self._cluster.pods
        class_ids, node_rows = pods.class_id[pod_rows], self._node_rows(pod_rows)
        self._add(class_ids, node_rows, -1, one_each=one_each)
        if self._with_pods:
            for pod_row in pod_rows.tolist():
                self._hidden[pod_row] = pods.node_row.item(pod_row)
                pods.clear(pod_row)
            self._tell(class_ids, node_rows, -1)

    def put_back(self, pod_rows: Rows, *, one_each: bool = False) -> None:
        """Pods that were taken off are there after all."""
        pods = self._cluster.pods
        if self._with_pods:
            for pod_row in pod_rows.tolist():
                pods.put_back(pod_row, self._hidden.pop(pod_row))
        class_ids, node_rows = pods.class_id[pod_rows], self._node_rows(pod_rows)
        self._add(class_ids, node_rows, 1, one_each=one_each)
        if self._with_pods:
            self._tell(class_ids, node_rows, 1)

    def take_off_unconfirmed(self, own_rows: Rows) -> None:
        """Pods of `cluster.tentative` are not there; they cannot be put back one by one."""
        tentative = self._cluster.tentative
        class_ids = tentative.class_id[own_rows]
        node_rows = tentative.node_row[own_rows].astype(np.intp)
        self._add(class_ids, node_rows, -1)
        if self._with_pods:
            for row, node_row in zip(own_rows.tolist(), node_rows.tolist(), strict=True):
                self._hidden_own[row] = node_row
                tentative.clear(row)
            self._tell(class_ids, node_rows, -1)

    def put_on(self, class_ids: Int64s, node_rows: Rows) -> None:
        """More pods, of these classes on these nodes."""
        self._add(class_ids, node_rows, 1)
        if self._with_pods:
            tentative = self._cluster.tentative
            for class_id, node_row in zip(class_ids.tolist(), node_rows.tolist(), strict=True):
                row = self._first_shown + self._shown_count
                tentative.reserve(row + 1)
                tentative.write(row, class_id, node_row, NEVER_STARTED, is_terminating=False)
                self._shown_count += 1
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

    def _node_rows(self, pod_rows: Rows) -> Rows:
        rows: Rows = self._cluster.pods.node_row[pod_rows].astype(np.intp)
        return rows

    def _add(
        self, class_ids: Int64s, node_rows: Rows, sign: int, *, one_each: bool = False
    ) -> None:
        if not len(class_ids):
            return
        usages = self._cluster.usages
        indices = usages.indices(class_ids)
        if len(class_ids) == 1:
            self._add_one(indices, node_rows, sign)
            return
        amounts = usages.matrix[indices]
        if sign < 0:
            amounts = -amounts
        targets = node_rows
        if len(node_rows) > 1 and not one_each:
            order = np.argsort(node_rows, kind="stable")
            targets, starts = np.unique(node_rows[order], return_index=True)
            amounts = np.add.reduceat(amounts[order], starts)
        nodes = self._cluster.nodes
        nodes.pod_count[targets] += amounts[:, 0]
        nodes.nonzero_cpu_milli[targets] += amounts[:, 1]
        nodes.nonzero_memory_bytes[targets] += amounts[:, 2]
        width = min(amounts.shape[1] - EXTRA_COLUMNS, len(nodes.requested))
        nodes.requested[:width, targets] += amounts[:, EXTRA_COLUMNS : EXTRA_COLUMNS + width].T
        has_ports = usages.has_ports[indices]
        if has_ports.any():
            self._change_ports(indices, node_rows, np.flatnonzero(has_ports), sign)

    def _add_one(self, indices: Rows, node_rows: Rows, sign: int) -> None:
        """The same for a single pod, of which wide filters ask thousands of times."""
        usages, nodes = self._cluster.usages, self._cluster.nodes
        index, row = indices.item(0), node_rows.item(0)
        amounts = usages.matrix[index] * sign
        nodes.pod_count[row] += amounts.item(0)
        add_to(nodes.nonzero_cpu_milli, row, amounts.item(1))
        add_to(nodes.nonzero_memory_bytes, row, amounts.item(2))
        width = min(len(amounts) - EXTRA_COLUMNS, len(nodes.requested))
        nodes.requested[:width, row] += amounts[EXTRA_COLUMNS : EXTRA_COLUMNS + width]
        if usages.has_ports.item(index):
            self._change_ports(indices, node_rows, np.zeros(1, np.intp), sign)

    def _change_ports(self, indices: Rows, node_rows: Rows, which: Rows, sign: int) -> None:
        """A set, as the cache keeps it: what one of two pods with a port gives back is free."""
        usages, nodes = self._cluster.usages, self._cluster.nodes
        for position in which.tolist():
            row = int(node_rows[position])
            ports = usages.usage_at(int(indices[position])).ports
            used = nodes.ports.values[nodes.ports_id.item(row)]
            changed = used | ports if sign > 0 else used - ports
            nodes.ports_id[row] = nodes.ports.id_of(changed)
