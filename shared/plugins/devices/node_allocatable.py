"""Devices that are made of what a node has for all: cpu, memory, ephemeral storage, huge pages (gate
DRANodeAllocatableResources).

A driver says of its device what of the node whoever is given it takes besides. That counts as if the
pod asked for it: once the pod is reserved, by its status, which PreBind tells the API server. No two
pods of a node may share a claim for such devices, as it would count twice.

Apart from the plugin, which asks it at each of its extension points.

Rules: pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go and `assume`
in pkg/scheduler/schedule_one.go, v1.36.2.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from shared.columns.rows import row_index
from shared.columns.schema import Bools, Rows
from shared.columns.table import NodeTable
from shared.columns.usage import requested_and_allocatable
from shared.dra.allocated import results_of
from shared.dra.device_index import CLAIMS, device_index
from shared.dra.pod_claims import claim_name_of_pod
from shared.dra.requests import Solution
from shared.dra.resource_slices import DeviceFacts, NodeShare
from shared.dra.search_work import AllocationError
from shared.feature_gates import DRA_NODE_ALLOCATABLE_RESOURCES
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code, FirstReasons
from shared.kube.api.core_v1 import PodStatus
from shared.kube.api.core_v1_parts import NodeAllocatableResourceClaimStatus
from shared.kube.api.resource_v1 import AllocatedDevice, ResourceClaim
from shared.kube.pod_record import OwnFacts
from shared.kube.pod_resources import lacking_at_pod_level, requests_with
from shared.kube.quantity import NANOS_PER_UNIT, ExactQuantity, canonical, parse
from shared.kube.resource_names import EPHEMERAL_STORAGE, is_supported_at_pod_level

NOTHING: Final = parse("0")


class _Taken(NamedTuple):
    """A device that somebody is given."""

    name: str
    facts: DeviceFacts | None
    """None: no slice tells of it any more."""
    consumed: Mapping[str, ExactQuantity] | None
    """Of a shared device: what is taken of it."""


class Demand(NamedTuple):
    """What a pod with devices asks of the node that has them."""

    text: str = ""
    """Why it cannot have them; empty if it can."""
    amounts: Mapping[str, int] = {}
    """By resource, all that the pod asks for, in the integers of the columns; of devices that take
    nothing of the node empty."""


def demand_of(pod: PodInfo, solutions: Sequence[Solution]) -> Demand:
    """AllocationError for a device of which it cannot be told what it takes."""
    if not any(g.device.facts.node_shares for each in solutions for g in each.given):
        return Demand()
    taken = (
        (each.claim, [_Taken(g.device.identity[2], g.device.facts, g.consumed) for g in each.given])
        for each in solutions
    )
    statuses = _statuses(pod, taken)
    for status in statuses:
        if not status.containers:
            name = status.resource_claim_name
            return Demand(
                f"claim {name}: node-allocatable resource claim not referenced by any container "
                "within the pod"
            )
    lacking = lacking_at_pod_level(pod.template, statuses)
    if lacking:
        return Demand(
            f"pod level request for {lacking} is insufficient to cover the aggregated container "
            "and node-allocatable DRA requests"
        )
    return Demand(
        amounts={
            name: amount
            for name, amount in requests_with(pod.template, statuses).amounts.items()
            if amount and (name == EPHEMERAL_STORAGE or is_supported_at_pod_level(name))
        }
    )


def refuse_full(
    said: FirstReasons, at: Bools, amounts: Mapping[str, int], nodes: NodeTable, rows: Rows
) -> None:
    """Those of the rows `at` (shape (n,)) that do not have so much left; several resources may be why
    (nodeFitsResources)."""
    at = at & (said.codes == 0)
    requested, allocatable = requested_and_allocatable(nodes, list(amounts), row_index(rows))
    for (name, amount), used, capacity in zip(amounts.items(), requested, allocatable, strict=True):
        lacks = at & (amount > capacity - used)
        if lacks.any():
            said.reasons[lacks] |= said.told.mask(f"Insufficient {name}")
            code = np.where(
                amount > capacity, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE
            )
            said.codes[lacks] = np.maximum(said.codes, code)[lacks]


def refuse_shared(
    said: FirstReasons, claim: ResourceClaim, cluster: ClusterView, rows: Rows
) -> None:
    """Rows on which pods have been given an allocated claim of which their node's resources are part
    (validateNodeAllocatableDRAClaimSharing); not of others of a group that is being tried."""
    meta = claim.metadata
    if not cluster.gates[DRA_NODE_ALLOCATABLE_RESOURCES] or cluster.objects.shared(
        CLAIMS, meta.key
    ):
        return
    name, namespace = meta.name, meta.namespace
    of = [
        class_id
        for class_id, info in cluster.classes.items()
        if info.namespace == namespace
        and any(each.resource_claim_name == name for each in _stated(info.template.status))
    ]
    if not of or not len(rows):
        return
    used = cluster.pods.used_rows()
    pods = used[np.isin(cluster.pods.class_id[used], of)]
    counts = np.bincount(cluster.pods.node_row[pods], minlength=int(rows.max()) + 1)[rows]
    for where, text in (
        (counts > 1, f"node allocatable resource claim {name} shared by multiple pods"),
        (counts == 1, f"node allocatable resource claim {name} is already used by another pod"),
    ):
        said.refuse(where, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)


def taken_by(
    pod: PodInfo, claims: Iterable[ResourceClaim], cluster: ClusterView
) -> list[NodeAllocatableResourceClaimStatus]:
    """What claims that were allocated for a pod take of its node, for its status; one of each claim that
    does, by name. AllocationError as of `demand_of`."""
    index = device_index(cluster)

    def taken(each: AllocatedDevice) -> _Taken:
        consumed = each.consumed_capacity
        return _Taken(
            each.device,
            index.facts_of((each.driver, each.pool, each.device)),
            None if consumed is None else {name: parse(q) for name, q in consumed.items()},
        )

    return _statuses(pod, ((claim, map(taken, results_of(claim))) for claim in claims))


def status_with(
    pod: PodInfo, statuses: list[NodeAllocatableResourceClaimStatus]
) -> PodStatus | None:
    """The pod's status with these, in place of any that an earlier attempt has left; None: as it is."""
    if statuses == _stated(pod.template.status):
        return None
    before = pod.template.status or PodStatus()
    return msgspec.structs.replace(
        before, node_allocatable_resource_claim_statuses=statuses or None
    )


