"""Plugins written per pod and node, as columns."""

from typing import Any, ClassVar

from shared.framework.per_node import FilterPerNode, NodeView, ScorePerNode
from shared.framework.pod_info import PodInfo
from shared.framework.status import MORE_REASONS, REASONS_MAX, SUCCESS, Code, Status
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, pod_with, rows_of


class Picky(FilterPerNode, ScorePerNode):
    NAME: ClassVar[str] = "Picky"

    def filter_node(self, state: Any, pod: PodInfo, node: NodeView) -> Status:
        if node.unschedulable:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("closed",))
        if len(node.pods) > 1:
            return Status(Code.UNSCHEDULABLE, ("full", f"has {node.pod_count}"))
        return SUCCESS

    def score_node(self, state: Any, pod: PodInfo, node: NodeView) -> int:
        return node.allocatable("cpu") - node.requested("cpu") + node.requested("no/such")


def test_each_node_gets_its_own_verdict_and_score() -> None:
    nodes = [make_node("n0"), make_node("n1", unschedulable=True), make_node("n2")]
    pods = [make_pod(name, node_name="n2", cpu="1") for name in ("a", "b")]
    view = cluster_of(nodes, pods).view
    plugin, pod = Picky(), pod_with({})
    verdicts = plugin.filter(None, pod, view, rows_of(2, 0, 1))
    assert [verdicts.status(i, "").reasons for i in range(3)] == [
        ("full", "has 2"), (), ("closed",),
    ]  # fmt: skip
    codes = [Code.UNSCHEDULABLE, Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE]
    assert verdicts.codes.tolist() == codes
    assert plugin.score(None, pod, view, rows_of(0, 2)).tolist() == [4000, 2000]
    assert plugin.filter(None, pod, view, rows_of()).codes.tolist() == []


def test_a_node_shows_what_it_is() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    node = make_node("n0", labels={"zone": "a"}, taints=[taint], images=[{"names": ["i:1"]}])
    view = cluster_of([node], [make_pod("a", node_name="n0", labels={"app": "x"})]).view
    seen: list[NodeView] = []

    class Looks(ScorePerNode):
        NAME: ClassVar[str] = "Looks"

        def score_node(self, state: Any, pod: PodInfo, node: NodeView) -> int:
            seen.append(node)
            return 0

    Looks().score(None, pod_with({}), view, rows_of(0))
    (shown,) = seen
    assert shown.name == "n0"
    assert shown.labels["zone"] == "a"
    assert shown.taints == (("k", "v", "NoSchedule"),)
    assert shown.allowed_pod_count == 110
    assert [pod.labels for pod in shown.pods] == [{"app": "x"}]
    assert shown.images


def test_more_reasons_than_can_be_told_apart_are_told_as_one() -> None:
    class Chatty(FilterPerNode):
        NAME: ClassVar[str] = "Chatty"

        def filter_node(self, state: Any, pod: PodInfo, node: NodeView) -> Status:
            return Status(Code.UNSCHEDULABLE, (f"because of {node.name}",))

    count = REASONS_MAX + 5
    view = cluster_of([make_node(f"n{i}") for i in range(count)]).view
    verdicts = Chatty().filter(None, pod_with({}), view, view.nodes.present_rows())
    assert len(verdicts.texts) == REASONS_MAX
    assert verdicts.status(0, "").reasons == ("because of n0",)
    assert verdicts.status(count - 1, "").reasons == (MORE_REASONS,)
