"""The table of TestCoreResourceEnqueue: which event of the cluster wakes which of the parked pods.

Data alone: `test_queueing.py` plays it. Each case is named as in
test/integration/scheduler/queueing/queue.go, v1.36; "PVC" and so on stand for what they do there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.live import Json, LiveBerth

ZONE: Final = "topology.kubernetes.io/zone"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BOUND: Final = {"pv.kubernetes.io/bind-completed": "true"}
NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"
CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
CSI_NODES: Final = "/apis/storage.k8s.io/v1/csinodes"
CSI_DRIVERS: Final = "/apis/storage.k8s.io/v1/csidrivers"
CAPACITIES: Final = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
ATTACHMENTS: Final = "/apis/storage.k8s.io/v1/volumeattachments"
DEVICE_CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"

EVENT_OF: Final = {
    CLAIMS: "PersistentVolumeClaim",
    VOLUMES: "PersistentVolume",
    CLASSES: "storage.k8s.io/StorageClass",
    CSI_NODES: "storage.k8s.io/CSINode",
    CSI_DRIVERS: "storage.k8s.io/CSIDriver",
    CAPACITIES: "storage.k8s.io/CSIStorageCapacity",
    ATTACHMENTS: "storage.k8s.io/VolumeAttachment",
    DEVICE_CLASSES: "resource.k8s.io/DeviceClass",
}


Trigger = Callable[[LiveBerth], object]
"""Makes the event; what it returns does not matter."""


@dataclass(frozen=True)
class Case:
    name: str
    plugins: Sequence[str]
    """The profile's; the first is the one that rejects the pods, unless `rejected_by` says other."""
    nodes: Mapping[str, Json]
    """Arguments of `LiveBerth.add_node`."""
    pods: Mapping[str, Json]
    """Those that are rejected at first."""
    trigger: Trigger
    event: str
    """What the trigger is to the queue."""
    woken: set[str]
    assigned: Mapping[str, Json] = field(default_factory=dict)
    """Pods that are on a node already."""
    objects: Sequence[tuple[str, Json]] = ()
    """(collection, body)."""
    rejected_by: Mapping[str, set[str]] = field(default_factory=dict)


# Bodies --------------------------------------------------------------------------------------------


