"""API objects with only the fields that scheduling reads; all others are skipped while decoding.

The field names are the API's (camelCase in JSON). The same structs travel between our processes as
msgpack maps with defaults left out: a template is then a few hundred bytes, and equal templates are
equal bytes, which is what makes pod classes cheap (see `PodTemplate`).

Lists that the API may send as null are declared optional here only where a real server does so;
Go's `omitempty` leaves empty ones out.
"""

from typing import Annotated, Any

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""As wide as the API's own fields: a greater number is refused where it is read, by the field's name.
Neither our messages nor our columns would take it."""

Quantity = str | Int64 | float
"""As written in JSON: "250m", "1Gi", 2. Parse with `shared.kube.quantity`."""

ResourceList = dict[str, Quantity]


class ApiStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of everything that comes from the API server. An object is a tree: nothing in it leads back,
    so the cycle collector need not look through the hundreds of thousands that a cluster has."""


# Metadata, and references from one object to another ----------------------------------------------


class OwnerReference(ApiStruct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(ApiStruct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class PodMeta(ApiStruct):
    """Metadata of a pod; without annotations, which nothing reads and which can be large."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class ObjectTemplateMeta(ApiStruct):
    labels: dict[str, str] | None = None


class NamedObject(ApiStruct):
    """Base of what stands alone in the API, but for pods."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class ObjectReference(ApiStruct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


# Selectors of objects by label, of nodes by label or field ----------------------------------------


class LabelSelectorRequirement(ApiStruct):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(ApiStruct):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(ApiStruct):
    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(ApiStruct):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(ApiStruct):
    node_selector_terms: list[NodeSelectorTerm] | None = None


# Containers of a pod, with what they ask for ------------------------------------------------------


class ContainerResourceClaim(ApiStruct):
    name: str
    request: str = ""


class ResourceRequirements(ApiStruct):
    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: list[ContainerResourceClaim] | None = None


class ContainerPort(ApiStruct):
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(ApiStruct):
    action: str = ""


class Container(ApiStruct):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None


class ContainerStatus(ApiStruct):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


# Where a pod says that it wants to be -------------------------------------------------------------


class PreferredSchedulingTerm(ApiStruct):
    weight: Int32 = 0
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(ApiStruct):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = (
        None
    )


class PodAffinityTerm(ApiStruct):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(ApiStruct):
    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(ApiStruct):
    """Also the shape of pod anti-affinity."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = (
        None
    )


class Affinity(ApiStruct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(ApiStruct):
    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Toleration(ApiStruct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


# Volumes of a pod; persistent volumes and inline ones have their sources in common ----------------


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


# Pods ---------------------------------------------------------------------------------------------


class PodSchedulingGate(ApiStruct):
    name: str = ""


class PodResourceClaim(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodOs(ApiStruct):
    name: str = ""


class PodSchedulingGroup(ApiStruct):
    pod_group_name: str | None = None


class PodSpec(ApiStruct):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    host_network: bool = False
    host_users: bool | None = None
    hostname_override: str | None = None
    os: PodOs | None = None
    resource_claims: list[PodResourceClaim] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: Int64 | None = None
    scheduling_group: PodSchedulingGroup | None = None


class PodCondition(ApiStruct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: Int64 | None = None


class PodResourceClaimStatus(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(ApiStruct):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(ApiStruct):
    request_mappings: list[ContainerExtendedResourceRequest] | None = None
    resource_claim_name: str = ""


class PodStatus(ApiStruct):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resize: str = ""
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(ApiStruct):
    metadata: PodMeta = msgspec.field(default_factory=PodMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


# Nodes --------------------------------------------------------------------------------------------


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


class Node(NamedObject):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


# Persistent volumes, their claims and classes, and what CSI drivers say of nodes ------------------


class PersistentVolumeClaimStatus(ApiStruct):
    phase: str = ""
    capacity: ResourceList | None = None


class PersistentVolumeClaim(NamedObject):
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


class PersistentVolume(NamedObject):
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = msgspec.field(default_factory=PersistentVolumeStatus)


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
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: list[str] | None = None
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


# What pods belong to, and what protects them ------------------------------------------------------


class Namespace(NamedObject):
    """Its labels are read."""


class ServiceSpec(ApiStruct):
    selector: dict[str, str] | None = None


class Service(NamedObject):
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class ReplicationControllerSpec(ApiStruct):
    selector: dict[str, str] | None = None


class ReplicationController(NamedObject):
    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)


class WorkloadSpec(ApiStruct):
    selector: LabelSelector | None = None


class ReplicaSet(NamedObject):
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


class StatefulSet(NamedObject):
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


class PodDisruptionBudgetSpec(ApiStruct):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(NamedObject):
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


class PodGroup(NamedObject):
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


# Dynamic resource allocation (resource.k8s.io/v1) -------------------------------------------------
# What berth writes back (an allocation) is held in full, what it only passes on (opaque
# configuration of drivers) as plain JSON.


class CelDeviceSelector(ApiStruct):
    expression: str = ""


class DeviceSelector(ApiStruct):
    cel: CelDeviceSelector | None = None


class CapacityRequirements(ApiStruct):
    requests: dict[str, Quantity] | None = None


class ExactDeviceRequest(ApiStruct):
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: list[Toleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(ApiStruct):
    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: list[Toleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(ApiStruct):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(ApiStruct):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(ApiStruct):
    requests: list[str] | None = None
    opaque: dict[str, Any] | None = None


class DeviceClaim(ApiStruct):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceClaimConfiguration] | None = None


class ResourceClaimSpec(ApiStruct):
    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


class AllocatedDevice(ApiStruct):
    """DeviceRequestAllocationResult: a device given to a request."""

    request: str = ""
    """`request` or `request/subrequest`."""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[Toleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] | None = None


class DeviceAllocationConfiguration(ApiStruct):
    source: str = ""
    requests: list[str] | None = None
    opaque: dict[str, Any] | None = None


class DeviceAllocationResult(ApiStruct):
    results: list[AllocatedDevice] | None = None
    config: list[DeviceAllocationConfiguration] | None = None


class AllocationResult(ApiStruct):
    devices: DeviceAllocationResult = msgspec.field(default_factory=DeviceAllocationResult)
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumer(ApiStruct):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(ApiStruct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(ApiStruct):
    """What a driver says of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[DeviceCondition] | None = None
    data: Any = None
    network_data: Any = None


class ResourceClaimStatus(ApiStruct):
    allocation: AllocationResult | None = None
    reserved_for: list[ResourceClaimConsumer] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(NamedObject):
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)


class DeviceClassSpec(ApiStruct):
    selectors: list[DeviceSelector] | None = None
    config: list[DeviceClaimConfiguration] | None = None
    extended_resource_name: str | None = None


class DeviceClass(NamedObject):
    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


class DeviceAttribute(ApiStruct):
    """Exactly one is set, unless the API has learnt a new kind of value."""

    int_: Int64 | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRange(ApiStruct):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(ApiStruct):
    default: Quantity | None = None
    valid_values: list[Quantity] | None = None
    valid_range: CapacityRange | None = None


class DeviceCapacity(ApiStruct):
    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct):
    value: Quantity = 0


class CounterSet(ApiStruct):
    name: str = ""
    counters: dict[str, Counter] | None = None


class DeviceCounterConsumption(ApiStruct):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class Device(ApiStruct):
    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[DeviceCounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[Taint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(ApiStruct):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(ApiStruct):
    driver: str = ""
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: list[Device] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(NamedObject):
    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)


ApiObject = Pod | NamedObject
"""All that can be listed and watched."""
