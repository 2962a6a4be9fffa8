"""Of core/v1 what is needed without whole pods and nodes, by binders most of all: selectors of nodes,
volumes, and a pod in brief."""

import msgspec

from shared.kube.api.meta_v1 import (
    ApiStruct,
    Int64,
    LabelSelectorRequirement,
    NamedObject,
    ObjectIdentity,
    ResourceList,
)


class ObjectReference(ObjectIdentity):
    kind: str = ""


class NodeSelectorRequirement(LabelSelectorRequirement):
    """Of a node's label or field, by more operators."""


class NodeSelectorTerm(ApiStruct):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(ApiStruct):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class Toleration(ApiStruct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class ContainerExtendedResourceRequest(ApiStruct):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class NodeAllocatableResourceClaimStatus(ApiStruct):
    resource_claim_name: str = ""
    containers: list[str] | None = None
    resources: ResourceList | None = None


class BriefPodSpec(ApiStruct):
    node_name: str = ""
    scheduler_name: str = ""


class Phase(ApiStruct):
    phase: str = ""


class BriefPod(ApiStruct):
    """Which pod it is, whose, and where; for those who ask no more."""

    metadata: ObjectIdentity = msgspec.field(default_factory=ObjectIdentity)
    spec: BriefPodSpec = msgspec.field(default_factory=BriefPodSpec)
    status: Phase = msgspec.field(default_factory=Phase)


# Volumes of a pod, their claims, and what is behind these ----------------------------------------


class GcePersistentDisk(ApiStruct):
    pd_name: str = ""
    read_only: bool = False


class VolumeById(ApiStruct):
    volume_id: str = msgspec.field(default="", name="volumeID")


class AwsElasticBlockStore(VolumeById):
    read_only: bool = False


class AzureDisk(ApiStruct):
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class PresentVolume(ApiStruct):
    """Only its being there is read."""


class CsiVolume(ApiStruct):
    """Inline CSI volume of a pod, and the source of a CSI persistent volume."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool | None = None


class PersistentVolumeSource(ApiStruct):
    """What may be behind a persistent volume, and stand in a pod as well."""

    csi: CsiVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: VolumeById | None = None
    portworx_volume: VolumeById | None = None
    azure_file: PresentVolume | None = None
    vsphere_volume: PresentVolume | None = None


class VolumeNodeAffinity(ApiStruct):
    required: NodeSelector | None = None


class PersistentVolumeSpec(PersistentVolumeSource):
    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolume(NamedObject):
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: Phase = msgspec.field(default_factory=Phase)
