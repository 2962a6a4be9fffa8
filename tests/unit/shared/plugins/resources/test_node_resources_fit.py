"""NodeResourcesFit: reasons in order, what is ignored, which resources the score counts."""

from typing import Any

import numpy as np
import pytest

from shared.framework.plugin_api import GroupFits
from shared.framework.plugin_args import parse_args
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code
from shared.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, filtered, pod_with, rated, rows_of

GPU = "example.com/gpu"


def plugin(**args: Any) -> NodeResourcesFit:
    return NodeResourcesFit(parse_args("NodeResourcesFit", NodeResourcesFitArgs, args))


def asking(**requests: str) -> PodInfo:
    return asking_for(requests)


def asking_for(requests: dict[str, str]) -> PodInfo:
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return pod_with({"containers": [container]})


def test_reasons_come_in_upstreams_order_with_scalars_sorted() -> None:
    cache = cluster_of([make_node("n0", pods=0, cpu="1", memory="1Gi", extra={GPU: "1"})])
    pod = asking_for(
        {"z.io/a": "1", GPU: "2", "ephemeral-storage": "1", "memory": "2Gi", "cpu": "2"}
    )
    status = filtered(plugin(), pod, cache.view, rows_of(0)).status(0, "NodeResourcesFit")
    assert status.reasons == (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        f"Insufficient {GPU}",
        "Insufficient z.io/a",
    )
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_what_is_only_taken_by_others_is_resolvable() -> None:
    cache = cluster_of([make_node("n0", cpu="2")], [make_pod("a", node_name="n0", cpu="1500m")])
    status = filtered(plugin(), asking(cpu="1"), cache.view, rows_of(0)).status(0, "x")
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE, ("Insufficient cpu",))


def test_a_pod_that_asks_for_nothing_still_needs_a_place() -> None:
    cache = cluster_of([make_node("n0", pods=1, cpu="0")], [make_pod("a", node_name="n0", cpu="1")])
    status = filtered(plugin(), asking(cpu="0"), cache.view, rows_of(0)).status(0, "x")
    assert status.reasons == ("Too many pods",)


def test_ignored_resources_are_not_looked_at_unless_they_are_native() -> None:
    cache = cluster_of([make_node("n0")])
    pod = asking_for({"a.io/x": "1", "b.io/y": "1", "hugepages-2Mi": "2Mi"})
    ignoring = plugin(ignoredResources=["a.io/x", "hugepages-2Mi"], ignoredResourceGroups=["b.io"])
    status = filtered(ignoring, pod, cache.view, rows_of(0)).status(0, "x")
    assert status.reasons == ("Insufficient hugepages-2Mi",)


def test_seventy_resources_are_refused_with_the_last_ones_in_one_reason() -> None:
    cache = cluster_of([make_node("n0")])
    pod = asking_for({f"r.io/x{i:02}": "1" for i in range(70)})
    status = filtered(plugin(), pod, cache.view, rows_of(0)).status(0, "x")
    assert len(status.reasons) == 61
    assert status.reasons[-1].startswith("Insufficient r.io/x60, Insufficient r.io/x61, ")


