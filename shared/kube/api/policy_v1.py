"""Objects of policy/v1: what protects pods from being evicted."""

import msgspec

from shared.kube.api.meta_v1 import ApiStruct, Int32, LabelSelector, NamedObject


class PodDisruptionBudgetSpec(ApiStruct):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str | None] | None = None
    """When each was let go; null is Go's zero time (Time.MarshalJSON in
    staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go, v1.36.2)."""


class PodDisruptionBudget(NamedObject):
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)
