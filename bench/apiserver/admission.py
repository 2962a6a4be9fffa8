"""Admission: what the API server adds to or refuses of new objects because of others.

The plugins, under kube-apiserver's names so that `--disable-admission-plugins` can name them:
NamespaceLifecycle, Priority, DefaultTolerationSeconds and PodTopologyLabels (plugin/pkg/admission,
v1.36), and TaintNodesByCondition where it is asked for. ServiceAccount and
StorageObjectInUseProtection are not there: they need controllers to undo what they do.
"""

from collections.abc import Mapping
from typing import Final

from bench.apiserver import api_status as status
from bench.apiserver.api_cluster import (
    DEFAULT_TOLERATIONS_PLUGIN,
    NAMESPACE_PLUGIN,
    PRIORITY_PLUGIN,
    TAINT_NODES_PLUGIN,
    TOPOLOGY_LABELS_PLUGIN,
    Cluster,
)
from bench.apiserver.json_objects import JsonObject, child
from bench.apiserver.served_resources import NODES, PODS, PRIORITY_CLASSES, Resource

_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_TOLERATED_S: Final = 300


def admit_new(cluster: Cluster, resource: Resource, obj: JsonObject) -> None:
    """Run the plugins on an object that is about to be created, or raise their refusal."""
    if resource.is_namespaced and cluster.admits_with(NAMESPACE_PLUGIN):
        _check_namespace(cluster, resource, obj["metadata"])
    if resource is PODS:
        if cluster.admits_with(PRIORITY_PLUGIN):
            _resolve_priority(cluster, obj)
        if cluster.admits_with(DEFAULT_TOLERATIONS_PLUGIN):
            _add_default_tolerations(obj["spec"])
        node_name = obj["spec"].get("nodeName")
        copied = topology_labels(cluster, node_name) if node_name else None
        if copied:
            obj["metadata"]["labels"] = {**copied, **(obj["metadata"].get("labels") or {})}
    elif resource is PRIORITY_CLASSES and cluster.admits_with(PRIORITY_PLUGIN):
        check_priority_class(cluster, obj)
    elif resource is NODES and cluster.admits_with(TAINT_NODES_PLUGIN):
        _taint_until_ready(obj)


def admit_changed_pod(cluster: Cluster, pod: JsonObject, old: JsonObject) -> None:
    """Run the plugins that look at updates on a pod that is about to be replaced."""
    if cluster.admits_with(PRIORITY_PLUGIN):
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                pod["spec"].setdefault(field, old["spec"][field])
    if cluster.admits_with(DEFAULT_TOLERATIONS_PLUGIN):
        _add_default_tolerations(pod["spec"])


def topology_labels(cluster: Cluster, node_name: str) -> Mapping[str, str]:
    """Return the labels that a pod gets from its node; none when the node does not exist."""
    node = cluster.nodes.objects.get(node_name)
    if node is None or not cluster.admits_with(TOPOLOGY_LABELS_PLUGIN):
        return {}
    labels = node.labels
    return {key: labels[key] for key in _TOPOLOGY_LABELS if key in labels}


def _check_namespace(cluster: Cluster, resource: Resource, metadata: JsonObject) -> None:
    name = metadata["namespace"]
    namespace = cluster.namespaces.objects.get(name)
    if namespace is None:
        raise status.not_found("namespaces", name)
    assert namespace.fields is not None
    if namespace.fields["status.phase"] == "Terminating":
        cause = status.Cause(
            "metadata.namespace", "NamespaceTerminating", f"namespace {name} is being terminated"
        )
        raise status.forbidden(
            resource.qualified,
            metadata["name"],
            f"unable to create new content in namespace {name} because it is being terminated",
            [cause],
            resource.group,
        )


def _resolve_priority(cluster: Cluster, pod: JsonObject) -> None:
    spec = pod["spec"]
    class_name = spec.get("priorityClassName")
    if class_name:
        stored = cluster.priority_classes.objects.get(class_name)
        if stored is None:
            why = f"no PriorityClass with name {class_name} was found"
            raise status.forbidden("pods", pod["metadata"]["name"], why)
        priority_class: JsonObject | None = stored.decoded()
    else:
        priority_class = cluster.default_priority_class()
        if priority_class is not None:
            spec["priorityClassName"] = priority_class["metadata"]["name"]
    value, policy = 0, "PreemptLowerPriority"
    if priority_class is not None:
        value = priority_class.get("value", 0)
        policy = priority_class.get("preemptionPolicy", policy)
    _set_computed(pod, "priority", value, "the integer value of priority")
    _set_computed(pod, "preemptionPolicy", policy, "the string value of PreemptionPolicy")


def _set_computed(pod: JsonObject, field: str, computed: int | str, what: str) -> None:
    spec = pod["spec"]
    given = spec.get(field)
    if given is not None and given != computed:
        why = (
            f"{what} ({given}) must not be provided in pod spec; priority admission controller "
            f"computed {computed} from the given PriorityClass name"
        )
        raise status.forbidden("pods", pod["metadata"]["name"], why)
    spec[field] = computed


def _add_default_tolerations(spec: JsonObject) -> None:
    present = spec.get("tolerations") or []
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_S}
        for key in (_NOT_READY, _UNREACHABLE)
        if not any(_tolerates(toleration, key) for toleration in present)
    ]
    if added:
        spec["tolerations"] = [*present, *added]


def _tolerates(toleration: JsonObject, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in (
        "",
        "NoExecute",
    )


def _taint_until_ready(node: JsonObject) -> None:
    spec = node.setdefault("spec", {})
    taint = {"key": _NOT_READY, "effect": "NoSchedule"}
    taints = spec.get("taints") or []
    if not any(taint.items() <= present.items() for present in taints):
        spec["taints"] = [*taints, taint]


def check_priority_class(cluster: Cluster, priority_class: JsonObject) -> None:
    """Refuse a second global default."""
    if not priority_class.get("globalDefault"):
        return
    name = priority_class["metadata"]["name"]
    default = cluster.default_priority_class()
    default_name = child(default, "metadata").get("name") if default is not None else None
    if default_name not in (None, name):
        raise status.forbidden(
            PRIORITY_CLASSES.qualified,
            name,
            f"PriorityClass {default_name} is already marked as default. Only one default can "
            "exist",
            group=PRIORITY_CLASSES.group,
        )
