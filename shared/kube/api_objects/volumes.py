"""Volumes of a pod. Persistent volumes and inline ones have their sources in common."""

import msgspec

from shared.kube.api_objects.base import ApiStruct, Int32
from shared.kube.api_objects.containers import ResourceRequirements
from shared.kube.api_objects.metadata import ObjectTemplateMeta
from shared.kube.api_objects.selectors import LabelSelector


class PersistentVolumeClaimVolumeSource(ApiStruct):
    claim_name: str
    read_only: bool = False


class PersistentVolumeClaimSpec(ApiStruct):
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(ApiStruct):
    metadata: ObjectTemplateMeta | None = None
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)


class EphemeralVolumeSource(ApiStruct):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class GcePersistentDisk(ApiStruct):
    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(ApiStruct):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class AzureDisk(ApiStruct):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")


class Cinder(ApiStruct):
    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(ApiStruct):
    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureFile(ApiStruct):
    """Only its being there is read: it is one of the sources that CSI has taken over."""


class VsphereVolume(ApiStruct):
    """As `AzureFile`."""


class Iscsi(ApiStruct):
    iqn: str = ""
    target_portal: str = ""
    lun: Int32 = 0
    read_only: bool = False


class Rbd(ApiStruct):
    monitors: list[str] | None = None
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class CsiVolume(ApiStruct):
    """Inline CSI volume of a pod, and the source of a CSI persistent volume."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool | None = None


class ImageVolume(ApiStruct):
    reference: str = ""


class Volume(ApiStruct):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    azure_file: AzureFile | None = None
    vsphere_volume: VsphereVolume | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
    csi: CsiVolume | None = None
    image: ImageVolume | None = None
