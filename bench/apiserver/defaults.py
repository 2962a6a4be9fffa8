"""Defaulting: the fields that the API server fills in on create, and zero values that Go prints.

From pkg/apis/*/v1/defaults.go and the PrepareForCreate strategies of kube-apiserver v1.36, for the
fields that schedulers and their tools read. Each function changes the object that it is given,
which the caller owns.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from bench.apiserver.json_objects import JsonObject, child, children
from bench.apiserver.served_resources import (
    DISRUPTION_BUDGETS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Resource,
)
from bench.apiserver.stored_quantities import quantity_of

_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_QOS_RESOURCES: Final = ("cpu", "memory")


def apply_defaults(resource: Resource, obj: JsonObject) -> None:
    """Fill in what the client left out of a new object."""
    defaulter = _DEFAULTERS.get(resource.qualified)
    if defaulter is not None:
        defaulter(obj)


def apply_zero_values(resource: Resource, obj: JsonObject) -> None:
    """Add the members that Go prints although they are zero; called on every write."""
    if resource is PODS:
        for condition in child(obj, "status").get("conditions") or ():
            condition.setdefault("lastProbeTime", None)
            condition.setdefault("lastTransitionTime", None)
    elif resource is NODES:
        for condition in child(obj, "status").get("conditions") or ():
            condition.setdefault("lastHeartbeatTime", None)
            condition.setdefault("lastTransitionTime", None)


def initial_status(resource: Resource, obj: JsonObject, now: str) -> None:
    """Set the status that a new object begins with, where the client has no say in it."""
    if not resource.resets_status:
        return
    obj.pop("status", None)
    if resource is PODS:
        obj["status"] = _initial_pod_status(obj, now)
    elif resource is NAMESPACES:
        obj["status"] = {"phase": "Active"}
    elif resource is DISRUPTION_BUDGETS:
        obj["status"] = {
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }
    elif resource.plural in ("persistentvolumes", "persistentvolumeclaims"):
        obj["status"] = {"phase": "Pending"}
    elif resource.plural == "services":
        obj["status"] = {"loadBalancer": {}}
    elif resource.plural in ("replicasets", "statefulsets", "replicationcontrollers"):
        obj["status"] = {"replicas": 0}
    elif resource.has_status:
        obj["status"] = {}


def _initial_pod_status(pod: JsonObject, now: str) -> JsonObject:
    status: JsonObject = {"phase": "Pending"}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    status["qosClass"] = qos_class(pod)
    return status


def _default_pod(pod: JsonObject) -> None:
    """Fill in a pod (pkg/apis/core/v1/defaults.go, v1.36)."""
    spec = pod.setdefault("spec", {})
    for container in spec.get("containers") or ():
        _default_container(container)
    for container in spec.get("initContainers") or ():
        _default_container(container)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in (*children(spec, "containers"), *children(spec, "initContainers")):
            for port in children(container, "ports"):
                port.setdefault("hostPort", port.get("containerPort"))


def merge_label_keys(pod: JsonObject) -> None:
    """Turn a new pod's matchLabelKeys and mismatchLabelKeys into label expressions.

    mutatePodAffinity and mutateTopologySpreadConstraints in pkg/registry/core/pod/strategy.go
    (v1.36); the scheduler sees only the expressions.
    """
    spec = pod["spec"]
    labels = pod["metadata"].get("labels")
    if labels:
        if "affinity" in spec:
            _merge_affinity_label_keys(spec["affinity"], labels)
        for constraint in children(spec, "topologySpreadConstraints"):
            _merge_label_keys(constraint, "matchLabelKeys", "In", labels)


def _default_container(container: JsonObject) -> None:
    resources = container.setdefault("resources", {})
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, quantity in limits.items():
            requests.setdefault(name, quantity)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image") or "")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _merge_affinity_label_keys(affinity: JsonObject, labels: JsonObject) -> None:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = child(affinity, kind)
        required = children(terms, "requiredDuringSchedulingIgnoredDuringExecution")
        preferred = children(terms, "preferredDuringSchedulingIgnoredDuringExecution")
        for term in (*required, *(child(each, "podAffinityTerm") for each in preferred)):
            _merge_label_keys(term, "matchLabelKeys", "In", labels)
            _merge_label_keys(term, "mismatchLabelKeys", "NotIn", labels)


def _merge_label_keys(term: JsonObject, field: str, operator: str, labels: JsonObject) -> None:
    selector = term.get("labelSelector")
    if not isinstance(selector, dict):
        return
    for key in term.get(field) or ():
        if key in labels:
            expression = {"key": key, "operator": operator, "values": [labels[key]]}
            selector.setdefault("matchExpressions", []).append(expression)


def qos_class(pod: JsonObject) -> str:
    """Compute status.qosClass (pkg/apis/core/v1/helper/qos/qos.go, v1.36)."""
    spec = pod["spec"]
    if child(spec, "resources"):
        holders = [spec]
    else:
        holders = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    requests: dict[str, Decimal] = {}
    limits: dict[str, Decimal] = {}
    is_guaranteed = True
    for holder in holders:
        resources = holder.get("resources") or {}
        _add_quantities(requests, resources.get("requests"))
        limited = _add_quantities(limits, resources.get("limits"))
        if limited < len(_QOS_RESOURCES):
            is_guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _add_quantities(sums: dict[str, Decimal], quantities: JsonObject | None) -> int:
    if not quantities:
        return 0
    found = 0
    for name in _QOS_RESOURCES:
        quantity = quantity_of(quantities.get(name))
        if quantity is not None and quantity > 0:
            sums[name] = sums.get(name, Decimal(0)) + quantity
            found += 1
    return found


def _default_node(node: JsonObject) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _default_namespace(namespace: JsonObject) -> None:
    metadata = namespace["metadata"]
    labels = metadata.setdefault("labels", {})
    labels.setdefault("kubernetes.io/metadata.name", metadata["name"])
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _default_priority_class(priority_class: JsonObject) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")
    priority_class.setdefault("value", 0)


def _default_volume(volume: JsonObject) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")


def _default_claim(claim: JsonObject) -> None:
    spec = claim.setdefault("spec", {})
    spec.setdefault("resources", {})
    spec.setdefault("volumeMode", "Filesystem")


def _default_storage_class(storage_class: JsonObject) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def _default_csi_driver(driver: JsonObject) -> None:
    spec = driver.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    spec.setdefault("requiresRepublish", False)


def _default_csi_node(node: JsonObject) -> None:
    node.setdefault("spec", {}).setdefault("drivers", None)


def _default_service(service: JsonObject) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in children(spec, "ports"):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _default_scalable(workload: JsonObject) -> None:
    workload.setdefault("spec", {}).setdefault("replicas", 1)


def _default_resource_claim(claim: JsonObject) -> None:
    _default_device_requests(claim.setdefault("spec", {}))


def _default_claim_template(template: JsonObject) -> None:
    _default_device_requests(template.setdefault("spec", {}).setdefault("spec", {}))


def _default_device_requests(spec: JsonObject) -> None:
    for request in children(child(spec, "devices"), "requests"):
        for exact in (child(request, "exactly"), *children(request, "firstAvailable")):
            if exact:
                mode = exact.setdefault("allocationMode", "ExactCount")
                if mode == "ExactCount":
                    exact.setdefault("count", 1)


_DEFAULTERS: Final[dict[str, Callable[[JsonObject], None]]] = {
    PODS.qualified: _default_pod,
    NODES.qualified: _default_node,
    NAMESPACES.qualified: _default_namespace,
    PRIORITY_CLASSES.qualified: _default_priority_class,
    "persistentvolumes": _default_volume,
    "persistentvolumeclaims": _default_claim,
    "services": _default_service,
    "replicationcontrollers": _default_scalable,
    "replicasets.apps": _default_scalable,
    "statefulsets.apps": _default_scalable,
    "storageclasses.storage.k8s.io": _default_storage_class,
    "csidrivers.storage.k8s.io": _default_csi_driver,
    "csinodes.storage.k8s.io": _default_csi_node,
    "resourceclaims.resource.k8s.io": _default_resource_claim,
    "resourceclaimtemplates.resource.k8s.io": _default_claim_template,
}