def anti(key: str, topology: str) -> Json:
    term = {"labelSelector": _exists(key), "topologyKey": topology}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near(key: str, topology: str) -> Json:
    term = {"labelSelector": _exists(key), "topologyKey": topology}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def on_nodes(key: str, value: str, where: str = "matchExpressions") -> Json:
    term = {where: [{"key": key, "operator": "In", "values": [value]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def spread(key: str, topology: str, min_domains: int) -> Json:
    constraint = {
        "maxSkew": 1, "topologyKey": topology, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _exists(key), "minDomains": min_domains,
    }  # fmt: skip
    return {"labels": {key: "val"}, "spec": {"topologySpreadConstraints": [constraint]}}


def uses(claim: str) -> Json:
    source = {"persistentVolumeClaim": {"claimName": claim}}
    return {"spec": {"volumes": [{"name": "v", **source}]}}


def tolerates(key: str) -> Json:
    return {"spec": {"tolerations": [{"key": key, "operator": "Exists"}]}}


def port(number: int) -> Json:
    container = {"name": "c", "image": "img"}
    return {
        "spec": {
            "containers": [{**container, "ports": [{"containerPort": 80, "hostPort": number}]}]
        }
    }


def affinity(*parts: Json) -> Json:
    return {"affinity": {kind: terms for part in parts for kind, terms in part.items()}}


def _exists(key: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def claim(name: str, volume: str = "", *, mode: str = "ReadWriteOncePod", of: str = "") -> Json:
    """Bound to `volume`, or to none."""
    spec: Json = {"accessModes": [mode], "resources": {"requests": {"storage": "1Mi"}}}
    spec["storageClassName"] = of
    metadata: Json = {"name": name}
    if volume:
        metadata["annotations"] = BOUND
        spec["volumeName"] = volume
    return {"metadata": metadata, "spec": spec}


def volume(name: str, **given: Any) -> Json:
    """`zone` (label), `near` (key and value of node affinity), `driver`, `of` (its class)."""
    spec: Json = {
        "accessModes": [given.get("mode", "ReadWriteMany")], "capacity": {"storage": "1Mi"},
        "storageClassName": given.get("of", ""),
    }  # fmt: skip
    if "driver" in given:
        spec["csi"] = {"driver": given["driver"], "volumeHandle": name}
    else:
        spec["hostPath"] = {"path": "/tmp"}
    if "near" in given:
        spec["nodeAffinity"] = {"required": _selector(*given["near"])}
    labels = {ZONE: given["zone"]} if "zone" in given else {}
    return {"metadata": {"name": name, "labels": labels | given.get("labels", {})}, "spec": spec}


def _selector(key: str, value: str) -> Json:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeSelectorTerms": [term]}


def storage_class(name: str, mode: str = "WaitForFirstConsumer", zone: str = "") -> Json:
    body: Json = {"metadata": {"name": name}, "provisioner": "p", "volumeBindingMode": mode}
    if zone:
        terms = [{"key": ZONE, "values": [zone]}]
        body["allowedTopologies"] = [{"matchLabelExpressions": terms}]
    return body


def csi_node(name: str, **counts: int) -> Json:
    drivers = [
        {"name": driver.replace("__", "."), "nodeID": name, "allocatable": {"count": count}}
        for driver, count in counts.items()
    ]
    return {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def attachment(name: str, volume_name: str, driver: str) -> Json:
    source = {"persistentVolumeName": volume_name}
    spec = {"nodeName": "n1", "attacher": driver, "source": source}
    return {"metadata": {"name": name}, "spec": spec}


def capacity(quantity: int) -> Json:
    return {"metadata": {"name": "csc"}, "storageClassName": "sc1", "capacity": str(quantity)}


# Triggers ------------------------------------------------------------------------------------------


def make(collection: str, body: Json) -> Trigger:
    kind = EVENT_OF[collection].rpartition("/")[2]
    return lambda live: live.create(collection, kind, body)


def unmake(path: str) -> Trigger:
    return lambda live: live.delete(path)


def new_node(name: str, **given: Any) -> Trigger:
    return lambda live: live.add_node(name, settle=False, **given)


def no_pod(name: str) -> Trigger:
    return lambda live: live.delete_pod(name)


def allocatable(name: str, **amounts: str) -> Trigger:
    def change(node: Json) -> None:
        node["status"]["allocatable"] |= amounts

    return lambda live: live.update(f"/api/v1/nodes/{name}", change, "status")


def node_labels(name: str, **labels: str | None) -> Trigger:
    """None takes a label away."""

    def change(node: Json) -> None:
        merged = node["metadata"]["labels"] | labels
        node["metadata"]["labels"] = {k: v for k, v in merged.items() if v is not None}

    return lambda live: live.update_node(name, change)


def node_spec(name: str, **fields: Any) -> Trigger:
    return lambda live: live.update_node(name, lambda node: node["spec"].update(fields))


def pod_labels(name: str, **labels: str) -> Trigger:
    return lambda live: live.update_pod(name, lambda pod: pod["metadata"].update(labels=labels))


def changed(collection: str, name: str, **fields: Any) -> Trigger:
    """Puts fields at the top level of an object, deep into `metadata` and `spec`."""

    def change(found: Json) -> None:
        for key, value in fields.items():
            if isinstance(value, dict) and isinstance(found.get(key), dict):
                found[key] |= value
            else:
                found[key] = value

    return lambda live: live.update(f"{collection}/{name}", change)


# The table -----------------------------------------------------------------------------------------

TAINTS, FIT, AFFINITY = "TaintToleration", "NodeResourcesFit", "NodeAffinity"
INTER, PORTS, CORDON, SPREAD = (
    "InterPodAffinity", "NodePorts", "NodeUnschedulable", "PodTopologySpread",
)  # fmt: skip
ZONES, RESTRICTIONS, BINDING, LIMITS = (
    "VolumeZone", "VolumeRestrictions", "VolumeBinding", "NodeVolumeLimits",
)  # fmt: skip

_NODES = [
    Case("Pod without a required toleration to a node isn't requeued to activeQ",
         [TAINTS, FIT], {"n1": {"cpu": 2, "taints": [NOT_READY]}},
         {"p1": {"cpu": 4}, "p2": {"cpu": 4, **tolerates(NOT_READY["key"])}},
         allocatable("n1", cpu="4"), "NodeUpdateNodeAllocatable", {"p2"},
         rejected_by={"p2": {FIT}}),
    Case("Pod rejected by the NodeAffinity plugin is requeued when a Node's label is updated",
         [AFFINITY], {"n1": {"labels": {"group": "a"}}},
         {"p1": {"spec": affinity(on_nodes("group", "b"))},
          "p2": {"spec": affinity(on_nodes("group", "c"))}},
         node_labels("n1", group="b"), "NodeUpdateNodeLabel", {"p1"}),
    Case("Pod rejected by the NodeAffinity plugin is not requeued when an updated Node haven't "
         "changed the 'match' verdict",
         [AFFINITY, FIT],
         {"n1": {"cpu": 2, "labels": {"group": "a"}}, "n2": {"labels": {"group": "b"}}},
         {"p1": {"cpu": 4, "spec": affinity(on_nodes("group", "a"))}},
         node_labels("n1", node="n"), "NodeUpdateNodeLabel", set(),
         rejected_by={"p1": {AFFINITY, FIT}}),
    Case("Pod rejected by the NodeAffinity plugin is requeued when a Node is added",
         [AFFINITY], {"n1": {"labels": {"group": "a"}}},
         {"p1": {"spec": affinity(on_nodes("group", "b"))},
          "p2": {"spec": affinity(on_nodes("group", "c"))}},
         new_node("n2", labels={"group": "b"}), "NodeAdd", {"p1"}),
    Case("Pod rejected by the TaintToleration plugin is requeued when the Node's taint is updated",
         [TAINTS], {"n1": {"taints": [NOT_READY]}},
         {"p1": tolerates("taint-key"), "p2": tolerates("taint-key2"), "p3": {}},
         node_spec("n1", taints=[{"key": "taint-key", "effect": "NoSchedule"}]),
         "NodeUpdateNodeTaint", {"p1"}),
    Case("Pod rejected by the TaintToleration plugin is requeued when a Node that has the "
         "correspoding taint is added",
         [TAINTS], {"n1": {"taints": [NOT_READY]}}, {"p1": tolerates("taint-key"), "p2": {}},
         new_node("n2", taints=[{"key": "taint-key", "effect": "NoSchedule"}]), "NodeAdd", {"p1"}),
    Case("Pod rejected by the NodeResourcesFit plugin is requeued when a Pod is deleted",
         [FIT], {"n1": {"cpu": 2}}, {"p2": {"cpu": 2}}, no_pod("p1"), "AssignedPodDelete", {"p2"},
         assigned={"p1": {"cpu": 2, "node": "n1"}}),
    Case("Pod rejected by the NodeResourcesFit plugin is requeued when a Node is created",
         [FIT], {"n1": {"cpu": 2}}, {"p1": {"cpu": 4}, "p2": {"cpu": 5}},
         new_node("n2", cpu=4), "NodeAdd", {"p1"}),
    Case("Pod rejected by the NodeResourcesFit plugin is requeued when a Node is updated",
         [FIT], {"n1": {"cpu": 2}}, {"p1": {"cpu": 4}, "p2": {"cpu": 5}},
         allocatable("n1", cpu="4"), "NodeUpdateNodeAllocatable", {"p1"}),
    Case("Pod rejected by the NodeResourcesFit plugin isn't requeued when a Node has the extended "
         "resource, and DRAExtendedResource is enabled",
         [FIT, "DynamicResources"], {"n1": {"cpu": 4, "extra": {"example.com/gpu": "1"}}},
         {"p1": {"cpu": 5, "requests": {"example.com/gpu": "1"}}},
         allocatable("n1", memory="64Gi"), "NodeUpdateNodeAllocatable", set()),
    Case("Pod rejected by the NodeResourcesFit plugin is requeued when created DeviceClass having "
         "the extended resource matching pod's requests, and DRAExtendedResource is enabled",
         [FIT], {"n1": {}},
         {"p1": {"requests": {"example.com/gpu": "1"}},
          "p2": {"requests": {"example.com/othergpu": "1"}}},
         make(DEVICE_CLASSES, {"metadata": {"name": "fake-class"},
                               "spec": {"extendedResourceName": "example.com/gpu"}}),
         "resource.k8s.io/DeviceClassAdd", {"p1"}),
    Case("Pod rejected by the NodeResourcesFit plugin is requeued when updated DeviceClass has the "
         "extended resource, and DRAExtendedResource is enabled",
         [FIT], {"n1": {}},
         {"p1": {"requests": {"example.com/gpu": "1"}},
          "p2": {"requests": {"example.com/othergpu": "1"}}},
         changed(DEVICE_CLASSES, "fake-class", spec={"extendedResourceName": "example.com/gpu"}),
         "resource.k8s.io/DeviceClassUpdate", {"p1"},
         objects=[(DEVICE_CLASSES, {"metadata": {"name": "fake-class"}, "spec": {}})]),
    Case("Pod rejected by the NodeResourcesFit plugin isn't requeued when a Node is updated without "
         "increase in the requested resources",
         [AFFINITY, FIT], {"n1": {"cpu": 4}, "n2": {"cpu": 2, "labels": {"group": "b"}}},
         {"p1": {"cpu": 4, "spec": affinity(on_nodes("group", "b"))}},
         allocatable("n1", memory="64Gi"), "NodeUpdateNodeAllocatable", set(),
         rejected_by={"p1": {AFFINITY, FIT}}),
    Case("Pod rejected by the NodeResourcesFit plugin is requeued when a Node is updated with "
         "increase in the requested resources",
         [AFFINITY, FIT], {"n1": {"cpu": 4}, "n2": {"cpu": 2, "labels": {"group": "b"}}},
         {"p1": {"cpu": 4, "spec": affinity(on_nodes("group", "b"))}},
         allocatable("n1", cpu="5"), "NodeUpdateNodeAllocatable", {"p1"},
         rejected_by={"p1": {AFFINITY, FIT}}),
    Case("Pod rejected by the NodeResourcesFit plugin is requeued when a Node is updated with "
         "increase in the allowed pods number",
         [AFFINITY, FIT], {"n1": {"pods": 2}, "n2": {"pods": 1, "labels": {"group": "b"}}},
         {"p2": {"spec": affinity(on_nodes("group", "b"))}},
         allocatable("n1", pods="3"), "NodeUpdateNodeAllocatable", {"p2"},
         assigned={"p1": {"node": "n2"}}, rejected_by={"p2": {AFFINITY, FIT}}),
    Case("Pod rejected by the PreFilter of NodeAffinity plugin and Filter of NodeResourcesFit is "
         "requeued based on both plugins",
         [AFFINITY, FIT], {"n1": {"cpu": 2}, "n2": {"cpu": 2, "labels": {"zone": "zone1"}}},
         {"p1": {"cpu": 4, "spec": affinity(on_nodes("metadata.name", "n1", "matchFields"))}},
         allocatable("n1", cpu="4"), "NodeUpdateNodeAllocatable", {"p1"},
         rejected_by={"p1": {AFFINITY, FIT}}),
    Case("Pod rejected with hostport by the NodePorts plugin is requeued when pod with common "
         "hostport is deleted",
         [PORTS], {"n1": {}}, {"p3": port(8080), "p4": port(8081)}, no_pod("p1"),
         "AssignedPodDelete", {"p3"},
         assigned={"p1": {**port(8080), "node": "n1"}, "p2": {**port(8081), "node": "n1"}}),
    Case("Pod rejected with hostport by the NodePorts plugin is requeued when new node is created",
         [PORTS], {"n1": {}}, {"p2": port(8080)}, new_node("n2"), "NodeAdd", {"p2"},
         assigned={"p1": {**port(8080), "node": "n1"}}),
    Case("Pod rejected by the NodeUnschedulable plugin is requeued when the node is turned to ready",
         [CORDON], {"n1": {"spec": {"unschedulable": True}}}, {"p1": {}},
         node_spec("n1", unschedulable=False), "NodeUpdateNodeTaint", {"p1"}),
    Case("Pod rejected by the NodeUnschedulable plugin is requeued when a new node is created",
         [CORDON], {"n1": {"spec": {"unschedulable": True}}}, {"p1": {}}, new_node("n2"), "NodeAdd",
         {"p1"}),
    Case("Pod rejected by the NodeUnschedulable plugin isn't requeued when another unschedulable "
         "node is created",
         [CORDON], {"n1": {"spec": {"unschedulable": True}}}, {"p1": {}},
         new_node("n2", spec={"unschedulable": True}), "NodeAdd", set()),
]  # fmt: skip

_AFFINITY = [
    Case("Pod rejected by the PodAffinity plugin is requeued when a new Node is created",
         [INTER], {"n1": {"labels": {"node": "n1"}}},
         {"p2": {"labels": {"anti": "anti"}, "spec": affinity(anti("anti", "node"))}},
         new_node("n2", labels={"node": "n2"}), "NodeAdd", {"p2"},
         assigned={"p1": {"labels": {"anti": "anti"}, "node": "n1",
                          "spec": affinity(anti("anti", "node"))}}),
    Case("Pod rejected by the InterPodAffinity plugin is requeued when deleting the existed pod's "
         "label that matches the podAntiAffinity",
         [INTER], {"n1": {"labels": {"node": "n1"}}},
         {"p2": {"labels": {"anti1": "anti1"}, "spec": affinity(anti("anti1", "node"))},
          "p3": {"labels": {"anti2": "anti2"}, "spec": affinity(anti("anti2", "node"))}},
         pod_labels("p1", anti2="anti2"), "AssignedPodUpdatePodLabel", {"p2"},
         assigned={"p1": {"labels": {"anti1": "anti1", "anti2": "anti2"}, "node": "n1"}}),
    Case("Pod rejected by the InterPodAffinity plugin is requeued when deleting the existing pod "
         "that matches the target podAntiAffinity",
         [INTER], {"n1": {"labels": {"node": "n1"}}},
         {"p3": {"labels": {"anti1": "anti1"}, "spec": affinity(anti("anti1", "node"))},
          "p4": {"labels": {"anti2": "anti2"}, "spec": affinity(anti("anti2", "node"))}},
         no_pod("p1"), "AssignedPodDelete", {"p3"},
         assigned={"p1": {"labels": {"anti1": "anti1"}, "node": "n1"},
                   "p2": {"labels": {"anti2": "anti2"}, "node": "n1"}}),
    Case("Pod rejected by the InterPodAffinity plugin is requeued when deleting the existing pod "
         "with podAntiAffinity that matches the target pod",
         [INTER], {"n1": {"labels": {"node": "n1"}}},
         {"p3": {"labels": {"anti1": "anti1"}}, "p4": {"labels": {"anti2": "anti2"}}},
         no_pod("p1"), "AssignedPodDelete", {"p3"},
         assigned={"p1": {"node": "n1", "spec": affinity(anti("anti1", "node"))},
                   "p2": {"node": "n1", "spec": affinity(anti("anti2", "node"))}}),
    Case("Pod rejected by the PodAffinity plugin is requeued when updating the existed pod's label "
         "to make it match the pod's podAffinity",
         [INTER], {"n1": {"labels": {"node": "n1"}}},
         {"p2": {"spec": affinity(near("aaa", "node"))},
          "p3": {"spec": affinity(near("bbb", "node"))}},
         pod_labels("p1", aaa="bbb"), "AssignedPodUpdatePodLabel", {"p2"},
         assigned={"p1": {"node": "n1"}}),
    Case("Pod rejected by the InterPodAffinity plugin is requeued when creating the node with the "
         "topologyKey label of the pod affinity",
         [INTER], {"n1": {"labels": {"aaa": "n1"}}},
         {"p1": {"spec": affinity(near("bbb", "zone"))},
          "p2": {"spec": affinity(near("ccc", "region"))}},
         new_node("n2", labels={"zone": "zone1"}), "NodeAdd", {"p1"}),
    Case("Pod rejected by the InterPodAffinity plugin is requeued when updating the node with the "
         "topologyKey label of the pod affinity",
         [INTER, AFFINITY],
         {"n1": {"labels": {"region": "region-1"}},
          "n2": {"labels": {"region": "region-2", "group": "b"}}},
         {"p2": {"labels": {"affinity1": "a"}, "spec": affinity(near("affinity1", "node"))},
          "p3": {"labels": {"affinity1": "a"}, "spec": affinity(near("affinity1", "other"))},
          "p4": {"spec": affinity(near("affinity1", "region"), on_nodes("group", "b"))}},
         node_labels("n1", node="n1", region="region-2"), "NodeUpdateNodeLabel", {"p2", "p4"},
         assigned={"p1": {"labels": {"affinity1": "a"}, "node": "n1"}},
         rejected_by={"p4": {INTER, AFFINITY}}),
    Case("Pod rejected by the InterPodAffinity plugin is requeued when updating the node with the "
         "topologyKey label of the pod anti affinity",
         [INTER], {"n1": {"labels": {"node": "n1", "service": "service-a", "other": "n1"}}},
         {f"p{i}": {"labels": {"anti1": "a"}, "spec": affinity(anti("anti1", key))}
          for i, key in ((2, "node"), (3, "service"), (4, "other"))},
         node_labels("n1", node=None, service="service-b", region="n1"), "NodeUpdateNodeLabel",
         {"p2", "p3"}, assigned={"p1": {"labels": {"anti1": "a"}, "node": "n1"}}),
    Case("Pod rejected by the InterPodAffinity plugin is requeued when creating the node with the "
         "topologyKey label of the pod anti affinity",
         [INTER], {"n1": {"labels": {"zone": "z", "node": "n1"}}},
         {"p2": {"spec": affinity(anti("anti1", "zone"))},
          "p3": {"spec": affinity(anti("anti1", "node"))}},
         new_node("n2", labels={"zone": "z"}), "NodeAdd", {"p2", "p3"},
         assigned={"p1": {"labels": {"anti1": "a"}, "node": "n1"}}),
]  # fmt: skip

_ONE = {"p1": {"labels": {"key1": "val"}, "node": "n1"},
        "p2": {"labels": {"key2": "val"}, "node": "n1"}}  # fmt: skip
_TWO = {"p1": {"labels": {"key1": "val"}, "node": "n1"},
        "p2": {"labels": {"key1": "val"}, "node": "n2"}}  # fmt: skip

_SPREAD = [
    Case("Pods with PodTopologySpread should be requeued when a Pod with matching label is scheduled",
         [SPREAD], {"n1": {"labels": {"node": "n1"}}},
         {"p3": spread("key1", "node", 3), "p4": spread("key2", "node", 3)},
         lambda live: live.add_pod("p5", labels={"key1": "val"}, node="n1"),
         "AssignedPodAdd", {"p3"}, assigned=_ONE),
    Case("Pods with PodTopologySpread should be requeued when a scheduled Pod label is updated to "
         "match the selector",
         [SPREAD], {"n1": {"labels": {"node": "n1"}}},
         {"p3": spread("key1", "node", 3), "p4": spread("key2", "node", 3)},
         pod_labels("p1", key3="val"), "AssignedPodUpdatePodLabel", {"p3"}, assigned=_ONE),
    Case("Pods with PodTopologySpread should be requeued when a scheduled Pod with matching label "
         "is deleted",
         [SPREAD], {"n1": {"labels": {"node": "n1"}}},
         {"p3": spread("key1", "node", 2), "p4": spread("key2", "node", 3)},
         no_pod("p1"), "AssignedPodDelete", {"p3"}, assigned=_ONE),
    Case("Pods with PodTopologySpread should be requeued when a Node with topology label is created",
         [SPREAD], {"n1": {"labels": {"node": "n"}}, "n2": {"labels": {"zone": "z"}}},
         {"p3": spread("key1", "node", 2), "p4": spread("key1", "zone", 2)},
         new_node("n3", labels={"node": "n"}), "NodeAdd", {"p3"}, assigned=_TWO),
    Case("Pods with PodTopologySpread should be requeued when a Node is updated to have the topology "
         "label",
         [SPREAD],
         {name: {"labels": {"node": "n", "region": "r", "service": "service-a"}}
          for name in ("n1", "n2")},
         {f"p{i}": spread("key1", key, 3)
          for i, key in ((5, "node"), (6, "zone"), (7, "region"), (8, "other"), (9, "service"))},
         node_labels("n2", node=None, zone="z", service="service-b"), "NodeUpdateNodeLabel",
         {"p5", "p6", "p9"}, assigned=_TWO),
    Case("Pods with PodTopologySpread should be requeued when a Node with a topology label is "
         "deleted",
         [SPREAD], {"n1": {"labels": {"node": "n"}}, "n2": {"labels": {"zone": "z"}}},
         {"p3": spread("key1", "node", 3), "p4": spread("key1", "zone", 3)},
         lambda live: live.delete_node("n2"), "NodeDelete", {"p4"}, assigned=_TWO),
    Case("Pods with PodTopologySpread should be requeued when a NodeTaint of a Node with a topology "
         "label has been updated",
         [SPREAD],
         {"n1": {"labels": {"node": "n"}}, "n2": {"labels": {"zone": "z"}},
          "n3": {"labels": {"zone": "z"}, "taints": [NOT_READY]}},
         {"p3": spread("key1", "node", 3),
          "p4": {"labels": {"key1": "val"},
                 "spec": {**spread("key1", "zone", 3)["spec"], **tolerates("aaa")["spec"]}}},
         node_spec("n3", taints=[{"key": "aaa", "value": "bbb", "effect": "NoSchedule"}]),
         "NodeUpdateNodeTaint", {"p4"}, assigned=_TWO),
]  # fmt: skip

_WEST: Final = {"n1": {"labels": {ZONE: "us-west1-a"}}}
_VOLUME_1 = (VOLUMES, volume("pv1", zone="us-west1-a"))
_VOLUME_2 = (VOLUMES, volume("pv2", zone="us-east1"))
_CLAIM_1, _CLAIM_2 = (CLAIMS, claim("pvc1", "pv1")), (CLAIMS, claim("pvc2", "pv2"))
_USER_1 = {"p1": {**uses("pvc1"), "node": "n1"}}

_ZONES = [
    Case("Pod rejected with node by the VolumeZone plugin is requeued when the PV is added",
         [ZONES], _WEST, {"p2": uses("pvc2")},
         make(VOLUMES, volume("pv2", zone="us-west1-a")), "PersistentVolumeAdd", {"p2"},
         assigned=_USER_1, objects=[_VOLUME_1, _CLAIM_1, _CLAIM_2]),
    Case("Pod rejected with node by the VolumeZone plugin is requeued when the PV is updated",
         [ZONES], _WEST, {"p2": uses("pvc2")},
         changed(VOLUMES, "pv2", metadata={"labels": {ZONE: "us-west1-a"}}),
         "PersistentVolumeUpdate", {"p2"},
         assigned=_USER_1, objects=[_VOLUME_1, _VOLUME_2, _CLAIM_1, _CLAIM_2]),
    Case("Pod rejected with node by the VolumeZone plugin is requeued when the PVC bound to the pod "
         "is added",
         [ZONES], _WEST, {"p2": uses("pvc2"), "p3": uses("pvc3")},
         make(CLAIMS, claim("pvc2", "pv2")), "PersistentVolumeClaimAdd", {"p2"},
         assigned=_USER_1, objects=[_VOLUME_1, _VOLUME_2, _CLAIM_1]),
    Case("Pod rejected with node by the VolumeZone plugin is requeued when the PVC bound to the pod "
         "is updated",
         [ZONES], _WEST, {"p2": uses("pvc2"), "p3": uses("pvc3")},
         changed(CLAIMS, "pvc2", metadata={"annotations": BOUND}, spec={"volumeName": "pv2"}),
         "PersistentVolumeClaimUpdate", {"p2"}, assigned=_USER_1,
         objects=[_VOLUME_1, _VOLUME_2, _CLAIM_1, (CLAIMS, claim("pvc2"))]),
    Case("Pod rejected with node by the VolumeZone plugin is requeued when the Storage class is "
         "added",
         [ZONES], _WEST, {"p2": uses("pvc2")},
         make(CLASSES, storage_class("sc1")), "storage.k8s.io/StorageClassAdd", {"p2"},
         assigned=_USER_1, objects=[_VOLUME_1, _CLAIM_1, _CLAIM_2]),
    Case("Pod rejected with node by the VolumeZone plugin is not requeued when the PV is updated but "
         "the topology is same",
         [ZONES], _WEST, {"p2": uses("pvc2")},
         changed(VOLUMES, "pv2", metadata={"labels": {ZONE: "us-east1", "unrelated": "x"}}),
         "PersistentVolumeUpdate", set(),
         assigned=_USER_1, objects=[_VOLUME_1, _VOLUME_2, _CLAIM_1, _CLAIM_2]),
    Case("Pod rejected by the VolumeRestriction plugin is requeued when the PVC bound to the pod is "
         "added",
         [RESTRICTIONS], {"n1": {}}, {"p1": uses("pvc1"), "p2": uses("pvc2")},
         make(CLAIMS, claim("pvc1", "pv1")), "PersistentVolumeClaimAdd", {"p1"},
         objects=[(VOLUMES, volume("pv1", mode="ReadWriteOnce"))]),
    Case("Pod rejected by the VolumeRestriction plugin is requeued when the pod is deleted",
         [RESTRICTIONS], {"n1": {}}, {"p2": uses("pvc1"), "p3": uses("pvc2")}, no_pod("p1"),
         "AssignedPodDelete", {"p2"}, assigned=_USER_1,
         objects=[(VOLUMES, volume("pv1", mode="ReadWriteOnce")), _CLAIM_1]),
]  # fmt: skip

_MANY = claim("pvc1", "pv1", mode="ReadWriteMany")
_UNBOUND = (CLAIMS, claim("pvc1", mode="ReadWriteMany"))
_OTHER = (CLAIMS, claim("pvc2", mode="ReadWriteMany"))
_OF_CLASS = [(VOLUMES, volume("pv1", of="sc1")),
             (CLAIMS, claim("pvc1", mode="ReadWriteMany", of="sc1"))]  # fmt: skip
_IMMEDIATE = (CLASSES, storage_class("sc1", "Immediate"))
_ON_PVC1: Final = {"p1": uses("pvc1")}
_EPHEMERAL: Final = {"p1": {"spec": {"volumes": [
    {"name": "v", "persistentVolumeClaim": {"claimName": "pvc1"}},
    {"name": "volume", "csi": {"driver": "csidriver"}},
]}}}  # fmt: skip


def _driver(has_capacity: bool) -> tuple[str, Json]:
    spec = {"storageCapacity": has_capacity}
    return CSI_DRIVERS, {"metadata": {"name": "csidriver"}, "spec": spec}


_BINDING = [
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the Node is created",
         [BINDING], {"n1": {"labels": {ZONE: "us-east-1b"}}}, _ON_PVC1,
         new_node("n2", labels={ZONE: "us-east-1a"}), "NodeAdd", {"p1"},
         objects=[(VOLUMES, volume("pv1", near=(ZONE, "us-east-1a"))), (CLAIMS, _MANY)]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the Node is updated",
         [BINDING], {"n1": {"labels": {"aaa": "bbb"}}}, _ON_PVC1,
         node_labels("n1", aaa="ccc"), "NodeUpdateNodeLabel", {"p1"},
         objects=[(VOLUMES, volume("pv1", near=("aaa", "ccc"))), (CLAIMS, _MANY)]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the PV is created",
         [BINDING], {"n1": {"labels": {"aaa": "bbb"}}}, _ON_PVC1,
         make(VOLUMES, volume("pv1", near=("aaa", "bbb"))), "PersistentVolumeAdd", {"p1"},
         objects=[(CLAIMS, _MANY)]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the PV is updated",
         [BINDING], {"n1": {"labels": {ZONE: "us-east-1a"}}}, _ON_PVC1,
         changed(VOLUMES, "pv1", spec={"nodeAffinity": {"required": _selector(ZONE, "us-east-1a")}}),
         "PersistentVolumeUpdate", {"p1"},
         objects=[(VOLUMES, volume("pv1", near=(BETA_ZONE, "us-east-1a"))), (CLAIMS, _MANY)]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the PVC is created",
         [BINDING], {"n1": {}}, {"p1": uses("pvc1"), "p2": uses("pvc2")},
         make(CLAIMS, _MANY), "PersistentVolumeClaimAdd", {"p1"},
         objects=[(VOLUMES, volume("pv1")), _OTHER]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the PVC is updated",
         [BINDING], {"n1": {}}, {"p1": uses("pvc1"), "p2": uses("pvc2")},
         changed(CLAIMS, "pvc1", metadata={"annotations": BOUND}, spec={"volumeName": "pv1"}),
         "PersistentVolumeClaimUpdate", {"p1"},
         objects=[(VOLUMES, volume("pv1")), _UNBOUND, _OTHER]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the StorageClass is "
         "created",
         [BINDING], {"n1": {}}, _ON_PVC1, make(CLASSES, storage_class("sc1")),
         "storage.k8s.io/StorageClassAdd", {"p1"}, objects=_OF_CLASS),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the StorageClass's "
         "AllowedTopologies is updated",
         [BINDING], {"n1": {"labels": {ZONE: "us-west-1a"}}}, _ON_PVC1,
         changed(CLASSES, "sc1", allowedTopologies=storage_class("", zone="us-west-1a")[
             "allowedTopologies"]),
         "storage.k8s.io/StorageClassUpdate", {"p1"},
         objects=[_OF_CLASS[1], (CLASSES, storage_class("sc1", zone="us-west-1c"))]),
    Case("Pod rejected with node by the VolumeBinding plugin is not requeued when the StorageClass "
         "is updated but the AllowedTopologies is same",
         [BINDING], {"n1": {"labels": {ZONE: "us-west-1c"}}}, _ON_PVC1,
         changed(CLASSES, "sc1", metadata={"labels": {"key": "updated"}}),
         "storage.k8s.io/StorageClassUpdate", set(),
         objects=[_OF_CLASS[1], (CLASSES, storage_class("sc1", zone="us-west-1a"))]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the CSINode is created",
         [BINDING], {"n1": {}}, _ON_PVC1, make(CSI_NODES, csi_node("n1")),
         "storage.k8s.io/CSINodeAdd", {"p1"}, objects=[(VOLUMES, volume("pv1")), _UNBOUND]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the CSINode's "
         "MigratedPluginsAnnotation is updated",
         [BINDING], {"n1": {}}, _ON_PVC1,
         changed(CSI_NODES, "n1",
                 metadata={"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "v"}}),
         "storage.k8s.io/CSINodeUpdate", {"p1"}, objects=[*_OF_CLASS, (CSI_NODES, csi_node("n1"))]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the CSIDriver's "
         "StorageCapacity gets disabled",
         [BINDING], {"n1": {}}, _EPHEMERAL,
         changed(CSI_DRIVERS, "csidriver", spec={"storageCapacity": False}),
         "storage.k8s.io/CSIDriverUpdate", {"p1"},
         objects=[(VOLUMES, volume("pv1")), _UNBOUND, _driver(True)]),
    Case("Pod rejected with node by the VolumeBinding plugin is not requeued when the CSIDriver is "
         "updated but the storage capacity is originally enabled",
         [BINDING], {"n1": {}}, _EPHEMERAL,
         changed(CSI_DRIVERS, "csidriver", spec={"storageCapacity": True}),
         "storage.k8s.io/CSIDriverUpdate", set(),
         objects=[(VOLUMES, volume("pv1")), _UNBOUND, _driver(False)]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the CSIStorageCapacity "
         "is created",
         [BINDING], {"n1": {}}, _ON_PVC1, make(CAPACITIES, capacity(10)),
         "storage.k8s.io/CSIStorageCapacityAdd", {"p1"}, objects=[*_OF_CLASS, _IMMEDIATE]),
    Case("Pod rejected with node by the VolumeBinding plugin is requeued when the CSIStorageCapacity "
         "is increased",
         [BINDING], {"n1": {}}, _ON_PVC1, changed(CAPACITIES, "csc", capacity="20"),
         "storage.k8s.io/CSIStorageCapacityUpdate", {"p1"},
         objects=[*_OF_CLASS, _IMMEDIATE, (CAPACITIES, capacity(10))]),
    Case("Pod rejected with node by the VolumeBinding plugin is not requeued when the "
         "CSIStorageCapacity is updated but the volumelimit is not increased",
         [BINDING], {"n1": {}}, _ON_PVC1, changed(CAPACITIES, "csc", capacity="5"),
         "storage.k8s.io/CSIStorageCapacityUpdate", set(),
         objects=[(VOLUMES, volume("pv1")), _UNBOUND, _IMMEDIATE, (CAPACITIES, capacity(10))]),
]  # fmt: skip

_OF_DRIVER = [(VOLUMES, volume("pv1", driver="csidriver")), (CLAIMS, _MANY), _driver(True)]
_TWO_OF_DRIVER = [(VOLUMES, volume("pv1", driver="csidriver")),
                  (VOLUMES, volume("pv2", driver="csidriver")), _driver(True)]  # fmt: skip
_EBS, _PD = "ebs.csi.aws.com", "pd.csi.storage.gke.io"

_LIMITS = [
    Case("Pod rejected the CSI NodeVolumeLimits plugin is requeued when the CSINode is added",
         [LIMITS], {"n1": {}}, _ON_PVC1, make(CSI_NODES, csi_node("csinode")),
         "storage.k8s.io/CSINodeAdd", {"p1"},
         objects=[*_OF_DRIVER, (CSI_NODES, csi_node("n1", csidriver=0))]),
    Case("Pod rejected with PVC by the CSI NodeVolumeLimits plugin is requeued when the pod having "
         "related PVC is deleted",
         [LIMITS], {"n1": {}}, {"p2": uses("pvc2")}, no_pod("p1"), "AssignedPodDelete", {"p2"},
         assigned=_USER_1,
         objects=[*_TWO_OF_DRIVER, _CLAIM_1, _CLAIM_2, (CSI_NODES, csi_node("n1", csidriver=1))]),
    Case("Pod rejected with PVC by the CSI NodeVolumeLimits plugin is requeued when the related PVC "
         "is added",
         [LIMITS], {"n1": {}}, {"p2": uses("pvc2")}, make(CLAIMS, _CLAIM_2[1]),
         "PersistentVolumeClaimAdd", {"p2"}, assigned=_USER_1,
         objects=[*_TWO_OF_DRIVER, _CLAIM_1, (CSI_NODES, csi_node("n1", csidriver=1))]),
    Case("Pod with PVC rejected the CSI NodeVolumeLimits plugin is requeued when the "
         "VolumeAttachment is deleted",
         [LIMITS], {"n1": {}}, _ON_PVC1, unmake(f"{ATTACHMENTS}/va1"),
         "storage.k8s.io/VolumeAttachmentDelete", {"p1"},
         objects=[*_OF_DRIVER, (CSI_NODES, csi_node("n1", csidriver=0)),
                  (ATTACHMENTS, attachment("va1", "pv1", "test.storage.gke.io"))]),
    Case("Pod with Inline Migratable volume (AWSEBSDriver and GCEPDDriver) rejected the CSI "
         "NodeVolumeLimits plugin is requeued (only AWSEBSDriver) when the VolumeAttachment is "
         "deleted",
         [LIMITS], {"n1": {}},
         {"p1": {"spec": {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "pv1"}}]}},
          "p2": {"spec": {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "pv2"}}]}}},
         unmake(f"{ATTACHMENTS}/va1"), "storage.k8s.io/VolumeAttachmentDelete", {"p1"},
         objects=[(VOLUMES, volume("pv1", driver=_EBS)), (VOLUMES, volume("pv2", driver=_PD)),
                  (CSI_NODES, csi_node("n1", ebs__csi__aws__com=0, pd__csi__storage__gke__io=0)),
                  (ATTACHMENTS, attachment("va1", "pv1", _EBS)),
                  (ATTACHMENTS, attachment("va2", "pv2", _PD))]),
]  # fmt: skip

CASES: Final = [*_NODES, *_AFFINITY, *_SPREAD, *_ZONES, *_BINDING, *_LIMITS]
