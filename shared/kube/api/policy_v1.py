"""Objects of policy/v1: what protects pods from being evicted."""

import msgspec

from shared.kube.api.meta_v1 import ApiStruct, Int32, LabelSelector, NamedObject


class PodDisruptionBudgetSpec(ApiStruct):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(NamedObject):
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)
