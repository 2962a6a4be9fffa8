"""Persistent volumes, their claims and classes, and what CSI drivers say of nodes."""

import msgspec

from shared.kube.api_objects.base import ApiStruct, Int32, Quantity, ResourceList
from shared.kube.api_objects.metadata import ObjectMeta, ObjectReference
from shared.kube.api_objects.selectors import LabelSelector, NodeSelector
from shared.kube.api_objects.volumes import (
    AwsElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    CsiVolume,
    GcePersistentDisk,
    PersistentVolumeClaimSpec,
    PortworxVolume,
    VsphereVolume,
)


class PersistentVolumeClaimStatus(ApiStruct):
    phase: str = ""
    capacity: ResourceList | None = None


class PersistentVolumeClaim(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = msgspec.field(default_factory=PersistentVolumeClaimStatus)


class VolumeNodeAffinity(ApiStruct):
    required: NodeSelector | None = None


class PersistentVolumeSpec(ApiStruct):
    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    csi: CsiVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    azure_file: AzureFile | None = None
    vsphere_volume: VsphereVolume | None = None


class PersistentVolumeStatus(ApiStruct):
    phase: str = ""


class PersistentVolume(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = msgspec.field(default_factory=PersistentVolumeStatus)


class TopologySelectorLabelRequirement(ApiStruct):
    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(ApiStruct):
    match_label_expressions: list[TopologySelectorLabelRequirement] | None = None


class StorageClass(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class VolumeNodeResources(ApiStruct):
    count: Int32 | None = None


class CsiNodeDriver(ApiStruct):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CsiNodeSpec(ApiStruct):
    drivers: list[CsiNodeDriver] | None = None


class CsiNode(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class CsiDriverSpec(ApiStruct):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CsiDriver(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CsiDriverSpec = msgspec.field(default_factory=CsiDriverSpec)


class CsiStorageCapacity(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
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


class VolumeAttachment(ApiStruct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)
