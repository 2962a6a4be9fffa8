"""GET: objects, lists, pages and versions of the past."""

from typing import Any

import pytest

from bench.apiserver.api_status import ApiError
from bench.apiserver.paging import decode_continue, encode_continue
from tests.unit.bench.apiserver.api_caller import ApiCaller, pods_path


@pytest.fixture
def api() -> ApiCaller:
    api = ApiCaller()
    for name in ("a", "b", "c", "d", "e"):
        api.create_pod(name, labels={"app": name})
    return api


def test_a_list_is_in_the_order_of_keys_and_has_the_newest_version(api: ApiCaller) -> None:
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "a-space"}})
    api.call("POST", pods_path(namespace="a-space"), {"metadata": {"name": "z"}, **_spec()})
    reply = api.call("GET", "/api/v1/pods")
    assert reply.names == ["z", "a", "b", "c", "d", "e"]
    assert reply.body["kind"] == "PodList"
    assert reply.body["metadata"] == {"resourceVersion": str(api.cluster.store.version)}
    assert "kind" not in reply.body["items"][0]
    assert api.call("GET", pods_path(namespace="a-space")).names == ["z"]
    assert api.call("GET", pods_path(namespace="nowhere")).names == []


def _spec() -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_pages_show_the_state_of_the_first(api: ApiCaller) -> None:
    first = api.call("GET", pods_path() + "?limit=2")
    assert first.names == ["a", "b"]
    assert first.body["metadata"]["remainingItemCount"] == 3
    api.create_pod("bb")
    api.bind("d", "n0")
    api.call("DELETE", pods_path("c"))
    token = first.body["metadata"]["continue"]
    second = api.call("GET", f"{pods_path()}?limit=2&continue={token}")
    assert second.names == ["c", "d"]
    assert "nodeName" not in second.body["items"][1]["spec"]
    assert second.body["metadata"]["remainingItemCount"] == 1
    assert second.body["metadata"]["resourceVersion"] == first.body["metadata"]["resourceVersion"]
    token = second.body["metadata"]["continue"]
    last = api.call("GET", f"{pods_path()}?limit=2&continue={token}")
    assert last.names == ["e"]
    assert "continue" not in last.body["metadata"]


def test_pages_across_namespaces_continue_where_they_ended(api: ApiCaller) -> None:
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    api.call("POST", pods_path(namespace="other"), {"metadata": {"name": "a"}, **_spec()})
    names, token = [], ""
    while True:
        reply = api.call("GET", f"/api/v1/pods?limit=1&continue={token}")
        names += [
            f"{item['metadata']['namespace']}/{item['metadata']['name']}"
            for item in reply.body["items"]
        ]
        token = reply.body["metadata"].get("continue")
        if not token:
            break
    assert names == [*(f"default/{name}" for name in "abcde"), "other/a"]


def test_a_page_with_a_selector_tells_no_count(api: ApiCaller) -> None:
    reply = api.call("GET", pods_path() + "?limit=1&labelSelector=app")
    assert "continue" in reply.body["metadata"]
    assert "remainingItemCount" not in reply.body["metadata"]


def test_version_0_ignores_the_limit(api: ApiCaller) -> None:
    reply = api.call("GET", pods_path() + "?limit=1&resourceVersion=0")
    assert reply.names == ["a", "b", "c", "d", "e"]
    assert "continue" not in reply.body["metadata"]


def test_an_exact_list_shows_the_past(api: ApiCaller) -> None:
    version = api.cluster.store.version
    api.bind("a", "n0")
    api.call("DELETE", pods_path("b"))
    api.create_pod("f")
    query = f"?resourceVersion={version}&resourceVersionMatch=Exact"
    past = api.call("GET", pods_path() + query)
    assert past.names == ["a", "b", "c", "d", "e"]
    assert "nodeName" not in past.body["items"][0]["spec"]
    assert past.body["metadata"]["resourceVersion"] == str(version)
    newer = api.call(
        "GET", f"{pods_path()}?resourceVersion={version}&resourceVersionMatch=NotOlderThan"
    )
    assert newer.names == ["a", "c", "d", "e", "f"]


