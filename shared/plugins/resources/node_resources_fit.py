"""NodeResourcesFit: what a pod asks for must be free, and how nodes are rated by what is.

Rules: pkg/scheduler/framework/plugins/noderesources/fit.go and resource_allocation.go, v1.36.2.
Extended resources that a DeviceClass stands for are left to DynamicResources on nodes that have none
of them allocatable.
"""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from shared.columns.rows import row_index, rows_where
from shared.columns.schema import Int64s, Rows
from shared.columns.table import NodeTable
from shared.columns.topology import sum_by_domain
from shared.columns.usage import (
    COUNTED_FOR_ALL,
    counts_in_score,
    requested_and_allocatable,
    requested_and_allocatable_one,
)
from shared.dra.device_index import CLASSES as DEVICE_CLASSES
from shared.dra.device_index import device_index
from shared.dra.extended import IMPLICIT_PREFIX, can_be_backed
from shared.feature_gates import DRA_EXTENDED_RESOURCE
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import UtilizationShapePoint, score_table, shape_problems
from shared.framework.plugin_api import (
    ON_USAGE,
    Dependence,
    GroupFits,
    PreFilterResult,
    PreScoreResult,
    Reads,
    RoomAsked,
    Scope,
)
from shared.framework.plugin_args import WEIGHT_MAX, ArgsStruct, out_of_range
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.framework.status import Code, Verdicts
from shared.kube import resource_names
from shared.kube.api.core_v1 import Node
from shared.kube.api.resource_v1_devices import DeviceClass
from shared.kube.pod_resources import NodeAllocatable, node_allocatable
from shared.kube.resource_names import QUALIFIED_NAME
from shared.plugin_names import NODE_RESOURCES_FIT
from shared.plugins.resources import one_node
from shared.plugins.resources import resource_arrays as kernel
from shared.plugins.resources.kept_resources import KeptLeastAllocated
from shared.plugins.resources.resource_score import ResourceScore, ResourceSpec, ScoringRule

TOO_MANY_PODS: Final = "Too many pods"
_UNRESOLVABLE: Final = np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
_UNSCHEDULABLE: Final = np.uint8(Code.UNSCHEDULABLE)
MOST_ALLOCATED: Final = ScoringRule(kernel.most_allocated, one_node.most_allocated)
_PLENTY: Final = 1 << 62
"""Stands for what is not this plugin's to count."""


STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


class RequestedToCapacityRatioParam(ArgsStruct):
    shape: list[UtilizationShapePoint] = msgspec.field(default_factory=list)

    def problems(self) -> list[str]:
        return shape_problems(self.shape, "shape")


class ScoringStrategy(ArgsStruct):
    type: str = ""
    """Has to be stated where anything is."""
    resources: list[ResourceSpec] = msgspec.field(default_factory=list)
    """Empty: cpu and memory, each with weight 1."""
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def problems(self) -> list[str]:
        problems = []
        if self.type not in STRATEGIES:
            problems.append(f"type: {self.type!r} is not one of {', '.join(STRATEGIES)}")
        for i, resource in enumerate(self.resources):
            # 0 is not stated.
            problems += out_of_range(f"resources[{i}].weight", resource.weight or 1, 1, WEIGHT_MAX)
        has_ratio = self.requested_to_capacity_ratio is not None
        if self.type == "RequestedToCapacityRatio" and not has_ratio:
            problems.append("requestedToCapacityRatio: needed by this type")
        if self.type != "RequestedToCapacityRatio" and has_ratio:
            problems.append(
                "requestedToCapacityRatio: only for type RequestedToCapacityRatio; remove it"
            )
        return problems


class NodeResourcesFitArgs(ArgsStruct):
    ignored_resources: list[str] = msgspec.field(default_factory=list)
    """Extended resources that the filter does not look at."""
    ignored_resource_groups: list[str] = msgspec.field(default_factory=list)
    """The same by what stands before the slash of their names."""
    scoring_strategy: ScoringStrategy | None = None

    def problems(self) -> list[str]:
        problems = [
            f"ignoredResources[{i}]: {name!r} cannot be the name of a resource"
            for i, name in enumerate(self.ignored_resources)
            if QUALIFIED_NAME.fullmatch(name) is None
        ]
        return problems + [
            f"ignoredResourceGroups[{i}]: {group!r} cannot stand before the slash of a name"
            for i, group in enumerate(self.ignored_resource_groups)
            if "/" in group or QUALIFIED_NAME.fullmatch(group) is None
        ]


class FitState(NamedTuple):
    """What one pod class asks of a node."""

    names: tuple[str, ...]
    """Resources that it asks for more than 0 of."""
    amounts: tuple[int, ...]
    texts: tuple[str, ...]
    """The reason behind each bit of a verdict."""
    left_to_devices: frozenset[str] = frozenset()
    """Of the names, those that devices provide where the node itself does not."""


