"""Objects that cannot be understood: named, counted, left out; everything else is scheduled."""

from typing import Any

import msgspec

from daemon.adapter.kind_feed import KindFeed
from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import Place
from shared.in_hand import WHY, InHand
from shared.kube.resources import KINDS_BY_PLURAL
from shared.messages.to_owner import (
    AdapterMessage,
    NodeChanged,
    ObjectChanged,
    PodChanged,
    PodDeleted,
)
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline


def left_out(pipeline: Pipeline) -> list[dict[str, object]]:
    return [note.fields for note in pipeline.notes if note.event == "object_left_out"]


def test_a_pod_with_an_unreadable_quantity_is_named_and_others_are_placed() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [make_pod("bad", cpu="1e1000"), make_pod("good")])
    pipeline.run_until_quiet()
    assert list(pipeline.bound.values()) == [["n0"]]
    (fields,) = left_out(pipeline)
    assert fields["where"] == "pod default/bad: quantity '1e1000'"
    assert pipeline.state.counters[Count.OBJECTS_REJECTED] == 1
    pipeline.check()


def test_an_object_of_another_kind_is_named() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [make_pod("good")])
    pipeline.tell(
        ObjectChanged("services", "default/s", msgspec.Raw(msgspec.msgpack.encode({"spec": 3})))
    )
    pipeline.run_until_quiet()
    (fields,) = left_out(pipeline)
    assert str(fields["where"]).startswith("services default/s")
    assert list(pipeline.bound.values()) == [["n0"]]


def test_a_pod_that_started_in_the_year_0_is_the_oldest() -> None:
    pipeline = Pipeline()
    pod = msgspec.structs.replace(make_pod("p", node_name="n0"), started="0000-01-01T00:00:00Z")
    pipeline.sync([make_node("n0")], [pod])
    held = pipeline.state.cache.get_pod(pod.uid)
    assert held is not None
    assert pipeline.state.cache.pod_table.start_s[held.row] < -62 * 10**9
    pipeline.check()


def test_an_update_that_cannot_be_read_leaves_the_pod_as_it_was() -> None:
    """What follows, and the next update that can be read, finds the pod where it is."""
    pipeline = Pipeline()
    pod = make_pod("p", cpu="1", node_name="n0")
    pipeline.sync([make_node("n0")], [pod])
    for bad in (
        msgspec.structs.replace(make_pod("p", cpu="1e401", node_name="n0"), uid=pod.uid),
        msgspec.structs.replace(make_pod("p", cpu="1e401", node_name="n1"), uid=pod.uid),
        msgspec.structs.replace(pod, started="no time"),
    ):
        pipeline.tell(PodChanged(bad))
        pipeline.check()
    assert len(left_out(pipeline)) == 3
    held = pipeline.state.cache.get_pod(pod.uid)
    assert held is not None
    assert held.pod_class.info.requests.amounts["cpu"] == 1000
    better = msgspec.structs.replace(make_pod("p", cpu="2", node_name="n0"), uid=pod.uid)
    pipeline.tell(PodChanged(better))
    pipeline.check()
    assert pipeline.state.cache.nodes.requested[0, 0] == 2000
    pipeline.tell(PodDeleted(better))
    pipeline.check()
    assert pipeline.state.cache.nodes.requested[0, 0] == 0


def test_the_confirmation_of_a_binding_that_cannot_be_read_leaves_the_pod_assumed() -> None:
    pipeline = Pipeline()
    pod = make_pod("p", cpu="1")
    pipeline.sync([make_node("n0")], [pod])
    pipeline.run_until_quiet()
    bad = msgspec.structs.replace(make_pod("p", cpu="1e401", node_name="n0"), uid=pod.uid)
    pipeline.tell(PodChanged(bad))
    pipeline.check()
    good = msgspec.structs.replace(pod, node_name="n0")
    pipeline.tell(PodChanged(good))
    pipeline.check()
    assert not pipeline.state.cache.is_assumed_pod(pod.uid)


