"""What is said to extenders and what their answers mean; cases of pkg/scheduler/extender_test.go."""

import json

import pytest

from shared.kube.extender_wire import (
    ExtenderError,
    MetaPod,
    MetaVictims,
    PodName,
    bind_args,
    check_bind_result,
    filter_result,
    meta_preempt_args,
    node_names_args,
    preempt_result,
    priorities,
    whole_nodes_args,
    whole_preempt_args,
)

POD = b'{"metadata":{"name":"p","annotations":{"x":"y"}}}'


def test_names_are_sent_to_an_extender_with_a_cache() -> None:
    sent = json.loads(node_names_args(POD, ["a", "b"]))
    assert sent == {"pod": json.loads(POD), "nodenames": ["a", "b"]}


def test_whole_nodes_are_sent_to_an_extender_without_one() -> None:
    sent = json.loads(whole_nodes_args(POD, [b'{"metadata":{"name":"a"},"spec":{"new":1}}']))
    assert sent["nodes"] == {"items": [{"metadata": {"name": "a"}, "spec": {"new": 1}}]}
    assert "nodenames" not in sent


@pytest.mark.parametrize("is_cache_capable", [True, False])
def test_an_answer_is_read_as_it_was_asked_for(is_cache_capable: bool) -> None:
    body = (
        b'{"nodenames":["b"],"failedNodes":{"a":"full"}}'
        if is_cache_capable
        else b'{"nodes":{"items":[{"metadata":{"name":"b"}}]},"failedNodes":{"a":"full"}}'
    )
    result = filter_result(body, ["a", "b"], is_cache_capable=is_cache_capable)
    assert (result.nodenames, result.failed) == (["b"], {"a": "full"})


def test_an_extender_with_a_cache_may_answer_with_nodes() -> None:
    body = b'{"nodes":{"items":[{"metadata":{"name":"b"}}]},"nodenames":null}'
    assert filter_result(body, ["b"], is_cache_capable=True).nodenames == ["b"]


def test_nothing_said_means_no_node() -> None:
    assert filter_result(b"{}", ["a"], is_cache_capable=True).nodenames == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error":"out of order"}', "out of order"),
        (b'{"nodenames":["z"]}', 'claims a filtered node "z"'),
        (b"<html>", "the answer to filter cannot be used"),
        (b'{"nodenames":"a"}', "the answer to filter cannot be used"),
        (b"\xff\xfe", "the answer to filter cannot be used"),
    ],
)
def test_a_bad_answer_is_named(body: bytes, told: str) -> None:
    with pytest.raises(ExtenderError, match=told):
        filter_result(body, ["a"], is_cache_capable=True)


def test_scores_are_weighted_and_brought_to_the_range_of_plugins() -> None:
    body = b'[{"host":"a","score":10},{"host":"b","score":1},{"host":"a","score":2}]'
    assert priorities(body, 3) == {"a": 12 * 3 * 10, "b": 30}


def test_victims_are_sent_by_uid_or_whole() -> None:
    victims = {"n": MetaVictims([MetaPod("u1")], 1)}
    sent = json.loads(meta_preempt_args(POD, victims))
    assert sent["nodeNameToMetaVictims"] == {"n": {"pods": [{"uid": "u1"}], "numPDBViolations": 1}}
    sent = json.loads(whole_preempt_args(POD, victims, {"u1": b'{"spec":{"x":2}}'}))
    assert sent["nodeNameToVictims"] == {"n": {"pods": [{"spec": {"x": 2}}], "numPDBViolations": 1}}
    assert "nodeNameToMetaVictims" not in sent


def test_a_node_without_victims_is_no_answer() -> None:
    with pytest.raises(ExtenderError, match='expected at least one victim pod on node "n"'):
        preempt_result(b'{"nodeNameToMetaVictims":{"n":{"pods":[]}}}')
    assert preempt_result(b"{}") == {}


def test_a_binding_names_pod_and_node() -> None:
    sent = json.loads(bind_args(PodName("ns", "p", "u"), "n"))
    assert sent == {"podName": "p", "podNamespace": "ns", "podUID": "u", "node": "n"}
    check_bind_result(b'{"error":""}')
    with pytest.raises(ExtenderError, match="no room"):
        check_bind_result(b'{"error":"no room"}')
