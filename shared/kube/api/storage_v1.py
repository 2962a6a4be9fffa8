"""Objects of storage.k8s.io/v1: classes of volumes, and what CSI drivers say of nodes."""

import msgspec

from shared.kube.api.meta_v1 import ApiStruct, Int32, LabelSelector, NamedObject, Quantity


class TopologySelectorLabelRequirement(ApiStruct):
    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(ApiStruct):
    match_label_expressions: list[TopologySelectorLabelRequirement] | None = None


class StorageClass(NamedObject):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class VolumeNodeResources(ApiStruct):
    count: Int32 | None = None


class CsiNodeDriver(ApiStruct):
    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CsiNodeSpec(ApiStruct):
    drivers: list[CsiNodeDriver] | None = None


class CsiNode(NamedObject):
    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class CsiDriverSpec(ApiStruct):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CsiDriver(NamedObject):
    spec: CsiDriverSpec = msgspec.field(default_factory=CsiDriverSpec)


class CsiStorageCapacity(NamedObject):
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(ApiStruct):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = msgspec.field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(NamedObject):
    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)
