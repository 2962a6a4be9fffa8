"""NodeResourcesBalancedAllocation: nodes whose resources a pod uses up evenly.

Since v1.36 the change that the pod makes is rated: 50 + (50 + after - before) / 2. Devices count as the
extended resource that their class stands for, if the arguments name it.

Rules: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np

from shared.columns.resource_columns import (
    COUNTED_FOR_ALL,
    counts_in_score,
    requested_and_allocatable,
    requested_and_allocatable_one,
)
from shared.columns.rows import row_index
from shared.columns.schema import Int64s, Rows
from shared.dra.device_index import count_devices, may_be_devices
from shared.dra.extended import can_be_backed
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_USAGE, SKIP_SCORE, Dependence, KeptScore, PreScoreResult
from shared.framework.pod_info import PodInfo
from shared.kube import resource_names
from shared.plugin_names import NODE_RESOURCES_BALANCED_ALLOCATION
from shared.plugins.resources import one_node
from shared.plugins.resources import resource_arrays as kernel
from shared.plugins.resources.kept_resources import KeptBalance
from shared.plugins.resources.resource_args import NodeResourcesBalancedAllocationArgs

_NO_CHANGE: Final = 75
"""What balance_change gives where no resource counts."""


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
        self._counts_devices = any(can_be_backed(name) for name in self._resources)

    def reads_resources_only(self, pod: PodInfo, cluster: ClusterView) -> bool:
        """See `Promises`, and NodeResourcesFit, of which the same is true."""
        return not self._counts_devices or not may_be_devices(self._state(pod)[0], cluster)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        if not any(pod.requests.of(name) for name in self._resources):
            return SKIP_SCORE
        return PreScoreResult(state=self._state(pod))

    def score(self, state: BalanceState, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        names, amounts = state
        nodes = cluster.nodes
        if not names:
            return np.full(len(rows), _NO_CHANGE, np.int64)
        if len(rows) == 1 and not self._counts_devices:
            used, capacity = requested_and_allocatable_one(nodes, names, rows.item(0))
            return np.array([one_node.balance_change(used, capacity, amounts)], np.int64)
        columns, capacities = requested_and_allocatable(nodes, names, row_index(rows))
        if self._counts_devices:
            count_devices(names, cluster, rows, columns, capacities)
        return kernel.balance_change(columns, capacities, amounts)

    def keep_score(self) -> KeptScore | None:
        names = self._resources
        if len(names) != 2 or not all(name in COUNTED_FOR_ALL for name in names):
            return None
        return KeptScore(KeptBalance(), names, is_nonzero=False)

    def amounts_asked(self, pod: PodInfo) -> Sequence[int] | None:
        amounts = [pod.requests.of(name) for name in self._resources]
        return amounts if any(amounts) else None

    def _state(self, pod: PodInfo) -> BalanceState:
        requests = pod.requests
        names = tuple(n for n in self._resources if counts_in_score(n, requests.of(n)))
        return BalanceState(names, tuple(requests.of(name) for name in names))
