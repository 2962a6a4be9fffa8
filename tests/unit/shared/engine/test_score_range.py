"""A score out of 0..100 fails the attempt, as RunScorePlugins does (framework.go, v1.36.2)."""

from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from daemon.core.cache import Cache
from shared.columns.schema import CPU, Int64s, Rows
from shared.columns.usage import usage_of
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, ON_USAGE, Dependence
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import INVALID, Framework, sampling_of, weighted
from shared.framework.runtime.profiles import ProfileConfig
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, pod_info
from tests.support.pipeline import Pipeline
from workers.scorer.engine import Choice, Engine
from workers.scorer.lone_pods import LonePods

DEFAULT = InTreeRegistry(entry_points=()).build(ProfileConfig()).framework
PROFILE = "default-scheduler"
TOLD = (
    'applying score defaultWeights on Score plugins: plugin "{}" returns an invalid score {}, '
    "it should in the range of [0, 100] after normalizing"
)


class ByLabel:
    """Rates a node by its label `score`. A plugin whose score no placement changes."""

    NAME: ClassVar[str] = "ByLabel"
    score_depends: ClassVar[Dependence] = ON_NODE

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        labels = [cluster.nodes.labels_of(row) for row in rows.tolist()]
        return np.array([int(each.get("score", "50")) for each in labels], np.int64)


class ByCount(ByLabel):
    """Less for each pod that is there. A plugin that says something else after a placement."""

    NAME: ClassVar[str] = "ByCount"
    score_depends: ClassVar[Dependence] = ON_USAGE

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        return super().score(state, pod, cluster, rows) - 60 * cluster.nodes.pod_count[rows]


class ByRoom:
    """A point for each CPU, less for each pod that is there. A plugin that reads resources alone."""

    NAME: ClassVar[str] = "ByRoom"
    score_depends: ClassVar[Dependence] = ON_USAGE
    reads_resources_only: ClassVar[bool] = True

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        nodes = cluster.nodes
        points: Int64s = nodes.allocatable[CPU, rows] // 1000 - 60 * nodes.pod_count[rows]
        return points


class Doubled(ByLabel):
    """One that normalises, badly."""

    NAME: ClassVar[str] = "Doubled"

    def normalization(self, state: Any, raw: Int64s) -> int:
        return 2

    def normalize(self, raw: Int64s, normalization: int) -> Int64s:
        return raw * normalization


def framework_with(*plugins: Any, percentage: int | None = None, weight: int = 1) -> Framework:
    """The default profile's filters and scores, and these scores first."""
    entries = [(plugin, weight) for plugin in plugins]
    return Framework(
        DEFAULT.pre_filters,
        DEFAULT.filters,
        [*entries, *((entry.plugin, entry.weight) for entry in DEFAULT.scores)],
        sampling=sampling_of(percentage),
    )


def nodes_rated(*scores: int, **others: Any) -> Cache:
    return cluster_of(
        [make_node(f"n{i}", labels={"score": str(s)}, **others) for i, s in enumerate(scores)]
    )


def chosen(cache: Cache, framework: Framework, info: PodInfo) -> Choice | str:
    """The choice for a pod, or why there is none."""
    engine = Engine(cache.view, {PROFILE: framework})
    evaluation = engine.evaluate(1, info, PROFILE)
    choice = engine.choose(evaluation, lambda ties: ties[0])
    return choice or evaluation.fit_error().error


POD = pod_info(make_pod("p"))


@pytest.mark.parametrize("plugin", [ByLabel(), ByCount()])
@pytest.mark.parametrize("wrong", [101, -1, 2**40, -(2**40)])
@pytest.mark.parametrize("weight", [1, 7])
def test_a_score_out_of_range_fails_the_attempt_wherever_the_best_node_is(
    plugin: Any, wrong: int, weight: int
) -> None:
    framework = framework_with(plugin, weight=weight)
    told = TOLD.format(plugin.NAME, wrong)
    assert chosen(nodes_rated(100, wrong, 0), framework, POD) == told
    choice = chosen(nodes_rated(100, 99, 0), framework, POD)
    assert isinstance(choice, Choice)
    assert choice.row == 0


def test_the_normalised_score_counts() -> None:
    assert chosen(nodes_rated(50, 51), framework_with(Doubled()), POD) == TOLD.format(
        "Doubled", 102
    )
    assert isinstance(chosen(nodes_rated(50, 49), framework_with(Doubled()), POD), Choice)


def test_a_sample_of_the_nodes_is_looked_at_alike() -> None:
    framework = framework_with(ByLabel(), percentage=50)
    assert chosen(nodes_rated(101, 102), framework, POD) == TOLD.format("ByLabel", 101)


def test_several_wrong_scores_of_a_node_do_not_make_a_right_one() -> None:
    class Other(ByLabel):
        NAME: ClassVar[str] = "Other"

    framework = framework_with(ByLabel(), Other(), ByCount(), Doubled(), weight=100)
    assert chosen(nodes_rated(-5, 7), framework, POD) == TOLD.format("ByLabel", -5)


