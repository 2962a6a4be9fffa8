"""The scheduler's own claim for the extended resources of a pod that devices provide.

Until a node is chosen it is a template without a name of its own. kube-apiserver would make up a name
(kube-scheduler leaves it to it); here the name follows from the pod and from what was allocated, so
that an order to make the claim may come twice, and what an earlier attempt left behind is never taken
for this one's.

Rules: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go, v1.36.2.
"""

import hashlib
from typing import Final

import msgspec

from shared.kube.api.resource_v1 import AllocationResult, ResourceClaim
from shared.kube.well_known import EXTENDED_RESOURCE_CLAIM, IS_ONE

SPECIAL_CLAIM: Final = "<extended-resources>"
"""Name of the claim before a node is chosen; messages show it."""
NAME_LENGTH_MAX: Final = 63
DIGEST_LENGTH: Final = 10

_encoder: Final = msgspec.json.Encoder(order="sorted")


def special_claim_name(pod_name: str, pod_uid: str, allocation: AllocationResult) -> str:
    """The same for the same pod and devices, and for no others."""
    digest = hashlib.sha256(f"{pod_uid}/".encode() + _encoder.encode(allocation)).hexdigest()
    base = f"{pod_name}-extended-resources"[: NAME_LENGTH_MAX - DIGEST_LENGTH - 1].rstrip("-.")
    return f"{base}-{digest[:DIGEST_LENGTH]}"


def pod_uid_of(claim: ResourceClaim) -> str:
    """The pod for which a scheduler made the claim; empty for claims of other makers."""
    meta = claim.metadata
    if (meta.annotations or {}).get(EXTENDED_RESOURCE_CLAIM) != IS_ONE:
        return ""
    return next((owner.uid for owner in meta.owner_references or () if owner.controller), "")
