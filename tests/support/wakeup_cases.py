"""One case for each event that a plugin registers: a pod that fits nowhere until just that happens.

Random clusters seldom come to a pod that waits for one event of one plugin and is woken by no other;
these are made by hand.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bench.sim.slow_topology import HOST_NAME, REQUIRED, ZONE
from shared.kube.api.core_v1 import Node, Pod
from shared.kube.api.storage_v1 import VolumeAttachment
from shared.kube.pod_record import split_pod
from shared.kube.resources import KINDS_BY_PLURAL
from shared.messages.to_owner import ObjectChanged, ObjectDeleted
from tests.support.builders import make_node, make_pod
from tests.support.devices import allocated, device, make_claim, make_class, make_slice
from tests.support.pipeline import Pipeline

Step = Callable[[Pipeline], None]
NAME: Final = "p"
DRIVER: Final = "csi.example.com"
GPU: Final = "example.com/gpu"
WEB: Final[dict[str, Any]] = {"matchLabels": {"app": "web"}}
NO_SCHEDULE: Final = [{"key": "k", "value": "", "effect": "NoSchedule"}]


@dataclass(frozen=True)
class Wakeup:
    """The pod of this shape is parked by `plugin` (or kept out of the queue) and wanted by no node until
    `wake` happens, which is `event`, as the plugin registers it."""

    plugin: str
    event: str
    wake: tuple[Step, ...]
    given: tuple[Step, ...] = ()
    pod: dict[str, Any] = field(default_factory=dict)

    def park(self, pipeline: Pipeline) -> None:
        pipeline.sync([], [])
        for step in self.given:
            step(pipeline)
        pipeline.add_pod(make_pod(NAME, **self.pod))


def node(name: str = "n0", **others: Any) -> Step:
    """A node comes, or is another."""
    made = make_node(name, **others)
    return lambda pipeline: pipeline.add_node(made)


def no_node(name: str) -> Step:
    return lambda pipeline: pipeline.remove_node(name)


def featuring(name: str) -> Step:
    made: Node = make_node(name)
    declared = msgspec.structs.replace(
        made.status, declared_features=["UserNamespacesHostNetworkSupport"]
    )
    made = msgspec.structs.replace(made, status=declared)
    return lambda pipeline: pipeline.add_node(made)


def bound(name: str, at: str = "n0", version: str = "1", **others: Any) -> Step:
    """A pod is on a node, or is another."""
    made = make_pod(name, node_name=at, resource_version=version, **others)
    return lambda pipeline: pipeline.add_pod(made)


def gone(name: str, at: str = "n0", **others: Any) -> Step:
    made = make_pod(name, node_name=at, **others)
    return lambda pipeline: pipeline.delete_pod(made)


def itself(**others: Any) -> Step:
    """The pod that waits is another."""
    made = make_pod(NAME, resource_version="2", **others)
    return lambda pipeline: pipeline.add_pod(made)


def put(kind: str, key: str, body: Any) -> Step:
    value = body
    if isinstance(body, dict):
        value = msgspec.convert(body, KINDS_BY_PLURAL[kind].struct_type)
    changed = ObjectChanged(kind, key, msgspec.Raw(msgspec.msgpack.encode(value)))
    return lambda pipeline: pipeline.tell(changed)


def drop(kind: str, key: str) -> Step:
    return lambda pipeline: pipeline.tell(ObjectDeleted(kind, key))


# Pods and nodes -----------------------------------------------------------------------------------


SSD: Final[dict[str, Any]] = {"spec": {"nodeSelector": {"disk": "ssd"}}}
PORT: Final[dict[str, Any]] = {"host_port": 80}
FEATURE: Final[dict[str, Any]] = {"spec": {"hostNetwork": True, "hostUsers": False}}
BIG: Final[dict[str, Any]] = {"cpu": "3"}
TERM: Final[dict[str, Any]] = {"topologyKey": ZONE, "labelSelector": WEB}
NEAR: Final[dict[str, Any]] = {"spec": {"affinity": {"podAffinity": {REQUIRED: [TERM]}}}}
FAR: Final[dict[str, Any]] = {"spec": {"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}}
SPREAD: Final[dict[str, Any]] = {
    "labels": {"app": "web"},
    "spec": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": WEB,
            }
        ]
    },
}
IS_WEB: Final[dict[str, Any]] = {"labels": {"app": "web"}}


def tolerating(key: str) -> dict[str, Any]:
    return {"spec": {"tolerations": [{"key": key, "operator": "Exists"}]}}


def zoned(name: str, zone: str, **others: Any) -> Step:
    return node(name, labels={ZONE: zone}, **others)


SKEWED: Final = (
    zoned("n0", "a"),
    zoned("n1", "b", taints=NO_SCHEDULE),
    bound("w", **IS_WEB),
)
"""The next web pod would have to go to n1, which does not take it."""

FEW_DOMAINS: Final[dict[str, Any]] = {
    "labels": {"app": "web"},
    "spec": {
        "topologySpreadConstraints": [
            {**SPREAD["spec"]["topologySpreadConstraints"][0], "minDomains": 2}
        ]
    },
}

_PODS_AND_NODES: Final = [
    Wakeup(
        "SchedulingGates",
        "Pod/UpdatePodSchedulingGatesEliminated",
        (itself(),),
        (node(),),
        {"spec": {"schedulingGates": [{"name": "wait"}]}},
    ),
    Wakeup(
        "PodTopologySpread",
        "Node/Add",
        (zoned("n1", "b"),),
        (zoned("n0", "a"), bound("w", **IS_WEB)),
        FEW_DOMAINS,
    ),
    Wakeup(
        "PodTopologySpread",
        "Node/UpdateNodeLabel",
        (zoned("n1", "b"),),
        (zoned("n0", "a"), zoned("n1", "a"), bound("w", **IS_WEB)),
        FEW_DOMAINS,
    ),
    Wakeup("NodeUnschedulable", "Node/Add", (node("n1"),), (node(unschedulable=True),)),
    Wakeup(
        "NodeUnschedulable",
        "Pod/UpdatePodToleration",
        (itself(**tolerating("node.kubernetes.io/unschedulable")),),
        (node(unschedulable=True),),
    ),
    Wakeup("TaintToleration", "Node/Add", (node("n1"),), (node(taints=NO_SCHEDULE),)),
    Wakeup(
        "TaintToleration",
        "Pod/UpdatePodToleration",
        (itself(**tolerating("k")),),
        (node(taints=NO_SCHEDULE),),
    ),
    Wakeup("NodeAffinity", "Node/Add", (node("n1", labels={"disk": "ssd"}),), (node(),), SSD),
    Wakeup("NodeAffinity", "Node/UpdateNodeLabel", (node(labels={"disk": "ssd"}),), (node(),), SSD),
    Wakeup("NodePorts", "Node/Add", (node("n1"),), (node(), bound("b", **PORT)), PORT),
    Wakeup("NodePorts", "Pod/Delete", (gone("b", **PORT),), (node(), bound("b", **PORT)), PORT),
    Wakeup("NodeDeclaredFeatures", "Node/Add", (featuring("n1"),), (node(),), FEATURE),
    Wakeup(
        "NodeDeclaredFeatures",
        "Node/UpdateNodeDeclaredFeature",
        (featuring("n0"),),
        (node(),),
        FEATURE,
    ),
    Wakeup("NodeDeclaredFeatures", "Pod/Update", (itself(),), (node(),), FEATURE),
    Wakeup("NodeResourcesFit", "Node/Add", (node("n1"),), (node(cpu="1"),), BIG),
    Wakeup("NodeResourcesFit", "Node/UpdateNodeAllocatable", (node(),), (node(cpu="1"),), BIG),
    Wakeup("NodeResourcesFit", "Pod/Delete", (gone("b", **BIG),), (node(), bound("b", **BIG)), BIG),
    Wakeup(
        "NodeResourcesFit",
        "Pod/UpdatePodScaleDown",
        (bound("b", version="2"),),
        (node(), bound("b", **BIG)),
        BIG,
    ),
    Wakeup("PodTopologySpread", "Pod/Add", (bound("x", "n1", **IS_WEB),), SKEWED, SPREAD),
    Wakeup("PodTopologySpread", "Pod/Delete", (gone("w", **IS_WEB),), SKEWED, SPREAD),
    Wakeup("PodTopologySpread", "Pod/UpdatePodLabel", (bound("w", version="2"),), SKEWED, SPREAD),
    Wakeup("PodTopologySpread", "Node/Delete", (no_node("n1"),), SKEWED, SPREAD),
    Wakeup("InterPodAffinity", "Pod/Add", (bound("w", **IS_WEB),), (zoned("n0", "a"),), NEAR),
    Wakeup(
        "InterPodAffinity",
        "Pod/Delete",
        (gone("w", **IS_WEB),),
        (zoned("n0", "a"), bound("w", **IS_WEB)),
        FAR,
    ),
    Wakeup(
        "InterPodAffinity",
        "Pod/UpdatePodLabel",
        (bound("w", version="2"),),
        (zoned("n0", "a"), bound("w", **IS_WEB)),
        FAR,
    ),
    Wakeup(
        "InterPodAffinity",
        "Node/Add",
        (zoned("n1", "b"),),
        (zoned("n0", "a"), bound("w", **IS_WEB)),
        FAR,
    ),
    Wakeup(
        "InterPodAffinity",
        "Node/UpdateNodeLabel",
        (zoned("n1", "b"),),
        (zoned("n0", "a"), zoned("n1", "a"), bound("w", **IS_WEB)),
        FAR,
    ),
]


# Volumes ------------------------------------------------------------------------------------------

DISK: Final[dict[str, Any]] = {
    "spec": {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "a"}}]}
}
CLAIM: Final[dict[str, Any]] = {"claim": "c"}
CLAIM_AND_INLINE: Final[dict[str, Any]] = {
    "spec": {
        "volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "i", "csi": {"driver": DRIVER}},
        ]
    }
}
EBS: Final = "ebs.csi.aws.com"


def claim(name: str = "c", volume: str = "", size: str = "1Gi") -> Step:
    done = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": done,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "volumeName": volume,
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }
    return put("persistentvolumeclaims", f"default/{name}", body)


def volume(
    name: str = "v", of: str = "c", zone: str = "", host: str = "", driver: str = DRIVER
) -> Step:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": "late",
        "csi": {"driver": driver, "volumeHandle": name},
    }
    if host:
        here = {"key": HOST_NAME, "operator": "In", "values": [host]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    if of:
        spec["claimRef"] = {"namespace": "default", "name": of, "uid": f"uid-{of}"}
    labels = {ZONE: zone} if zone else {}
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"phase": "Bound" if of else "Available"},
    }
    return put("persistentvolumes", name, body)


def in_tree_volume() -> Step:
    """In zone a, by the label that it had before drivers were apart."""
    here = {"key": ZONE, "operator": "In", "values": ["a"]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": "late",
        "awsElasticBlockStore": {"volumeID": "a"},
        "claimRef": {"namespace": "default", "name": "c", "uid": "uid-c"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    return put(
        "persistentvolumes",
        "v",
        {"metadata": {"name": "v"}, "spec": spec, "status": {"phase": "Bound"}},
    )


def storage_class(provisioner: str = DRIVER, zone: str = "") -> Step:
    body: dict[str, Any] = {
        "metadata": {"name": "late"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    if zone:
        terms = [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}]
        body["allowedTopologies"] = terms
    return put("storageclasses", "late", body)


def local_class() -> Step:
    return storage_class("kubernetes.io/no-provisioner")


def csi_node(count: int, driver: str = DRIVER, *, is_migrated: bool = True) -> Step:
    """Of n0; in-tree disks are a driver's by now."""
    plugins = "kubernetes.io/aws-ebs" if is_migrated else ""
    marks = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    drivers = [{"name": driver, "allocatable": {"count": count}}]
    body = {"metadata": {"name": "n0", "annotations": marks}, "spec": {"drivers": drivers}}
    return put("csinodes", "n0", body)