def test_a_hint_that_fails_counts_as_a_reason_to_try_again() -> None:
    """As in kube-scheduler; the event is applied and the owner goes on."""
    pipeline = Pipeline()
    big = make_pod("big", cpu="64")
    pipeline.sync([make_node("n0")], [big])
    pipeline.run_until_quiet()
    queued = pipeline.state.queue.get(big.uid)
    assert queued is not None
    attempts = queued.attempts
    # Nothing that is decoded looks like this: it stands for whatever nobody has thought of.
    vars(queued.info).update(requests=None, fit_filter_requests=None)
    pipeline.tell(NodeChanged(make_node("n1")))
    assert pipeline.state.queue.get(big.uid) is queued
    assert queued.place is not Place.UNSCHEDULABLE
    assert attempts == 1


SERVICE = ObjectChanged("services", "default/s", msgspec.Raw(msgspec.msgpack.encode({})))


def test_an_owner_that_is_careful_says_which_object_it_has_in_hand() -> None:
    said: list[int] = []
    pipeline = Pipeline(in_hand=InHand(said.append))
    pods = [make_pod("p"), make_pod("q")]
    pipeline.sync([make_node("n0"), make_node("n1")], pods)
    pipeline.tell(SERVICE)
    pipeline.run_until_quiet()
    assert len(set(said[::2])) == 5
    assert set(said[1::2]) == {0}
    assert len(pipeline.bound) == 2
    said.clear()
    pipeline.tell(PodDeleted(pods[0]))
    assert said == []


def test_what_an_owner_died_of_is_left_out_and_named_until_it_changes() -> None:
    said: list[int] = []
    pod = make_pod("deadly")
    deadly: list[AdapterMessage] = [
        NodeChanged(make_node("n1")),
        PodChanged(pod),
        SERVICE,
    ]
    other = Pipeline(in_hand=InHand(said.append))
    other.sync([], [])
    other.tell(*deadly)
    pipeline = Pipeline(in_hand=InHand(lambda _: None, said[::2]))
    pipeline.sync([make_node("n0")], [make_pod("good")])
    pipeline.tell(*deadly)
    pipeline.run_until_quiet()
    assert list(pipeline.bound.values()) == [["n0"]]
    assert [note["where"] for note in left_out(pipeline)] == [
        *("node n1", "pod default/deadly", "services default/s"),
    ]
    (verdict,) = pipeline.verdicts
    assert (verdict.name, verdict.reason, verdict.message) == ("deadly", "SchedulerError", WHY)
    pipeline.check()
    # The condition that follows from the verdict makes no other pod of it; an update does.
    pipeline.tell(PodChanged(msgspec.structs.replace(pod, resource_version="12345")))
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 1
    pipeline.tell(PodChanged(msgspec.structs.replace(pod, generation=2)))
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 2
    pipeline.check()


def test_a_bound_pod_that_is_left_out_stays_as_it_was() -> None:
    said: list[int] = []
    bound = make_pod("p", cpu="1", node_name="n0")
    later = msgspec.structs.replace(bound, generation=2)
    other = Pipeline(in_hand=InHand(said.append))
    other.sync([], [later])
    pipeline = Pipeline(in_hand=InHand(lambda _: None, said[::2]))
    pipeline.sync([make_node("n0")], [bound])
    pipeline.sync([make_node("n0")], [later])
    assert pipeline.state.cache.nodes.requested[0, 0] == 1000
    assert pipeline.verdicts == []
    pipeline.check()


def test_what_a_list_shows_in_a_form_that_cannot_be_read_is_there() -> None:
    """It would count as gone, and its room be given away while it runs."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="1")], [])
    told: dict[str, KindFeed] = {
        kind: KindFeed(KINDS_BY_PLURAL[kind], lambda message, _: pipeline.tell(message))
        for kind in ("pods", "nodes", "services")
    }

    def show(kind: str, **damage: Any) -> None:
        meta: dict[str, Any] = {"name": "x", "uid": "u", "resourceVersion": "1"}
        if kind != "nodes":
            meta["namespace"] = "default"
        item = {"metadata": meta, "spec": {"nodeName": "x"}, "status": {}, **damage}
        page = {"metadata": {"resourceVersion": "1"}, "items": [item]}
        told[kind].list_started()
        told[kind].page(msgspec.json.encode(page))
        told[kind].list_finished()

    def held() -> tuple[int, int, bool]:
        cache = pipeline.state.cache
        service = cache.objects.get("services", "default/x")
        return cache.pod_count(), cache.node_count(), service is not None

    for kind in told:
        show(kind)
    assert held() == (1, 1, True)
    for kind in told:
        show(kind, spec=7)
    assert held() == (1, 1, True)
