"""What the owner is told for each thing that a server may say."""

import json
from typing import Any

import msgspec
import pytest

from daemon.adapter import recent_events
from daemon.adapter.kind_feed import KindFeed
from shared.in_hand import WHY, InHand
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    json_of_allocation,
)
from shared.kube.api_errors import Expired
from shared.kube.decode import UnreadableAnswerError, decode_object
from shared.kube.resources import KINDS_BY_PLURAL
from shared.messages.to_owner import (
    AdapterMessage,
    KindUnavailable,
    NodeChanged,
    NodeDeleted,
    ObjectChanged,
    ObjectDeleted,
    ObjectRejected,
    PodChanged,
    PodDeleted,
    SyncFinished,
    SyncStarted,
)


def feed_of(plural: str) -> tuple[KindFeed, list[AdapterMessage]]:
    told: list[AdapterMessage] = []
    return KindFeed(KINDS_BY_PLURAL[plural], lambda message, _: told.append(message)), told


def item(name: str, namespace: str = "ns", version: str = "5", **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": version}
    return {"metadata": {**meta, **({"namespace": namespace} if namespace else {})}, **fields}


def page(*items: Any, version: str = "9", token: str = "") -> bytes:
    return json.dumps(
        {"metadata": {"resourceVersion": version, "continue": token}, "items": items}
    ).encode()


def line(event_type: str, body: Any) -> bytes:
    return json.dumps({"type": event_type, "object": body}).encode()


def listed(plural: str) -> tuple[KindFeed, list[AdapterMessage]]:
    feed, told = feed_of(plural)
    feed.list_started()
    feed.page(page())
    feed.list_finished()
    told.clear()
    return feed, told


def test_a_list_of_pages_is_told_as_one() -> None:
    feed, told = feed_of("pods")
    feed.list_started()
    feed.page(page(item("a"), token="more"))
    assert feed.resource_version == ""
    feed.page(page(item("b"), version="12"))
    feed.list_finished()
    assert [type(message) for message in told] == [
        SyncStarted,
        PodChanged,
        PodChanged,
        SyncFinished,
    ]
    assert told[-1] == SyncFinished("pods", "12")
    assert feed.resource_version == "12"


def test_a_list_that_starts_over_voids_the_last_one() -> None:
    feed, told = listed("pods")
    feed.list_started()
    assert feed.resource_version == ""
    assert told == [SyncStarted("pods")]


def kept(*items: Any) -> tuple[KindFeed, list[AdapterMessage]]:
    """A feed of pods that were listed, and all that a new owner is told from then on."""
    feed, told = feed_of("pods")
    feed.list_started()
    feed.page(page(*items))
    feed.list_finished()
    again: list[AdapterMessage] = []
    feed.tell_to(lambda message, _: again.append(message))
    told.clear()
    return feed, again


def names(messages: list[AdapterMessage]) -> list[str]:
    """Of the pods told; the ends of a list as they are called."""
    return [
        message.pod.name if isinstance(message, PodChanged | PodDeleted) else type(message).__name__
        for message in messages
    ]


ON_A_NODE: Any = {"spec": {"nodeName": "n"}}


def tell_again(feed: KindFeed, **waiting: str) -> None:
    for _ in feed.tell_again({f"uid-{name}": version for name, version in waiting.items()}):
        pass


def test_a_new_owner_is_told_what_the_last_one_knew() -> None:
    feed, told = kept(item("a", **ON_A_NODE), item("b"), item("c"))
    feed.line(line("DELETED", item("c", version="11")))
    feed.line(line("MODIFIED", item("b", version="12")))
    told.clear()
    tell_again(feed, b="12")
    assert names(told) == ["SyncStarted", "a", "b", "SyncFinished"]
    assert told[-1] == SyncFinished("pods", "12")
    assert feed.resource_version == "12"
    # What comes by the watch follows as ever, and is not told twice.
    feed.line(line("MODIFIED", item("b", version="12")))
    feed.line(line("MODIFIED", item("b", version="13", **ON_A_NODE)))
    assert names(told[4:]) == ["b"]


@pytest.mark.parametrize(
    ("was", "now", "is_told"),
    [
        (ON_A_NODE, {**ON_A_NODE, "status": {"podIP": "10.0.0.1", "phase": "Running"}}, False),
        (ON_A_NODE, {**ON_A_NODE, "status": {"startTime": "2026-01-01T00:00:00Z"}}, True),
        ({}, {"status": {"podIP": "10.0.0.1"}}, True),
        ({}, ON_A_NODE, True),
    ],
    ids=["a kubelet's word", "it started", "it waits", "it is bound"],
)
def test_a_pod_that_stays_as_it_was_told_is_not_told(
    was: dict[str, Any], now: dict[str, Any], *, is_told: bool
) -> None:
    feed, told = kept(item("a", **was))
    told.clear()
    feed.line(line("MODIFIED", item("a", version="12", **now)))
    assert names(told) == ["a"] * is_told
    assert feed.resource_version == "12"
    told.clear()
    tell_again(feed, **({} if "spec" in now else {"a": "12"}))
    (again,) = (message.pod for message in told if isinstance(message, PodChanged))
    assert again.resource_version == "12"


def test_pods_that_are_alike_share_what_is_kept_of_them() -> None:
    feed, told = feed_of("pods")
    labels = {"app": "x"}
    for name, app in (("a", labels), ("b", labels), ("c", None)):
        feed.line(line("ADDED", item(name) | {"spec": {"nodeSelector": app}}))
    a, b, c = (message.pod.template for message in told if isinstance(message, PodChanged))
    assert a is b
    assert a != c


@pytest.mark.parametrize(
    ("waiting", "news"),
    [
        ({}, ("MODIFIED", item("b", version="12", **ON_A_NODE))),
        ({}, ("DELETED", item("b", version="12"))),
        ({}, ("MODIFIED", item("b", version="12", status={"phase": "Succeeded"}))),
        ({"b": "12"}, ("MODIFIED", item("b", version="12"))),
        ({"b": "5", "new": "12"}, ("ADDED", item("new", version="12"))),
    ],
    ids=["bound", "gone", "finished", "changed", "new"],
)
def test_pods_are_told_as_a_whole_when_the_watch_has_brought_what_a_list_showed(
    waiting: dict[str, str], news: tuple[str, Any]
) -> None:
    feed, told = kept(item("a", **ON_A_NODE), item("b"))
    tell_again(feed, **waiting)
    assert feed.is_behind
    assert names(told) == ["SyncStarted", "a", "b"]
    # What does not concern them, and what came before, ends nothing.
    feed.line(line("MODIFIED", item("a", version="10", **ON_A_NODE)))
    feed.line(line("MODIFIED", item("b", version="11")))
    assert feed.is_behind
    feed.line(line(*news))
    assert not feed.is_behind
    assert names(told)[3:] == ["b", news[1]["metadata"]["name"], "SyncFinished"]


def test_what_is_not_all_is_not_told_again() -> None:
    feed, _ = kept(item("a"), {"metadata": {"name": "nameless"}})
    assert feed.resource_version == ""
    feed, told = feed_of("nodes")
    feed.list_started()
    feed.page(page(item("n", "")))
    feed.list_finished()
    feed.tell_to(lambda message, _: told.append(message))
    assert feed.resource_version == ""


def test_a_new_list_ends_what_was_to_be_told_again() -> None:
    feed, told = kept(item("a"))
    tell_again(feed)
    assert feed.is_behind
    feed.list_started()
    feed.page(page(item("b")))
    feed.list_finished()
    assert not feed.is_behind
    assert names(told) == ["SyncStarted", "a", "SyncStarted", "b", "SyncFinished"]
    told.clear()
    tell_again(feed, b="5")
    assert names(told) == ["SyncStarted", "b", "SyncFinished"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_are_deleted_pods(phase: str) -> None:
    feed, told = listed("pods")
    feed.page(page(item("a", status={"phase": phase})))
    assert told == []
    feed.line(line("MODIFIED", item("a", status={"phase": phase})))
    feed.line(line("ADDED", item("b", status={"phase": "Running"})))
    feed.line(line("DELETED", item("b", status={"phase": "Running"})))
    assert [type(message) for message in told] == [PodDeleted, PodChanged, PodDeleted]


def test_nodes() -> None:
    feed, told = listed("nodes")
    feed.line(line("ADDED", item("n", "", status={"allocatable": {"cpu": "4"}})))
    feed.line(line("DELETED", item("n", "")))
    assert isinstance(told[0], NodeChanged)
    assert told[0].node.status.allocatable == {"cpu": "4"}
    assert told[1] == NodeDeleted("n")


def test_other_kinds_are_kept_whole() -> None:
    feed, told = listed("persistentvolumeclaims")
    feed.line(line("ADDED", item("c", spec={"volumeName": "pv"})))
    feed.line(line("DELETED", item("c")))
    changed = told[0]
    assert isinstance(changed, ObjectChanged)
    assert (changed.kind, changed.key) == ("persistentvolumeclaims", "ns/c")
    body = msgspec.msgpack.decode(changed.body, type=PersistentVolumeClaim)
    assert body.spec.volume_name == "pv"
    assert told[1] == ObjectDeleted("persistentvolumeclaims", "ns/c")
    feed, told = listed("storageclasses")
    feed.line(line("DELETED", item("fast", "")))
    assert told == [ObjectDeleted("storageclasses", "fast")]


NODE_NAMED = {"spec": {"nodeName": "n"}}


@pytest.mark.parametrize(
    ("event_type", "fields", "can_wait"),
    [
        ("MODIFIED", NODE_NAMED, True),
        ("MODIFIED", {}, False),
        ("ADDED", NODE_NAMED, False),
        ("DELETED", NODE_NAMED, False),
        ("MODIFIED", {**NODE_NAMED, "status": {"phase": "Running"}}, True),
        ("MODIFIED", {**NODE_NAMED, "status": {"phase": "Failed"}}, False),
        ("MODIFIED", {**NODE_NAMED, "status": {"phase": "Succeeded"}}, False),
        (
            "MODIFIED",
            {**NODE_NAMED, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            False,
        ),
        ("MODIFIED", {"metadata": {"annotations": {"a": json.dumps(NODE_NAMED)}}}, False),
    ],
)
def test_only_news_of_a_pod_that_stays_on_its_node_can_wait(
    event_type: str, fields: dict[str, Any], *, can_wait: bool
) -> None:
    feed, _ = feed_of("pods")
    told = compact(event_type, fields)
    assert feed.can_wait(told) is can_wait
    assert feed.can_wait(compact("MODIFIED", NODE_NAMED) + told) is can_wait
    assert not feed.can_wait(told[:-1]), "a line that has not ended"
    assert not feed_of("nodes")[0].can_wait(told)


def compact(event_type: str, fields: dict[str, Any]) -> bytes:
    """As an API server writes it."""
    told = {"type": event_type, "object": fields}
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def test_events_and_bookmarks_move_the_version() -> None:
    feed, told = listed("pods")
    assert feed.resource_version == "9"
    feed.line(line("ADDED", item("a", version="20")))
    assert feed.resource_version == "20"
    feed.line(line("BOOKMARK", {"metadata": {"resourceVersion": "30"}}))
    assert feed.resource_version == "30"
    assert len(told) == 1


def test_initial_events_move_no_version_until_their_end() -> None:
    feed, told = feed_of("pods")
    feed.list_started()
    feed.line(line("ADDED", item("a", version="20")))
    feed.line(line("BOOKMARK", {"metadata": {"resourceVersion": "21"}}))
    assert feed.resource_version == ""
    end = {"resourceVersion": "30", "annotations": {"k8s.io/initial-events-end": "true"}}
    feed.line(line("BOOKMARK", {"metadata": end}))
    assert feed.resource_version == "30"
    assert told[-1] == SyncFinished("pods", "30")


def test_a_malformed_object_is_reported_and_the_rest_goes_on() -> None:
    feed, told = listed("pods")
    feed.line(line("MODIFIED", item("bad", version="20", spec={"containers": 3})))
    assert feed.resource_version == "20"
    feed.line(line("MODIFIED", item("good", version="21")))
    assert told[0] == ObjectRejected(
        "pods", "ns/bad", "Expected `array`, got `int` - at `$.spec.containers`", "uid-bad"
    )
    assert isinstance(told[1], PodChanged)
    feed.page(page(item("worse", metadata=3)))
    assert isinstance(told[2], ObjectRejected)


@pytest.mark.parametrize(
    ("plural", "meta", "where"),
    [
        ("pods", {"namespace": "ns", "uid": "u"}, "ns/"),
        ("pods", {"name": "a", "uid": "u"}, "a"),
        ("pods", {"namespace": "ns", "name": "a"}, "ns/a"),
        ("nodes", {"uid": "u"}, "an object without a name"),
        ("nodes", {"namespace": "ns", "name": "n", "uid": "u"}, "ns/n"),
    ],
)
def test_objects_without_an_identity_are_rejected(
    plural: str, meta: dict[str, str], where: str
) -> None:
    feed, told = listed(plural)
    feed.line(line("ADDED", {"metadata": meta}))
    feed.page(page({"metadata": meta}))
    assert len(told) == 2
    for message in told:
        assert isinstance(message, ObjectRejected)
        assert message.where == where


def test_an_error_event_ends_the_watch() -> None:
    feed, told = listed("pods")
    with pytest.raises(Expired):
        feed.line(line("ERROR", {"reason": "Expired", "code": 410}))
    assert told == []


def test_a_line_that_is_no_json_demands_a_new_list() -> None:
    feed, told = listed("pods")
    with pytest.raises(UnreadableAnswerError, match="pods: a watch line of 48 bytes"):
        feed.line(b'{"type":"ADDED","object":{"metadata":{"name":"a"')
    assert told == []
    assert feed.resource_version == "9"


def test_a_page_that_is_no_list() -> None:
    feed, _ = feed_of("pods")
    feed.list_started()
    with pytest.raises(UnreadableAnswerError):
        feed.page(b"<html>")


def test_a_kind_that_is_not_served() -> None:
    feed, told = feed_of("resourceslices")
    feed.unavailable("404 NotFound")
    assert told == [KindUnavailable("resourceslices", "404 NotFound")]


BEYOND_64_BITS = 2**64


@pytest.mark.parametrize(
    ("plural", "body"),
    [
        ("pods", {"spec": {"priority": BEYOND_64_BITS}}),
        ("pods", {"spec": {"containers": [{"resources": {"requests": {"cpu": BEYOND_64_BITS}}}]}}),
        ("pods", {"metadata": {"generation": -BEYOND_64_BITS}}),
        (
            "resourceclaims",
            {"spec": {"devices": {"requests": [{"exactly": {"count": BEYOND_64_BITS}}]}}},
        ),
        ("poddisruptionbudgets", {"status": {"disruptionsAllowed": BEYOND_64_BITS}}),
    ],
)
def test_numbers_that_no_message_can_carry_leave_their_object_out(
    plural: str, body: dict[str, Any]
) -> None:
    feed, told = listed(plural)
    bad, good = item("bad"), item("good")
    meta = {**bad["metadata"], **body.pop("metadata", {})}
    bad = {**bad, **body, "metadata": meta}
    feed.page(page(bad, good))
    feed.line(line("ADDED", bad))
    feed.line(line("ADDED", item("better")))
    rejected = [message for message in told if isinstance(message, ObjectRejected)]
    assert [one.where for one in rejected] == ["ns/bad", "ns/bad"]
    assert len(told) == 4


@pytest.mark.parametrize(
    "parameters",
    [
        b'{"a":%d}' % BEYOND_64_BITS,
        b'{"a":1e5,"b":-0,"c":1.0,"d":1e999}',
        b'{"a":1,"a":2}',
        b'{"a":"\xff","b":"\\u0041\\u0000"}',
        b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b"null",
    ],
)
def test_opaque_parameters_are_passed_on_byte_by_byte(parameters: bytes) -> None:
    feed, told = listed("resourceclaims")
    spec = b'{"devices":{"config":[{"opaque":{"driver":"d","parameters":%b}},{}]}}' % parameters
    claim = json.dumps(item("c") | {"spec": "SPEC"}).encode().replace(b'"SPEC"', spec)
    feed.page(b'{"metadata":{},"items":[%b]}' % claim)
    feed.line(b'{"type":"ADDED","object":%b}' % claim.replace(b'"uid-c"', b'"other"'))
    for message in told:
        assert isinstance(message, ObjectChanged)
        known = decode_object("resourceclaims", message.body)
        (config, empty) = known.spec.devices.config
        assert (config.opaque.driver, empty.opaque) == ("d", None)
        allocation = AllocationResult(
            devices=DeviceAllocationResult(
                config=[DeviceAllocationConfiguration(source="FromClaim", opaque=config.opaque)]
            )
        )
        sent = msgspec.msgpack.decode(msgspec.msgpack.encode(allocation), type=AllocationResult)
        written = b'"opaque":{"driver":"d","parameters":%b}' % parameters
        assert written in bytes(json_of_allocation(sent))
    assert len(told) == 2


def test_a_budget_whose_pod_was_let_go_at_no_time_is_told() -> None:
    feed, told = listed("poddisruptionbudgets")
    feed.line(line("ADDED", item("b", status={"disruptedPods": {"p": None}})))
    assert [type(message) for message in told] == [ObjectChanged]


def test_an_object_that_became_unreadable_can_still_go() -> None:
    feed, told = listed("pods")
    bad = item("a", spec={"priority": "high"})
    feed.line(line("MODIFIED", bad))
    feed.line(line("DELETED", bad))
    rejected, gone = told
    assert isinstance(rejected, ObjectRejected)
    assert isinstance(gone, PodDeleted)
    assert (gone.pod.uid, gone.pod.namespace, gone.pod.name) == ("uid-a", "ns", "a")


def test_an_adapter_that_is_careful_says_what_it_reads_and_goes_without_what_it_died_of() -> None:
    said: list[int] = []
    told: list[AdapterMessage] = []
    lines = [line("ADDED", item(name, version=name)) for name in ("6", "7")]

    def read(hand: InHand) -> KindFeed:
        feed = KindFeed(KINDS_BY_PLURAL["pods"], lambda message, _: told.append(message), hand)
        feed.list_started()
        feed.page(page(item("a"), item("b")))
        feed.list_finished()
        for each in lines:
            feed.line(each)
        return feed

    read(InHand(said.append))
    assert len(set(said[::2])) == 4
    assert set(said[1::2]) == {0}
    assert sum(isinstance(message, PodChanged) for message in told) == 4
    told.clear()
    feed = read(InHand(lambda _: None, [said[0], said[4]]))
    names = [message.pod.name for message in told if isinstance(message, PodChanged)]
    assert names == ["b", "7"]
    assert [message for message in told if isinstance(message, ObjectRejected)] == [
        ObjectRejected("pods", "ns/a", WHY, "uid-a"),
        ObjectRejected("pods", "ns/6", WHY),
    ]
    assert feed.resource_version == "7"


def test_a_line_without_a_name_that_can_be_seen_is_left_out_as_well() -> None:
    said: list[int] = []
    told: list[AdapterMessage] = []
    feed = KindFeed(KINDS_BY_PLURAL["pods"], lambda m, _: told.append(m), InHand(said.append))
    with pytest.raises(UnreadableAnswerError):
        feed.line(b"{")
    assert said[-1] == 0
    feed = KindFeed(KINDS_BY_PLURAL["pods"], lambda m, _: told.append(m), InHand(said.append, said))
    feed.line(b"{")
    assert told[-1] == ObjectRejected("pods", "a watch line of 1 bytes", WHY)


def node(version: str, heartbeat: str, **fields: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
    status = {"allocatable": {"cpu": "4", "pods": "110"}, "conditions": [ready], **fields}
    return item("n", "", version, status=status)


def test_a_node_that_reports_what_it_reported_is_not_told_again() -> None:
    feed, told = listed("nodes")
    feed.line(line("ADDED", node("5", "t1")))
    feed.line(line("MODIFIED", node("6", "t2")))
    assert [type(message) for message in told] == [NodeChanged]
    assert feed.resource_version == "6", "a watch resumes after what was not told, too"


def test_a_node_is_told_again_when_it_says_something_else_and_when_it_takes_that_back() -> None:
    feed, told = listed("nodes")
    less = {"allocatable": {"cpu": "3", "pods": "110"}}
    feed.line(line("ADDED", node("5", "t1")))
    feed.line(line("MODIFIED", node("6", "t2", **less)))
    feed.line(line("MODIFIED", node("7", "t3")))
    assert len(told) == 3


@pytest.mark.parametrize(
    "kind", ["services", "replicationcontrollers", "replicasets", "statefulsets"]
)
def test_what_selects_pods_is_told_when_it_selects_others(kind: str) -> None:
    """And not with each of its pods, which its status counts, nor when there are to be more of them."""
    feed, told = listed(kind)

    def selecting(version: str, app: str, count: int) -> dict[str, Any]:
        by_labels: dict[str, Any] = {"app": app}
        plain = kind in ("services", "replicationcontrollers")
        labels = by_labels if plain else {"matchLabels": by_labels}
        spec, status = {"selector": labels, "replicas": count}, {"readyReplicas": count}
        selects = item("a", "team", version, spec=spec, status=status)
        selects["metadata"]["generation"] = count
        return selects

    feed.line(line("ADDED", selecting("5", "a", 1)))
    feed.line(line("MODIFIED", selecting("6", "a", 2)))
    feed.line(line("MODIFIED", selecting("7", "b", 2)))
    feed.line(line("MODIFIED", selecting("8", "b", 3)))
    assert [type(message) for message in told] == [ObjectChanged, ObjectChanged]
    assert feed.resource_version == "8"


def test_a_budget_is_told_when_it_allows_more() -> None:
    feed, told = listed("poddisruptionbudgets")
    for version, healthy, allowed in (("5", 1, 0), ("6", 2, 0), ("7", 3, 1)):
        status = {"currentHealthy": healthy, "disruptionsAllowed": allowed}
        feed.line(line("MODIFIED", item("b", "team", version, status=status)))
    assert len(told) == 2


def test_what_was_left_out_is_told_when_it_is_as_it_was() -> None:
    feed, told = listed("poddisruptionbudgets")
    for version, allowed in (("5", 1), ("6", BEYOND_64_BITS), ("7", 1)):
        status = {"disruptionsAllowed": allowed}
        feed.line(line("MODIFIED", item("b", "team", version, status=status)))
    assert [type(message) for message in told] == [ObjectChanged, ObjectRejected, ObjectChanged]


@pytest.mark.parametrize("kind", ["persistentvolumes", "persistentvolumeclaims", "resourceclaims"])
def test_what_is_written_by_its_version_is_told_with_each(kind: str) -> None:
    feed, told = listed(kind)
    for version in ("5", "6"):
        feed.line(
            line("MODIFIED", item("a", "" if kind == "persistentvolumes" else "team", version))
        )
    assert len(told) == 2


def test_a_node_that_was_deleted_is_told_when_it_comes_again() -> None:
    feed, told = listed("nodes")
    again = node("8", "t1")
    again["metadata"]["uid"] = "another"
    feed.line(line("ADDED", node("5", "t1")))
    feed.line(line("DELETED", node("6", "t1")))
    feed.line(line("ADDED", again))
    assert [type(message) for message in told] == [NodeChanged, NodeDeleted, NodeChanged]


def test_in_a_new_list_each_node_is_told() -> None:
    feed, told = listed("nodes")
    feed.line(line("ADDED", node("5", "t1")))
    told.clear()
    feed.list_started()
    feed.page(page(node("5", "t1")))
    feed.list_finished()
    assert [type(message) for message in told] == [SyncStarted, NodeChanged, SyncFinished]


def test_after_a_new_list_events_count_anew() -> None:
    feed, told = listed("pods")
    for _ in range(2):
        feed.line(line("DELETED", item("a", version="7")))
    assert feed.repeated_count == 1
    feed.list_started()
    feed.page(page())
    feed.list_finished()
    told.clear()
    feed.line(line("DELETED", item("a", version="7")))
    assert [type(message) for message in told] == [PodDeleted]


def test_a_node_that_was_deleted_takes_no_place_among_those_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent_events, "TOLD_OBJECTS_MAX", 1)
    feed, told = listed("nodes")
    feed.line(line("ADDED", node("5", "t1")))
    feed.line(line("DELETED", node("6", "t1")))
    for version in ("7", "8"):
        other = node(version, "t1")
        other["metadata"] |= {"name": "m", "uid": "uid-m"}
        feed.line(line("MODIFIED", other))
    assert [type(message) for message in told] == [NodeChanged, NodeDeleted, NodeChanged]
