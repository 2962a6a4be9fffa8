"""What allocating devices for a pod comes to, on nodes that offer the same and on one node.

Nodes are asked about in groups: nodes to which the same devices belong get one answer, kept with the
pod's class until some object changes. Apart from the plugin, whose extension points ask it.

Rules: pkg/scheduler/framework/plugins/dynamicresources/{dynamicresources,extendeddynamicresources}.go,
v1.36.2.
"""

from typing import Final, NamedTuple

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.dra.allocator import ClaimToAllocate, Solution, allocate, understand
from shared.dra.errors import AllocationError, NodeAllocationError
from shared.dra.extended import ExtendedRequests, can_be_backed, extended_requests
from shared.dra.special_claim import SPECIAL_CLAIM
from shared.framework.cluster_view import ClusterView
from shared.framework.device_index import CLASSES, device_index, reaches
from shared.framework.pod_info import PodInfo
from shared.kernels.node_selector import Terms
from shared.kernels.resource_columns import requested_and_allocatable
from shared.kernels.rows import row_index
from shared.kube.objects import (
    DeviceClaim,
    DeviceClass,
    ObjectMeta,
    ResourceClaim,
    ResourceClaimSpec,
)

CANNOT_ALLOCATE: Final = "cannot allocate all claims"

GroupKey = tuple[bytes, int]
"""A group of nodes, and the extended resources that devices provide there."""


class Outcome(NamedTuple):
    """What allocation came to on one node."""

    text: str = ""
    """Why there is none; empty where there is one."""
    is_error: bool = False
    solutions: tuple[Solution, ...] = ()


class PodClaims:
    """What one pod class needs; the state between the extension points."""

    def __init__(self, claims: list[ResourceClaim], scalars: dict[str, int], version: int) -> None:
        self.claims = claims
        """Those that the pod names; without the special one for extended resources."""
        self.available: list[tuple[ResourceClaim, Terms | None]] = []
        """Allocated ones, and where they can be used; None: everywhere."""
        self.pending = [c for c in claims if c.status.allocation is None]
        self.scalars = scalars
        """Extended resources that the pod asks for, if devices may provide some of them."""
        self.version = version
        self.has_failed = False
        """Allocation came to an error on some node."""
        self.outcomes: dict[GroupKey, Outcome] = {}
        """By the key of a group of nodes and the extended resources that devices provide there."""
        self.understood: dict[int, list[ClaimToAllocate] | AllocationError] = {}
        """What is to be allocated, by the extended resources that devices provide."""


# Extended resources -----------------------------------------------------------------------------------


def scalars_of(pod: PodInfo) -> dict[str, int]:
    """The extended resources that the pod asks for."""
    return {n: a for n, a in pod.requests.scalars.items() if a and can_be_backed(n)}


def provided_by_devices(state: PodClaims, cluster: ClusterView, rows: Rows) -> tuple[Int64s, Bools]:
    """For each row, which of the pod's extended resources devices have to provide (a bit each, in
    order of name), and whether one is provided by nobody."""
    provided = np.zeros(len(rows), np.int64)
    misfits = np.zeros(len(rows), np.bool_)
    if not state.scalars:
        return provided, misfits
    by_resource = device_index(cluster).by_resource
    names = tuple(sorted(state.scalars))
    _, allocatable = requested_and_allocatable(cluster.nodes, names, row_index(rows))
    for bit, name in enumerate(names):
        lacks = np.broadcast_to(allocatable[bit] == 0, len(rows))
        if name in by_resource:
            provided += lacks * np.int64(1 << bit)
        else:
            misfits |= lacks
    return provided, misfits


def extended_requests_of(
    state: PodClaims, pod: PodInfo, cluster: ClusterView, bits: int
) -> ExtendedRequests:
    """What the scheduler's own claim asks for; `bits`: the resources that devices provide."""
    by_resource = device_index(cluster).by_resource
    names = sorted(state.scalars)
    backed: dict[str, DeviceClass] = {
        name: by_resource[name] for bit, name in enumerate(names) if bits >> bit & 1
    }
    return extended_requests(pod.spec, backed)


def _special_claim(
    state: PodClaims, pod: PodInfo, cluster: ClusterView, bits: int
) -> ResourceClaim:
    """The scheduler's own claim for the extended resources that devices provide."""
    requests = list(extended_requests_of(state, pod, cluster, bits).requests)
    return ResourceClaim(
        metadata=ObjectMeta(name=SPECIAL_CLAIM, namespace=pod.namespace),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)),
    )


# Allocation -------------------------------------------------------------------------------------------


def alike(
    state: PodClaims, cluster: ClusterView, rows: Rows, provided: Int64s
) -> list[tuple[GroupKey, Bools, int]]:
    """Groups of rows for which allocation comes to the same: key, members, position of the first.
    Rows for which nothing is to be allocated are in none."""
    if not len(rows):
        return []
    if state.pending:
        concerned = np.ones(len(rows), np.bool_)
    else:
        concerned = provided != 0
        if not concerned.any():
            return []
    groups = device_index(cluster).groups(cluster.nodes, rows)
    found = []
    for bits in np.unique(provided[concerned]).tolist():
        with_bits = concerned & (provided == bits)
        for group in np.unique(groups.group[with_bits]).tolist():
            at = with_bits & (groups.group == group)
            found.append(((groups.keys[group], bits), at, int(at.argmax())))
    return found


def outcome_on(
    state: PodClaims, pod: PodInfo, cluster: ClusterView, row: int, key: GroupKey
) -> Outcome:
    """What allocation comes to on a row of a group."""
    if state.version != cluster.objects.version:
        state.version = cluster.objects.version
        state.outcomes.clear()
        state.understood.clear()
    outcome = state.outcomes.get(key)
    if outcome is None:
        outcome = state.outcomes[key] = allocated_on(state, pod, cluster, row, key[1])
    return outcome


def allocated_on(
    state: PodClaims, pod: PodInfo, cluster: ClusterView, row: int, bits: int
) -> Outcome:
    """What allocation comes to on one node."""
    index = device_index(cluster)
    claims = _understood(state, pod, cluster, bits)
    if isinstance(claims, AllocationError):
        return Outcome(str(claims), is_error=True)
    nodes = cluster.nodes
    try:
        solutions = allocate(
            claims,
            index.pools(nodes, row),
            index.state,
            lambda match: reaches(match, nodes, row),
        )
    except AllocationError as error:
        return Outcome(str(error), is_error=True)
    except NodeAllocationError as error:
        return Outcome(str(error))
    return Outcome(CANNOT_ALLOCATE) if solutions is None else Outcome(solutions=tuple(solutions))


def _understood(
    state: PodClaims, pod: PodInfo, cluster: ClusterView, bits: int
) -> list[ClaimToAllocate] | AllocationError:
    known = state.understood.get(bits)
    if known is None:
        claims = list(state.pending)
        if bits:
            claims.append(_special_claim(state, pod, cluster, bits))
        try:
            known = understand(claims, cluster.objects.all(CLASSES))
        except AllocationError as error:
            known = error
        state.understood[bits] = known
    return known
