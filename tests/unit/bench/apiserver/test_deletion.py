"""DELETE: grace, preconditions, finalizers, namespaces, and what time does."""

from typing import Any

import pytest

from bench.apiserver.deletion import run_due
from bench.apiserver.served_resources import NAMESPACES
from tests.unit.bench.apiserver.api_caller import (
    MERGE,
    ApiCaller,
    everything,
    pod,
    pods_path,
    types_and_names,
)


@pytest.fixture
def api() -> ApiCaller:
    return ApiCaller()


def _wait(api: ApiCaller, seconds: float) -> None:
    api.now_s += seconds
    run_due(api.cluster, api.now_s)


def test_a_pod_without_a_node_goes_at_once(api: ApiCaller) -> None:
    api.create_pod("p")
    cursor = api.watch(resourceVersion=str(api.cluster.store.version))
    deleted = api.call("DELETE", pods_path("p")).body
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    assert deleted["metadata"]["generation"] == 2
    assert deleted["metadata"]["resourceVersion"] == str(api.cluster.store.version)
    assert types_and_names(everything(cursor)) == [("MODIFIED", "p"), ("DELETED", "p")]
    assert api.call("GET", pods_path("p")).code == 404


def test_a_bound_pod_stays_until_its_grace_is_over(api: ApiCaller) -> None:
    api.create_pod("p")
    api.bind("p", "n0")
    deleted = api.call("DELETE", pods_path("p")).body
    assert deleted["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:30Z"
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30
    cursor = api.watch(resourceVersion=str(api.cluster.store.version))
    _wait(api, 29.9)
    assert api.get_pod("p")["metadata"]["deletionTimestamp"]
    assert everything(cursor) == []
    _wait(api, 0.2)
    assert types_and_names(everything(cursor)) == [("MODIFIED", "p"), ("DELETED", "p")]


@pytest.mark.parametrize("asked", ["?gracePeriodSeconds=5", {"gracePeriodSeconds": 5}])
def test_the_grace_can_be_asked_for(api: ApiCaller, asked: Any) -> None:
    api.create_pod("p")
    api.bind("p", "n0")
    path = pods_path("p") + (asked if isinstance(asked, str) else "")
    api.call("DELETE", path, None if isinstance(asked, str) else asked)
    _wait(api, 4)
    assert api.call("GET", pods_path("p")).code == 200
    _wait(api, 2)
    assert api.call("GET", pods_path("p")).code == 404


def test_grace_can_be_shortened_and_not_prolonged(api: ApiCaller) -> None:
    api.create_pod("p")
    api.bind("p", "n0")
    api.call("DELETE", pods_path("p"))
    api.now_s += 3
    same = api.call("DELETE", f"{pods_path('p')}?gracePeriodSeconds=60").body
    assert same["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:30Z"
    shorter = api.call("DELETE", f"{pods_path('p')}?gracePeriodSeconds=10").body
    # It counts from the first delete.
    assert shorter["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:10Z"
    assert shorter["metadata"]["generation"] == 2
    assert api.call("DELETE", f"{pods_path('p')}?gracePeriodSeconds=0").code == 200
    assert api.call("GET", pods_path("p")).code == 404
    _wait(api, 100)


def test_a_pod_of_the_same_name_does_not_inherit_the_grace(api: ApiCaller) -> None:
    api.create_pod("p")
    api.bind("p", "n0")
    api.call("DELETE", pods_path("p"))
    api.call("DELETE", f"{pods_path('p')}?gracePeriodSeconds=0")
    api.create_pod("p")
    _wait(api, 60)
    assert "deletionTimestamp" not in api.get_pod("p")["metadata"]


def test_the_kubelets_part_can_be_quick() -> None:
    api = ApiCaller(kubelet_delay_s=0.5)
    api.create_pod("p")
    api.bind("p", "n0")
    assert api.call("DELETE", pods_path("p")).body["metadata"]["deletionGracePeriodSeconds"] == 30
    _wait(api, 0.4)
    assert api.call("GET", pods_path("p")).code == 200
    _wait(api, 0.2)
    assert api.call("GET", pods_path("p")).code == 404


@pytest.mark.parametrize("precondition", [{"uid": "other"}, {"resourceVersion": "1"}])
def test_preconditions_are_enforced(api: ApiCaller, precondition: dict[str, str]) -> None:
    created = api.create_pod("p").body
    reply = api.call("DELETE", pods_path("p"), {"preconditions": precondition})
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert "in the precondition" in reply.message
    fitting = {name: created["metadata"][name] for name in precondition}
    assert api.call("DELETE", pods_path("p"), {"preconditions": fitting}).code == 200


def test_finalizers_hold_an_object_back(api: ApiCaller) -> None:
    body = pod("p")
    body["metadata"]["finalizers"] = ["example.com/f"]
    api.call("POST", pods_path(), body)
    assert api.call("DELETE", pods_path("p")).code == 200
    assert api.get_pod("p")["metadata"]["deletionTimestamp"]
    cursor = api.watch(resourceVersion=str(api.cluster.store.version))
    patch = {"metadata": {"finalizers": None}}
    assert api.call("PATCH", pods_path("p"), patch, content_type=MERGE).code == 200
    assert api.call("GET", pods_path("p")).code == 404
    assert types_and_names(everything(cursor)) == [("DELETED", "p")]


def test_a_node_answers_with_a_status_and_a_pod_with_itself(api: ApiCaller) -> None:
    node = api.call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}}).body
    deleted = api.call("DELETE", "/api/v1/nodes/n").body
    assert deleted["kind"] == "Status"
    assert deleted["details"] == {"name": "n", "kind": "nodes", "uid": node["metadata"]["uid"]}
    assert api.call("DELETE", "/api/v1/nodes/n").code == 404
    api.create_pod("p")
    assert api.call("DELETE", pods_path("p")).body["kind"] == "Pod"


def test_a_collection_is_deleted_by_selector(api: ApiCaller) -> None:
    for name in ("a", "b", "c"):
        api.create_pod(name, labels={"app": name})
    reply = api.call("DELETE", pods_path() + "?labelSelector=app+in+(a,b)")
    assert (reply.code, reply.names) == (200, ["a", "b"])
    assert api.call("GET", pods_path()).names == ["c"]


def test_a_deleted_namespace_is_closed_emptied_and_removed(api: ApiCaller) -> None:
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    api.call("POST", pods_path(namespace="x"), pod("free"))
    api.call("POST", pods_path(namespace="x"), pod("bound"))
    target = {"metadata": {"name": "bound"}, "target": {"name": "n0"}}
    api.call("POST", pods_path("bound", "x") + "/binding", target)
    cursor = api.watch(NAMESPACES, resourceVersion=str(api.cluster.store.version))
    assert api.call("DELETE", "/api/v1/namespaces/x").body["status"]["phase"] == "Terminating"
    refused = api.call("POST", pods_path(namespace="x"), pod("late"))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    _wait(api, 1)
    assert api.call("GET", pods_path(namespace="x")).names == ["bound"]
    _wait(api, 30)
    _wait(api, 1)
    assert api.call("GET", "/api/v1/namespaces/x").code == 404
    assert types_and_names(everything(cursor)) == [("MODIFIED", "x"), ("DELETED", "x")]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"gracePeriodSeconds": "soon"}'])
def test_bad_options_are_refused(api: ApiCaller, body: bytes) -> None:
    api.create_pod("p")
    assert api.call("DELETE", pods_path("p"), body).reason == "BadRequest"
    assert api.call("GET", pods_path("p")).code == 200