def test_the_score_counts_defaults_for_what_nobody_states() -> None:
    cache = cluster_of(
        [make_node("n0", cpu="1", memory="1000Mi"), make_node("n1", cpu="1", memory="1000Mi")],
        [make_pod("a", node_name="n0", cpu=None, memory=None)],
    )
    scores = rated(plugin(), pod_with({}), cache.view, rows_of(0, 1))
    assert scores.tolist() == [(80 + 60) // 2, (90 + 80) // 2]


def test_a_scalar_resource_counts_only_for_pods_that_ask_for_it() -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 3}, {"name": "cpu"}]}
    rating = plugin(scoringStrategy=strategy)
    cache = cluster_of([make_node("n0", cpu="1", extra={GPU: "4"}), make_node("n1", cpu="1")])
    rows = rows_of(0, 1)
    assert rated(rating, asking(cpu="500m"), cache.view, rows).tolist() == [50, 50]
    pod = asking_for({"cpu": "500m", GPU: "1"})
    assert rated(rating, pod, cache.view, rows).tolist() == [(3 * 25 + 50) // 4, 50]


def test_a_score_over_nothing_that_counts_is_0() -> None:
    strategy = {"type": "LeastAllocated", "resources": [{"name": GPU}, {"name": "pods"}]}
    rating = plugin(scoringStrategy=strategy)
    cache = cluster_of([make_node("n0")])
    assert rated(rating, pod_with({}), cache.view, rows_of(0)).tolist() == [0]


# Placements of groups: TestScorePlacement_Resources in fit_test.go, v1.36.2 ------------------------

ALIKE: dict[str, int] = {"cpu": 1, "memory": 1}
WITH_GPU: dict[str, int] = {**ALIKE, GPU: 1}
TYPICAL = [{"cpu": "1", "memory": "0"}, {"cpu": "2", "memory": "2000"}]


@pytest.mark.parametrize(
    ("asked", "there", "weights", "expected"),
    [
        pytest.param(TYPICAL, {}, ALIKE, 25, id="Computes score based on total requests"),
        pytest.param(TYPICAL, {}, {"cpu": 4, "memory": 1}, 28, id="Computes score using weights"),
        pytest.param(
            [{"cpu": "1500m", "memory": "1000"}] * 2,
            {},
            {"cpu": 4, "memory": 1},
            28,
            id="Handles multiple pods per node",
        ),
        pytest.param(
            TYPICAL,
            {"n2": {"cpu": "5", "memory": "5000"}},
            ALIKE,
            25,
            id="Does not include nodes from outside of placement",
        ),
        pytest.param(
            TYPICAL,
            {"n0": {"cpu": "1", "memory": "0"}},
            ALIKE,
            30,
            id="Includes pre-existing pods from outside of pod group",
        ),
        pytest.param(
            [{"cpu": "1", "memory": "0", GPU: "0"}, {"cpu": "1", "memory": "2000", GPU: "1"}],
            {"n0": {"cpu": "1", "memory": "0", GPU: "0"}},
            WITH_GPU,
            20,
            id="Includes scalar resources if any pod in pod group has nonzero requests",
        ),
        pytest.param(
            [{"cpu": "1", "memory": "0", GPU: "0"}, {"cpu": "1", "memory": "2000", GPU: "0"}],
            {"n0": {"cpu": "1", "memory": "0", GPU: "1"}},
            WITH_GPU,
            25,
            id="Does not include scalar resources if all pods in pod group have zero requests",
        ),
    ],
)
def test_score_placement_resources(
    asked: list[dict[str, str]],
    there: dict[str, dict[str, str]],
    weights: dict[str, int],
    expected: int,
) -> None:
    """Two nodes of 5 cpu, 5,000 bytes and 5 GPUs are a placement, a third one is another."""
    nodes = [
        make_node(f"n{i}", cpu="5", memory="5000", extra={GPU: "5"}, labels={"rack": f"r{i // 2}"})
        for i in range(3)
    ]
    pods = [
        make_pod(
            f"there-{node}", node_name=node, cpu=None, memory=None,
            spec={"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]},
        )
        for node, requests in there.items()
    ]  # fmt: skip
    view = cluster_of(nodes, pods).view
    topology = view.topology("rack")
    resources = [{"name": name, "weight": weight} for name, weight in weights.items()]
    fit = plugin(scoringStrategy={"type": "LeastAllocated", "resources": resources})
    one_in_first = topology.by_domain()
    one_in_first[topology.domain_of_row[0]] = 1
    counts = [(asking_for(requests), one_in_first) for requests in asked]
    scores = fit.score_placements(GroupFits(topology, counts, 0, np.arange(2)), view)
    assert scores[topology.domain_of_row[0]] == expected
    assert np.array_equal(topology.domain_of_row[:2], topology.domain_of_row[[0, 0]])
