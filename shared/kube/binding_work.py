"""What in-tree plugins have a binder write before a pod is bound, as `pre_bind_work` says it: apart from
the plugins, which a binder does not import, and from its messages, which plugins do not.
"""

from typing import Final

import msgspec

from shared.kube.api.core_v1_parts import (
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
)
from shared.kube.api.resource_v1 import AllocationResult, ResourceClaimConsumer, ResourceClaimSpec


class TakeVolume(msgspec.Struct, array_like=True, frozen=True):
    """Give a free volume to a claim."""

    volume_name: str
    volume_version: str
    """The resource version that this was decided on."""
    is_found: bool
    """Nobody had asked for this very volume."""
    claim_namespace: str
    claim_name: str
    claim_version: str
    claim_uid: str


class MakeVolume(msgspec.Struct, array_like=True, frozen=True):
    """Have a new volume made for a claim, for the pod's node."""

    claim_namespace: str
    claim_name: str
    claim_version: str
    """The resource version that this was decided on."""
    claim_uid: str


class VolumeWork(msgspec.Struct, array_like=True, frozen=True):
    """What a pod's claims need before the pod can be bound."""

    take: list[TakeVolume]
    make: list[MakeVolume]
    timeout_s: float


class GeneratedClaim(msgspec.Struct, array_like=True, frozen=True):
    """The scheduler's own claim for the extended resources of a pod: it has to be made first."""

    spec: ResourceClaimSpec
    mappings: list[ContainerExtendedResourceRequest]
    """For the pod's status: which container finds its devices in which request."""


class ClaimWork(msgspec.Struct, array_like=True, frozen=True):
    """Have a resource claim allocated, reserved for the pod or its group, and its devices ready."""

    namespace: str
    name: str
    uid: str
    """Empty: not known, and not compared."""
    allocation: AllocationResult
    is_new: bool
    """Allocated for this pod; otherwise the claim had this allocation before."""
    ready_timeout_s: float
    """How long to wait for devices that drivers have to prepare before the pod is bound. 0: nobody
    does, as DRADeviceBindingConditions is off."""
    generated: GeneratedClaim | None = None
    """None for a claim that somebody else made."""
    group: ResourceClaimConsumer | None = None
    """The pod's group, where the claim is reserved for that; None: for the pod."""
    pod_statuses: list[NodeAllocatableResourceClaimStatus] = []
    """Of the pod's last claim: what all of them take of its node, for the pod's status."""
    is_kept: bool = False
    """Pods of the group run with it: its devices stay, also where they do not get ready for this one."""


def consumer_of(work: ClaimWork, name: str, uid: str) -> ResourceClaimConsumer:
    """For whom the claim of the pod with this name and uid is reserved."""
    return work.group or ResourceClaimConsumer(resource="pods", name=name, uid=uid)


def needs_preparing(work: ClaimWork) -> bool:
    """Whether a driver has something to do before the pod is bound."""
    results = work.allocation.devices.results or ()
    return work.ready_timeout_s > 0 and any(each.binding_conditions for each in results)


volume_work: Final = msgspec.msgpack.Decoder(VolumeWork).decode
claim_work: Final = msgspec.msgpack.Decoder(list[ClaimWork]).decode
