"""Scoring a share of the nodes, where the configuration says so."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.cache import Cache
from shared.framework.runtime.framework import ADAPTIVE, Sampling, sampling_of
from shared.framework.runtime.profiles import PluginSet, ProfileConfig
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, pod_info
from workers.scorer.engine import Choice, Engine, NodeSample, count_to_find, first_in_heap

PROFILE = "default-scheduler"


@pytest.mark.parametrize(
    ("percentage", "nodes", "expected"),
    [
        (50, 99, 99),
        (50, 100, 100),
        (1, 5000, 100),
        (10, 5000, 500),
        (33, 1000, 330),
        (100, 300, 300),
    ],
)
def test_how_many_are_enough(percentage: int, nodes: int, expected: int) -> None:
    assert count_to_find(percentage, nodes) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [(99, 99), (100, 100), (1000, 420), (5000, 500), (6000, 300), (100_000, 5000)],
)
def test_the_adaptive_percentage_falls_as_the_cluster_grows(nodes: int, expected: int) -> None:
    """numFeasibleNodesToFind in schedule_one.go, v1.36.2."""
    assert count_to_find(ADAPTIVE, nodes) == expected


def test_unset_and_all_are_no_sample_unless_it_is_to_be_compatible() -> None:
    percentages = (None, 0, 1, 99, 100)
    assert [sampling_of(p) is None for p in percentages] == [True, True, False, False, True]
    compatible = [sampling_of(p, is_compatible=True) for p in percentages]
    assert compatible == [Sampling(p, True) for p in (0, 0, 1, 99, 100)]


def test_the_search_goes_on_where_it_ended() -> None:
    sample = NodeSample()
    order = np.arange(299, -1, -1)
    feasible = np.ones(300, np.bool_)
    feasible[295:] = False
    first = sample.take(order, None, feasible, 10)
    assert first.tolist() == list(range(294, 194, -1)), "in the order in which they were looked at"
    assert sample.take(order, None, feasible, 10).tolist() == list(range(194, 94, -1))
    third = sample.take(order, None, feasible, 10).tolist()
    assert third == [*range(94, -1, -1), *range(294, 289, -1)], "begins again behind the end"
    assert sample.take(order, None, feasible, 10).tolist() == list(range(289, 189, -1))


def test_nodes_that_do_not_take_the_pod_are_looked_at_until_one_does_that_is_not_needed() -> None:
    """Only that one ends the search, and the next begins with it."""
    sample = NodeSample()
    order, feasible = np.arange(300), np.ones(300, np.bool_)
    feasible[100:150] = False
    assert sample.take(order, None, feasible, 10).tolist() == list(range(100))
    assert sample.take(order, None, np.ones(300, np.bool_), 10).tolist() == list(range(150, 250))


def test_named_nodes_are_a_list_of_their_own() -> None:
    sample = NodeSample()
    order, feasible = np.arange(300), np.ones(300, np.bool_)
    sample.take(order, None, feasible, 50)
    named = np.zeros(300, np.bool_)
    named[[3, 7, 250]] = True
    assert sample.take(order, named, feasible, 50).tolist() == [3, 7, 250]
    assert sample.take(order, named, np.zeros(300, np.bool_), 50).tolist() == []


def test_without_scores_one_node_is_enough() -> None:
    cache = cluster_of([make_node(f"n{i}") for i in range(6)])
    nothing = PluginSet(disabled=["*"])
    profile = ProfileConfig(plugins={"preScore": nothing, "score": nothing})
    framework = InTreeRegistry(entry_points=(), samples_compatibly=True).build(profile).framework
    assert choices_of(cache, Engine(cache.view, {PROFILE: framework}), 4) == [
        "n0",
        "n1",
        "n2",
        "n3",
    ]


class _Scored:
    """As nodeScoreHeap compares: the greater score is the lesser element."""

    def __init__(self, place: int, score: int) -> None:
        self.place = place
        self.score = score


def popped(scores: list[int]) -> int:
    """The first that Go's container/heap pops: Init sinks each element, the last parent first; a child
    moves up if it is greater, the right one only if it is greater than the left."""
    heap = [_Scored(place, score) for place, score in enumerate(scores)]
    for top in range(len(heap) // 2 - 1, -1, -1):
        parent = top
        while (child := 2 * parent + 1) < len(heap):
            if child + 1 < len(heap) and heap[child + 1].score > heap[child].score:
                child += 1
            if heap[child].score <= heap[parent].score:
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0].place


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_among_equals_the_heap_decides(scores: list[int]) -> None:
    found = np.array(scores)
    assert first_in_heap(found == found.max()) == popped(scores)


def compatible_engine(cache: Cache) -> Engine:
    registry = InTreeRegistry(entry_points=(), samples_compatibly=True)
    return Engine(cache.view, {PROFILE: registry.build(ProfileConfig()).framework})


def choices_of(cache: Cache, engine: Engine, count: int, **fields: Any) -> list[str]:
    pod = pod_info(make_pod("p", **fields))
    found = []
    for _ in range(count):
        choice = engine.choose(
            engine.evaluate(1, pod, PROFILE), lambda _: pytest.fail("no tie-break")
        )
        found.append("" if choice is None else cache.nodes.name_of(choice.row))
    return found


def test_a_compatible_choice_rotates_over_equal_nodes_with_the_search() -> None:
    """150 nodes that are alike: 100 are enough (48 % would be 72), and the first of each 100 wins."""
    cache = cluster_of([make_node(f"n{i:03}") for i in range(150)])
    engine = compatible_engine(cache)
    assert choices_of(cache, engine, 4) == ["n000", "n100", "n050", "n000"]


def test_a_compatible_choice_among_few_is_the_heaps() -> None:
    """Of 6 the best are the 3rd, 4th and 6th: the 4th is a child of the 2nd, and so left of the 3rd."""
    labels = [{}, {}, {"a": "b"}, {"a": "b"}, {}, {"a": "b"}]
    cache = cluster_of([make_node(f"n{i}", labels=each) for i, each in enumerate(labels)])
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "preference": term}]
    }
    found = choices_of(
        cache, compatible_engine(cache), 2, spec={"affinity": {"nodeAffinity": preferred}}
    )
    assert found == ["n3", "n3"]


def test_a_pod_that_fits_nowhere_moves_the_next_search_on_if_its_nodes_are_named() -> None:
    """By those that were looked at (processedNodes in schedule_one.go, v1.36.2)."""
    cache = cluster_of([make_node(f"n{i:03}") for i in range(150)])
    engine = compatible_engine(cache)
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n007"]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": fields}]
    }}  # fmt: skip
    spec = {"affinity": {"nodeAffinity": required}}
    assert choices_of(cache, engine, 1, cpu="99", spec=spec) == [""]
    plain = pod_info(make_pod("plain"))
    choice = engine.choose(
        engine.evaluate(2, plain, PROFILE), lambda _: pytest.fail("no tie-break")
    )
    assert choice is not None
    assert cache.nodes.name_of(choice.row) == "n001"


def test_the_best_of_the_sample_is_chosen() -> None:
    """The one node that is better than all others is not in the first sample."""
    profile = ProfileConfig(percentage_of_nodes_to_score=10)
    frameworks = {PROFILE: InTreeRegistry(entry_points=()).build(profile).framework}
    nodes = [make_node(f"n{i:03}", cpu="64" if i == 150 else "4") for i in range(200)]
    cache = cluster_of(nodes, [])
    engine = Engine(cache.view, frameworks)
    pod = pod_info(make_pod("p", cpu="1"))
    choices: list[Choice] = []
    for _ in range(2):
        choice = engine.choose(engine.evaluate(1, pod, PROFILE), lambda ties: int(ties[0]))
        assert choice is not None
        choices.append(choice)
    assert [choice.feasible_count for choice in choices] == [100, 100]
    assert [cache.nodes.name_of(choice.row) for choice in choices] == ["n000", "n150"]