def _stated(status: PodStatus | None) -> list[NodeAllocatableResourceClaimStatus]:
    return (status and status.node_allocatable_resource_claim_statuses) or []


def _statuses(
    pod: PodInfo, taken: Iterable[tuple[ResourceClaim, Iterable[_Taken]]]
) -> list[NodeAllocatableResourceClaimStatus]:
    """buildNodeAllocatableDRAInfo"""
    found = []
    for claim, devices in taken:
        resources: dict[str, ExactQuantity] = {}
        for resource, amount in _amounts(claim, devices):
            before = resources.get(resource, NOTHING)
            shown = before if before.nanos else amount
            resources[resource] = ExactQuantity(before.nanos + amount.nanos, shown.format)
        if resources:
            found.append(
                NodeAllocatableResourceClaimStatus(
                    claim.metadata.name,
                    _containers(pod, claim.metadata.name) or None,
                    {name: canonical(amount) for name, amount in resources.items()},
                )
            )
    return sorted(found, key=lambda each: each.resource_claim_name)


def _amounts(
    claim: ResourceClaim, devices: Iterable[_Taken]
) -> Iterator[tuple[str, ExactQuantity]]:
    for device in devices:
        for resource, share in (device.facts.node_shares if device.facts else {}).items():
            if share.capacity and device.consumed is None:
                raise AllocationError(
                    f"claim {claim.metadata.key}, device {device.name}: ConsumedCapacity is nil, but "
                    f"Capacity key '{share.capacity}' is set in NodeAllocatableResourceMappings for "
                    f"resource {resource}"
                )
            amount = _amount(share, device.consumed or {})
            if amount is not None:
                yield resource, amount


def _amount(share: NodeShare, consumed: Mapping[str, ExactQuantity]) -> ExactQuantity | None:
    """What one device takes of a resource; None: nothing, as its capacity is not what is taken."""
    if not share.capacity:
        return share.multiplier or NOTHING
    base = consumed.get(share.capacity)
    if base is None or share.multiplier is None:
        return base
    nanos = -(-base.nanos * share.multiplier.nanos // NANOS_PER_UNIT)
    return ExactQuantity(nanos, base.format)


def _containers(pod: PodInfo, claim_name: str) -> list[str]:
    """The names of those that use the claim, in their order."""
    spec, own = pod.spec, pod.template.own or OwnFacts()
    names = {
        reference.name
        for reference in spec.resource_claims or ()
        if claim_name_of_pod(pod.namespace, own, reference) == claim_name
    }
    return [
        container.name
        for container in (*(spec.init_containers or ()), *spec.containers)
        for claim in (container.resources and container.resources.claims) or ()
        if claim.name in names
    ]
