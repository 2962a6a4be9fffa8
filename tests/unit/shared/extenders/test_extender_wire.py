"""What is said to extenders and what their answers mean; cases of pkg/scheduler/extender_test.go.

Answers are written as Go's encoder writes structs without JSON names: all members, by their Go names.
"""

import json
import re
from collections.abc import Callable

import numpy as np
import pytest

from shared.extenders.extender_wire import (
    ExtenderError,
    MetaPod,
    MetaVictims,
    bind_args,
    check_bind_result,
    filter_answer,
    node_args,
    preempt_args,
    preempt_result,
    priorities,
)
from shared.messages.to_binder import BindPod

POD = b'{"metadata":{"name":"p","annotations":{"x":"y"}}}'


def test_names_are_sent_to_an_extender_with_a_cache() -> None:
    sent = json.loads(node_args(POD, ["a", "b"]))
    assert sent == {"Pod": json.loads(POD), "Nodes": None, "NodeNames": ["a", "b"]}


def test_whole_nodes_are_sent_to_an_extender_without_one() -> None:
    node = b'{"metadata":{"name":"a"},"spec":{"new":1}}'
    sent = json.loads(node_args(POD, None, [node]))
    assert sent["Nodes"] == {"metadata": {}, "items": [json.loads(node)]}
    assert sent["NodeNames"] is None


GO_NAMES = (
    b'{"Nodes":null,"NodeNames":["b"],"FailedNodes":{"A":"full"},'
    b'"FailedAndUnresolvableNodes":{"c":"gone"},"Error":""}\n'
)


@pytest.mark.parametrize("spelt", [bytes, bytes.lower, bytes.upper], ids=["go", "lower", "upper"])
def test_members_are_read_whatever_their_case(spelt: Callable[[bytes], bytes]) -> None:
    for name in (b"NodeNames", b"FailedNodes", b"FailedAndUnresolvableNodes", b"Error"):
        assert name in GO_NAMES
    body = re.sub(rb'"([A-Z][A-Za-z]+)":', lambda m: b'"' + spelt(m[1]) + b'":', GO_NAMES)
    body = body.replace(b'{"' + spelt(b"A") + b'"', b'{"A"')  # A node's name, and no member's.
    answer = filter_answer(body, ["A", "b", "c"], "http://e", is_cache_capable=True)
    assert answer == (["b"], {"A": "full"}, {"c": "gone"}, False)


def test_an_extender_with_a_cache_may_answer_with_nodes() -> None:
    body = b'{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"b"}}]},"NodeNames":null}'
    for is_cache_capable in (True, False):
        answer = filter_answer(body, ["b"], "http://e", is_cache_capable=is_cache_capable)
        assert (answer.node_names, answer.are_bare) == (["b"], True)


def test_names_from_an_extender_without_a_cache_are_not_looked_at() -> None:
    body = b'{"Nodes":{"items":[{"metadata":{"name":"b"}}]},"NodeNames":["a","z"]}'
    asked = ["a", "b"]
    assert filter_answer(body, asked, "http://e", is_cache_capable=False).node_names == ["b"]


def test_whole_nodes_that_were_not_asked_about_are_an_error_where_there_are_no_others() -> None:
    body = b'{"Nodes":{"items":[{"metadata":{"name":"z"}}]}}'
    for is_cache_capable in (True, False):
        with pytest.raises(ExtenderError, match='claims a filtered node "z"'):
            filter_answer(body, ["b"], "http://e", is_cache_capable=is_cache_capable)
    both = body.replace(b"[", b'[{"metadata":{"name":"b"}},')
    assert filter_answer(both, ["b"], "http://e", is_cache_capable=False).node_names == ["b"]


@pytest.mark.parametrize("body", [b"{}", b"null", b'{"NodeNames":null,"Error":null} more'])
def test_nothing_said_means_no_node(body: bytes) -> None:
    assert filter_answer(body, ["a"], "http://e", is_cache_capable=True).node_names == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"Error":"out of order"}', "out of order"),
        (b'{"NodeNames":["z"]}', 'claims a filtered node "z"'),
        (b"", "the answer to filter cannot be used"),
        (b"<html>", "the answer to filter cannot be used"),
        (b'{"NodeNames":"a"}', "the answer to filter cannot be used"),
        (b'{"NodeNames":NaN}', "the answer to filter cannot be used"),
        (b"[]", "the answer to filter cannot be used"),
        (b"[" * 100_000, "the answer to filter cannot be used"),
        (b"\xff\xfe", "the answer to filter cannot be used"),
    ],
)
def test_a_bad_answer_is_named(body: bytes, told: str) -> None:
    with pytest.raises(ExtenderError, match=told):
        filter_answer(body, ["a"], "http://e", is_cache_capable=True)


