"""The claims of a pod: which they are, and whether the pod may have them.

A pod names claims outright or through templates, of which it finds the names of the generated claims
in its status. A claim that is missing or another pod's keeps the pod out; the texts are shown.

Rules: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/claim.go and
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.2.
"""

import enum
from collections.abc import Callable
from typing import Final

from shared.errors import OperationalError
from shared.kube.api.core_v1 import PodResourceClaim
from shared.kube.api.meta_v1 import Condition
from shared.kube.api.resource_v1 import ResourceClaim, ResourceClaimStatus
from shared.kube.pod_record import OwnFacts, PodTemplate

RESERVED_FOR_MAX: Final = 256
"""Pods that may share a claim (ResourceClaimReservedForMaxSize)."""

FindClaim = Callable[[str], ResourceClaim | None]
"""By `namespace/name`."""


class ClaimError(OperationalError):
    """A claim that the pod cannot have, at least for now."""


def claims_of(namespace: str, template: PodTemplate, find: FindClaim) -> list[ResourceClaim]:
    """The claims of a pod in order; ClaimError for the first that it cannot have."""
    own = template.own or OwnFacts()
    found = []
    for reference in template.spec.resource_claims or ():
        name, is_generated = _claim_name(namespace, own, reference)
        if name is None:
            continue  # Nothing had to be made for this reference.
        claim = find(f"{namespace}/{name}")
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
        if claim.metadata.deletion_timestamp:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if is_generated and not _is_owned_by(claim, own.uid):
            raise ClaimError(
                f"ResourceClaim {namespace}/{name} was not created for Pod "
                f"{namespace}/{own.name} (Pod is not owner)"
            )
        found.append(claim)
    return found


def _claim_name(
    namespace: str, own: OwnFacts, reference: PodResourceClaim
) -> tuple[str | None, bool]:
    """The claim's name, and whether it was generated."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name, False
    if reference.resource_claim_template_name is None:
        raise ClaimError(f'pod "{namespace}/{own.name}": none of the supported fields are set')
    for status in own.resource_claim_statuses or ():
        if status.name == reference.name:
            return status.resource_claim_name, True
    raise ClaimError(f'pod "{namespace}/{own.name}": ResourceClaim not created yet')


def _is_owned_by(claim: ResourceClaim, uid: str) -> bool:
    return any(
        owner.controller and owner.uid == uid for owner in claim.metadata.owner_references or ()
    )


def is_reserved_for(claim: ResourceClaim, uid: str) -> bool:
    """Whether the pod is one of those that use the claim."""
    return any(user.uid == uid for user in claim.status.reserved_for or ())


def is_used_by_none_but(claim: ResourceClaim, uid: str) -> bool:
    """Whether nobody uses the claim, but perhaps this pod."""
    users = claim.status.reserved_for or []
    return not users or (len(users) == 1 and users[0].uid == uid)


def can_be_reserved(claim: ResourceClaim) -> bool:
    """Whether one more pod may use the claim."""
    return len(claim.status.reserved_for or ()) < RESERVED_FOR_MAX


class Readiness(enum.Enum):
    """How far drivers are with an allocation."""

    READY = "nothing to prepare, or all of it is prepared"
    PENDING = "a driver is at it"
    FAILED = "a driver gave up"


def readiness(status: ResourceClaimStatus) -> Readiness:
    """What drivers say of the allocated devices that need preparing (isClaimReadyForBinding)."""
    if status.allocation is None:
        return Readiness.READY
    said = {(d.driver, d.pool, d.device): d for d in status.devices or ()}
    for result in status.allocation.devices.results or ():
        if not result.binding_conditions:
            continue
        device = said.get((result.driver, result.pool, result.device))
        if device is None:
            return Readiness.PENDING
        is_true = {c.type for c in device.conditions or () if c.status == "True"}
        if is_true & set(result.binding_failure_conditions or ()):
            return Readiness.FAILED
        if not is_true.issuperset(result.binding_conditions):
            return Readiness.PENDING
    return Readiness.READY


def failed_condition(status: ResourceClaimStatus) -> Condition | None:
    """By which a driver says that it gave up preparing an allocated device; None: it did not."""
    said = {(d.driver, d.pool, d.device): d for d in status.devices or ()}
    for result in (status.allocation.devices.results or ()) if status.allocation else ():
        device = said.get((result.driver, result.pool, result.device))
        if not result.binding_conditions or device is None:
            continue
        by_type = {c.type: c for c in device.conditions or () if c.status == "True"}
        for name in result.binding_failure_conditions or ():
            if name in by_type:
                return by_type[name]
    return None


def binding_failed(claim: ResourceClaim) -> bool:
    """Whether a driver gave up preparing one of the allocated devices."""
    return readiness(claim.status) is Readiness.FAILED
