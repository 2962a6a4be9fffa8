"""A plugin that sums up raw scores by their extremes is not asked again while all are equal."""

from itertools import combinations_with_replacement
from typing import Any, ClassVar, Final

import numpy as np
import pytest

from shared.columns.schema import Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, Dependence, NormalizeScorePlugin
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.profiles import ProfileConfig
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of
from workers.scorer.engine import Engine

PROFILE: Final = "default-scheduler"
DEFAULT: Final = InTreeRegistry(entry_points=()).build(ProfileConfig()).framework
DECLARED: Final[list[NormalizeScorePlugin]] = [
    plugin
    for plugin, *_ in DEFAULT.scores
    if isinstance(plugin, NormalizeScorePlugin) and getattr(plugin, "normalizes_by_extremes", False)
]


class ByPodLimit:
    """Rates nodes by how many pods they may have."""

    NAME: ClassVar[str] = "ByPodLimit"
    score_depends: ClassVar[Dependence] = ON_NODE

    def __init__(self, *, is_declared: bool = True) -> None:
        self.normalizes_by_extremes = is_declared
        self.asked_count = 0

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        return cluster.nodes.allowed_pod_count[rows].astype(np.int64)

    def normalization(self, state: Any, raw: Int64s) -> int:
        self.asked_count += 1
        return self.summary(raw)

    def summary(self, raw: Int64s) -> int:
        return int(raw.max(initial=0))

    def normalize(self, raw: Int64s, normalization: int) -> Int64s:
        return raw * 100 // max(normalization, 1)


class ByCount(ByPodLimit):
    """Declares what is not so: how many nodes there are counts as well."""

    def summary(self, raw: Int64s) -> int:
        return int(raw.sum())


class World:
    """Four nodes, each with room for one pod, and an engine that remembers a class of pods."""

    def __init__(self, plugin: ByPodLimit) -> None:
        self.cache = cluster_of([make_node(f"n{number}", cpu="1") for number in range(4)])
        self.pod_class = self.cache.classes.acquire(make_pod("keeper", cpu="1"))
        self.engine = self.engine_with(plugin)
        self.undeclared = type(plugin)(is_declared=False)
        self.totals(self.engine)

    def engine_with(self, plugin: ByPodLimit) -> Engine:
        scores = [(plugin, 1)]
        framework = Framework(DEFAULT.pre_filters, DEFAULT.filters, scores)
        return Engine(self.cache.view, {PROFILE: framework})

    def totals(self, engine: Engine) -> list[int]:
        evaluation = engine.evaluate(self.pod_class.class_id, self.pod_class.info, PROFILE)
        scores = evaluation.scored()
        assert scores is not None
        found: list[int] = scores.total.tolist()
        return found

    def fill(self, number: int) -> None:
        self.cache.add_pod(make_pod(f"p{number}", cpu="1", node_name=f"n{number}"))

    def is_as_fresh(self) -> bool:
        """Whether the engine holds what one finds that has never seen anything, and takes nobody at
        their word."""
        return self.totals(self.engine) == self.totals(self.engine_with(self.undeclared))


def test_while_all_are_equal_nobody_is_asked_again() -> None:
    plugin = ByPodLimit()
    world = World(plugin)
    asked_count = plugin.asked_count
    world.fill(0)
    world.totals(world.engine)
    assert plugin.asked_count == asked_count
    assert world.is_as_fresh()


def test_the_scores_stay_those_that_are_found_afresh() -> None:
    world = World(ByPodLimit())
    for number in range(4):  # The last one leaves no node that takes the pod.
        world.fill(number)
        assert world.is_as_fresh()
    world.cache.remove_pod(make_pod("p2").uid)
    assert world.is_as_fresh()
    world.cache.add_node(make_node("n2", cpu="2", pods=5))  # Not all equal any more.
    assert world.is_as_fresh()
    world.cache.add_node(make_node("n3", cpu="2", pods=300))
    assert world.is_as_fresh()
    world.fill(3)
    assert world.is_as_fresh()


def test_a_plugin_that_declares_it_wrongly_gets_other_scores() -> None:
    world = World(ByCount())
    world.fill(0)
    assert not world.is_as_fresh()


@pytest.mark.parametrize("plugin", DECLARED, ids=lambda plugin: str(plugin.NAME))
def test_whoever_declares_it_looks_at_the_extremes_alone(plugin: NormalizeScorePlugin) -> None:
    for lowest, highest in combinations_with_replacement((0, 1, 7, 100, 999), 2):
        extremes = np.array([lowest, highest], np.int64)
        summary = plugin.normalization(None, extremes)
        middle = (lowest + highest) // 2
        for between in combinations_with_replacement((lowest, middle, highest), 2):
            others = np.array([between[0], highest, between[1], lowest, highest], np.int64)
            assert plugin.normalization(None, others) == summary


def test_some_plugins_declare_it() -> None:
    assert DECLARED