def test_nodes_that_do_not_take_the_pod_are_not_rated() -> None:
    cache = nodes_rated(100, 99)
    cache.add_node(make_node("full", pods=0, labels={"score": "101"}))
    cache.add_node(make_node("closed", unschedulable=True, labels={"score": "101"}))
    assert isinstance(chosen(cache, framework_with(ByLabel()), POD), Choice)


def test_a_single_node_is_not_rated() -> None:
    assert chosen(nodes_rated(101), framework_with(ByLabel()), POD) == Choice(0, 0, 1)


def test_who_promises_to_keep_the_range_is_not_looked_at() -> None:
    class Promising(ByLabel):
        scores_within_range: ClassVar[bool] = True

    scores = np.array([100, 101], np.int64)
    assert weighted(Promising(), scores, 2).tolist() == [200, 202]
    assert weighted(ByLabel(), scores, 2).tolist() == [200, INVALID]


def test_the_attempt_after_the_node_is_gone_is_none_the_worse() -> None:
    cache = nodes_rated(100, 101, 99)
    engine = Engine(cache.view, {PROFILE: framework_with(ByLabel())})
    assert engine.choose(engine.evaluate(1, POD, PROFILE), lambda ties: ties[0]) is None
    cache.add_node(make_node("n1", labels={"score": "98"}))
    evaluation = engine.evaluate(1, POD, PROFILE)
    choice = engine.choose(evaluation, lambda ties: ties[0])
    assert choice is not None
    assert choice.row == 0


def test_a_run_ends_before_the_pod_whose_score_is_out_of_range() -> None:
    cache = cluster_of([make_node("n0", cpu="100"), make_node("n1", cpu="60")])
    framework = framework_with(ByRoom())
    engine = Engine(cache.view, {PROFILE: framework})
    pod_class = cache.classes.acquire(make_pod("p"))

    def put(rows: list[int]) -> None:
        for row in rows:
            cache.add_pod(make_pod(f"p{cache.pod_count}", node_name=f"n{row}"))

    placed = engine.place_run(
        pod_class.class_id,
        pod_class.info,
        PROFILE,
        usage_of(cache.nodes, pod_class.info.requests, frozenset()),
        range(4),
        lambda ties, _: ties[0],
        put,
    )
    assert placed is not None
    assert placed[0] == [0, 1, 0]  # Then n0 is at -20.


def test_a_lone_pod_is_left_to_its_class() -> None:
    cache = nodes_rated(100, 101)
    frameworks = {PROFILE: framework_with(ByLabel())}
    engine = Engine(cache.view, frameworks)
    lone_pods = LonePods(cache.view, frameworks, engine)
    for number, cpu in enumerate(("100m", "200m", "300m")):
        info = pod_info(make_pod("p", cpu=cpu))
        assert lone_pods.choose(number, info, PROFILE, lambda ties: ties[0]) is None


@pytest.mark.parametrize("nominated_node", ["", "closed"])
def test_the_pod_is_told_and_tried_again_after_a_backoff(nominated_node: str) -> None:
    pipeline = Pipeline()
    pipeline.frameworks[PROFILE] = framework_with(ByLabel())
    nodes = [make_node(f"n{i}", labels={"score": str(s)}) for i, s in enumerate((101, 5))]
    nodes.append(make_node("closed", unschedulable=True))
    pods = [
        msgspec.structs.replace(make_pod(f"p{i}"), nominated_node_name=nominated_node)
        for i in range(5)
    ]
    pipeline.sync(nodes, pods)
    pipeline.run_until_quiet()
    told = {verdict.message for verdict in pipeline.verdicts}
    assert told == {TOLD.format("ByLabel", 101)}
    assert not pipeline.bound
    pipeline.add_node(make_node("n0", labels={"score": "6"}))
    pipeline.advance(60.0)
    pipeline.run_until_quiet()
    assert {uid for uid, names in pipeline.bound.items() if len(names) == 1} == {
        pod.uid for pod in pods
    }


def test_amounts_for_which_int64_wraps_fail_the_attempt() -> None:
    """LeastAllocated of a node whose pods, bound by hand, ask for more memory than 64 bits hold."""
    cache = cluster_of([make_node(name, memory="1Gi") for name in ("n0", "n1")])
    for number, memory in enumerate((2**62, 2**62, 2**62, 2**62 - 2**29)):
        cache.add_pod(make_pod(f"p{number}", cpu="0", node_name="n0", memory=str(memory)))
    assert cache.nodes.nonzero_memory_bytes[0] == -(2**29)
    info = pod_info(make_pod("p", cpu="2", memory=str(2**29)))
    assert isinstance(chosen(cache, framework_with(), info), Choice)
    info = pod_info(make_pod("p", cpu="0", memory=str(2**28)))
    assert chosen(cache, framework_with(), info) == TOLD.format("NodeResourcesFit", 112)