def csi_driver(*, counts: bool) -> Step:
    body = {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": counts}}
    return put("csidrivers", DRIVER, body)


def capacity(size: str) -> Step:
    body = {
        "metadata": {"name": "cap", "namespace": "kube-system"},
        "storageClassName": "late",
        "nodeTopology": {},
        "capacity": size,
    }
    return put("csistoragecapacities", "kube-system/cap", body)


def attachment(driver: str) -> Step:
    body = {
        "metadata": {"name": "a"},
        "spec": {
            "attacher": driver,
            "nodeName": "n0",
            "source": {"persistentVolumeName": "w"},
        },
    }
    return put("volumeattachments", "a", msgspec.convert(body, VolumeAttachment))


BOUND: Final = (claim(volume="v"), volume())
LIMITED: Final = (node(), csi_node(1), *BOUND)
OTHERS: Final = (claim("d", "w"), volume("w", "d"), bound("b", claim="d"))

IN_TREE: Final = (
    node(labels={"topology.ebs.csi.aws.com/zone": "a"}),
    claim(volume="v"),
    in_tree_volume(),
)

_VOLUMES: Final = [
    Wakeup(
        "NodeVolumeLimits",
        "storage.k8s.io/CSINode/Add",
        (drop("csinodes", "n0"), csi_node(2)),
        (*LIMITED, *OTHERS),
        CLAIM,
    ),
    Wakeup("VolumeBinding", "storage.k8s.io/CSINode/Add", (csi_node(9),), IN_TREE, CLAIM),
    Wakeup(
        "VolumeBinding",
        "storage.k8s.io/CSINode/Update",
        (csi_node(9),),
        (csi_node(9, is_migrated=False), *IN_TREE),
        CLAIM,
    ),
    Wakeup(
        "VolumeZone",
        "PersistentVolume/Add",
        (volume(),),
        (node(), claim(volume="v")),
        CLAIM,
    ),
    Wakeup("VolumeRestrictions", "Node/Add", (node("n1"),), (node(), bound("b", **DISK)), DISK),
    Wakeup("VolumeRestrictions", "Pod/Delete", (gone("b", **DISK),), (node(), bound("b", **DISK)), DISK),
    Wakeup("VolumeRestrictions", "PersistentVolumeClaim/Add", (claim(volume="v"),),
           (node(), volume()), CLAIM),
    Wakeup("NodeVolumeLimits", "storage.k8s.io/CSINode/Update", (csi_node(2),),
           (*LIMITED, *OTHERS), CLAIM),
    Wakeup("NodeVolumeLimits", "Pod/Delete", (gone("b", claim="d"),), (*LIMITED, *OTHERS), CLAIM),
    Wakeup(
        "NodeVolumeLimits",
        "storage.k8s.io/VolumeAttachment/Delete",
        (drop("volumeattachments", "a"),),
        (node(), csi_node(1, driver=EBS), volume("w", "d", driver=EBS), attachment(EBS)),
        DISK,
    ),
    Wakeup("VolumeBinding", "storage.k8s.io/StorageClass/Add", (storage_class(),),
           (node(), claim()), CLAIM),
    Wakeup("VolumeBinding", "storage.k8s.io/StorageClass/Update", (storage_class(zone="a"),),
           (zoned("n0", "a"), claim(), storage_class(zone="b")), CLAIM),
    Wakeup(
        "VolumeBinding",
        "PersistentVolumeClaim/Update",
        (claim(volume="w"),),
        (node(), claim(volume="v"), volume(host="else"), volume("w")),
        CLAIM,
    ),
    Wakeup("VolumeBinding", "PersistentVolume/Add", (volume(of=""),),
           (node(), claim(), local_class()), CLAIM),
    Wakeup("VolumeBinding", "PersistentVolume/Update", (volume(of="", host="n0"),),
           (node(), claim(), local_class(), volume(of="", host="else")), CLAIM),
    Wakeup("VolumeBinding", "Node/Add", (node("n1"),),
           (node(), claim(volume="v"), volume(host="n1")), CLAIM),
    Wakeup("VolumeBinding", "Node/UpdateNodeLabel", (node(labels={HOST_NAME: "n1"}),),
           (node(), claim(volume="v"), volume(host="n1")), CLAIM),
    Wakeup(
        "VolumeBinding",
        "storage.k8s.io/CSIDriver/Update",
        (csi_driver(counts=False),),
        (node(), claim(), storage_class(), csi_driver(counts=True)),
        CLAIM_AND_INLINE,
    ),
    Wakeup("VolumeBinding", "storage.k8s.io/CSIStorageCapacity/Add", (capacity("9Gi"),),
           (node(), claim(), storage_class(), csi_driver(counts=True)), CLAIM),
    Wakeup("VolumeBinding", "storage.k8s.io/CSIStorageCapacity/Update", (capacity("9Gi"),),
           (node(), claim(), storage_class(), csi_driver(counts=True), capacity("1")), CLAIM),
    Wakeup("VolumeZone", "Node/Add", (zoned("n1", "b"),),
           (zoned("n0", "a"), claim(volume="v"), volume(zone="b")), CLAIM),
    Wakeup("VolumeZone", "Node/UpdateNodeLabel", (zoned("n0", "b"),),
           (zoned("n0", "a"), claim(volume="v"), volume(zone="b")), CLAIM),
    Wakeup("VolumeZone", "PersistentVolumeClaim/Update", (claim(volume="w"),),
           (zoned("n0", "a"), claim(volume="v"), volume(zone="b"), volume("w")), CLAIM),
    Wakeup("VolumeZone", "PersistentVolume/Update", (volume(zone="a"),),
           (zoned("n0", "a"), claim(volume="v"), volume(zone="b")), CLAIM),
]  # fmt: skip


# Devices ------------------------------------------------------------------------------------------

DEVICE: Final[dict[str, Any]] = {
    "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
}
ASKING: Final[dict[str, Any]] = {
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {GPU: "1"}}}]}
}


