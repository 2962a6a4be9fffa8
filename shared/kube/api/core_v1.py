"""Objects of the API group "" (v1): pods, nodes, and what pods belong to; see `core_v1_parts.py`."""

from typing import Final

import msgspec

from shared.kube.api.core_v1_parts import (
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolumeSource,
    PresentVolume,
    Toleration,
)
from shared.kube.api.meta_v1 import (
    ApiStruct,
    Condition,
    Int32,
    Int64,
    LabelSelector,
    NamedObject,
    PodMeta,
    ResourceList,
)

# Nodes -------------------------------------------------------------------------------------------------


class Taint(ApiStruct):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None
    """Read by no plugin, but another one is another taint to who waits for a change of them."""


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
    """For plugins of others; no in-tree plugin reads it."""
    allocatable: ResourceList | None = None
    conditions: list[NodeCondition] | None = None
    images: list[ContainerImage] | None = None
    declared_features: list[str] | None = None


class Node(NamedObject):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


# Containers of a pod, with what they ask for ------------------------------------------------------


class ContainerClaim(ApiStruct):
    """A resource claim that a container uses, by its name in the pod."""

    name: str = ""


class ResourceRequirements(ApiStruct):
    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: list[ContainerClaim] | None = None


class ContainerPort(ApiStruct):
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


# Volumes of a pod, and their claims --------------------------------------------------------------


class PersistentVolumeClaimSpec(ApiStruct):
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(ApiStruct):
    phase: str = ""
    capacity: ResourceList | None = None


class PersistentVolumeClaim(NamedObject):
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = msgspec.field(default_factory=PersistentVolumeClaimStatus)


class PersistentVolumeClaimVolumeSource(ApiStruct):
    claim_name: str
    read_only: bool = False


class Iscsi(ApiStruct):
    iqn: str = ""
    read_only: bool = False


class Rbd(ApiStruct):
    monitors: list[str] | None = None
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class ImageVolume(ApiStruct):
    reference: str = ""


class Volume(PersistentVolumeSource):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: PresentVolume | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
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
    resource_claims: list[PodResourceClaim] | None = None
    restart_policy: str | None = None
    scheduling_group: PodSchedulingGroup | None = None
    # For plugins of others; no in-tree plugin reads these.
    priority_class_name: str = ""
    os: PodOs | None = None
    termination_grace_period_seconds: Int64 | None = None


class PodResourceClaimStatus(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None


class PodExtendedResourceClaimStatus(ApiStruct):
    resource_claim_name: str = ""
    request_mappings: list[ContainerExtendedResourceRequest] | None = None


FINISHED_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""A pod that is in one of them takes nothing of its node any more."""


class PodStatus(ApiStruct):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableResourceClaimStatus] | None = None


class Pod(ApiStruct):
    metadata: PodMeta = msgspec.field(default_factory=PodMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


# What pods belong to ------------------------------------------------------------------------------


class Namespace(NamedObject):
    """Its labels are read."""


class PodLabels(ApiStruct):
    """The spec of what selects its pods by equal labels alone."""

    selector: dict[str, str] | None = None


class Service(NamedObject):
    spec: PodLabels = msgspec.field(default_factory=PodLabels)


class ReplicationController(NamedObject):
    spec: PodLabels = msgspec.field(default_factory=PodLabels)


ApiObject = Pod | NamedObject
"""All that can be listed and watched."""
