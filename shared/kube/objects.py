"""API objects with only the fields that scheduling reads; all others are skipped while decoding.

The field names are the API's (camelCase in JSON). The same structs travel between our processes as
msgpack maps with defaults left out: a template is then a few hundred bytes, and equal templates are
equal bytes, which is what makes pod classes cheap (see `PodTemplate`).

Lists that the API may send as null are declared optional here only where a real server does so;
Go's `omitempty` leaves empty ones out.

The structs stand in `shared/kube/api_objects/`, one file for each part of the API; all other code
takes them from here.
"""

from shared.kube.api_objects.base import ApiStruct as ApiStruct
from shared.kube.api_objects.base import Quantity as Quantity
from shared.kube.api_objects.base import ResourceList as ResourceList
from shared.kube.api_objects.containers import Container as Container
from shared.kube.api_objects.containers import ContainerPort as ContainerPort
from shared.kube.api_objects.containers import ContainerResourceClaim as ContainerResourceClaim
from shared.kube.api_objects.containers import ContainerRestartRule as ContainerRestartRule
from shared.kube.api_objects.containers import ContainerStatus as ContainerStatus
from shared.kube.api_objects.containers import ResourceRequirements as ResourceRequirements
from shared.kube.api_objects.devices import AllocatedDevice as AllocatedDevice
from shared.kube.api_objects.devices import AllocatedDeviceStatus as AllocatedDeviceStatus
from shared.kube.api_objects.devices import AllocationResult as AllocationResult
from shared.kube.api_objects.devices import CapacityRange as CapacityRange
from shared.kube.api_objects.devices import CapacityRequestPolicy as CapacityRequestPolicy
from shared.kube.api_objects.devices import CapacityRequirements as CapacityRequirements
from shared.kube.api_objects.devices import CelDeviceSelector as CelDeviceSelector
from shared.kube.api_objects.devices import Counter as Counter
from shared.kube.api_objects.devices import CounterSet as CounterSet
from shared.kube.api_objects.devices import Device as Device
from shared.kube.api_objects.devices import (
    DeviceAllocationConfiguration as DeviceAllocationConfiguration,
)
from shared.kube.api_objects.devices import DeviceAllocationResult as DeviceAllocationResult
from shared.kube.api_objects.devices import DeviceAttribute as DeviceAttribute
from shared.kube.api_objects.devices import DeviceCapacity as DeviceCapacity
from shared.kube.api_objects.devices import DeviceClaim as DeviceClaim
from shared.kube.api_objects.devices import DeviceClaimConfiguration as DeviceClaimConfiguration
from shared.kube.api_objects.devices import DeviceClass as DeviceClass
from shared.kube.api_objects.devices import DeviceClassSpec as DeviceClassSpec
from shared.kube.api_objects.devices import DeviceCondition as DeviceCondition
from shared.kube.api_objects.devices import DeviceConstraint as DeviceConstraint
from shared.kube.api_objects.devices import DeviceCounterConsumption as DeviceCounterConsumption
from shared.kube.api_objects.devices import DeviceRequest as DeviceRequest
from shared.kube.api_objects.devices import DeviceSelector as DeviceSelector
from shared.kube.api_objects.devices import DeviceSubRequest as DeviceSubRequest
from shared.kube.api_objects.devices import DeviceTaint as DeviceTaint
from shared.kube.api_objects.devices import DeviceToleration as DeviceToleration
from shared.kube.api_objects.devices import ExactDeviceRequest as ExactDeviceRequest
from shared.kube.api_objects.devices import ResourceClaim as ResourceClaim
from shared.kube.api_objects.devices import ResourceClaimConsumer as ResourceClaimConsumer
from shared.kube.api_objects.devices import ResourceClaimSpec as ResourceClaimSpec
from shared.kube.api_objects.devices import ResourceClaimStatus as ResourceClaimStatus
from shared.kube.api_objects.devices import ResourcePool as ResourcePool
from shared.kube.api_objects.devices import ResourceSlice as ResourceSlice
from shared.kube.api_objects.devices import ResourceSliceSpec as ResourceSliceSpec
from shared.kube.api_objects.metadata import ObjectMeta as ObjectMeta
from shared.kube.api_objects.metadata import ObjectReference as ObjectReference
from shared.kube.api_objects.metadata import ObjectTemplateMeta as ObjectTemplateMeta
from shared.kube.api_objects.metadata import OwnerReference as OwnerReference
from shared.kube.api_objects.metadata import PodMeta as PodMeta
from shared.kube.api_objects.nodes import ContainerImage as ContainerImage
from shared.kube.api_objects.nodes import Node as Node
from shared.kube.api_objects.nodes import NodeCondition as NodeCondition
from shared.kube.api_objects.nodes import NodeSpec as NodeSpec
from shared.kube.api_objects.nodes import NodeStatus as NodeStatus
from shared.kube.api_objects.nodes import Taint as Taint
from shared.kube.api_objects.placement import Affinity as Affinity
from shared.kube.api_objects.placement import NodeAffinity as NodeAffinity
from shared.kube.api_objects.placement import PodAffinity as PodAffinity
from shared.kube.api_objects.placement import PodAffinityTerm as PodAffinityTerm
from shared.kube.api_objects.placement import PreferredSchedulingTerm as PreferredSchedulingTerm
from shared.kube.api_objects.placement import Toleration as Toleration
from shared.kube.api_objects.placement import TopologySpreadConstraint as TopologySpreadConstraint
from shared.kube.api_objects.placement import WeightedPodAffinityTerm as WeightedPodAffinityTerm
from shared.kube.api_objects.pods import (
    ContainerExtendedResourceRequest as ContainerExtendedResourceRequest,
)
from shared.kube.api_objects.pods import Pod as Pod
from shared.kube.api_objects.pods import PodCondition as PodCondition
from shared.kube.api_objects.pods import (
    PodExtendedResourceClaimStatus as PodExtendedResourceClaimStatus,
)
from shared.kube.api_objects.pods import PodOs as PodOs
from shared.kube.api_objects.pods import PodResourceClaim as PodResourceClaim
from shared.kube.api_objects.pods import PodResourceClaimStatus as PodResourceClaimStatus
from shared.kube.api_objects.pods import PodSchedulingGate as PodSchedulingGate
from shared.kube.api_objects.pods import PodSchedulingGroup as PodSchedulingGroup
from shared.kube.api_objects.pods import PodSpec as PodSpec
from shared.kube.api_objects.pods import PodStatus as PodStatus
from shared.kube.api_objects.selectors import LabelSelector as LabelSelector
from shared.kube.api_objects.selectors import LabelSelectorRequirement as LabelSelectorRequirement
from shared.kube.api_objects.selectors import NodeSelector as NodeSelector
from shared.kube.api_objects.selectors import NodeSelectorRequirement as NodeSelectorRequirement
from shared.kube.api_objects.selectors import NodeSelectorTerm as NodeSelectorTerm
from shared.kube.api_objects.storage import CsiDriver as CsiDriver
from shared.kube.api_objects.storage import CsiDriverSpec as CsiDriverSpec
from shared.kube.api_objects.storage import CsiNode as CsiNode
from shared.kube.api_objects.storage import CsiNodeDriver as CsiNodeDriver
from shared.kube.api_objects.storage import CsiNodeSpec as CsiNodeSpec
from shared.kube.api_objects.storage import CsiStorageCapacity as CsiStorageCapacity
from shared.kube.api_objects.storage import PersistentVolume as PersistentVolume
from shared.kube.api_objects.storage import PersistentVolumeClaim as PersistentVolumeClaim
from shared.kube.api_objects.storage import (
    PersistentVolumeClaimStatus as PersistentVolumeClaimStatus,
)
from shared.kube.api_objects.storage import PersistentVolumeSpec as PersistentVolumeSpec
from shared.kube.api_objects.storage import PersistentVolumeStatus as PersistentVolumeStatus
from shared.kube.api_objects.storage import StorageClass as StorageClass
from shared.kube.api_objects.storage import (
    TopologySelectorLabelRequirement as TopologySelectorLabelRequirement,
)
from shared.kube.api_objects.storage import TopologySelectorTerm as TopologySelectorTerm
from shared.kube.api_objects.storage import VolumeAttachment as VolumeAttachment
from shared.kube.api_objects.storage import VolumeAttachmentSource as VolumeAttachmentSource
from shared.kube.api_objects.storage import VolumeAttachmentSpec as VolumeAttachmentSpec
from shared.kube.api_objects.storage import VolumeNodeAffinity as VolumeNodeAffinity
from shared.kube.api_objects.storage import VolumeNodeResources as VolumeNodeResources
from shared.kube.api_objects.volumes import AwsElasticBlockStore as AwsElasticBlockStore
from shared.kube.api_objects.volumes import AzureDisk as AzureDisk
from shared.kube.api_objects.volumes import AzureFile as AzureFile
from shared.kube.api_objects.volumes import Cinder as Cinder
from shared.kube.api_objects.volumes import CsiVolume as CsiVolume
from shared.kube.api_objects.volumes import EphemeralVolumeSource as EphemeralVolumeSource
from shared.kube.api_objects.volumes import GcePersistentDisk as GcePersistentDisk
from shared.kube.api_objects.volumes import ImageVolume as ImageVolume
from shared.kube.api_objects.volumes import Iscsi as Iscsi
from shared.kube.api_objects.volumes import PersistentVolumeClaimSpec as PersistentVolumeClaimSpec
from shared.kube.api_objects.volumes import (
    PersistentVolumeClaimTemplate as PersistentVolumeClaimTemplate,
)
from shared.kube.api_objects.volumes import (
    PersistentVolumeClaimVolumeSource as PersistentVolumeClaimVolumeSource,
)
from shared.kube.api_objects.volumes import PortworxVolume as PortworxVolume
from shared.kube.api_objects.volumes import Rbd as Rbd
from shared.kube.api_objects.volumes import Volume as Volume
from shared.kube.api_objects.volumes import VsphereVolume as VsphereVolume
from shared.kube.api_objects.workloads import Namespace as Namespace
from shared.kube.api_objects.workloads import PodDisruptionBudget as PodDisruptionBudget
from shared.kube.api_objects.workloads import PodDisruptionBudgetSpec as PodDisruptionBudgetSpec
from shared.kube.api_objects.workloads import PodDisruptionBudgetStatus as PodDisruptionBudgetStatus
from shared.kube.api_objects.workloads import PodGroup as PodGroup
from shared.kube.api_objects.workloads import ReplicaSet as ReplicaSet
from shared.kube.api_objects.workloads import ReplicationController as ReplicationController
from shared.kube.api_objects.workloads import ReplicationControllerSpec as ReplicationControllerSpec
from shared.kube.api_objects.workloads import Service as Service
from shared.kube.api_objects.workloads import ServiceSpec as ServiceSpec
from shared.kube.api_objects.workloads import StatefulSet as StatefulSet
from shared.kube.api_objects.workloads import WorkloadSpec as WorkloadSpec

ApiObject = (
    Pod
    | Node
    | Namespace
    | Service
    | ReplicationController
    | ReplicaSet
    | StatefulSet
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CsiNode
    | CsiDriver
    | CsiStorageCapacity
    | VolumeAttachment
    | PodDisruptionBudget
    | PodGroup
    | ResourceClaim
    | DeviceClass
    | ResourceSlice
)
