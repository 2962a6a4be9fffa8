"""ResourceScore: how a plugin rates nodes by resources: which of them count for a pod, and what of each
is used. Devices count as the extended resource that their class stands for, where the arguments name it.

By which rule, NodeResourcesFit says, and NodeResourcesBalancedAllocation, which does nothing else.

Rules: pkg/scheduler/framework/plugins/noderesources/{resource_allocation,balanced_allocation}.go,
v1.36.2.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeVar

import msgspec
import numpy as np

from shared.columns.rows import row_index
from shared.columns.schema import Int64s, Rows
from shared.columns.usage import (
    COUNTED_FOR_ALL,
    counts_in_score,
    requested_and_allocatable,
    requested_and_allocatable_one,
)
from shared.dra.device_index import count_devices, may_be_devices
from shared.dra.extended import can_be_backed
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_USAGE, SKIP_SCORE, Dependence, PreScoreResult
from shared.framework.plugin_args import ArgsStruct
from shared.framework.pod_info import PodInfo
from shared.kube.resource_names import CPU, MEMORY
from shared.plugin_names import NODE_RESOURCES_BALANCED_ALLOCATION
from shared.plugins.resources import one_node, resource_arrays
from shared.plugins.resources.kept_resources import KeptBalance, KeptScores
from shared.plugins.resources.resource_arrays import Columns

N = TypeVar("N", int, Int64s)


class ResourceSpec(ArgsStruct):
    name: str = ""
    weight: int = 0
    """0: not stated, which counts as 1."""


class ScoredRequests(NamedTuple):
    """The resources that count for one pod class, and what it asks of each."""

    names: tuple[str, ...]
    amounts: tuple[int, ...]
    weights: tuple[int, ...]


class ScoringRule(NamedTuple):
    """A way to rate nodes by what is used of each resource, by how much there is, and by a number for
    each: its weight, or where what the pod changes is rated, what the pod asks for."""

    many: Callable[[Columns, Columns, Sequence[int]], Int64s]
    one: Callable[[Sequence[int], Sequence[int], Sequence[int]], int]
    kept: Callable[[Sequence[str], Sequence[int]], KeptScores] | None = None
    """The same by resources and weights, for pods that each ask for another amount; None: that is not
    known how."""

    def rated(self, used: Columns, sizes: Columns, numbers: Sequence[int]) -> Int64s:
        """Of n nodes, shape (n,)."""
        large = resource_arrays.large_rows((*used, *sizes), numbers)
        if large is None:
            return self.many(used, sizes, numbers)
        rest, whole = ([np.where(large, 0, column) for column in each] for each in (used, sizes))
        found = self.many(rest, whole, numbers)
        for row in large.nonzero()[0].tolist():
            own, has = ([column.item(row) for column in each] for each in (used, sizes))
            found[row] = self.one(own, has, numbers)
        return found


class ResourceScore:
    """Base of both."""

    reads_labels: ClassVar[frozenset[str]] = frozenset()
    pre_score_depends: ClassVar[Dependence | None] = None
    score_depends: ClassVar[Dependence] = ON_USAGE
    is_nonzero: ClassVar[bool] = False
    """Pods count with defaults where they state no cpu or memory."""
    rates_change: ClassVar[bool] = False
    """What is used is given to the rule without the pod."""

    def __init__(self, resources: Sequence[ResourceSpec], rule: ScoringRule) -> None:
        """`resources`: none stands for cpu and memory, a weight that is not stated for 1."""
        self._rule = rule
        stated = resources or [ResourceSpec(name=CPU), ResourceSpec(name=MEMORY)]
        self._resources = tuple(ResourceSpec(name=r.name, weight=r.weight or 1) for r in stated)
        self._counts_devices = any(can_be_backed(each.name) for each in stated)

    def reads_resources_only(self, pod: PodInfo, cluster: ClusterView) -> bool:
        """See `Promises`. Not where devices may count: which there are on a node is no column.
        (When those change, DynamicResources has pods that ask for them evaluated anew.)"""
        return not self._counts_devices or not may_be_devices(self._asked(pod).names, cluster)

    def score(
        self, state: ScoredRequests, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Int64s:
        nodes, names, is_nonzero = cluster.nodes, state.names, self.is_nonzero
        if not names:
            return np.full(len(rows), self._rule.one((), (), ()), np.int64)
        if len(rows) == 1 and not self._counts_devices:
            used, sizes = requested_and_allocatable_one(
                nodes, names, rows.item(0), is_nonzero=is_nonzero
            )
            rated, numbers = self._as_rated(used, state)
            return np.array([self._rule.one(rated, sizes, numbers)], np.int64)
        columns, capacities = requested_and_allocatable(
            nodes, names, row_index(rows), is_nonzero=is_nonzero
        )
        if self._counts_devices:
            count_devices(names, cluster, rows, columns, capacities)
        all_rated, numbers = self._as_rated(columns, state)
        return self._rule.rated(all_rated, capacities, numbers)

    def keep_score(self) -> KeptScores | None:
        """See `ScoreKeeper`."""
        names, weights = zip(*((each.name, each.weight) for each in self._resources), strict=True)
        if self._rule.kept is None or not all(name in COUNTED_FOR_ALL for name in names):
            return None
        return self._rule.kept(names, weights)

    def amounts_asked(self, pod: PodInfo) -> Sequence[int] | None:
        """The same."""
        requests = self.requests_of(pod)
        return [requests.get(each.name, 0) for each in self._resources]

    def _asked(self, pod: PodInfo) -> ScoredRequests:
        requests = self.requests_of(pod)
        counted = [
            (each.name, requests.get(each.name, 0), each.weight)
            for each in self._resources
            if counts_in_score(each.name, requests.get(each.name, 0))
        ]
        names, amounts, weights = zip(*counted, strict=True) if counted else ((), (), ())
        return ScoredRequests(names, amounts, weights)

    def requests_of(self, pod: PodInfo) -> Mapping[str, int]:
        """What the pod counts with."""
        raise NotImplementedError

    def _as_rated(self, used: Sequence[N], asked: ScoredRequests) -> tuple[list[N], Sequence[int]]:
        """What the rule is given beside sizes."""
        if self.rates_change:
            return list(used), asked.amounts
        return [u + amount for u, amount in zip(used, asked.amounts, strict=True)], asked.weights


class NodeResourcesBalancedAllocationArgs(ArgsStruct):
    resources: list[ResourceSpec] = msgspec.field(default_factory=list)
    """Empty: cpu and memory. Weights must be 1."""

    def problems(self) -> list[str]:
        problems = []
        seen: set[str] = set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                problems.append(f"resources[{i}].name: {resource.name!r} stands there twice")
            seen.add(resource.name)
            if resource.weight not in (0, 1):
                problems.append(f"resources[{i}].weight: {resource.weight} must be 1")
        return problems


class NodeResourcesBalancedAllocation(ResourceScore):
    """How evenly a pod uses up a node's resources. Since v1.36 the change that it makes is rated:
    50 + (50 + after - before) / 2. Skips pods that ask for none of its resources: they would all go to
    the same node."""

    NAME: ClassVar[str] = NODE_RESOURCES_BALANCED_ALLOCATION
    rates_change: ClassVar[bool] = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        kept = KeptBalance if len(args.resources) in (0, 2) else None
        rule = ScoringRule(resource_arrays.balance_change, one_node.balance_change, kept)
        super().__init__(args.resources, rule)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        if self.amounts_asked(pod) is None:
            return SKIP_SCORE
        return PreScoreResult(state=self._asked(pod))

    def amounts_asked(self, pod: PodInfo) -> Sequence[int] | None:
        amounts = super().amounts_asked(pod)
        return amounts if amounts and any(amounts) else None

    def requests_of(self, pod: PodInfo) -> Mapping[str, int]:
        return pod.requests.amounts
