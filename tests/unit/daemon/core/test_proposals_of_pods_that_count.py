"""Placements that keep others away, or count for them, through owner and workers.

Each worker decides on its own copy, so two of them find the same gap; and within one batch a worker
may propose what the owner, with another worker's pods in place, must refuse.
"""

from collections import Counter
from typing import Any

import pytest

from bench.sim.slow_topology import HOST_NAME, REQUIRED, ZONE
from daemon.core.owner_counts import Count
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline

WEB = {"matchLabels": {"app": "web"}}


def apart(key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": WEB}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def spread(max_skew: int) -> dict[str, Any]:
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": max_skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
    }
    return {"topologySpreadConstraints": [constraint]}


def pipeline_with(
    worker_count: int, spec: dict[str, Any], pod_count: int, node_count: int = 6
) -> Pipeline:
    pipeline = Pipeline(worker_count=worker_count)
    while pipeline.step_owner():
        pass  # All workers are known before there is work, so all get some.
    nodes = [make_node(f"n{i}", labels={ZONE: f"z{i % 3}"}) for i in range(node_count)]
    # Some are of another class, so that both workers hold pods that concern one another.
    pods = [
        make_pod(f"p{i}", labels={"app": "web", "half": str(i % 2)}, spec=spec)
        for i in range(pod_count)
    ]
    pipeline.sync(nodes, pods)
    return pipeline


def placed(pipeline: Pipeline) -> Counter[str]:
    assert all(len(nodes) == 1 for nodes in pipeline.bound.values())
    return Counter(nodes[0] for nodes in pipeline.bound.values())


@pytest.mark.parametrize("worker_count", [1, 2])
def test_no_two_pods_that_keep_apart_share_a_node(worker_count: int) -> None:
    pipeline = pipeline_with(worker_count, apart(HOST_NAME), 10)
    pipeline.run_until_quiet()
    assert placed(pipeline) == {f"n{i}": 1 for i in range(6)}
    pipeline.check()


@pytest.mark.parametrize("worker_count", [1, 2])
def test_no_two_pods_that_keep_apart_share_a_zone(worker_count: int) -> None:
    # In one batch, each on a node of its own: only the zone is shared.
    pipeline = pipeline_with(worker_count, apart(ZONE), 6)
    pipeline.run_until_quiet()
    zones = Counter(int(name[1:]) % 3 for name in placed(pipeline).elements())
    assert zones == {0: 1, 1: 1, 2: 1}
    pipeline.check()


@pytest.mark.parametrize("worker_count", [1, 2])
def test_pods_stay_spread_at_every_moment(worker_count: int) -> None:
    pipeline = pipeline_with(worker_count, spread(1), 30)
    while True:
        moved = pipeline.step_owner()
        for index in pipeline.scorers:
            moved = pipeline.step_scorer(index) or moved
        zones = Counter(dict.fromkeys(range(3), 0))
        cache = pipeline.state.cache
        zones.update(int(pod.node_name[1:]) % 3 for pod in cache.pods())
        assert max(zones.values()) - min(zones.values()) <= 1
        if not (pipeline.step_binder() or moved):
            break
    assert sum(placed(pipeline).values()) == 30
    pipeline.check()


@pytest.mark.usefixtures("all_labels_matter")
def test_two_workers_do_get_in_one_anothers_way() -> None:
    """Else the tests above would show nothing."""
    pipeline = pipeline_with(2, apart(ZONE), 6)
    pipeline.run_until_quiet()
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] > 0


def test_a_batch_of_one_class_is_checked_one_by_one() -> None:
    """A worker that believes in an empty cluster proposes every node of a zone; one may stay."""
    pipeline = Pipeline()
    nodes = [make_node(f"n{i}", labels={ZONE: "z"}) for i in range(4)]
    pods = [make_pod(f"p{i}", labels={"app": "web"}, spec=apart(ZONE)) for i in range(4)]
    pipeline.sync(nodes, pods)
    scorer = pipeline.scorers[0]
    while not scorer.work:
        pipeline.step_owner()
        pipeline.step_scorer(0)
    engine_of_a_fool = scorer.cycle._engine
    row = iter(range(4))
    original = engine_of_a_fool.choose

    def choose(evaluation: Any, tie_break: Any) -> Any:
        choice = original(evaluation, tie_break)
        return choice and choice._replace(row=next(row))

    scorer.cycle._engine.choose = choose
    engine_of_a_fool.place_run = lambda *_: None
    place, scorer.replica.place = scorer.replica.place, lambda *_: None
    pipeline.step_scorer(0)
    del engine_of_a_fool.place_run
    scorer.replica.place = place
    scorer.cycle._engine.choose = original
    pipeline.step_owner()
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] == 3
    assert pipeline.state.cache.pod_count() == 1
