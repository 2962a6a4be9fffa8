"""The claims of a pod: which they are, whether the pod may have them, and whether they are ready.

A pod names claims outright or through templates, of which it finds the names of the generated claims
in its status. A claim that is missing or another pod's keeps the pod out; the texts are shown. Some
devices have to be prepared by their drivers before the pod is bound (isClaimReadyForBinding).

With the gate DRAWorkloadResourceClaims a pod's group has claims as well. One that the pod names as the
group does is reserved for the group, once, however many pods of it use the claim. Everywhere else
`group`, the name of the pod's group, is empty. Pods do not know the UID of their group.

Rules: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go and
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.2.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from shared.errors import OperationalError
from shared.kube.api.core_v1 import PodResourceClaim, PodResourceClaimStatus
from shared.kube.api.meta_v1 import Condition
from shared.kube.api.resource_v1 import AllocatedDeviceStatus, ResourceClaim, ResourceClaimStatus
from shared.kube.pod_record import OwnFacts, PodTemplate, controller_of
from shared.kube.resources import POD_GROUPS
from shared.kube.well_known import SCHEDULING_GROUP

FindClaim = Callable[[str], ResourceClaim | None]
"""By `namespace/name`."""


class ClaimError(OperationalError):
    """A claim that the pod cannot have, at least for now."""


def claims_of(
    namespace: str, template: PodTemplate, find: FindClaim, group: str = ""
) -> list[ResourceClaim]:
    """The claims of a pod in order, each once; ClaimError for the first that it cannot have."""
    own = template.own or OwnFacts()
    found: dict[str, ResourceClaim] = {}
    for reference in template.spec.resource_claims or ():
        name = claim_name_of_pod(namespace, own, reference)
        if name is None:
            continue  # Nothing had to be made for this reference.
        claim = claim_named(namespace, name, find)
        if claim.metadata.deletion_timestamp:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if reference.resource_claim_name is None and not _is_made_for(claim, own.uid, group):
            why = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
            raise ClaimError(
                f"ResourceClaim {namespace}/{name} was not created for Pod "
                f"{namespace}/{own.name} ({why})"
            )
        found[name] = claim
    return [*found.values()]


def claim_named(namespace: str, name: str, find: FindClaim) -> ResourceClaim:
    """ClaimError where there is none."""
    claim = find(f"{namespace}/{name}")
    if claim is None:
        raise ClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
    return claim


def claim_name_of_pod(namespace: str, own: OwnFacts, reference: PodResourceClaim) -> str | None:
    """As `claim_name`."""
    pod = f'pod "{namespace}/{own.name}"'
    unnamed = f'{pod}, spec.resourceClaim "{reference.name}"'
    return claim_name(reference, own.resource_claim_statuses, unnamed, pod)


def claim_name(
    reference: PodResourceClaim,
    statuses: Iterable[PodResourceClaimStatus] | None,
    unnamed: str,
    whose: str,
) -> str | None:
    """The name of a claim, None where none had to be made; ClaimError where there is none yet.
    `unnamed` and `whose`: what a reference that names nothing, and one whose claim is still to be made,
    are called."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name
    if reference.resource_claim_template_name is None:
        raise ClaimError(f"{unnamed}: none of the supported fields are set")
    for status in statuses or ():
        if status.name == reference.name:
            return status.resource_claim_name
    raise ClaimError(f"{whose}: ResourceClaim not created yet")


def _is_made_for(claim: ResourceClaim, uid: str, group: str) -> bool:
    owner = controller_of(claim.metadata.owner_references)
    if owner is None or owner.uid == uid:
        return owner is not None
    is_group = owner.kind == "PodGroup" and owner.api_version.startswith(f"{SCHEDULING_GROUP}/")
    return is_group and owner.name == group


def is_reserved_for(claim: ResourceClaim, uid: str, group: str = "") -> bool:
    """Whether the pod, or its group, is one of those that use the claim."""
    return any(
        user.uid == uid
        or (
            group
            and (user.api_group, user.resource, user.name)
            == (SCHEDULING_GROUP, POD_GROUPS.plural, group)
        )
        for user in claim.status.reserved_for or ()
    )


def is_used_by_none_but(claim: ResourceClaim, uid: str) -> bool:
    """Whether nobody uses the claim, but perhaps this pod or group."""
    users = claim.status.reserved_for or []
    return not users or (len(users) == 1 and users[0].uid == uid)


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
