"""Create, update with optimistic locking, patch, the status subresource, and admission."""

from typing import Any

import pytest

from bench.apiserver.served_resources import EVENTS, NODES, RESOURCES
from tests.unit.bench.apiserver.api_caller import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    ApiCaller,
    everything,
    pod,
    pods_path,
    types_and_names,
)

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def api() -> ApiCaller:
    return ApiCaller()


def test_a_new_pod_is_defaulted_and_its_status_is_the_servers(api: ApiCaller) -> None:
    body = pod("p") | {"status": {"phase": "Running", "nominatedNodeName": "x"}}
    created = api.call("POST", pods_path(), body).body
    assert created["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert created["metadata"]["generation"] == 1
    spec = created["spec"]
    assert (spec["schedulerName"], spec["restartPolicy"]) == ("default-scheduler", "Always")
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_default_tolerations_are_not_added_twice(api: ApiCaller) -> None:
    everything_tolerated = [{"operator": "Exists"}]
    created = api.create_pod("p", tolerations=everything_tolerated).body
    assert created["spec"]["tolerations"] == everything_tolerated


def test_requests_default_to_limits(api: ApiCaller) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    created = api.create_pod("p", containers=[container]).body
    resources = created["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    assert created["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        (
            {
                "requests": {"cpu": "1000m", "memory": "1Gi"},
                "limits": {"cpu": "1", "memory": "1024Mi"},
            },
            "Guaranteed",
        ),
        ({"requests": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_the_qos_class_follows_from_the_resources(
    api: ApiCaller, resources: dict[str, Any], qos: str
) -> None:
    container = {"name": "c", "image": "i", "resources": resources}
    assert api.create_pod("p", containers=[container]).body["status"]["qosClass"] == qos


def test_match_label_keys_become_expressions(api: ApiCaller) -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "a"}},
        "topologyKey": "zone",
        "matchLabelKeys": ["version", "absent"],
    }
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["version"],
    }
    created = api.create_pod(
        "p",
        labels={"version": "v1"},
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        topologySpreadConstraints=[constraint],
    ).body
    expected = [{"key": "version", "operator": "In", "values": ["v1"]}]
    anti = created["spec"]["affinity"]["podAntiAffinity"]
    (merged,) = anti["requiredDuringSchedulingIgnoredDuringExecution"]
    assert merged["labelSelector"]["matchExpressions"] == expected
    (spread,) = created["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchExpressions"] == expected


def test_a_generated_name_is_completed(api: ApiCaller) -> None:
    body = pod("x")
    body["metadata"] = {"generateName": "web-"}
    names = {api.call("POST", pods_path(), body).body["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


@pytest.mark.parametrize(
    ("change", "code", "reason", "words"),
    [
        ({"metadata": {}}, 422, "Invalid", "name or generateName is required"),
        ({"metadata": {"name": "Bad"}}, 422, "Invalid", "RFC 1123 subdomain"),
        ({"metadata": {"name": "p", "namespace": "x"}}, 400, "BadRequest", "does not match"),
        ({"metadata": {"name": "p", "resourceVersion": "1"}}, 500, "", "should not be set"),
        ({"metadata": {"name": "p", "labels": {"a": 1}}}, 400, "BadRequest", "metadata.labels"),
        ({"metadata": "p"}, 400, "BadRequest", "Pod.metadata"),
        ({"kind": "Node"}, 400, "BadRequest", "cannot be handled as a Pod"),
        ({"apiVersion": "v2"}, 400, "BadRequest", "does not match the expected API version"),
        ({"spec": {"containers": []}}, 422, "Invalid", "spec.containers: Required value"),
        ({"spec": {"containers": [{"image": "i"}]}}, 422, "Invalid", "[0].name: Required"),
        ({"spec": {"containers": [{"name": "c"}]}}, 422, "Invalid", "[0].image: Required"),
        ({"spec": {"containers": ["c"]}}, 400, "BadRequest", "cannot unmarshal"),
        ({"spec": {"containers": {"a": 1}}}, 400, "BadRequest", "cannot unmarshal"),
        ({"spec": 3}, 400, "BadRequest", "Pod.spec"),
    ],
)
def test_bad_pods_are_refused_with_the_reason(
    api: ApiCaller, change: dict[str, Any], code: int, reason: str, words: str
) -> None:
    version = api.cluster.store.version
    reply = api.call("POST", pods_path(), pod("p") | change)
    assert (reply.code, reply.reason) == (code, reason)
    assert words in reply.message
    assert api.cluster.store.version == version


@pytest.mark.parametrize(
    ("resources", "code", "words"),
    [
        ({"requests": {"cpu": "lots"}}, 400, "quantities must match"),
        ({"requests": {"cpu": "-1"}}, 422, "must be greater than or equal to 0"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, 422, "less than or equal to cpu"),
    ],
)
def test_bad_quantities_are_refused(
    api: ApiCaller, resources: dict[str, Any], code: int, words: str
) -> None:
    container = {"name": "c", "image": "i", "resources": resources}
    reply = api.create_pod("p", containers=[container])
    assert (reply.code, words in reply.message) == (code, True)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "unexpected end of JSON input (<empty>)"),
        (b'{"kind":', 'unexpected end of JSON input ({"kind":)'),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b"[1]", "cannot unmarshal"),
        (b"\xff\xfe", "invalid"),
    ],
)
def test_bodies_that_are_no_objects_are_bad_requests(
    api: ApiCaller, body: bytes, words: str
) -> None:
    reply = api.call("POST", pods_path(), body)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert words in reply.message


