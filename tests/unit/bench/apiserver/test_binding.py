"""pods/binding and pods/eviction (BindingREST and EvictionREST, kube-apiserver v1.36)."""

from typing import Any

import pytest

from tests.unit.bench.apiserver.api_caller import STRATEGIC, ApiCaller, Reply, pods_path


@pytest.fixture
def api() -> ApiCaller:
    api = ApiCaller()
    zone = {"topology.kubernetes.io/zone": "z1", "other": "x"}
    api.call("POST", "/api/v1/nodes", {"metadata": {"name": "n1", "labels": zone}})
    return api


def _condition(pod: dict[str, Any]) -> dict[str, Any]:
    (condition,) = pod["status"]["conditions"]
    return dict(condition)


def test_a_binding_sets_the_node_and_the_condition(api: ApiCaller) -> None:
    before = api.create_pod("p").body
    api.now_s += 5
    reply = api.bind("p", "n1", uid=before["metadata"]["uid"])
    assert reply.code == 201
    assert reply.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    pod = api.get_pod("p")
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["generation"] == 1
    assert _condition(pod) == {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2027-01-15T08:00:05Z",
    }


def test_a_binding_copies_annotations_labels_and_topology(api: ApiCaller) -> None:
    api.create_pod("p", labels={"app": "a", "topology.kubernetes.io/zone": "old"})
    api.bind("p", "n1", annotations={"k": "v"}, labels={"from": "binding"})
    metadata = api.get_pod("p")["metadata"]
    assert metadata["annotations"] == {"k": "v"}
    assert metadata["labels"] == {
        "app": "a",
        "from": "binding",
        "topology.kubernetes.io/zone": "z1",
    }


def test_a_binding_to_a_node_that_does_not_exist_is_accepted(api: ApiCaller) -> None:
    api.create_pod("p", labels={"app": "a"})
    assert api.bind("p", "nowhere").code == 201
    assert api.get_pod("p")["metadata"]["labels"] == {"app": "a"}


def test_a_binding_ends_unschedulability_and_nomination(api: ApiCaller) -> None:
    api.create_pod("p")
    failed = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no",
    }
    status = {"conditions": [failed], "nominatedNodeName": "n1"}
    api.call("PATCH", pods_path("p") + "/status", {"status": status}, content_type=STRATEGIC)
    assert api.get_pod("p")["status"]["nominatedNodeName"] == "n1"
    api.bind("p", "n1")
    pod = api.get_pod("p")
    assert "nominatedNodeName" not in pod["status"]
    assert _condition(pod)["status"] == "True"
    assert "reason" not in _condition(pod)


def test_a_bound_pod_is_not_bound_again_even_to_its_node(api: ApiCaller) -> None:
    api.create_pod("p")
    api.bind("p", "n1")
    version = api.cluster.store.version
    for node in ("n1", "n2"):
        reply = api.bind("p", node)
        assert (reply.code, reply.reason) == (409, "Conflict")
        assert reply.message.endswith('pod p is already assigned to node "n1"')
        assert reply.body["details"] == {"name": "p", "kind": "pods/binding"}
    assert api.cluster.store.version == version


def test_a_pod_that_is_being_deleted_is_not_bound(api: ApiCaller) -> None:
    api.call(
        "POST",
        pods_path(),
        {
            "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    )
    assert api.call("DELETE", pods_path("p")).code == 200
    reply = api.bind("p", "n1")
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert "pod p is being deleted, cannot be assigned to a host" in reply.message


def test_a_gated_pod_is_not_bound(api: ApiCaller) -> None:
    api.create_pod("p", schedulingGates=[{"name": "example.com/g"}])
    reply = api.bind("p", "n1")
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert "pod p has non-empty .spec.schedulingGates" in reply.message


@pytest.mark.parametrize(
    ("precondition", "words"),
    [
        ({"uid": "other"}, "UID in precondition: other"),
        ({"resourceVersion": "1"}, "ResourceVersion in precondition: 1"),
    ],
)
def test_preconditions_of_a_binding_are_enforced(
    api: ApiCaller, precondition: dict[str, Any], words: str
) -> None:
    api.create_pod("p")
    reply = api.bind("p", "n1", **precondition)
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert words in reply.message
    assert reply.body["details"] == {"name": "p", "kind": "pods"}
    assert "nodeName" not in api.get_pod("p")["spec"]


def test_a_binding_of_nothing_or_to_nothing_is_refused(api: ApiCaller) -> None:
    api.create_pod("p")
    assert (api.bind("missing", "n1").code, api.bind("missing", "n1").reason) == (404, "NotFound")
    empty = api.bind("p", "")
    assert (empty.code, empty.message) == (500, "target.name: Required value")
    other = {"metadata": {"name": "q"}, "target": {"name": "n1"}}
    mismatch = api.call("POST", pods_path("p") + "/binding", other)
    assert (mismatch.code, mismatch.reason) == (400, "BadRequest")
    to_pod = {"metadata": {"name": "p"}, "target": {"name": "n1", "kind": "Pod"}}
    kind = api.call("POST", pods_path("p") + "/binding", to_pod)
    assert (kind.code, "target.kind" in kind.message) == (500, True)


def _budget(api: ApiCaller, allowed: int) -> None:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "a"}}
    api.call("POST", path, {"metadata": {"name": "b"}, "spec": {"selector": selector}})
    status = {"disruptionsAllowed": allowed, "desiredHealthy": 2, "currentHealthy": 2}
    reply = api.call(
        "PATCH",
        f"{path}/b/status",
        {"status": status},
        content_type="application/merge-patch+json",
    )
    assert reply.code == 200


def _evict(api: ApiCaller, name: str) -> Reply:
    body = {"metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": 0}}
    return api.call("POST", pods_path(name) + "/eviction", body)


def test_an_eviction_deletes_while_the_budget_allows(api: ApiCaller) -> None:
    for name in ("p", "q", "free"):
        api.create_pod(name, labels={} if name == "free" else {"app": "a"})
        api.bind(name, "n1")
    _budget(api, 1)
    assert _evict(api, "p").code == 201
    refused = _evict(api, "q")
    assert (refused.code, refused.reason) == (429, "TooManyRequests")
    assert refused.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert _evict(api, "free").code == 201
    assert api.call("GET", pods_path()).names == ["q"]
