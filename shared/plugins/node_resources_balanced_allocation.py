"""NodeResourcesBalancedAllocation: nodes whose resources a pod uses up evenly.

Since v1.36 the change that the pod makes is rated: 50 + (50 + after - before) / 2.

Rules: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.columns.table import NodeTable
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_USAGE, SKIP_SCORE, Dependence, PreScoreResult
from shared.framework.pod_info import PodInfo
from shared.kernels import resources as kernel
from shared.kernels.rows import row_index
from shared.kube import resource_names
from shared.plugin_names import NODE_RESOURCES_BALANCED_ALLOCATION
from shared.plugins.args import NodeResourcesBalancedAllocationArgs

_BASE: Final = (resource_names.CPU, resource_names.MEMORY, resource_names.EPHEMERAL_STORAGE)


class BalanceState(NamedTuple):
    """The resources that count for one pod class, and what it asks of each."""

    names: tuple[str, ...]
    amounts: tuple[int, ...]


class NodeResourcesBalancedAllocation:
    """Skips pods that ask for none of its resources: they would all go to the same node."""

    NAME: ClassVar[str] = NODE_RESOURCES_BALANCED_ALLOCATION
    pre_score_depends: ClassVar[Dependence | None] = None
    score_depends: ClassVar[Dependence] = ON_USAGE

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        names = tuple(resource.name for resource in args.resources)
        self._resources = names or (resource_names.CPU, resource_names.MEMORY)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:  # noqa: ARG002  # The extension point's signature.
        if not any(pod.requests.of(name) for name in self._resources):
            return SKIP_SCORE
        return PreScoreResult(state=self._state(pod))

    def score(
        self, state: BalanceState | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Int64s:
        counted = state or self._state(pod)
        nodes = cluster.nodes
        ids = [nodes.resources.find(name) for name in counted.names]
        if -1 in ids:  # No node has it, and without capacity it does not count.
            return self._score_known(counted, ids, cluster, rows)
        if len(rows) == 1:
            return _score_one(counted.amounts, ids, nodes, rows.item(0))
        index = row_index(rows)
        used = [nodes.requested[resource, index] for resource in ids]
        capacity = [nodes.allocatable[resource, index] for resource in ids]
        if not ids:
            return np.full(len(rows), kernel.SCORE_MAX * 3 // 4, np.int64)
        return kernel.balance_change(used, counted.amounts, capacity)

    def _score_known(
        self, counted: BalanceState, ids: Sequence[int], cluster: ClusterView, rows: Rows
    ) -> Int64s:
        known = [i for i, resource in enumerate(ids) if resource >= 0]
        kept = BalanceState(
            tuple(counted.names[i] for i in known), tuple(counted.amounts[i] for i in known)
        )
        return self.score(kept, _NO_POD, cluster, rows)

    def _state(self, pod: PodInfo) -> BalanceState:
        names = tuple(name for name in self._resources if _counts(name, pod.requests.of(name)))
        return BalanceState(names, tuple(pod.requests.of(name) for name in names))


def _counts(name: str, amount: int) -> bool:
    """A scalar resource counts only for pods that ask for it; what is no resource, never."""
    return name in _BASE or (resource_names.is_scalar(name) and amount != 0)
