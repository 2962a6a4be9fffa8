"""What allocating devices for a pod comes to, on nodes that offer the same and on one node.

Nodes are asked about in groups: nodes to which the same devices belong get one answer, kept with the
pod's class until some object changes. Apart from the plugin, whose extension points ask it.

Rules: pkg/scheduler/framework/plugins/dynamicresources/{dynamicresources,extendeddynamicresources}.go,
v1.36.2.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from shared.columns.rows import row_index
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.usage import requested_and_allocatable
from shared.dra.allocator import ClaimToAllocate, allocate, understand
from shared.dra.device_index import CLASSES, device_index, reaches
from shared.dra.extended import SPECIAL_CLAIM, ExtendedRequests, can_be_backed, extended_requests
from shared.dra.requests import Solution
from shared.dra.search_work import AllocationError, NodeAllocationError, StepsTried, Work, WorkError
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.kube.api.meta_v1 import ObjectMeta
from shared.kube.api.resource_v1 import DeviceClaim, ResourceClaim, ResourceClaimSpec
from shared.plugins.devices.node_allocatable import demand_of
from shared.selectors.node_terms import Terms

CANNOT_ALLOCATE: Final = "cannot allocate all claims"

OUTCOMES_MAX: Final = 1 << 12
"""So many ways in which nodes have devices left are remembered; with more, all are forgotten."""

Names = tuple[str, ...]
"""Extended resources, sorted."""
GroupKey = tuple[bytes, Names]
"""A group of nodes, and the extended resources that devices provide there."""


class Provided(NamedTuple):
    """Which of a pod's extended resources devices have to provide on n rows."""

    sets: list[Names]
    """Distinct ones."""
    of_row: Int64s
    """Shape (n,): which of the sets."""
    misfits: Bools
    """Shape (n,): a resource is provided by nobody."""


class AllocationOutcome(NamedTuple):
    """What allocation came to on one node."""

    text: str = ""
    """Why there is none; empty where there is one."""
    is_error: bool = False
    solutions: tuple[Solution, ...] = ()
    amounts: Mapping[str, int] = {}
    """What the node has to have left (`Demand`)."""


@dataclass(eq=False)
class DeviceClaims:
    """What one pod class needs; the state between the extension points."""

    claims: list[ResourceClaim]
    """Those that the pod names; without the special one for extended resources."""
    scalars: dict[str, int]
    """Extended resources that the pod asks for, if devices may provide some of them."""
    timeout_s: float
    position: int
    """Of the log of the index of devices, when nodes were last asked about."""
    available: list[tuple[ResourceClaim, Terms | None]] = field(default_factory=list)
    """Allocated ones, and where they can be used; None: everywhere."""
    offers: object = None
    """Of the index of devices when nodes were last asked about, and the version of all objects."""
    version: int = 0
    has_failed: bool = False
    """Allocation came to an error on some node."""
    outcomes: dict[GroupKey, AllocationOutcome] = field(default_factory=dict)
    """At most OUTCOMES_MAX."""
    understood: dict[Names, list[ClaimToAllocate] | AllocationError] = field(default_factory=dict)
    """What is to be allocated, by the extended resources that devices provide."""

    def __post_init__(self) -> None:
        self.pending = [c for c in self.claims if c.status.allocation is None]
        self.renew_work()

    def renew_work(self) -> None:
        """All that is allowed may be done again: in each run of an extension point, but used up, it
        stays so until an object changes."""
        self.work = Work(self.timeout_s)


def scalars_of(pod: PodInfo) -> dict[str, int]:
    """The extended resources that the pod asks for."""
    return {n: a for n, a in pod.requests.scalars.items() if a and can_be_backed(n)}


def provided_by_devices(scalars: dict[str, int], cluster: ClusterView, rows: Rows) -> Provided:
    """What the nodes themselves do not have is left to devices, where a class stands for it."""
    provided = Provided([()], np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_))
    if not scalars:
        return provided
    sets, of_row, misfits = provided
    by_resource = device_index(cluster).by_resource
    names = tuple(sorted(scalars))
    _, allocatable = requested_and_allocatable(cluster.nodes, names, row_index(rows))
    for name, amounts in zip(names, allocatable, strict=True):
        lacks = np.broadcast_to(amounts == 0, len(rows))
        if name not in by_resource:
            misfits |= lacks
        elif lacks.all():
            sets = [(*each, name) for each in sets]
        elif lacks.any():
            codes, of_row = np.unique(2 * of_row + lacks, return_inverse=True)
            sets = [(*sets[c >> 1], name) if c & 1 else sets[c >> 1] for c in codes.tolist()]
    return Provided(sets, of_row, misfits)