def device_class(**spec: Any) -> Step:
    return put("deviceclasses", "gpu", make_class("gpu", **spec))


def never_class() -> Step:
    return put("deviceclasses", "gpu", make_class("gpu", "false"))


def device_claim(name: str = "c", **status: Any) -> Step:
    return put("resourceclaims", f"default/{name}", make_claim(name, status=status))


def devices(*names: str, pool: str = "n0", **others: Any) -> Step:
    return put("resourceslices", f"slice-{pool}", make_slice(pool, map(device, names), **others))


RACK: Final[dict[str, Any]] = {
    "node": None,
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]
    },
}
BACKED: Final = device_class(extendedResourceName=GPU)

GENERATED: Final[dict[str, Any]] = {
    "spec": {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}
}


def generated_claim() -> Step:
    """The claim that the pod waits for was made before, and is named in its status now."""
    meta = {"name": NAME, "namespace": "default", "uid": f"uid-default-{NAME}"}
    body = {
        "metadata": {**meta, "resourceVersion": "2"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **GENERATED["spec"]},
        "status": {
            "phase": "Pending",
            "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c"}],
        },
    }
    made = split_pod(msgspec.convert(body, Pod))
    return lambda pipeline: pipeline.add_pod(made)


_DEVICES: Final = [
    Wakeup(
        "DynamicResources",
        "Pod/UpdatePodGeneratedResourceClaim",
        (generated_claim(),),
        (
            node(),
            device_class(),
            devices("d"),
            put("resourceclaims", "default/c", make_claim("c", owner=f"uid-default-{NAME}")),
        ),
        GENERATED,
    ),
    Wakeup("NodeResourcesFit", "resource.k8s.io/DeviceClass/Add", (BACKED,),
           (node(), devices("d")), ASKING),
    Wakeup("NodeResourcesFit", "resource.k8s.io/DeviceClass/Update", (BACKED,),
           (node(), devices("d"), device_class()), ASKING),
    Wakeup("DynamicResources", "Node/Add", (node("n1"),),
           (node(), device_class(), device_claim(), devices("d", pool="n1")), DEVICE),
    Wakeup("DynamicResources", "Node/UpdateNodeLabel", (node(labels={"rack": "r"}),),
           (node(), device_class(), device_claim(), devices("d", pool="far", **RACK)), DEVICE),
    Wakeup("DynamicResources", "Node/UpdateNodeAllocatable", (node(extra={GPU: "1"}),),
           (node(), BACKED), ASKING),
    Wakeup("DynamicResources", "resource.k8s.io/ResourceClaim/Add", (device_claim(),),
           (node(), device_class(), devices("d")), DEVICE),
    Wakeup("DynamicResources", "resource.k8s.io/ResourceClaim/Update", (device_claim("o"),),
           (node(), device_class(), device_claim(), devices("d"),
            device_claim("o", **allocated("d", pool="n0"))), DEVICE),
    Wakeup("DynamicResources", "resource.k8s.io/DeviceClass/Add", (device_class(),),
           (node(), device_claim(), devices("d")), DEVICE),
    Wakeup("DynamicResources", "resource.k8s.io/DeviceClass/Update", (device_class(),),
           (node(), never_class(), device_claim(), devices("d")), DEVICE),
    Wakeup("DynamicResources", "resource.k8s.io/ResourceSlice/Add", (devices("d"),),
           (node(), device_class(), device_claim()), DEVICE),
    Wakeup("DynamicResources", "resource.k8s.io/ResourceSlice/Update", (devices("d"),),
           (node(), device_class(), device_claim(), devices()), DEVICE),
]  # fmt: skip


WAKEUPS: Final = [*_PODS_AND_NODES, *_VOLUMES, *_DEVICES]
