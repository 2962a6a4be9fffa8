"""What pods belong to, and what protects them."""

import msgspec

from shared.kube.api_objects.base import ApiStruct, Int32
from shared.kube.api_objects.metadata import ObjectMeta
from shared.kube.api_objects.pods import PodCondition
from shared.kube.api_objects.selectors import LabelSelector


class Namespace(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class ServiceSpec(ApiStruct):
    selector: dict[str, str] | None = None


class Service(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class ReplicationControllerSpec(ApiStruct):
    selector: dict[str, str] | None = None


class ReplicationController(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)


class WorkloadSpec(ApiStruct):
    selector: LabelSelector | None = None


class ReplicaSet(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


class StatefulSet(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


class PodDisruptionBudgetSpec(ApiStruct):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


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
    disruption_mode: str = ""
    priority: Int32 | None = None


class PodGroupStatus(ApiStruct):
    conditions: list[PodCondition] | None = None


class PodGroup(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)
