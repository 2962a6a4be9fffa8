"""Anybody may ask for anything: names of resources that no node has cost the columns nothing."""

from typing import Any

import numpy as np
import pytest

from daemon.core.cache import Cache
from daemon.core.owner_counts import Count
from daemon.core.state import TIDY_S
from shared.columns.schema import BASE_RESOURCES
from shared.columns.table import NodeTable
from shared.errors import ObjectError
from shared.feature_gates import DEFAULT_GATES
from shared.kube.pod_record import PodRecord
from shared.limits import NODE_LABELS_MAX, RESOURCES_MAX
from shared.messages.to_owner import NodeChanged, NodeDeleted, PodChanged, PodDeleted
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline

BASE = len(BASE_RESOURCES)


def asking(name: str, amounts: dict[str, str], **others: Any) -> PodRecord:
    """A pod that asks for these and 1 cpu."""
    requests = {"cpu": "1", **amounts}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
    return make_pod(name, spec={**spec, **others.pop("spec", {})}, **others)


def made_up(count: int, prefix: str = "r") -> dict[str, str]:
    return {f"example.com/{prefix}{i}": "1" for i in range(count)}


def requested(cache: Cache, node_name: str, resource: str) -> int:
    row, column = cache.nodes.resources.find(resource), cache.nodes.row_of(node_name)
    return 0 if row < 0 else cache.nodes.requested.item(row, column)


def test_names_that_only_pods_say_add_no_rows() -> None:
    pipeline = Pipeline()
    foreign = asking("foreign", made_up(5000, "f"), spec={"schedulerName": "another"})
    bound = asking("bound", made_up(5000, "b"), node_name="n0")
    pipeline.sync([make_node("n0")], [foreign, bound, asking("ours", made_up(200))])
    pipeline.run_until_quiet()
    cache = pipeline.state.cache
    assert len(cache.nodes.requested) == len(cache.nodes.resources) == BASE
    assert cache.nodes.requested[0, 0] == 1000, "of the bound one, which counts like any other"
    assert not pipeline.bound
    pipeline.check()


def test_a_pod_that_asks_for_too_many_is_refused_by_name() -> None:
    pipeline = Pipeline()
    pipeline.sync(
        [make_node("n0")], [asking("greedy", made_up(RESOURCES_MAX + 1)), make_pod("other")]
    )
    pipeline.run_until_quiet()
    assert list(pipeline.bound) == [make_pod("other").uid]
    (verdict,) = pipeline.verdicts
    assert (verdict.name, verdict.reason) == ("greedy", "SchedulerError")
    assert verdict.message == "asks for 257 different resources, and 256 at most are read"
    assert pipeline.state.counters[Count.OBJECTS_REJECTED] == 1
    modest = asking("greedy", {})
    pipeline.tell(PodChanged(modest))
    pipeline.run_until_quiet()
    assert modest.uid in pipeline.bound


def test_what_pods_asked_for_counts_once_a_node_has_it() -> None:
    gpu = {"example.com/gpu": "1"}
    pipeline = Pipeline(worker_count=2)
    early = [asking(f"early{i}", gpu, node_name="n0") for i in range(2)]
    pipeline.sync([make_node("n0", cpu="16")], [*early, asking("p0", gpu), asking("p1", gpu)])
    pipeline.run_until_quiet()
    assert not pipeline.bound
    pipeline.tell(NodeChanged(make_node("n0", cpu="16", extra={"example.com/gpu": "3"})))
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 1, "two of three are taken"
    assert requested(pipeline.state.cache, "n0", "example.com/gpu") == 3
    for scorer in pipeline.scorers.values():
        nodes = scorer.replica.nodes
        assert nodes.requested[nodes.resources.find("example.com/gpu"), 0] == 3
    pipeline.check()
    pipeline.tell(PodDeleted(early[0]))
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 2
    pipeline.check()


def test_names_that_no_node_has_any_more_are_given_back() -> None:
    pipeline = Pipeline()
    keeper = asking("keeper", {"example.com/gpu": "1"}, node_name="n0")
    nodes = [make_node("n0", cpu="16", extra={"example.com/gpu": "2"})]
    pipeline.sync(nodes, [keeper])
    for i in range(60):
        labels = {f"label-{i}-{j}": "x" for j in range(4)}
        pipeline.tell(NodeChanged(make_node("odd", extra=made_up(4, f"odd{i}-"), labels=labels)))
    pipeline.tell(NodeDeleted("odd"))
    pipeline.tell(NodeChanged(make_node("odd", extra=made_up(150, "last"))))
    pipeline.tell(NodeDeleted("odd"))
    pipeline.tell(NodeChanged(make_node("odd", extra=made_up(250, "really last"))))
    pipeline.advance(TIDY_S)
    cache = pipeline.state.cache
    assert len(cache.nodes.resources) < 300 + BASE
    assert len(cache.nodes.label_keys) < 100
    assert requested(cache, "n0", "example.com/gpu") == 1
    assert cache.nodes.labels_of(cache.nodes.row_of("n0")) == {"kubernetes.io/hostname": "n0"}
    pipeline.tell(PodChanged(asking("second", {"example.com/gpu": "1"})))
    pipeline.tell(PodChanged(asking("third", {"example.com/gpu": "1"})))
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 1
    pipeline.check()


def test_lines_come_in_steps() -> None:
    """Not one copy of all nodes for each."""
    table, copies = NodeTable(), 0
    table.reserve(100)
    table.requested[0, 7] = 5
    for count in range(4, 1000):
        before = table.requested
        table.reserve_resources(count)
        copies += not np.shares_memory(before, table.requested)
    assert copies < 10
    assert table.requested.shape[0] == 999
    assert table.requested.sum() == 5
    table.reserve(1000)
    table.reserve_resources(1000)
    assert table.allocatable.shape == table.requested.shape == (1000, table.capacity)


@pytest.mark.parametrize(
    "node",
    [
        make_node("n", extra=made_up(RESOURCES_MAX + 1)),
        make_node("n", labels={f"k{i}": "v" for i in range(NODE_LABELS_MAX)}),
    ],
)
def test_a_node_with_too_many_names_is_refused_by_name(node: Any) -> None:
    cache = Cache(DEFAULT_GATES)
    with pytest.raises(ObjectError, match=r"node n: .* at most are read"):
        cache.add_node(node)
    assert cache.node_count() == 0
    assert len(cache.nodes.resources) == BASE
