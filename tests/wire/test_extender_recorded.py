"""What v1.36.2's own HTTPExtender sent, was answered and made of it, recorded (`extender.jsonl`).

The answers are those of Go's encoder, and others that Go reads or refuses: members in any case, twice,
null, of another kind. The same question has to be sent, and the same to come of the same answer.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
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

Json = dict[str, Any]
RECORDED = Path(__file__).parent / "extender.jsonl"
CASES = [json.loads(line) for line in RECORDED.read_bytes().splitlines()]
ASKED = ["a", "b", "c"]
WEIGHT = 3
VICTIMS = {
    "a": MetaVictims([MetaPod("uid-v1"), MetaPod("uid-v2")], 1),
    "b": MetaVictims([MetaPod("uid-w")], 0),
}


def of(verb: str) -> list[Json]:
    return [case for case in CASES if case["verb"] == verb]


def raw(item: Any) -> bytes:
    return msgspec.json.encode(item)


def sent(case: Json) -> bytes:
    """Our question, with pod and nodes as upstream wrote them."""
    wrote = case["sent"]
    pod = raw(wrote["Pod"]) if "Pod" in wrote else b""
    match case["verb"], case.get("cache_capable"):
        case "bind", _:
            return bind_args(BindPod(1, "s", "d", "p", "u", "a", look_first=False))
        case "preempt", True:
            return preempt_args(pod, VICTIMS)
        case "preempt", _:
            on_nodes = wrote["NodeNameToVictims"].values()
            pods = {pod["metadata"]["uid"]: raw(pod) for node in on_nodes for pod in node["Pods"]}
            return preempt_args(pod, VICTIMS, pods)
        case _, True:
            return node_args(pod, ASKED)
        case _:
            return node_args(pod, None, [raw(node) for node in wrote["Nodes"]["items"]])


def made_of_it(case: Json) -> Json:
    """What we make of the answer, in the words of the recording."""
    body = case["answer"].encode()
    try:
        match case["verb"]:
            case "filter":
                is_capable = case["cache_capable"]
                answer = filter_answer(body, ASKED, "URL", is_cache_capable=is_capable)
                found: Json = {"nodes": answer.node_names, "failed": answer.failed,
                               "unresolvable": answer.unresolvable}  # fmt: skip
            case "prioritize":
                found = {"totals": priorities(body, WEIGHT)}
            case "preempt":
                found = {"victims": shown(preempt_result(body, is_ignorable=True))}
            case _:
                check_bind_result(body)
                found = {}
    except ExtenderError as error:
        return {"error": str(error)}
    return {"error": None, **found}


def shown(victims: dict[str, MetaVictims]) -> Json:
    return {
        node: {
            "victims": sorted(pod.uid for pod in on_node.pods or ()),
            "pdb_violations": on_node.num_pdb_violations,
        }
        for node, on_node in victims.items()
    }


def wanted(case: Json) -> Json:
    """With empty for what Go leaves nil, and without nodes that have no victims: those are dropped a
    step later upstream."""
    kept = {key: case[key] for key in ("error", "nodes", "totals") if key in case}
    for key in ("failed", "unresolvable"):
        if key in case:
            kept[key] = case[key] or {}
    if "victims" in case:
        kept["victims"] = {node: on for node, on in case["victims"].items() if on["victims"]}
    return kept


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind", "preempt"])
def test_the_same_is_asked(verb: str) -> None:
    assert of(verb)
    for case in of(verb):
        assert json.loads(sent(case)) == case["sent"]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind", "preempt"])
def test_the_same_comes_of_the_answer(verb: str) -> None:
    """But for the words about an answer that cannot be read, which are Go's decoder's there."""
    for case in of(verb):
        found, expected = made_of_it(case), wanted(case)
        if expected["error"] and "cannot be used" in (found["error"] or ""):
            assert expected["error"].startswith(("json: ", "EOF", "invalid character")), case
            continue
        assert found == expected, case["answer"]
