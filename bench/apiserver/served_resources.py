"""The table of kinds that the server serves, and what sets each apart from the others.

Names, short names, verbs and flags are those of kube-apiserver v1.36 (its discovery answers, and
the strategies under pkg/registry). Adding a kind is adding a row.
"""

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_ALL_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)

# A kind's zero value as Go prints it next to the metadata: what a BOOKMARK carries.
_ZERO_POD: Final = b'"spec":{"containers":null},"status":{}'
_ZERO_NODE: Final = (
    b'"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{'
    b'"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"",'
    b'"containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"",'
    b'"operatingSystem":"","architecture":""}}'
)


@dataclass(frozen=True, kw_only=True)
class Subresource:
    """A path below an object, as discovery lists it."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


_STATUS_VERBS: Final = ("get", "patch", "update")


@dataclass(frozen=True, kw_only=True, eq=False)
class Resource:
    """One kind under one group and version. Compared by identity: there is one of each."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = _ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    zero_value: bytes = b'"spec":{}'
    # metadata.generation starts at 1 and counts changes of spec (PrepareForCreate upstream).
    has_generation: bool = False
    # A create drops the client's status.
    resets_status: bool = False
    # DELETE answers with the object, else with a Status (ReturnDeletedObject upstream).
    returns_deleted: bool = False
    # PUT of a name that does not exist creates it (AllowCreateOnUpdate upstream).
    creates_on_update: bool = False
    # PUT without resourceVersion is accepted (AllowUnconditionalUpdate upstream).
    allows_blind_update: bool = True
    # Another resource that stores the same objects; this one is a view of it.
    stored_as: "Resource | None" = None
    # Group, version and kind in etcd, where they are not this resource's own.
    storage_kind: tuple[str, str, str] | None = None

    @cached_property
    def group_version(self) -> str:
        """`v1` or `group/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def qualified(self) -> str:
        """The name in messages: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def has_status(self) -> bool:
        """Whether status is a subresource, so that writes of the object leave it alone."""
        return any(sub.name == "status" for sub in self.subresources)

    @cached_property
    def object_head(self) -> bytes:
        """What stands before the members of an object's stored form."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.group_version}",'.encode()

    @cached_property
    def list_head(self) -> bytes:
        """What stands before the metadata of a list."""
        return f'{{"kind":"{self.kind}List","apiVersion":"{self.group_version}",'.encode()

    @cached_property
    def storage_hash(self) -> str:
        """The storageVersionHash of discovery: of the group, version and kind stored in etcd."""
        stored = self.storage_kind or (self.group, self.version, self.kind)
        digest = hashlib.sha256("/".join(stored).encode()).digest()
        return base64.b64encode(digest[:8]).decode()

    @cached_property
    def table_name(self) -> str:
        """The name of the store's table: views share the one of what they show."""
        return (self.stored_as or self).qualified

    def subresource(self, name: str) -> Subresource | None:
        """Find a subresource by its last path segment."""
        return next((sub for sub in self.subresources if sub.name == name), None)


def _status(kind: str) -> Subresource:
    return Subresource(name="status", kind=kind, verbs=_STATUS_VERBS)


PODS: Final = Resource(
    plural="pods",
    kind="Pod",
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource(name="binding", kind="Binding", verbs=("create",)),
        Subresource(
            name="eviction", kind="Eviction", verbs=("create",), group="policy", version="v1"
        ),
        Subresource(name="resize", kind="Pod", verbs=_STATUS_VERBS),
        _status("Pod"),
    ),
    zero_value=_ZERO_POD,
    has_generation=True,
    resets_status=True,
    returns_deleted=True,
)
NODES: Final = Resource(
    plural="nodes",
    kind="Node",
    is_namespaced=False,
    short_names=("no",),
    subresources=(_status("Node"),),
    zero_value=_ZERO_NODE,
)
NAMESPACES: Final = Resource(
    plural="namespaces",
    kind="Namespace",
    is_namespaced=False,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=(
        Subresource(name="finalize", kind="Namespace", verbs=("update",)),
        _status("Namespace"),
    ),
    zero_value=b'"spec":{},"status":{}',
    resets_status=True,
    returns_deleted=True,
)
EVENTS: Final = Resource(
    group="events.k8s.io",
    plural="events",
    kind="Event",
    short_names=("ev",),
    zero_value=(
        b'"eventTime":null,"regarding":{},"deprecatedSource":{},'
        b'"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null'
    ),
    creates_on_update=True,
    storage_kind=("", "v1", "Event"),
)
CORE_EVENTS: Final = Resource(
    plural="events",
    kind="Event",
    short_names=("ev",),
    zero_value=(
        b'"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,'
        b'"eventTime":null,"reportingComponent":"","reportingInstance":""'
    ),
    creates_on_update=True,
    stored_as=EVENTS,
)
PRIORITY_CLASSES: Final = Resource(
    group="scheduling.k8s.io",
    plural="priorityclasses",
    kind="PriorityClass",
    is_namespaced=False,
    short_names=("pc",),
    zero_value=b'"value":0',
    has_generation=True,
)
# kube-apiserver serves it only where --runtime-config says so.
POD_GROUPS: Final = Resource(
    group="scheduling.k8s.io",
    version="v1alpha2",
    plural="podgroups",
    kind="PodGroup",
    subresources=(_status("PodGroup"),),
    zero_value=b'"spec":{"schedulingPolicy":{}},"status":{}',
    has_generation=True,
    resets_status=True,
)
DISRUPTION_BUDGETS: Final = Resource(
    group="policy",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    short_names=("pdb",),
    subresources=(_status("PodDisruptionBudget"),),
    zero_value=(
        b'"spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,'
        b'"desiredHealthy":0,"expectedPods":0}'
    ),
    has_generation=True,
    resets_status=True,
    allows_blind_update=False,
)


