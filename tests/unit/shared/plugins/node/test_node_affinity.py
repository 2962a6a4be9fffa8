"""NodeAffinity: the node set of PreFilter, the profile's own affinity, terms that make no sense."""

from typing import Any

import pytest

from shared.framework.plugin_args import parse_args
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code
from shared.plugins.node.node_affinity import NodeAffinity, NodeAffinityArgs
from tests.support.builders import make_node
from tests.support.cluster import cluster_of, filtered, pod_with, rows_of

POD_REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED_REASON = "node(s) didn't match scheduler-enforced node affinity"


def names(operator: str, *nodes: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": operator, "values": list(nodes)}


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def requiring(*terms: dict[str, Any]) -> PodInfo:
    required = {"nodeSelectorTerms": list(terms)}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return pod_with({"affinity": {"nodeAffinity": {key: required}}})


def preferring(*terms: tuple[int, dict[str, Any]]) -> PodInfo:
    preferred = [{"weight": weight, "preference": term} for weight, term in terms]
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    return pod_with({"affinity": {"nodeAffinity": {key: preferred}}})


def plugin(**added: Any) -> NodeAffinity:
    args = {"addedAffinity": added} if added else {}
    return NodeAffinity(parse_args("NodeAffinity", NodeAffinityArgs, args))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"matchFields": [names("In", "n1")]}], {"n1"}),
        ([{"matchFields": [names("In", "n1")]}, {"matchFields": [names("In", "gone")]}],
         {"n1", "gone"}),
        ([{"matchFields": [names("In", "n1")]}, {"matchExpressions": [label("a", "Exists")]}], None),
        ([{"matchFields": [names("In", "n1")]}, {}], None),
        ([{"matchFields": [names("NotIn", "n1")]}], None),
        ([], None),
    ],
)  # fmt: skip
def test_pre_filter_narrows_the_search_to_nodes_that_every_term_names(
    terms: list[dict[str, Any]], expected: set[str] | None
) -> None:
    result = plugin().pre_filter(requiring(*terms), cluster_of([]).view)
    assert result.status.is_success
    assert result.node_names == (None if expected is None else frozenset(expected))


def test_terms_that_all_contradict_themselves_reject_the_pod_at_once() -> None:
    pod = requiring({"matchFields": [names("In", "n1"), names("In", "n2")]})
    status = plugin().pre_filter(pod, cluster_of([]).view).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("pod affinity terms conflict",)


def test_a_pod_that_does_not_select_nodes_is_skipped() -> None:
    cache = cluster_of([])
    assert plugin().pre_filter(pod_with({}), cache.view).status.code is Code.SKIP
    assert plugin().pre_score(pod_with({}), cache.view, rows_of()).status.code is Code.SKIP
    own = plugin(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": []})
    assert own.pre_filter(pod_with({}), cache.view).status.is_success


def test_the_enforced_affinity_has_its_own_reason_which_comes_first() -> None:
    nodes = [make_node("n0"), make_node("n1", labels={"pool": "x"}),
             make_node("n2", labels={"disk": "ssd"}),
             make_node("n3", labels={"disk": "ssd", "pool": "x"})]  # fmt: skip
    cache = cluster_of(nodes)
    enforcing = plugin(
        requiredDuringSchedulingIgnoredDuringExecution={
            "nodeSelectorTerms": [{"matchExpressions": [label("pool", "Exists")]}]
        }
    )
    pod = pod_with({"nodeSelector": {"disk": "ssd"}})
    verdicts = filtered(enforcing, pod, cache.view, cache.nodes.present_rows())
    reasons = [verdicts.status(row, "NodeAffinity").reasons for row in range(4)]
    assert reasons == [(ENFORCED_REASON,), (POD_REASON,), (ENFORCED_REASON,), ()]
    assert set(verdicts.codes.tolist()) == {0, Code.UNSCHEDULABLE_AND_UNRESOLVABLE}


def test_required_affinity_without_terms_matches_no_node() -> None:
    cache = cluster_of([make_node("n0")])
    assert not filtered(plugin(), requiring(), cache.view, rows_of(0)).passes.any()


def test_preferences_add_up_with_those_of_the_profile() -> None:
    cache = cluster_of([make_node("n0", labels={"disk": "ssd"}), make_node("n1")])
    adding = plugin(
        preferredDuringSchedulingIgnoredDuringExecution=[
            {"weight": 2, "preference": {"matchExpressions": [label("disk", "DoesNotExist")]}}
        ]
    )
    ssd = {"matchExpressions": [label("disk", "In", "ssd")]}
    pod = preferring((5, ssd), (0, ssd), (9, {}))
    state = adding.pre_score(pod, cache.view, rows_of(0, 1)).state
    raw = adding.score(state, pod, cache.view, rows_of(0, 1))
    assert raw.tolist() == [5, 2]
    assert adding.normalize(raw, adding.normalization(state, raw)).tolist() == [100, 40]


def test_a_preference_that_makes_no_sense_is_an_error_of_the_attempt() -> None:
    pod = preferring((1, {"matchExpressions": [label("size", "Gt", "-5")]}))
    status = plugin().pre_score(pod, cluster_of([]).view, rows_of()).status
    assert status.code is Code.ERROR
    assert '[0].matchExpressions[0].values[0][size]: Invalid value: "-5": ' in status.message


def test_a_preference_is_told_all_that_is_wrong_with_its_value() -> None:
    pod = preferring((1, {"matchExpressions": [label("size", "Gt", " 5")]}))
    status = plugin().pre_score(pod, cluster_of([]).view, rows_of()).status
    no_integer = (
        "[0].matchExpressions[0].values[0]: Invalid value: \" 5\": for 'Gt', 'Lt' operators"
    )
    no_label = '[0].matchExpressions[0].values[0][size]: Invalid value: " 5": a valid label must be'
    assert status.message.startswith(f"[{no_integer}")
    assert f", {no_label}" in status.message


def test_a_preference_that_asks_for_no_number_is_told_in_the_words_of_upstream() -> None:
    large = {"matchExpressions": [label("size", "Gt", "large")]}
    problem = (
        '[{}].matchExpressions[0].values[0]: Invalid value: "large": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
    )
    view = cluster_of([]).view
    assert plugin().pre_score(preferring((1, large)), view, rows_of()).status.reasons == (
        problem.format(0),
    )
    twice = plugin().pre_score(preferring((1, large), (2, large)), view, rows_of()).status
    assert twice.reasons == (f"[{problem.format(0)}, {problem.format(1)}]",)


def test_a_required_term_that_makes_no_sense_only_fails_to_match() -> None:
    cache = cluster_of([make_node("n0", labels={"size": "1"}), make_node("n1")])
    pod = requiring(
        {"matchExpressions": [label("size", "Gt", "-5")]},
        {"matchExpressions": [label("size", "DoesNotExist")]},
    )
    verdicts = filtered(plugin(), pod, cache.view, rows_of(0, 1))
    assert verdicts.passes.tolist() == [False, True]