class NodeResourcesFit(ResourceScore):
    """Filter and score by requests."""

    NAME: ClassVar[str] = NODE_RESOURCES_FIT
    object_kinds: ClassVar[frozenset[str]] = frozenset({DEVICE_CLASSES})
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(Reads.OBJECTS, Scope.CLUSTER)
    filter_depends: ClassVar[Dependence] = ON_USAGE
    is_nonzero: ClassVar[bool] = True

    def __init__(self, args: NodeResourcesFitArgs) -> None:
        strategy = args.scoring_strategy or ScoringStrategy(type="LeastAllocated")
        super().__init__(strategy.resources, _scoring_rule(strategy))
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._parsed: tuple[Node, NodeAllocatable] | None = None
        """What the last node has: one event asks about it for many pods."""

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        state = self._fit_state(pod, cluster)
        # Only what devices might provide depends on more than the pod.
        has_fixed_needs = not any(can_be_backed(name) for name in state.names)
        return PreFilterResult(state=state, is_final=has_fixed_needs)

    def filter(self, state: FitState, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        nodes = cluster.nodes
        if len(rows) == 1:
            return _filter_one(state, nodes, rows.item(0))
        index = row_index(rows)
        requested, allocatable = requested_and_allocatable(nodes, state.names, index)
        for i, name in enumerate(state.names):
            if name in state.left_to_devices:
                allocatable[i] = np.where(allocatable[i] == 0, _PLENTY, allocatable[i])
        is_full = nodes.pod_count[index] >= nodes.allowed_pod_count[index]
        reasons, never = kernel.fit_reasons(state.amounts, requested, allocatable, is_full=is_full)
        codes = (reasons != 0) * _UNSCHEDULABLE
        codes[never] = _UNRESOLVABLE
        return Verdicts(codes, reasons, state.texts)

    def room_asked(self, pod: PodInfo, cluster: ClusterView) -> RoomAsked | None:
        """See `RoomFilter`. Not where devices may provide some of it."""
        state = self._fit_state(pod, cluster)
        return None if state.left_to_devices else RoomAsked(state.names, state.amounts)

    def has_room(self, asked: RoomAsked, nodes: NodeTable, row: int) -> bool:
        requested, allocatable = requested_and_allocatable_one(nodes, asked.names, row)
        is_full = nodes.pod_count.item(row) >= nodes.allowed_pod_count.item(row)
        reasons, _ = one_node.fit_reasons(asked.amounts, requested, allocatable, is_full=is_full)
        return not reasons

    def _fit_state(self, pod: PodInfo, cluster: ClusterView) -> FitState:
        requests = pod.fit_filter_requests
        scalars = [name for name in sorted(requests.scalars) if not self._is_ignored(name)]
        named = [(name, requests.of(name)) for name in (*COUNTED_FOR_ALL, *scalars)]
        names = tuple([name for name, amount in named if amount > 0])
        amounts = tuple([amount for _, amount in named if amount > 0])
        if not requests.scalars:
            return FitState(names, amounts, _texts(names))
        backable = [name for name in names if can_be_backed(name)]
        by_resource = device_index(cluster).by_resource if backable else {}
        left_to_devices = frozenset(name for name in backable if name in by_resource)
        return FitState(names, amounts, _texts(names), left_to_devices)

    def _is_ignored(self, name: str) -> bool:
        if not resource_names.is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        return PreScoreResult(state=self._asked(pod))

    def requests_of(self, pod: PodInfo) -> Mapping[str, int]:
        return pod.fit_score_requests

    def score_placements(self, group: GroupFits, cluster: ClusterView) -> Int64s:
        """MostAllocated of whole domains (`ScorePlacement` of fit.go)."""
        topology = group.topology
        slots = topology.domain_count + 1
        used: list[Int64s] = []
        sizes: list[Int64s] = []
        rows = rows_where(topology.domain_of_row >= 0)
        domains, index = topology.domain_of_row[rows], row_index(rows)
        for resource in self._resources:
            name, total = resource.name, topology.by_domain()
            for info, counts in group.counts:
                total += counts * info.fit_score_requests.get(name, 0)
            (taken,), (capacity,) = requested_and_allocatable(
                cluster.nodes, (name,), index, is_nonzero=True
            )
            size = sum_by_domain(domains, slots, capacity)
            if not counts_in_score(name, 0):
                size[total == 0] = 0
            used.append(total + sum_by_domain(domains, slots, np.where(capacity == 0, 0, taken)))
            sizes.append(size)
        return MOST_ALLOCATED.rated(used, sizes, [each.weight for each in self._resources])

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        of_pods = Action.DELETE, Action.UPDATE_POD_SCALE_DOWN
        of_nodes = Action.ADD, Action.UPDATE_NODE_ALLOCATABLE
        of_classes = Action.ADD, Action.UPDATE
        return (
            ClusterEventWithHint(Resource.POD, of_pods, _after_pod_change),
            ClusterEventWithHint(Resource.NODE, of_nodes, self._after_node_change),
            ClusterEventWithHint(Resource.DEVICE_CLASS, of_classes, _after_device_class_change),
        )

    def _after_node_change(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """The node, if it were empty, has room for the pod, and more of something than before."""
        was, now = change.both(Node)
        if now is None:
            return False
        if self._parsed is None or self._parsed[0] is not now:
            self._parsed = (now, node_allocatable(now))
        has = self._parsed[1]
        if not _fits(pod.info, has, cluster):
            return False
        return was is None or _has_grown(pod.info, node_allocatable(was), has, cluster)


@lru_cache(maxsize=1024)
def _texts(names: tuple[str, ...]) -> tuple[str, ...]:
    """The reason behind each bit of a verdict about these resources."""
    texts = (TOO_MANY_PODS, *(f"Insufficient {name}" for name in names))
    last = one_node.REASON_BIT_MAX
    if len(texts) > last + 1:  # A mask has no more bits: the rest is one reason.
        texts = (*texts[:last], ", ".join(texts[last:]))
    return texts


def _filter_one(asked: FitState, nodes: NodeTable, row: int) -> Verdicts:
    requested, allocatable = requested_and_allocatable_one(nodes, asked.names, row)
    for i, name in enumerate(asked.names):
        if name in asked.left_to_devices:
            allocatable[i] = allocatable[i] or _PLENTY
    is_full = nodes.pod_count.item(row) >= nodes.allowed_pod_count.item(row)
    reasons, never = one_node.fit_reasons(asked.amounts, requested, allocatable, is_full=is_full)
    if not reasons:
        return Verdicts(_PASSES, _NO_REASON, asked.texts)
    code = _UNRESOLVABLE if never else _UNSCHEDULABLE
    return Verdicts(np.array([code], np.uint8), np.array([reasons], np.int64), asked.texts)


_PASSES: Final = np.zeros(1, np.uint8)
_NO_REASON: Final = np.zeros(1, np.int64)
_PASSES.flags.writeable = False
_NO_REASON.flags.writeable = False


def _scoring_rule(strategy: ScoringStrategy) -> ScoringRule:
    match strategy.type:
        case "LeastAllocated":
            return ScoringRule(kernel.least_allocated, one_node.least_allocated, KeptLeastAllocated)
        case "MostAllocated":
            return MOST_ALLOCATED
        case _:
            assert strategy.requested_to_capacity_ratio is not None, "checked with the arguments"
            table = score_table(strategy.requested_to_capacity_ratio.shape)
            return ScoringRule(
                partial(kernel.requested_to_capacity_ratio, table=table),
                partial(one_node.requested_to_capacity_ratio, table=table),
            )


def _after_pod_change(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """A pod that held a node went, or asks for less of what this one needs."""
    was, now = change.both(PodView)
    if now is None:
        return was is not None and was.holds_node
    if change.is_of(pod):
        return True
    if was is None or not now.record.node_name:
        return False
    had, has = was.info.requests.amounts, now.info.requests.amounts
    return _is_more(had, has, pod.info.requests.amounts)


def _after_device_class_change(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """A device class now stands for an extended resource that the pod asks for."""
    was, now = change.both(DeviceClass)
    if now is None or not cluster.gates[DRA_EXTENDED_RESOURCE]:
        return False
    scalars = pod.info.requests.scalars
    if was is None:
        if IMPLICIT_PREFIX + now.metadata.name in scalars:
            return True
    elif was.spec.extended_resource_name == now.spec.extended_resource_name:
        return False
    return now.spec.extended_resource_name in scalars


def _fits(pod: PodInfo, has: NodeAllocatable, cluster: ClusterView) -> bool:
    return has.pods >= 1 and all(
        amount <= has.amounts.get(name, 0) or _is_left_to_devices(name, has, cluster)
        for name, amount in pod.fit_filter_requests.amounts.items()
        if amount > 0
    )


def _has_grown(
    pod: PodInfo, had: NodeAllocatable, has: NodeAllocatable, cluster: ClusterView
) -> bool:
    wants = pod.fit_filter_requests.amounts
    return (
        has.pods > had.pods
        or _is_more(has.amounts, had.amounts, wants)
        or any(a > 0 and _is_left_to_devices(name, has, cluster) for name, a in wants.items())
    )


def _is_left_to_devices(name: str, has: NodeAllocatable, cluster: ClusterView) -> bool:
    """Whether a device class provides the resource where the node itself does not."""
    if has.amounts.get(name, 0) > 0 or not cluster.objects.all(DEVICE_CLASSES):
        return False
    return name in device_index(cluster).by_resource


def _is_more(new: Mapping[str, int], old: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    """Whether there is more than before of something that is wanted."""
    return any(
        amount > 0 and new.get(name, 0) > old.get(name, 0) for name, amount in wanted.items()
    )
