"""NodeResourcesFit: what a pod asks for must be free, and how nodes are rated by what is.

Rules: pkg/scheduler/framework/plugins/noderesources/fit.go and resource_allocation.go, v1.36.2.
Extended resources that a DeviceClass stands for are treated as any other here: a node that has none
allocatable is refused, as long as DynamicResources is not there to allocate devices for them.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np

from shared.columns.schema import EPHEMERAL_STORAGE, Int64s, Rows
from shared.columns.table import NodeTable
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_USAGE, Dependence, PreFilterResult, PreScoreResult
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code, Verdicts
from shared.kernels import resources as kernel
from shared.kernels.rows import RowIndex, row_index
from shared.kube import resource_names
from shared.plugin_names import NODE_RESOURCES_FIT
from shared.plugins.args import (
    SHAPE_SCORE_MAX,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)

TOO_MANY_PODS: Final = "Too many pods"
_UNRESOLVABLE: Final = np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
_UNSCHEDULABLE: Final = np.uint8(Code.UNSCHEDULABLE)


class FitState(NamedTuple):
    """What one pod class asks of a node."""

    names: tuple[str, ...]
    """Resources that it asks for more than 0 of."""
    amounts: tuple[int, ...]
    texts: tuple[str, ...]
    """The reason behind each bit of a verdict."""


class ScoreState(NamedTuple):
    """The resources that count for one pod class."""

    names: tuple[str, ...]
    amounts: tuple[int, ...]
    weights: tuple[int, ...]


class Strategy(Protocol):
    """A way to rate a node by what is used of it, the incoming pod included."""

    def many(
        self, used: Sequence[Int64s], capacity: Sequence[Int64s], weights: Sequence[int]
    ) -> Int64s: ...

    def one(
        self, used: Sequence[int], capacity: Sequence[int], weights: Sequence[int]
    ) -> int: ...


class NodeResourcesFit:
    """Filter and score by requests."""

    NAME: ClassVar[str] = NODE_RESOURCES_FIT
    pre_filter_depends: ClassVar[Dependence | None] = None
    filter_depends: ClassVar[Dependence] = ON_USAGE
    pre_score_depends: ClassVar[Dependence | None] = None
    score_depends: ClassVar[Dependence] = ON_USAGE

    def __init__(self, args: NodeResourcesFitArgs) -> None:
        strategy = args.scoring_strategy or ScoringStrategy()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._resources = resources_or_default(strategy.resources)
        self._strategy = _strategy(strategy)

    # Filter ----------------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:  # noqa: ARG002  # The extension point's signature.
        return PreFilterResult(state=self._fit_state(pod))

    def filter(
        self, state: FitState | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        nodes = cluster.nodes
        asked = state or self._fit_state(pod)
        if len(rows) == 1:
            return _filter_one(asked, nodes, rows.item(0))
        index = row_index(rows)
        requested, allocatable = _columns(nodes, asked.names, index)
        reasons, never = kernel.fit_reasons(
            nodes.pod_count[index],
            nodes.allowed_pod_count[index],
            asked.amounts,
            requested,
            allocatable,
        )
        codes = (reasons != 0) * _UNSCHEDULABLE
        codes[never] = _UNRESOLVABLE
        return Verdicts(codes, reasons, asked.texts)

    def _fit_state(self, pod: PodInfo) -> FitState:
        requests = pod.fit_filter_requests
        asked = {
            resource_names.CPU: requests.milli_cpu,
            resource_names.MEMORY: requests.memory_bytes,
            resource_names.EPHEMERAL_STORAGE: requests.ephemeral_storage_bytes,
        }
        for name in sorted(requests.scalars):
            if not self._is_ignored(name):
                asked[name] = requests.scalars[name]
        asked = {name: amount for name, amount in asked.items() if amount > 0}
        names = tuple(asked)
        texts = (TOO_MANY_PODS, *(f"Insufficient {name}" for name in names))
        last = kernel.REASON_BIT_MAX
        if len(texts) > last + 1:  # A mask has no more bits: the rest is one reason.
            texts = (*texts[:last], ", ".join(texts[last:]))
        return FitState(names, tuple(asked.values()), texts)

    def _is_ignored(self, name: str) -> bool:
        if not resource_names.is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    # Score -----------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:  # noqa: ARG002  # The extension point's signature.
        return PreScoreResult(state=self._score_state(pod))

    def score(
        self, state: ScoreState | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Int64s:
        counted = state or self._score_state(pod)
        nodes = cluster.nodes
        if not counted.names:
            return np.zeros(len(rows), np.int64)
        if len(rows) == 1:
            return self._score_one(counted, nodes, rows.item(0))
        index = row_index(rows)
        used, capacity = [], []
        for name, amount in zip(counted.names, counted.amounts, strict=True):
            column, size = _used_column(nodes, name)
            used.append(column[index] + amount)
            capacity.append(size[index])
        return self._strategy.many(used, capacity, counted.weights)

    def _score_one(self, counted: ScoreState, nodes: NodeTable, row: int) -> Int64s:
        used, capacity = [], []
        for name, amount in zip(counted.names, counted.amounts, strict=True):
            column, size = _used_column(nodes, name)
            used.append(column.item(row) + amount)
            capacity.append(size.item(row))
        return np.array([self._strategy.one(used, capacity, counted.weights)], np.int64)

    def _score_state(self, pod: PodInfo) -> ScoreState:
        requests = pod.fit_score_requests
        counted = [
            (resource.name, requests.of(resource.name), resource.weight)
            for resource in self._resources
            if counts_in_score(resource.name, requests.of(resource.name))
        ]
        names, amounts, weights = zip(*counted, strict=True) if counted else ((), (), ())
        return ScoreState(names, amounts, weights)


def resources_or_default(resources: Sequence[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    """The resources that a score looks at; a weight that is not stated is 1."""
    if not resources:
        names = (resource_names.CPU, resource_names.MEMORY)
        return tuple(ResourceSpec(name=name, weight=1) for name in names)
    return tuple(ResourceSpec(name=r.name, weight=r.weight or 1) for r in resources)


def counts_in_score(name: str, amount: int) -> bool:
    """A scalar resource counts only for pods that ask for it; what is no resource, never."""
    return name in _BASE or (resource_names.is_scalar(name) and amount != 0)


_BASE: Final = (resource_names.CPU, resource_names.MEMORY, resource_names.EPHEMERAL_STORAGE)


# Strategies -----------------------------------------------------------------------------------------


class _LeastAllocated:
    many = staticmethod(kernel.least_allocated)
    one = staticmethod(kernel.least_allocated_one)


class _MostAllocated:
    many = staticmethod(kernel.most_allocated)
    one = staticmethod(kernel.most_allocated_one)


class _RequestedToCapacityRatio:
    def __init__(self, points: Sequence[tuple[int, int]]) -> None:
        self._table = kernel.ratio_table(points)
        self._scores: list[int] = self._table.tolist()

    def many(
        self, used: Sequence[Int64s], capacity: Sequence[Int64s], weights: Sequence[int]
    ) -> Int64s:
        return kernel.requested_to_capacity_ratio(used, capacity, weights, self._table)

    def one(self, used: Sequence[int], capacity: Sequence[int], weights: Sequence[int]) -> int:
        return kernel.requested_to_capacity_ratio_one(used, capacity, weights, self._scores)


def _strategy(strategy: ScoringStrategy) -> Strategy:
    match strategy.type:
        case "LeastAllocated":
            return _LeastAllocated()
        case "MostAllocated":
            return _MostAllocated()
        case _:
            assert strategy.requested_to_capacity_ratio is not None, "checked with the arguments"
            scale = kernel.SCORE_MAX // SHAPE_SCORE_MAX
            shape = strategy.requested_to_capacity_ratio.shape
            return _RequestedToCapacityRatio([(p.utilization, p.score * scale) for p in shape])


# Columns --------------------------------------------------------------------------------------------


def _columns(
    nodes: NodeTable, names: Sequence[str], index: RowIndex
) -> tuple[list[Int64s], list[Int64s]]:
    """(requested, allocatable) of each resource; zeros for one that no node ever had."""
    requested, allocatable = [], []
    for name in names:
        resource = nodes.resources.find(name)
        if resource < 0:
            nothing = np.zeros(nodes.row_count, np.int64)[index]
            requested.append(nothing)
            allocatable.append(nothing)
        else:
            requested.append(nodes.requested[resource, index])
            allocatable.append(nodes.allocatable[resource, index])
    return requested, allocatable


def _used_column(nodes: NodeTable, name: str) -> tuple[Int64s, Int64s]:
    """(used, allocatable) as scores see them: cpu and memory with defaults for missing requests."""
    resource = nodes.resources.find(name)
    if resource < 0:
        nothing = np.zeros(nodes.row_count, np.int64)
        return nothing, nothing
    if resource == EPHEMERAL_STORAGE or resource >= len(_BASE):
        return nodes.requested[resource], nodes.allocatable[resource]
    nonzero = nodes.nonzero_cpu_milli if name == resource_names.CPU else nodes.nonzero_memory_bytes
    return nonzero, nodes.allocatable[resource]


def _filter_one(asked: FitState, nodes: NodeTable, row: int) -> Verdicts:
    requested, allocatable = [], []
    for name in asked.names:
        resource = nodes.resources.find(name)
        known = resource >= 0
        requested.append(nodes.requested.item(resource, row) if known else 0)
        allocatable.append(nodes.allocatable.item(resource, row) if known else 0)
    reasons, never = kernel.fit_reasons_one(
        nodes.pod_count.item(row),
        nodes.allowed_pod_count.item(row),
        asked.amounts,
        requested,
        allocatable,
    )
    if not reasons:
        return Verdicts(_PASSES, _NO_REASON, asked.texts)
    code = _UNRESOLVABLE if never else _UNSCHEDULABLE
    return Verdicts(np.array([code], np.uint8), np.array([reasons], np.int64), asked.texts)


_PASSES: Final = np.zeros(1, np.uint8)
_NO_REASON: Final = np.zeros(1, np.int64)
_PASSES.flags.writeable = False
_NO_REASON.flags.writeable = False