def test_half_a_character_is_the_replacement_character_as_go_reads_it() -> None:
    body = rb'{"NodeNames": ["a"], "FailedNodes": {"b\udc00": "no \ud83d\ude00\ud800x"}}'
    answer = filter_answer(body, ["a"], "http://e", is_cache_capable=True)
    assert answer.failed == {"b\ufffd": "no \U0001f600\ufffdx"}
    with pytest.raises(ExtenderError, match='claims a filtered node "\ufffd"'):
        filter_answer(rb'{"NodeNames":["\ud800"]}', ["a"], "http://e", is_cache_capable=True)
    with pytest.raises(ExtenderError, match="full: \ufffd"):
        check_bind_result(b'{"Error": "full: \xff"}')


@pytest.mark.parametrize("host", ["Host", "host", "HOST"])
def test_scores_are_weighted_and_brought_to_the_range_of_plugins(host: str) -> None:
    scores = [{host: "a", "Score": 10}, {host: "b", "score": 1}, {host: "a", "SCORE": 2}]
    assert priorities(json.dumps(scores).encode(), 3) == {"a": 12 * 3 * 10, "b": 30}
    with pytest.raises(ExtenderError, match="the answer to prioritize cannot be used"):
        priorities(b'[{"Host":"a","Score":%d}]' % (1 << 63), 1)


def test_a_score_without_measure_is_a_number_that_can_be_added() -> None:
    told = priorities(b'[{"Host":"a","Score":%d},{"Host":"b","Score":%d}]' % (1 << 62, -1 << 62), 9)
    assert told["a"] == -told["b"]
    np.fromiter((1000 * told["a"],), np.int64, 1)


def test_victims_are_sent_by_uid_or_whole() -> None:
    victims = {"n": MetaVictims([MetaPod("u1")], 1)}
    sent = json.loads(preempt_args(POD, victims))
    assert sent["NodeNameToMetaVictims"] == {"n": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}}
    assert sent["NodeNameToVictims"] is None
    sent = json.loads(preempt_args(POD, victims, {"u1": b'{"spec":{"x":2}}'}))
    assert sent["NodeNameToVictims"] == {"n": {"Pods": [{"spec": {"x": 2}}], "NumPDBViolations": 1}}
    assert sent["NodeNameToMetaVictims"] is None


def test_a_node_without_victims_is_no_answer_but_of_an_extender_that_may_be_ignored() -> None:
    body = b'{"nodeNameToMetaVictims":{"N":{"Pods":[]},"m":{"pods":[{"uid":"U"}]},"o":null}}'
    with pytest.raises(ExtenderError, match='expected at least one victim pod on node "N"'):
        preempt_result(body, is_ignorable=False)
    assert preempt_result(body, is_ignorable=True) == {"m": MetaVictims([MetaPod("U")], 0)}
    assert preempt_result(b"{}", is_ignorable=False) == {}


@pytest.mark.parametrize("number", [2**63, 10**33, -(2**63) - 1])
def test_violations_of_more_than_64_bits_are_no_answer(number: int) -> None:
    body = f'{{"NodeNameToMetaVictims":{{"n":{{"NumPDBViolations":{number}}}}}}}'
    with pytest.raises(ExtenderError, match="NumPDBViolations"):
        preempt_result(body.encode(), is_ignorable=True)


def test_a_binding_names_pod_and_node() -> None:
    sent = json.loads(bind_args(BindPod(1, "s", "ns", "p", "u", "n", look_first=False)))
    assert sent == {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "n"}
    check_bind_result(b'{"Error":""}')
    for name in ("Error", "error", "ERROR"):
        with pytest.raises(ExtenderError, match="denied"):
            check_bind_result(b'{"%s":"denied"}\n' % name.encode())
