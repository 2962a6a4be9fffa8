"""The kinds of objects that berth watches, once: names, paths, types.

Everything that speaks of a kind (watches, decoding, `ObjectChanged.kind`, logs) names it by its
plural as it stands here.
"""

from types import MappingProxyType
from typing import Final

import msgspec

from shared.kube.objects import (
    ApiObject,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    DeviceClass,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    ResourceClaim,
    ResourceSlice,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)


class ResourceKind(msgspec.Struct, frozen=True):
    """How one kind is reached and what it decodes to."""

    plural: str
    kind: str
    api_path: str
    """Path of the group and version, e.g. "/apis/apps/v1"."""
    struct_type: type[ApiObject]
    is_namespaced: bool
    is_required: bool
    """Without a required kind the owner waits; without another one berth decides as if there were no
    such objects, and says so (`KindUnavailable`)."""
    field_selector: str = ""
    """Limits list and watch, as kube-scheduler limits them."""

    @property
    def path(self) -> str:
        """The collection over all namespaces."""
        return f"{self.api_path}/{self.plural}"

    def object_path(self, namespace: str, name: str, subresource: str = "") -> str:
        """The path of one object, or of a subresource of it."""
        scope = f"/namespaces/{namespace}" if self.is_namespaced else ""
        tail = f"/{subresource}" if subresource else ""
        return f"{self.api_path}{scope}/{self.plural}/{name}{tail}"


_CORE: Final = "/api/v1"
_APPS: Final = "/apis/apps/v1"
_STORAGE: Final = "/apis/storage.k8s.io/v1"
_DRA: Final = "/apis/resource.k8s.io/v1"

# Finished pods hold nothing: neither kube-scheduler nor berth sees them
# (pkg/scheduler/scheduler.go NewInformerFactory, v1.36).
_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"

PODS: Final = ResourceKind("pods", "Pod", _CORE, Pod, True, True, _UNFINISHED)
NODES: Final = ResourceKind("nodes", "Node", _CORE, Node, False, True)

# In the order in which they are started: what scheduling cannot begin without comes first.
ALL_KINDS: Final[tuple[ResourceKind, ...]] = (
    NODES,
    PODS,
    ResourceKind("namespaces", "Namespace", _CORE, Namespace, False, True),
    ResourceKind("services", "Service", _CORE, Service, True, True),
    ResourceKind(
        "replicationcontrollers", "ReplicationController", _CORE, ReplicationController, True, True
    ),
    ResourceKind("replicasets", "ReplicaSet", _APPS, ReplicaSet, True, True),
    ResourceKind("statefulsets", "StatefulSet", _APPS, StatefulSet, True, True),
    ResourceKind("persistentvolumes", "PersistentVolume", _CORE, PersistentVolume, False, True),
    ResourceKind(
        "persistentvolumeclaims", "PersistentVolumeClaim", _CORE, PersistentVolumeClaim, True, True
    ),
    ResourceKind("storageclasses", "StorageClass", _STORAGE, StorageClass, False, True),
    ResourceKind("csinodes", "CSINode", _STORAGE, CsiNode, False, True),
    ResourceKind("csidrivers", "CSIDriver", _STORAGE, CsiDriver, False, True),
    ResourceKind(
        "csistoragecapacities", "CSIStorageCapacity", _STORAGE, CsiStorageCapacity, True, False
    ),
    ResourceKind("volumeattachments", "VolumeAttachment", _STORAGE, VolumeAttachment, False, False),
    ResourceKind(
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "/apis/policy/v1",
        PodDisruptionBudget,
        True,
        True,
    ),
    ResourceKind(
        "priorityclasses",
        "PriorityClass",
        "/apis/scheduling.k8s.io/v1",
        PriorityClass,
        False,
        False,
    ),
    ResourceKind("resourceclaims", "ResourceClaim", _DRA, ResourceClaim, True, False),
    ResourceKind("deviceclasses", "DeviceClass", _DRA, DeviceClass, False, False),
    ResourceKind("resourceslices", "ResourceSlice", _DRA, ResourceSlice, False, False),
)

KINDS_BY_PLURAL: Final = MappingProxyType({kind.plural: kind for kind in ALL_KINDS})
