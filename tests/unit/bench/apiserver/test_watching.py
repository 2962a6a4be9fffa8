"""Watches: what each watcher is given, and that it adds up to the state."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.apiserver.api_status import ApiError
from bench.apiserver.served_resources import CORE_EVENTS, EVENTS, PODS
from tests.unit.bench.apiserver.api_caller import (
    ApiCaller,
    events_of,
    everything,
    pods_path,
    types_and_names,
)


@pytest.fixture
def api() -> ApiCaller:
    return ApiCaller()


def test_a_watch_from_a_version_shows_what_came_after_it(api: ApiCaller) -> None:
    api.create_pod("old")
    version = str(api.cluster.store.version)
    api.create_pod("new")
    api.bind("new", "n0")
    cursor = api.watch(resourceVersion=version)
    assert types_and_names(everything(cursor)) == [("ADDED", "new"), ("MODIFIED", "new")]
    api.call("DELETE", pods_path("old"))
    assert types_and_names(everything(cursor)) == [("MODIFIED", "old"), ("DELETED", "old")]
    assert cursor.is_current


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_a_watch_without_a_version_begins_with_what_there_is(
    api: ApiCaller, query: dict[str, Any]
) -> None:
    for name in ("b", "a"):
        api.create_pod(name)
    cursor = api.watch(**query)
    assert types_and_names(everything(cursor)) == [("ADDED", "a"), ("ADDED", "b")]
    api.create_pod("c")
    assert types_and_names(everything(cursor)) == [("ADDED", "c")]


def test_initial_events_end_with_an_annotated_bookmark(api: ApiCaller) -> None:
    api.create_pod("a")
    cursor = api.watch(
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    api.create_pod("later")
    added, bookmark, later = everything(cursor)
    assert types_and_names([added, later]) == [("ADDED", "a"), ("ADDED", "later")]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": added["object"]["metadata"]["resourceVersion"],
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
        "spec": {"containers": None},
        "status": {},
    }


def test_large_initial_states_are_given_out_in_pieces(api: ApiCaller) -> None:
    for number in range(20):
        api.create_pod(f"p{number:02d}")
    cursor = api.watch()
    pieces = []
    while not cursor.is_current:
        pieces.append(events_of(cursor.take(4000)))
    assert 1 < len(pieces) < 20
    names = [event["object"]["metadata"]["name"] for piece in pieces for event in piece]
    assert names == [f"p{number:02d}" for number in range(20)]


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
    ],
)
def test_options_that_do_not_go_together_are_invalid(api: ApiCaller, query: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as error:
        api.watch_start(**query)
    assert (error.value.code, error.value.reason) == (422, "Invalid")


def test_an_object_enters_and_leaves_a_selection(api: ApiCaller) -> None:
    version = str(api.cluster.store.version)
    api.create_pod("p")
    api.bind("p", "n0")
    unscheduled = everything(api.watch(resourceVersion=version, fieldSelector="spec.nodeName="))
    assert types_and_names(unscheduled) == [("ADDED", "p"), ("DELETED", "p")]
    left = unscheduled[1]["object"]
    # It is shown as it was, under the version of the change.
    assert "nodeName" not in left["spec"]
    assert left["metadata"]["resourceVersion"] == str(api.cluster.store.version)
    on_node = everything(api.watch(resourceVersion=version, fieldSelector="spec.nodeName=n0"))
    assert types_and_names(on_node) == [("ADDED", "p")]


def test_a_namespace_narrows_a_watch(api: ApiCaller) -> None:
    version = str(api.cluster.store.version)
    api.create_pod("p")
    assert everything(api.watch(namespace="default", resourceVersion=version))
    assert not everything(api.watch(namespace="kube-system", resourceVersion=version))


def test_a_version_from_the_future_waits_for_it(api: ApiCaller) -> None:
    future = api.cluster.store.version + 2
    cursor = api.watch(resourceVersion=str(future))
    for name in ("a", "b", "c"):
        api.create_pod(name)
    assert types_and_names(everything(cursor)) == [("ADDED", "c")]


def test_an_old_version_gets_a_410_in_the_stream(api: ApiCaller) -> None:
    api.create_pod("p")
    api.cluster.store.compact()
    start = api.watch_start(resourceVersion="3")
    assert start.cursor is None
    (event,) = events_of(start.error_frame)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith("too old resource version: 3 (")


def test_a_watcher_that_falls_out_of_the_history_is_lost() -> None:
    api = ApiCaller(history_limit=3)
    cursor = api.watch(resourceVersion=str(api.cluster.store.version))
    for number in range(3):
        api.create_pod(f"p{number}")
    assert not cursor.is_lost
    assert cursor.lag_count == 3
    api.create_pod("p3")
    assert cursor.is_lost


def test_events_are_watched_in_both_forms(api: ApiCaller) -> None:
    version = str(api.cluster.store.version)
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2027-01-01T00:00:00.000000Z",
        "reportingController": "berth",
        "reportingInstance": "berth-1",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "note": "a note",
        "type": "Normal",
    }
    reply = api.call("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert reply.code == 201, reply.body
    (new,) = everything(api.watch(EVENTS, resourceVersion=version))
    (core,) = everything(api.watch(CORE_EVENTS, resourceVersion=version))
    assert (new["object"]["apiVersion"], new["object"]["note"]) == ("events.k8s.io/v1", "a note")
    assert (core["object"]["apiVersion"], core["object"]["message"]) == ("v1", "a note")
    assert core["object"]["involvedObject"] == new["object"]["regarding"]


def _apply(state: dict[str, Any], events: list[dict[str, Any]]) -> None:
    for event in events:
        name = event["object"]["metadata"]["name"]
        match event["type"]:
            case "ADDED":
                assert name not in state, "ADDED only what was not there"
                state[name] = event["object"]
            case "MODIFIED":
                assert name in state, "MODIFIED only what was there"
                state[name] = event["object"]
            case "DELETED":
                del state[name]
            case other:
                raise AssertionError(other)


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "bind", "delete", "relabel", "look"]), _NAMES),
    max_size=40,
)
_QUERIES = st.sampled_from(
    ["", "fieldSelector=spec.nodeName=", "fieldSelector=spec.nodeName=n0", "labelSelector=odd=1"]
)


@given(steps=_STEPS, query=_QUERIES)
def test_a_list_and_a_watch_from_it_add_up_to_every_later_list(
    steps: list[tuple[str, str]], query: str
) -> None:
    api = ApiCaller()
    path = f"{pods_path()}?{query}"
    options: dict[str, Any] = dict([query.split("=", 1)]) if query else {}
    first = api.call("GET", path).body
    state = {item["metadata"]["name"]: item for item in first["items"]}
    cursor = api.watch(
        namespace="default", resourceVersion=first["metadata"]["resourceVersion"], **options
    )
    remembered = {}
    for number, (step, name) in enumerate(steps):
        match step:
            case "create":
                api.create_pod(name)
            case "bind":
                api.bind(name, "n0")
            case "delete":
                api.call("DELETE", f"{pods_path(name)}?gracePeriodSeconds=0")
            case "relabel":
                labels = {"metadata": {"labels": {"odd": str(number % 2)}}}
                merge = "application/merge-patch+json"
                api.call("PATCH", pods_path(name), labels, content_type=merge)
            case _:
                _apply(state, everything(cursor))
        reply = api.call("GET", path)
        remembered[reply.body["metadata"]["resourceVersion"]] = reply.names
    _apply(state, everything(cursor))
    last = api.call("GET", path)
    assert sorted(state) == last.names
    for item in last.body["items"]:
        shown = state[item["metadata"]["name"]]
        assert shown["spec"] == item["spec"]
        assert shown["metadata"] == item["metadata"]
    for version, names in remembered.items():
        exact = f"&resourceVersion={version}&resourceVersionMatch=Exact"
        assert api.call("GET", path + exact).names == names


def test_watchers_of_everything_share_one_rendering(api: ApiCaller) -> None:
    version = str(api.cluster.store.version)
    first, second = api.watch(resourceVersion=version), api.watch(resourceVersion=version)
    api.create_pod("p")
    assert first.shares_frames
    frames = first.take(1 << 20)
    change = api.cluster.store.table(PODS).change_at(0)
    assert list(change.frames.values()) == [frames]
    assert second.take(1 << 20) == frames
    assert len(change.frames) == 1