def test_versions_that_are_gone_or_not_there_yet(api: ApiCaller) -> None:
    page = api.call("GET", pods_path() + "?limit=2").body["metadata"]
    api.create_pod("f")
    api.cluster.store.compact()
    old = page["resourceVersion"]
    exact = api.call("GET", f"{pods_path()}?resourceVersion={old}&resourceVersionMatch=Exact")
    assert (exact.code, exact.reason) == (410, "Expired")
    paged = api.call("GET", f"{pods_path()}?limit=2&continue={page['continue']}")
    assert (paged.code, paged.reason) == (410, "Expired")
    # The answer lets the client go on, in the newest state.
    token = paged.body["metadata"]["continue"]
    assert api.call("GET", f"{pods_path()}?limit=9&continue={token}").names == [*"cdef"]
    future = api.call("GET", f"{pods_path()}?resourceVersion=9999&resourceVersionMatch=Exact")
    assert (future.code, future.reason) == (504, "Timeout")
    assert future.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("continue=abc", 400),
        ("continue=%21", 400),
        ("limit=x", 400),
        ("labelSelector=a%20b", 400),
        ("fieldSelector=spec.foo%3D1", 400),
        ("resourceVersion=abc", 500),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Sometimes", 422),
    ],
)
def test_bad_queries_are_refused(api: ApiCaller, query: str, code: int) -> None:
    reply = api.call("GET", f"{pods_path()}?{query}")
    assert (reply.code, reply.body["kind"]) == (code, "Status")


def test_a_continue_token_does_not_reach_out_of_its_namespace() -> None:
    token = encode_continue(7, "a/../../other/x", None)
    with pytest.raises(ApiError, match="continue key is not valid"):
        decode_continue(token, "default")
    assert decode_continue(encode_continue(7, "default/b", "default"), "default") == (
        7,
        "default/b\0",
    )


def test_metadata_only_is_what_its_accept_header_asks_for(api: ApiCaller) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    reply = api.call("GET", pods_path() + "?limit=1", accept=accept)
    assert reply.body["kind"] == "PartialObjectMetadataList"
    (item,) = reply.body["items"]
    assert item["kind"] == "PartialObjectMetadata"
    assert set(item) == {"kind", "apiVersion", "metadata"}
    one = api.call("GET", pods_path("a"), accept=accept)
    assert one.body["kind"] == "PartialObjectMetadata"


def test_representations_that_are_not_there_are_passed_over(api: ApiCaller) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    assert api.call("GET", "/api/v1/namespaces/default", accept=table).body["kind"] == "Namespace"
    protobuf = "application/vnd.kubernetes.protobuf"
    assert api.call("GET", pods_path("a"), accept=protobuf).code == 406
    assert api.call("GET", pods_path("a"), accept=f"{protobuf}, */*").body["kind"] == "Pod"


def test_pods_are_shown_as_a_table_to_who_asks_for_one(api: ApiCaller) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    for path in (pods_path("a"), pods_path()):
        table = api.call("GET", path, accept=accept).body
        assert table["kind"] == "Table"
        assert [column["name"] for column in table["columnDefinitions"]][1:3] == ["Status", "Node"]
        assert table["rows"][0]["cells"][:3] == ["a", "Pending", "<none>"]
        assert table["rows"][0]["object"]["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/apis/nope/v1/things", 404),
        ("GET", "/api/v1/things", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/log", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v1/namespaces/x/nodes", 404),
        ("GET", "/", 404),
        ("POST", "/api/v1/pods", 405),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("PATCH", "/api/v1/namespaces/default/pods", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("HEAD", "/api/v1/nodes", 405),
        ("GET", "/api/v1/namespaces/default/pods/a/binding", 405),
    ],
)
def test_paths_and_methods_that_are_not_served(
    api: ApiCaller, method: str, path: str, code: int
) -> None:
    answer = api.raw(method, path)
    assert answer.code == code
