"""The kinds of objects that berth watches, once: names, paths, types.

Everything that speaks of a kind (watches, decoding, `ObjectChanged.kind`, logs) names it by its
plural as it stands here.

Resources that berth does not know, of whose changes a plugin wants to hear, are named by their plural,
version and group, as in `foos.v1.example.com`; with a dot at the end, in the group without a name. Their
objects are listed, watched and kept as those of all other kinds, under that name, but as the text that
the API server wrote: whoever asks has it decoded, and nobody else (addAllEventHandlers in
pkg/scheduler/eventhandlers.go, and ParseResourceArg in
staging/src/k8s.io/apimachinery/pkg/runtime/schema/group_version.go, v1.36.2).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from shared.kube.api.apps_v1 import ReplicaSet, StatefulSet
from shared.kube.api.core_v1 import (
    ApiObject,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    Service,
)
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.meta_v1 import NamedObject
from shared.kube.api.policy_v1 import PodDisruptionBudget
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.resource_v1_devices import DeviceClass, ResourceSlice
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.api.storage_v1 import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from shared.kube.well_known import POD_GROUPS_VERSION


class ResourceKind(msgspec.Struct, frozen=True):
    plural: str
    api_path: str
    """Path of the group and version, e.g. "/apis/apps/v1"."""
    struct_type: type[ApiObject]
    is_namespaced: bool | None
    """None: nobody knows, of a resource that only a plugin names."""
    without_it: str = ""
    """What follows where the server does not serve the kind, or not to us: berth decides as if there
    were no such objects, and says this (`KindUnavailable`). Empty: nothing is scheduled without it."""
    field_selector: str = ""
    """Limits list and watch, as kube-scheduler limits them."""
    older_api_path: str = ""
    """Group and version that older servers serve in its place, where what berth reads is the same."""
    feature_gate: str = ""
    """Watched only where this is on."""
    is_told_by_content: bool = False
    """An update is told only where something changed that is decoded: no write states the version of
    such an object, and what it counts (a ReplicaSet its pods, a node its last report) is not read."""

    @property
    def path_name(self) -> str:
        return self.plural.partition(".")[0]

    @property
    def is_required(self) -> bool:
        """The owner waits for this kind."""
        return not self.without_it

    @property
    def api_paths(self) -> tuple[str, ...]:
        """Where the kind is looked for, in order."""
        return (self.api_path, self.older_api_path) if self.older_api_path else (self.api_path,)


_CORE: Final = "/api/v1"
_APPS: Final = "/apis/apps/v1"
_STORAGE: Final = "/apis/storage.k8s.io/v1"
_DRA: Final = "/apis/resource.k8s.io/v1"

# Finished pods hold nothing: neither kube-scheduler nor berth sees them
# (pkg/scheduler/scheduler.go NewInformerFactory, v1.36).
_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"

_NO_CAPACITIES: Final = (
    "drivers that tell their capacity count as full: pods that need new volumes wait"
)
_NO_ATTACHMENTS: Final = "volumes on a node count against its limit only where a pod uses them"
_NO_DEVICES: Final = "pods with resource claims wait"

PODS: Final = ResourceKind("pods", _CORE, Pod, True, field_selector=_UNFINISHED)
NODES: Final = ResourceKind("nodes", _CORE, Node, False, is_told_by_content=True)
POD_GROUPS: Final = ResourceKind(
    "podgroups",
    f"/apis/{POD_GROUPS_VERSION}",
    PodGroup,
    True,
    without_it="pods of groups wait",
    feature_gate="GenericWorkload",
)

# In the order in which they are started: what scheduling cannot begin without comes first.
ALL_KINDS: Final[tuple[ResourceKind, ...]] = (
    NODES,
    PODS,
    ResourceKind("namespaces", _CORE, Namespace, False),
    ResourceKind("services", _CORE, Service, True, is_told_by_content=True),
    ResourceKind(
        "replicationcontrollers", _CORE, ReplicationController, True, is_told_by_content=True
    ),
    ResourceKind("replicasets", _APPS, ReplicaSet, True, is_told_by_content=True),
    ResourceKind("statefulsets", _APPS, StatefulSet, True, is_told_by_content=True),
    ResourceKind("persistentvolumes", _CORE, PersistentVolume, False),
    ResourceKind("persistentvolumeclaims", _CORE, PersistentVolumeClaim, True),
    ResourceKind("storageclasses", _STORAGE, StorageClass, False),
    ResourceKind("csinodes", _STORAGE, CsiNode, False),
    ResourceKind("csidrivers", _STORAGE, CsiDriver, False),
    ResourceKind(
        "csistoragecapacities",
        _STORAGE,
        CsiStorageCapacity,
        True,
        without_it=_NO_CAPACITIES,
        older_api_path="/apis/storage.k8s.io/v1beta1",  # Up to Kubernetes 1.23.
    ),
    ResourceKind(
        "volumeattachments", _STORAGE, VolumeAttachment, False, without_it=_NO_ATTACHMENTS
    ),
    ResourceKind(
        "poddisruptionbudgets",
        "/apis/policy/v1",
        PodDisruptionBudget,
        True,
        # Up to Kubernetes 1.20. An empty selector has another meaning to the disruption controller
        # there; to preemption it matches nothing in either (defaultpreemption, v1.20 and v1.36).
        older_api_path="/apis/policy/v1beta1",
        is_told_by_content=True,
    ),
    ResourceKind("resourceclaims", _DRA, ResourceClaim, True, without_it=_NO_DEVICES),
    ResourceKind("deviceclasses", _DRA, DeviceClass, False, without_it=_NO_DEVICES),
    ResourceKind("resourceslices", _DRA, ResourceSlice, False, without_it=_NO_DEVICES),
    POD_GROUPS,
)

KINDS_BY_PLURAL: Final[Mapping[str, ResourceKind]] = {kind.plural: kind for kind in ALL_KINDS}
CONTROLLER_KINDS: Final[Mapping[tuple[str, str], str]] = {
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
}
"""(apiVersion, kind) of a pod's owner -> plural of the kinds by whose selectors pods are alike."""

# What plugins name ---------------------------------------------------------------------------------

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}\.{_LABEL}\.({_LABEL}(\.{_LABEL})*)?")


class CustomObject(NamedObject):
    content: bytes = b""
    """All of it, as JSON."""

    def decoded(self, kind: Any = Any) -> Any:
        """The object, as it is or as the struct that is asked for."""
        return msgspec.json.decode(self.content, type=kind)


def is_custom(plural: str) -> bool:
    """The plurals of the kinds that are known have no dot."""
    return "." in plural


def is_custom_name(name: str) -> bool:
    """Whether it can be the name of a resource."""
    return _NAME.fullmatch(name) is not None


def custom_kind(name: str) -> ResourceKind:
    """How it is reached."""
    _, version, group = name.split(".", 2)
    return ResourceKind(
        name,
        f"/apis/{group}/{version}" if group else f"/api/{version}",
        CustomObject,
        None,
        without_it="pods wait that only a change of one of them would help",
    )
