"""Objects of scheduling.k8s.io/v1alpha2: pods that are placed together."""

import msgspec

from shared.kube.api.core_v1 import PodResourceClaim, PodResourceClaimStatus
from shared.kube.api.meta_v1 import ApiStruct, Condition, Int32, NamedObject


class GangSchedulingPolicy(ApiStruct):
    min_count: Int32 = 0


class PodGroupSchedulingPolicy(ApiStruct):
    gang: GangSchedulingPolicy | None = None  # Else `basic`, of which nothing is read.


class TopologyConstraint(ApiStruct):
    key: str = ""


class PodGroupSchedulingConstraints(ApiStruct):
    topology: list[TopologyConstraint] | None = None


class PodGroupSpec(ApiStruct):
    scheduling_policy: PodGroupSchedulingPolicy = msgspec.field(
        default_factory=PodGroupSchedulingPolicy
    )
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: list[PodResourceClaim] | None = None
    """PodGroupResourceClaim has the fields of a pod's."""
    disruption_mode: str = ""
    priority: Int32 | None = None


class PodGroupStatus(ApiStruct):
    conditions: list[Condition] | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class PodGroup(NamedObject):
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)
