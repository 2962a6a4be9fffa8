"""Nodes."""

import msgspec

from shared.kube.api_objects.base import ApiStruct, Int64, ResourceList
from shared.kube.api_objects.metadata import ObjectMeta


class Taint(ApiStruct):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(ApiStruct):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class ContainerImage(ApiStruct):
    names: list[str] | None = None
    size_bytes: Int64 = 0


class NodeCondition(ApiStruct):
    type: str = ""
    status: str = ""


class NodeStatus(ApiStruct):
    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None
    conditions: list[NodeCondition] | None = None
    images: list[ContainerImage] | None = None
    declared_features: list[str] | None = None


class Node(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
