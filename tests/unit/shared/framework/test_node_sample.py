"""Scoring a share of the nodes, where the configuration says so."""

import numpy as np
import pytest

from shared.framework.engine import Choice, Engine
from shared.framework.node_sample import NodeSample, count_to_find, is_sampling
from shared.framework.profiles import ProfileConfig
from shared.framework.registry import Registry
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, pod_info

PROFILE = "default-scheduler"


@pytest.mark.parametrize(
    ("percentage", "nodes", "expected"),
    [(50, 99, 99), (50, 100, 100), (1, 5000, 100), (10, 5000, 500), (33, 1000, 330)],
)
def test_how_many_are_enough(percentage: int, nodes: int, expected: int) -> None:
    assert count_to_find(percentage, nodes) == expected


def test_unset_and_all_are_no_sample() -> None:
    assert [is_sampling(p) for p in (None, 0, 1, 99, 100)] == [False, False, True, True, False]


def test_the_search_goes_on_where_it_ended() -> None:
    sample = NodeSample()
    order = np.arange(299, -1, -1)
    feasible = np.ones(300, np.bool_)
    feasible[295:] = False
    first = sample.take(order, None, feasible, 10)
    assert first.tolist() == list(range(195, 295)), "105 looked at, of which 100 take the pod"
    assert sample.take(order, None, feasible, 10).tolist() == list(range(95, 195))
    third = sample.take(order, None, feasible, 10).tolist()
    assert third == [*range(95), *range(290, 295)], "begins again behind the end"
    assert sample.take(order, None, feasible, 10).tolist() == list(range(190, 290))


def test_named_nodes_are_a_list_of_their_own() -> None:
    sample = NodeSample()
    order, feasible = np.arange(300), np.ones(300, np.bool_)
    sample.take(order, None, feasible, 50)
    named = np.zeros(300, np.bool_)
    named[[3, 7, 250]] = True
    assert sample.take(order, named, feasible, 50).tolist() == [3, 7, 250]
    assert sample.take(order, named, np.zeros(300, np.bool_), 50).tolist() == []


def test_the_best_of_the_sample_is_chosen() -> None:
    """The one node that is better than all others is not in the first sample."""
    profile = ProfileConfig(percentage_of_nodes_to_score=10)
    frameworks = {PROFILE: Registry(entry_points=()).build(profile).framework}
    nodes = [make_node(f"n{i:03}", cpu="64" if i == 150 else "4") for i in range(200)]
    cache = cluster_of(nodes, [])
    engine = Engine(cache.view, cache.journal, frameworks)
    pod = pod_info(make_pod("p", cpu="1"))
    choices: list[Choice] = []
    for _ in range(2):
        choice = engine.choose(engine.evaluate(1, pod, PROFILE), lambda ties: int(ties[0]))
        assert choice is not None
        choices.append(choice)
    assert [choice.feasible_count for choice in choices] == [100, 100]
    assert [cache.nodes.name_of(choice.row) for choice in choices] == ["n000", "n150"]
