"""One pod cannot keep a scorer busy: what its terms and claims take is bounded, and said."""

from typing import Any

import msgspec
import pytest

from shared.cel.cel_selector import Expression
from shared.dra import search_work as work
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import is_too_much
from shared.messages.to_owner import ObjectChanged
from shared.plugins.node.node_affinity import NodeAffinity, NodeAffinityArgs
from shared.selectors import node_selector
from shared.selectors.label_selector import Labels
from shared.selectors.pod_terms import PodTerm
from shared.selectors.requirement import parse_int64
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, pod_info, pod_with
from tests.support.devices import device, make_claim, make_class, make_slice, request, selectors
from tests.support.pipeline import Pipeline

MANY = 14_000
"""Terms of a pod as large as an API server takes."""


def node_terms(operator: str, count: int) -> dict[str, Any]:
    terms = [
        {"matchExpressions": [{"key": "number", "operator": operator, "values": [str(i)]}]}
        for i in range(count)
    ]
    required = {"nodeSelectorTerms": terms}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


def pod_terms(count: int) -> dict[str, Any]:
    terms = [
        {
            "topologyKey": "zone",
            "labelSelector": {"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]},
        }
        for i in range(count)
    ]
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    }


def constraints(count: int) -> dict[str, Any]:
    each = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    return {"topologySpreadConstraints": [{**each, "topologyKey": f"k{i}"} for i in range(count)]}


def tolerations(count: int) -> dict[str, Any]:
    return {"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(count)]}


@pytest.fixture(scope="module")
def crowd() -> ClusterView:
    """A node with 500 pods that are all unlike, and 1,000 that each have a taint of their own."""
    taint = {"value": "", "effect": "NoSchedule"}
    nodes = [make_node(f"n{i}", taints=[{"key": f"t{i}", **taint}]) for i in range(1000)]
    pods = [make_pod(f"p{i}", node_name="n0", labels={"app": f"a{i}"}) for i in range(500)]
    return cluster_of(nodes, pods).view


@pytest.mark.parametrize(
    ("spec", "plugin"),
    [
        (pod_terms(MANY), "InterPodAffinity"),
        (constraints(MANY), "PodTopologySpread"),
        (tolerations(MANY), "TaintToleration"),
    ],
)
def test_terms_that_take_too_long_are_an_error_that_says_so(
    spec: dict[str, Any], plugin: str, crowd: ClusterView
) -> None:
    status = is_too_much(pod_with(spec), crowd)
    assert status is not None
    assert status.plugin == plugin
    assert "the pod's terms are too much work: about" in status.message
    assert "at 1000 nodes; 1.0 s is the limit" in status.message


@pytest.mark.parametrize(
    "spec",
    [{}, node_terms("Gt", MANY), node_terms("In", MANY), pod_terms(100), constraints(100),
     tolerations(100)],
)  # fmt: skip
def test_what_can_be_done_within_a_second_is_done(spec: dict[str, Any], crowd: ClusterView) -> None:
    assert is_too_much(pod_with(spec), crowd) is None


def outcomes(pipeline: Pipeline) -> dict[str, tuple[str, str]]:
    """Name of each pod that was not bound -> reason and message."""
    return {each.name: (each.reason, each.message) for each in pipeline.verdicts}


def test_others_go_on_beside_a_pod_that_is_too_much() -> None:
    pipeline = Pipeline()
    crowd = [make_pod(f"p{i}", node_name="n0", labels={"app": f"a{i}"}) for i in range(300)]
    heavy = make_pod("heavy", spec={"containers": [{"name": "c"}], **pod_terms(MANY)})
    pipeline.sync(
        [make_node("n0", cpu="64", memory="64Gi", pods=500)], [*crowd, heavy, make_pod("light")]
    )
    pipeline.run_until_quiet()
    assert list(pipeline.bound) == [make_pod("light").uid]
    reason, message = outcomes(pipeline)["heavy"]
    assert reason == "SchedulerError"
    assert 'plugin "InterPodAffinity": the pod\'s terms are too much work' in message


@pytest.mark.parametrize(
    "selector",
    [
        f"'{'a' * 4000}'.matches('(a?){{100}}a{{100}}b')",
        f"{[1] * 100}.all(a, {[1] * 100}.all(b, a == b))",
    ],
)
def test_others_go_on_beside_a_selector_that_is_too_much(
    selector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "WORK_MAX", 50_000)
    asked: list[str] = []
    matches = Expression.matches

    def noted(self: Expression, device: dict[str, Any], left: work.Work) -> bool:
        asked.append(self.source)
        return matches(self, device, left)

    monkeypatch.setattr(Expression, "matches", noted)
    pipeline = Pipeline()
    claim = make_claim(requests=[request(selectors=selectors(selector))])
    made = [("deviceclasses", "gpu", make_class()), ("resourceclaims", "default/claim", claim)]
    for i in range(10):
        devices = [device(f"d{j}", attributes={"i": i}) for j in range(8)]
        made.append(("resourceslices", f"s{i}", make_slice(f"n{i}", devices)))
    claims = [{"name": "c", "resourceClaimName": "claim"}]
    heavy = make_pod("heavy", spec={"containers": [{"name": "c"}], "resourceClaims": claims})
    pipeline.sync([make_node(f"n{i}") for i in range(10)], [])
    for kind, key, each in made:
        pipeline.tell(ObjectChanged(kind, key, msgspec.Raw(msgspec.msgpack.encode(each))))
    pipeline.add_pod(heavy)
    pipeline.add_pod(make_pod("light"))
    pipeline.run_until_quiet()
    assert list(pipeline.bound) == [make_pod("light").uid]
    reason, message = outcomes(pipeline)["heavy"]
    assert reason == "SchedulerError"
    assert "timed out trying to allocate devices" in message
    assert asked == [selector], "once the work is over, no further device is looked at"


def test_terms_share_the_numbers_that_they_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    pod: PodInfo = pod_info(make_pod("p", spec=node_terms("Gt", 50)))
    cache = cluster_of([make_node(f"n{i}", labels={"number": str(i)}) for i in range(40)])
    state = NodeAffinity(NodeAffinityArgs()).pre_filter(pod, cache.view).state

    def noted(text: str) -> int | None:
        read.append(text)
        return parse_int64(text)

    monkeypatch.setattr(node_selector, "parse_int64", noted)
    found = NodeAffinity(NodeAffinityArgs()).filter(
        state, pod, cache.view, cache.nodes.present_rows()
    )
    assert found.passes.sum() == 39, "all but the one with 0"
    assert sorted(read, key=int) == [str(i) for i in range(40)]


def test_terms_of_pods_on_nodes_are_held_only_against_those_who_have_the_label_they_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    matches = PodTerm.matches

    def noted(self: PodTerm, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        asked.append(str(self.selector.needs))
        return matches(self, namespace, namespace_labels, labels)

    monkeypatch.setattr(PodTerm, "matches", noted)
    pipeline = Pipeline()
    heavy = make_pod(
        "heavy", spec={"containers": [{"name": "c"}], **pod_terms(3000)}, node_name="n0"
    )
    nodes = [make_node(f"n{i}", labels={"zone": f"z{i}"}) for i in range(2)]
    pipeline.sync(nodes, [heavy, make_pod("unlike", labels={"k7": "x"}), make_pod("plain")])
    pipeline.run_until_quiet()
    assert pipeline.bound[make_pod("unlike").uid] == ["n1"]
    assert make_pod("plain").uid in pipeline.bound
    assert set(asked) == {"(('k7', None),)"}