def test_a_body_in_another_format_is_refused(api: ApiCaller) -> None:
    reply = api.call("POST", pods_path(), b"a: b", content_type="application/yaml")
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


def test_nulls_are_read_as_absent(api: ApiCaller) -> None:
    created = api.create_pod("p", nodeName=None, nodeSelector={"a": "b", "c": None}).body
    assert "nodeName" not in created["spec"]
    assert created["spec"]["nodeSelector"] == {"a": "b"}


def test_a_name_that_is_taken_is_a_conflict(api: ApiCaller) -> None:
    api.create_pod("p")
    reply = api.create_pod("p")
    assert (reply.code, reply.reason) == (409, "AlreadyExists")
    assert reply.body["details"] == {"name": "p", "kind": "pods"}


def test_a_namespace_must_exist(api: ApiCaller) -> None:
    reply = api.call("POST", pods_path(namespace="nope"), pod("p"))
    assert (reply.code, reply.reason) == (404, "NotFound")
    assert reply.body["details"] == {"name": "nope", "kind": "namespaces"}


def test_a_new_namespace_is_labelled_and_active(api: ApiCaller) -> None:
    created = api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}}).body
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert created["status"] == {"phase": "Active"}
    assert created["spec"] == {"finalizers": ["kubernetes"]}


