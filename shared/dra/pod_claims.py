"""The claims of a pod: which they are, whether the pod may have them, and whether they are ready.

A pod names claims outright or through templates, of which it finds the names of the generated claims
in its status. A claim that is missing or another pod's keeps the pod out; the texts are shown. Some
devices have to be prepared by their drivers before the pod is bound (isClaimReadyForBinding).

Rules: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/claim.go and
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.2.
"""

from collections.abc import Callable
from typing import NamedTuple

from shared.errors import OperationalError
from shared.kube.api.core_v1 import PodResourceClaim
from shared.kube.api.meta_v1 import Condition
from shared.kube.api.resource_v1 import (
    RESERVED_FOR_MAX,
    AllocatedDeviceStatus,
    ResourceClaim,
    ResourceClaimStatus,
)
from shared.kube.pod_record import OwnFacts, PodTemplate

FindClaim = Callable[[str], ResourceClaim | None]
"""By `namespace/name`."""


class ClaimError(OperationalError):
    """A claim that the pod cannot have, at least for now."""


def claims_of(namespace: str, template: PodTemplate, find: FindClaim) -> list[ResourceClaim]:
    """The claims of a pod in order, each once; ClaimError for the first that it cannot have."""
    own = template.own or OwnFacts()
    found: dict[str, ResourceClaim] = {}
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
        found[name] = claim
    return [*found.values()]


def _claim_name(
    namespace: str, own: OwnFacts, reference: PodResourceClaim
) -> tuple[str | None, bool]:
    """The claim's name, and whether it was generated."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name, False
    if reference.resource_claim_template_name is None:
        where = f'pod "{namespace}/{own.name}", spec.resourceClaim "{reference.name}"'
        raise ClaimError(f"{where}: none of the supported fields are set")
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


class Preparation(NamedTuple):
    """How far drivers are with the devices of a claim."""

    is_done: bool
    """Of all that need it."""
    failed: Condition | None = None
    """By which a driver says that it gave up."""


def preparation(status: ResourceClaimStatus) -> Preparation:
    """What drivers say of the allocated devices that need preparing."""
    said: dict[tuple[str, str, str], AllocatedDeviceStatus] = {}
    for each in status.devices or ():
        # Of several shares of a device the first counts (getAllocatedDeviceStatus).
        said.setdefault((each.driver, each.pool, each.device), each)
    for result in (status.allocation.devices.results or ()) if status.allocation else ():
        if not result.binding_conditions:
            continue
        device = said.get((result.driver, result.pool, result.device))
        if device is None:
            return Preparation(is_done=False)
        is_true = {c.type: c for c in device.conditions or () if c.status == "True"}
        for name in result.binding_failure_conditions or ():
            if name in is_true:
                return Preparation(is_done=False, failed=is_true[name])
        if not is_true.keys() >= set(result.binding_conditions):
            return Preparation(is_done=False)
    return Preparation(is_done=True)
