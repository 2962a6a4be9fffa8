"""POST pods/binding and pods/eviction.

The rules of binding are those of BindingREST in pkg/registry/core/pod/storage/storage.go (v1.36):
the UID (and the version, if given) must be the pod's; a pod that is being deleted, has a node or
has gates answers 409; the node itself is not looked for. The binding's annotations and labels and
the node's topology labels end on the pod, its PodScheduled condition becomes True, and its
nomination is cleared.
"""

from bench.apiserver import api_status as status
from bench.apiserver.admission import topology_labels
from bench.apiserver.api_cluster import Cluster
from bench.apiserver.deletion import delete_object, parse_delete_options
from bench.apiserver.json_objects import JsonObject, child
from bench.apiserver.reads import Answer
from bench.apiserver.selection import kept_fields, label_selector_matches
from bench.apiserver.served_resources import DISRUPTION_BUDGETS, PODS
from bench.apiserver.store import StoredObject
from bench.apiserver.validation import required, unsupported_value
from bench.apiserver.writes import bad_shape, check_metadata_shape, decode_object, store_object

_BOUND: Answer = Answer(201, status.CREATED_STATUS)
_EVICTED: Answer = Answer(201, status.CREATED_STATUS)
_BINDING: str = "pods/binding"


def bind(cluster: Cluster, namespace: str, name: str, body: bytes, now_s: float) -> Answer:
    """Answer POST of pods/binding."""
    binding = decode_object(PODS, "Binding", body)
    metadata = child(binding, "metadata")
    target = child(binding, "target")
    _check_binding(metadata, target, name)
    table = cluster.pods
    stored = table.get(namespace, name)
    if stored is None:
        raise status.not_found("pods", name)
    _check_preconditions(stored, metadata)
    pod = stored.decoded()
    _check_bindable(pod, name)
    node_name = target["name"]
    spec = pod["spec"]
    spec["nodeName"] = node_name
    pod_status = pod["status"]
    pod_status.pop("nominatedNodeName", None)
    _set_scheduled(pod_status, cluster.timestamp(now_s))
    pod_metadata = pod["metadata"]
    annotations = metadata.get("annotations")
    if annotations:
        pod_metadata["annotations"] = {**(pod_metadata.get("annotations") or {}), **annotations}
    labels = {**topology_labels(cluster, node_name), **(metadata.get("labels") or {})}
    if labels:
        pod_metadata["labels"] = {**(pod_metadata.get("labels") or {}), **labels}
    cluster.store.put(table, pod, stored, kept_fields(PODS, pod))
    return _BOUND


def bind_by_body(cluster: Cluster, namespace: str, body: bytes, now_s: float) -> Answer:
    """Answer POST of bindings, the old path of the same: the pod is named in the body."""
    name = child(decode_object(PODS, "Binding", body), "metadata").get("name")
    if not isinstance(name, str) or not name:
        raise status.bad_request("name is required in the Binding object's metadata")
    return bind(cluster, namespace, name, body, now_s)


def _check_binding(metadata: JsonObject, target: JsonObject, name: str) -> None:
    if metadata.get("name", name) != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    check_metadata_shape(PODS, metadata)
    causes = []
    kind = target.get("kind", "")
    if not isinstance(kind, str) or not isinstance(target.get("name", ""), str):
        raise bad_shape(PODS, "Go struct field ObjectReference.target")
    if kind not in ("", "Node"):
        causes.append(unsupported_value("target.kind", kind, ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(required("target.name"))
    if causes:
        texts = [cause.as_text() for cause in causes]
        # Not a Status error upstream, so it comes out as a bare 500.
        raise status.internal(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _check_preconditions(stored: StoredObject, metadata: JsonObject) -> None:
    uid = metadata.get("uid")
    version = metadata.get("resourceVersion")
    if uid and uid != stored.uid:
        why = f"UID in precondition: {uid}, UID in object meta: {stored.uid}"
    elif version and version != str(stored.version):
        why = (
            f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: "
            f"{stored.version}"
        )
    else:
        return
    raise status.conflict(
        "pods",
        stored.name,
        f"StorageError: invalid object, Code: 4, Key: /registry/pods/{stored.key}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {why}",
    )


def _check_bindable(pod: JsonObject, name: str) -> None:
    spec = pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise status.conflict(_BINDING, name, why)


def _set_scheduled(pod_status: JsonObject, now: str) -> None:
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    conditions = pod_status.get("conditions")
    if not conditions:
        pod_status["conditions"] = [scheduled]
        return
    for index, condition in enumerate(conditions):
        if condition.get("type") == "PodScheduled":
            if condition.get("status") == "True":
                scheduled["lastTransitionTime"] = condition.get("lastTransitionTime")
            conditions[index] = scheduled
            return
    conditions.append(scheduled)


def evict(cluster: Cluster, namespace: str, name: str, body: bytes, now_s: float) -> Answer:
    """Answer POST of pods/eviction (pkg/registry/core/pod/storage/eviction.go, v1.36).

    The budgets' status is what their controller, or a test, last wrote; it is only counted down.
    """
    eviction = decode_object(PODS, "Eviction", body)
    given_name = child(eviction, "metadata").get("name", name)
    if given_name != name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    options = parse_delete_options(child(eviction, "deleteOptions"), {})
    stored = cluster.pods.get(namespace, name)
    if stored is None:
        raise status.not_found("pods", name)
    assert stored.fields is not None
    is_finished = stored.fields["status.phase"] in ("Succeeded", "Failed")
    is_deleting = "deletionTimestamp" in stored.decoded()["metadata"]
    if not is_finished and not is_deleting:
        _take_from_budget(cluster, stored, now_s)
    delete_object(cluster, PODS, namespace, name, options, now_s)
    return _EVICTED


def _take_from_budget(cluster: Cluster, pod: StoredObject, now_s: float) -> None:
    budgets = []
    for stored in cluster.store.table(DISRUPTION_BUDGETS).objects.values():
        if stored.namespace == pod.namespace:
            budget = stored.decoded()
            if label_selector_matches(child(child(budget, "spec"), "selector"), pod.labels):
                budgets.append((stored, budget))
    if not budgets:
        return
    if len(budgets) > 1:
        raise status.internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
    stored, budget = budgets[0]
    budget_status = budget.setdefault("status", {})
    allowed = budget_status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        raise status.too_many_evictions(
            stored.name,
            budget_status.get("desiredHealthy", 0),
            budget_status.get("currentHealthy", 0),
        )
    budget_status["disruptionsAllowed"] = allowed - 1
    disrupted = budget_status.setdefault("disruptedPods", {})
    disrupted[pod.name] = cluster.timestamp(now_s)
    store_object(cluster, DISRUPTION_BUDGETS, budget, stored, now_s)