def test_priority_comes_from_the_class(api: ApiCaller) -> None:
    body = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
    assert api.call("POST", _PRIORITY_CLASSES, body).code == 201
    spec = api.create_pod("p", priorityClassName="high").body["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    spec = api.create_pod("s", priorityClassName="system-node-critical").body["spec"]
    assert spec["priority"] == 2_000_001_000


def test_a_default_class_is_given_to_pods_that_name_none(api: ApiCaller) -> None:
    default = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    assert api.call("POST", _PRIORITY_CLASSES, default).code == 201
    spec = api.create_pod("p").body["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")
    second = api.call("POST", _PRIORITY_CLASSES, default | {"metadata": {"name": "second"}})
    assert (second.code, second.reason) == (403, "Forbidden")
    assert "Only one default can exist" in second.message
    assert api.call("DELETE", f"{_PRIORITY_CLASSES}/usual").code == 200
    assert api.create_pod("q").body["spec"]["priority"] == 0


def test_priorities_that_do_not_fit_are_forbidden(api: ApiCaller) -> None:
    missing = api.create_pod("p", priorityClassName="missing")
    assert (missing.code, missing.reason) == (403, "Forbidden")
    assert missing.message == (
        'pods "p" is forbidden: no PriorityClass with name missing was found'
    )
    own = api.create_pod("p", priority=5)
    assert (own.code, "priority admission controller computed 0" in own.message) == (403, True)
    reserved = api.call("POST", _PRIORITY_CLASSES, {"metadata": {"name": "system-x"}, "value": 1})
    assert (reserved.code, reserved.reason) == (422, "Invalid")
    large = api.call("POST", _PRIORITY_CLASSES, {"metadata": {"name": "x"}, "value": 2 * 10**9})
    assert (large.code, large.reason) == (422, "Invalid")


def test_a_new_node_is_tainted_where_that_is_asked_for() -> None:
    own = {"key": "own", "effect": "NoExecute"}
    body = {"metadata": {"name": "n"}, "spec": {"taints": [own]}}
    tainted = ApiCaller(enabled_admission=frozenset(["TaintNodesByCondition"]))
    made = tainted.call("POST", "/api/v1/nodes", body).body
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert made["spec"]["taints"] == [own, not_ready]
    untainted = ApiCaller().call("POST", "/api/v1/nodes", body).body
    assert untainted["spec"]["taints"] == [own]


def test_admission_plugins_can_be_off() -> None:
    api = ApiCaller(
        disabled_admission=frozenset(["Priority", "DefaultTolerationSeconds", "NamespaceLifecycle"])
    )
    created = api.call("POST", pods_path(namespace="nope"), pod("p")).body
    assert not {"priority", "tolerations"} & set(created["spec"])
    with pytest.raises(ValueError, match="unknown admission plugins"):
        ApiCaller(disabled_admission=frozenset(["Nonsense"]))


def test_an_update_needs_the_newest_version(api: ApiCaller) -> None:
    lease = api.call("POST", _LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    body = lease.body
    body["spec"]["holderIdentity"] = "b"
    updated = api.call("PUT", f"{_LEASES}/l", body)
    assert (updated.code, updated.body["spec"]["holderIdentity"]) == (200, "b")
    stale = api.call("PUT", f"{_LEASES}/l", body)
    assert (stale.code, stale.reason) == (409, "Conflict")
    assert "the object has been modified" in stale.message
    del body["metadata"]["resourceVersion"]
    blind = api.call("PUT", f"{_LEASES}/l", body)
    assert (blind.code, "must be specified for an update" in blind.message) == (422, True)


def test_an_update_may_create_where_the_resource_allows_it(api: ApiCaller) -> None:
    body = {"metadata": {"name": "l"}, "spec": {}}
    assert api.call("PUT", f"{_LEASES}/l", body).code == 201
    assert api.call("PUT", pods_path("p"), pod("p")).code == 404


def test_an_update_keeps_what_is_not_the_clients(api: ApiCaller) -> None:
    created = api.create_pod("p").body
    changed = pod("p", labels={"new": "1"})
    changed["spec"] = created["spec"]
    changed["status"] = {"phase": "Running"}
    changed["metadata"] |= {"creationTimestamp": "2000-01-01T00:00:00Z", "generation": 99}
    updated = api.call("PUT", pods_path("p"), changed).body
    assert updated["metadata"]["uid"] == created["metadata"]["uid"]
    assert updated["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]
    assert updated["metadata"]["generation"] == 1
    assert updated["metadata"]["labels"] == {"new": "1"}
    assert updated["status"] == created["status"]
    other_uid = {**changed, "metadata": {"name": "p", "uid": "other"}}
    assert api.call("PUT", pods_path("p"), other_uid).reason == "Conflict"
    other_name = {**changed, "metadata": {"name": "q"}}
    assert api.call("PUT", pods_path("p"), other_name).reason == "BadRequest"


def test_an_update_that_changes_nothing_is_no_event(api: ApiCaller) -> None:
    created = api.create_pod("p").body
    cursor = api.watch(resourceVersion=str(api.cluster.store.version))
    assert api.call("PUT", pods_path("p"), created).body == created
    same = {"metadata": {"labels": None}, "spec": {"schedulerName": "default-scheduler"}}
    assert api.call("PATCH", pods_path("p"), same, content_type=MERGE).body == created
    assert everything(cursor) == []


def test_a_pods_spec_is_fixed_but_for_its_gates_and_tolerations(api: ApiCaller) -> None:
    api.create_pod("p", schedulingGates=[{"name": "a"}, {"name": "b"}])
    moved = api.call("PATCH", pods_path("p"), {"spec": {"nodeName": "n0"}}, content_type=STRATEGIC)
    assert (moved.code, moved.reason) == (422, "Invalid")
    assert "pod updates may not change fields other than" in moved.message
    opened = api.call(
        "PATCH",
        pods_path("p"),
        [{"op": "remove", "path": "/spec/schedulingGates/0"}],
        content_type=JSON_PATCH,
    )
    assert opened.body["spec"]["schedulingGates"] == [{"name": "b"}]
    assert opened.body["metadata"]["generation"] == 2
    added = {"spec": {"schedulingGates": [{"name": "c"}]}}
    closed = api.call("PATCH", pods_path("p"), added, content_type=STRATEGIC)
    assert (closed.code, "only deletion is allowed" in closed.message) == (422, True)
    narrowed = {"spec": {"nodeSelector": {"a": "b"}}}
    assert api.call("PATCH", pods_path("p"), narrowed, content_type=MERGE).code == 200
    free = {"spec": {"schedulingGates": None}}
    assert api.call("PATCH", pods_path("p"), free, content_type=MERGE).code == 200
    late = {"spec": {"nodeSelector": {"c": "d"}}}
    assert api.call("PATCH", pods_path("p"), late, content_type=MERGE).code == 422


def test_the_status_subresource_changes_status_alone(api: ApiCaller) -> None:
    created = api.create_pod("p").body
    patch = {
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        "spec": {"schedulerName": "other"},
    }
    patched = api.call("PATCH", pods_path("p") + "/status", patch, content_type=STRATEGIC).body
    assert patched["spec"] == created["spec"]
    assert patched["status"] == {
        "phase": "Running",
        "qosClass": "Burstable",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": None,
            }
        ],
    }
    replaced = {**patched, "status": {"phase": "Failed"}}
    put = api.call("PUT", pods_path("p") + "/status", replaced).body
    assert put["status"] == {"phase": "Failed", "qosClass": "Burstable"}
    ignored = api.call("PUT", pods_path("p"), {**put, "status": {"phase": "Running"}}).body
    assert ignored["status"]["phase"] == "Failed"


def test_a_patch_with_an_old_version_is_a_conflict(api: ApiCaller) -> None:
    api.create_pod("p")
    patch = {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}
    reply = api.call("PATCH", pods_path("p"), patch, content_type=MERGE)
    assert (reply.code, reply.reason) == (409, "Conflict")


@pytest.mark.parametrize("content_type", ["text/plain", "application/apply-patch+yaml", ""])
def test_other_patches_are_unsupported(api: ApiCaller, content_type: str) -> None:
    api.create_pod("p")
    reply = api.call("PATCH", pods_path("p"), {}, content_type=content_type)
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


def test_node_changes_are_seen_by_watchers_of_nodes_only(api: ApiCaller) -> None:
    version = str(api.cluster.store.version)
    pods = api.watch(resourceVersion=version)
    api.call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    patch = {"spec": {"unschedulable": True}}
    assert api.call("PATCH", "/api/v1/nodes/n", patch, content_type=MERGE).code == 200
    nodes = everything(api.watch(NODES, resourceVersion=version))
    assert types_and_names(nodes) == [("ADDED", "n"), ("MODIFIED", "n")]
    assert everything(pods) == []


def test_every_resource_can_be_created_listed_and_deleted(api: ApiCaller) -> None:
    for resource in RESOURCES:
        base = f"/apis/{resource.group_version}" if resource.group else "/api/v1"
        path = f"{base}/namespaces/default" if resource.is_namespaced else base
        body: dict[str, Any] = {"metadata": {"name": f"x-{resource.kind.lower()}"}}
        if resource.kind == "Pod":
            body = pod(body["metadata"]["name"])
        if resource is EVENTS:
            body |= {
                "eventTime": "2027-01-01T00:00:00.000000Z",
                "reportingController": "c",
                "reportingInstance": "i",
                "action": "a",
                "reason": "r",
                "type": "Normal",
            }
        created = api.call("POST", f"{path}/{resource.plural}", body)
        assert created.code == 201, (resource.qualified, created.body)
        assert created.body["kind"] == resource.kind
        name = created.body["metadata"]["name"]
        assert name in api.call("GET", f"{path}/{resource.plural}").names
        got = api.call("GET", f"{path}/{resource.plural}/{name}").body
        assert got["apiVersion"] == resource.group_version
        deleted = api.call("DELETE", f"{path}/{resource.plural}/{name}")
        assert deleted.code == 200, (resource.qualified, deleted.body)
        if resource.kind != "Namespace":
            assert api.call("GET", f"{path}/{resource.plural}/{name}").code == 404


IDLE = {"name": "c", "image": "i"}


def test_a_replaced_pod_keeps_what_admission_gave_it(api: ApiCaller) -> None:
    made = api.create_pod("a", containers=[IDLE]).body
    toleration = {"key": "k", "operator": "Exists", "effect": "NoSchedule"}
    changed = pod("a", containers=[IDLE], tolerations=[toleration])
    replaced = api.call("PUT", pods_path("a"), changed).body
    assert replaced["spec"]["tolerations"] == [toleration, *made["spec"]["tolerations"]]
    assert replaced["spec"]["priority"] == made["spec"]["priority"]


def test_a_resize_changes_amounts_and_nothing_else(api: ApiCaller) -> None:
    api.create_pod("a", containers=[IDLE])
    amounts = {"requests": {"cpu": "2"}}
    larger = {"name": "c", "image": "other", "resources": amounts}
    path = pods_path("a") + "/resize"
    resized = api.call("PUT", path, pod("a", labels={"new": "yes"}, containers=[larger])).body
    (container,) = resized["spec"]["containers"]
    assert (container["image"], container["resources"]) == ("i", amounts)
    assert "labels" not in resized["metadata"]
    assert resized["metadata"]["generation"] == 2
    patch = {"metadata": {"labels": {"new": "yes"}}, "spec": {"containers": [larger]}}
    patched = api.call("PATCH", path, patch, content_type="application/merge-patch+json").body
    assert patched["spec"] == resized["spec"]
    assert "labels" not in patched["metadata"]
    assert api.call("PUT", path, pod("a", containers=[IDLE, {"name": "d"}])).code == 400


def test_a_nodes_status_is_defaulted_when_it_is_replaced(api: ApiCaller) -> None:
    body = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}}
    api.call("POST", "/api/v1/nodes", body)
    body = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}
    status = api.call("PUT", "/api/v1/nodes/n/status", body).body["status"]
    assert status["allocatable"] == {"cpu": "4"}
