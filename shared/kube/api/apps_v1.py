"""Objects of apps/v1: who else runs pods, and by which labels."""

import msgspec

from shared.kube.api.meta_v1 import ApiStruct, LabelSelector, NamedObject


class WorkloadSpec(ApiStruct):
    selector: LabelSelector | None = None


class ReplicaSet(NamedObject):
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


class StatefulSet(NamedObject):
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