def _scalable(kind: str, plural: str, short_name: str, group: str) -> Resource:
    return Resource(
        group=group,
        plural=plural,
        kind=kind,
        short_names=(short_name,),
        categories=("all",),
        subresources=(_status(kind),),
        zero_value=b'"spec":{},"status":{"replicas":0}',
        has_generation=True,
        resets_status=True,
    )


_CORE: Final = (
    CORE_EVENTS,
    NAMESPACES,
    NODES,
    Resource(
        plural="persistentvolumeclaims",
        kind="PersistentVolumeClaim",
        short_names=("pvc",),
        subresources=(_status("PersistentVolumeClaim"),),
        zero_value=b'"spec":{"resources":{}},"status":{}',
        resets_status=True,
        returns_deleted=True,
    ),
    Resource(
        plural="persistentvolumes",
        kind="PersistentVolume",
        is_namespaced=False,
        short_names=("pv",),
        subresources=(_status("PersistentVolume"),),
        zero_value=b'"spec":{},"status":{}',
        resets_status=True,
        returns_deleted=True,
    ),
    PODS,
    _scalable("ReplicationController", "replicationcontrollers", "rc", ""),
    Resource(
        plural="services",
        kind="Service",
        short_names=("svc",),
        categories=("all",),
        subresources=(_status("Service"),),
        zero_value=b'"spec":{},"status":{"loadBalancer":{}}',
        resets_status=True,
        returns_deleted=True,
    ),
)
_STORAGE: Final = tuple(
    Resource(
        group="storage.k8s.io",
        plural=plural,
        kind=kind,
        is_namespaced=kind == "CSIStorageCapacity",
        short_names=short_names,
        zero_value=zero_value,
        subresources=(_status(kind),) if kind == "VolumeAttachment" else (),
        resets_status=kind == "VolumeAttachment",
        returns_deleted=kind != "CSIStorageCapacity",
        allows_blind_update=kind == "StorageClass",
    )
    for plural, kind, short_names, zero_value in (
        ("csidrivers", "CSIDriver", (), b'"spec":{}'),
        ("csinodes", "CSINode", (), b'"spec":{"drivers":null}'),
        (
            "csistoragecapacities",
            "CSIStorageCapacity",
            (),
            b'"storageClassName":""',
        ),
        ("storageclasses", "StorageClass", ("sc",), b'"provisioner":""'),
        (
            "volumeattachments",
            "VolumeAttachment",
            (),
            b'"spec":{"attacher":"","source":{},"nodeName":""},"status":{"attached":false}',
        ),
    )
)
_DEVICES: Final = (
    Resource(
        group="resource.k8s.io",
        plural="deviceclasses",
        kind="DeviceClass",
        is_namespaced=False,
        has_generation=True,
        returns_deleted=True,
    ),
    Resource(
        group="resource.k8s.io",
        plural="resourceclaims",
        kind="ResourceClaim",
        subresources=(_status("ResourceClaim"),),
        zero_value=b'"spec":{"devices":{}},"status":{}',
        resets_status=True,
        returns_deleted=True,
    ),
    Resource(
        group="resource.k8s.io",
        plural="resourceclaimtemplates",
        kind="ResourceClaimTemplate",
        zero_value=b'"spec":{"spec":{"devices":{}}}',
        returns_deleted=True,
    ),
    Resource(
        group="resource.k8s.io",
        plural="resourceslices",
        kind="ResourceSlice",
        is_namespaced=False,
        zero_value=(
            b'"spec":{"driver":"","pool":{"name":"","generation":0,"resourceSliceCount":0}}'
        ),
        has_generation=True,
        returns_deleted=True,
    ),
    # kube-apiserver serves it only where --runtime-config says so: discovery does not tell of it.
    # Nothing here acts on it.
    Resource(
        group="resource.k8s.io",
        version="v1beta2",
        plural="devicetaintrules",
        kind="DeviceTaintRule",
        is_namespaced=False,
        subresources=(_status("DeviceTaintRule"),),
        has_generation=True,
        resets_status=True,
        returns_deleted=True,
    ),
)

# In the order of /apis; within a group in the order of its discovery answer.
RESOURCES: Final[tuple[Resource, ...]] = (
    *_CORE,
    _scalable("ReplicaSet", "replicasets", "rs", "apps"),
    _scalable("StatefulSet", "statefulsets", "sts", "apps"),
    EVENTS,
    DISRUPTION_BUDGETS,
    *_STORAGE,
    PRIORITY_CLASSES,
    POD_GROUPS,
    Resource(
        group="coordination.k8s.io",
        plural="leases",
        kind="Lease",
        creates_on_update=True,
        allows_blind_update=False,
    ),
    *_DEVICES,
)

BY_PATH: Final[dict[tuple[str, str, str], Resource]] = {
    (resource.group, resource.version, resource.plural): resource for resource in RESOURCES
}
GROUPS: Final[tuple[str, ...]] = tuple(
    dict.fromkeys(resource.group for resource in RESOURCES if resource.group)
)
assert len(BY_PATH) == len(RESOURCES), "two rows serve the same path"