def extended_requests_of(pod: PodInfo, cluster: ClusterView, names: Names) -> ExtendedRequests:
    """What the scheduler's own claim asks for; `names`: the resources that devices provide."""
    by_resource = device_index(cluster).by_resource
    return extended_requests(pod.spec, {name: by_resource[name] for name in names})


def outcomes(
    state: DeviceClaims, pod: PodInfo, cluster: ClusterView, rows: Rows, provided: Provided
) -> Iterator[tuple[Bools, AllocationOutcome]]:
    """Groups of rows for which allocation comes to the same: which rows, and to what. Rows for which
    nothing is to be allocated are in none. What is asked here is the work of one run."""
    concerned = np.array([bool(state.pending or each) for each in provided.sets])[provided.of_row]
    if not concerned.any():
        return
    if not state.work.is_over:
        state.renew_work()
    groups = device_index(cluster).groups(rows)
    if len(groups.keys) == len(provided.sets) == 1:
        key = groups.keys[0], provided.sets[0]
        yield concerned, outcome_on(state, pod, cluster, rows.item(0), key)
        return
    for number, names in enumerate(provided.sets):
        with_set = concerned & (provided.of_row == number)
        for group in np.bincount(groups.group[with_set]).nonzero()[0].tolist():
            at = with_set & (groups.group == group)
            key = groups.keys[group], names
            yield at, outcome_on(state, pod, cluster, rows.item(at.argmax()), key)


def outcome_on(
    state: DeviceClaims, pod: PodInfo, cluster: ClusterView, row: int, key: GroupKey
) -> AllocationOutcome:
    """What allocation comes to on a row of a group."""
    offers, version = device_index(cluster).offers, cluster.objects.version
    is_void = state.offers is not offers or len(state.outcomes) >= OUTCOMES_MAX
    if is_void or (state.work.is_over and state.version != version):
        state.renew_work()
        state.outcomes.clear()
        state.understood.clear()
    state.offers, state.version = offers, version
    outcome = state.outcomes.get(key)
    if outcome is None:
        outcome = state.outcomes[key] = allocated_on(state, pod, cluster, row, key[1])
    return outcome


def allocated_on(
    state: DeviceClaims, pod: PodInfo, cluster: ClusterView, row: int, names: Names
) -> AllocationOutcome:
    """What allocation comes to on one node."""
    index = device_index(cluster)
    nodes = cluster.nodes
    claims = WorkError() if state.work.is_over else _understood(state, pod, cluster, names)
    tried_before = state.work.step_count
    try:
        if isinstance(claims, AllocationError):
            raise claims
        solutions = allocate(
            claims,
            index.pools(row),
            index.state,
            lambda match: reaches(match, nodes, row),
            state.work,
        )
        if solutions is None:
            return AllocationOutcome(CANNOT_ALLOCATE)
        demand = demand_of(pod, solutions)
    except WorkError as error:
        return AllocationOutcome(f"node {nodes.name_of(row)}: {error}", is_error=True)
    except AllocationError as error:
        return AllocationOutcome(str(error), is_error=True)
    except NodeAllocationError as error:
        return AllocationOutcome(str(error))
    finally:
        cluster.derived(StepsTried).count += state.work.step_count - tried_before
    return AllocationOutcome(demand.text, solutions=tuple(solutions), amounts=demand.amounts)


def _understood(
    state: DeviceClaims, pod: PodInfo, cluster: ClusterView, names: Names
) -> list[ClaimToAllocate] | AllocationError:
    known = state.understood.get(names)
    if known is None:
        claims = list(state.pending)
        if names:
            requests = extended_requests_of(pod, cluster, names).requests
            spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests))
            meta = ObjectMeta(name=SPECIAL_CLAIM, namespace=pod.namespace)
            claims.append(ResourceClaim(metadata=meta, spec=spec))
        try:
            known = understand(claims, cluster.objects.all(CLASSES), cluster.gates)
        except AllocationError as error:
            known = error
        state.understood[names] = known
    return known
