"""Scores below 0 and above 100: the engine ends the attempt with the same error as the framework asked
about one node at a time, and chooses the same node where no score is out of range.

Plugins rate nodes by a label, alone and beside the default ones, with and without normalising;
NodeAffinity has preferences of any weight in its arguments. Nodes change between two looks at a class.
"""

from typing import Any, ClassVar

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.conformance.one_by_one import FastWays, SlowAttempt, disagreements
from shared.columns.schema import Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import DefaultNormalizeScore
from shared.framework.plugin_api import ON_NODE, Dependence, ScorePlugin
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.prepared_pod import prepared
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.api.core_v1 import NodeAffinity as NodeAffinitySpec
from shared.plugins.in_tree import InTreeRegistry
from shared.plugins.node.node_affinity import NodeAffinity, NodeAffinityArgs
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of

DEFAULT = InTreeRegistry(entry_points=()).build(ProfileConfig()).framework
PROFILE = "default-scheduler"
ZONES = "abc"


class ByLabel:
    NAME: ClassVar[str] = "ByLabel"
    score_depends: ClassVar[Dependence] = ON_NODE

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        labels = [cluster.nodes.labels_of(row) for row in rows.tolist()]
        return np.array([int(each["score"]) for each in labels], np.int64)


class ByMaximum(ByLabel, DefaultNormalizeScore):
    NAME: ClassVar[str] = "ByMaximum"


class ByMaximumReversed(ByMaximum):
    NAME: ClassVar[str] = "ByMaximumReversed"
    is_reversed: ClassVar[bool] = True


def node_affinity(weights: list[tuple[int, str]]) -> NodeAffinity:
    """One that prefers nodes of zones by so much."""
    preferred = [
        {
            "weight": weight,
            "preference": {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]
            },
        }
        for weight, zone in weights
    ]
    spec = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return NodeAffinity(NodeAffinityArgs(added_affinity=msgspec.convert(spec, NodeAffinitySpec)))


SCORES = st.one_of(
    st.integers(-3, 103), st.integers(0, 100), st.integers(-(2**40), 2**40), st.just(2**62)
)
NODES = st.lists(st.tuples(SCORES, st.sampled_from(ZONES)), min_size=2, max_size=5)
WEIGHTS = st.lists(
    st.tuples(
        st.one_of(st.integers(-9, 9), st.integers(-(2**31), 2**31 - 1)), st.sampled_from(ZONES)
    ),
    max_size=4,
)
RATERS = st.sampled_from((ByLabel(), ByMaximum(), ByMaximumReversed(), None))


@given(st.lists(NODES, min_size=1, max_size=3), WEIGHTS, RATERS, st.booleans())
def test_the_engine_says_of_scores_out_of_range_what_is_said_one_by_one(
    looks: list[list[tuple[int, str]]],
    weights: list[tuple[int, str]],
    rater: ByLabel | None,
    has_default: bool,
) -> None:
    raters: list[tuple[ScorePlugin, int]]
    raters = [(node_affinity(weights), 2)] if rater is None else [(rater, 3)]
    raters += [(each.plugin, each.weight) for each in DEFAULT.scores if has_default]
    framework = Framework(DEFAULT.pre_filters, DEFAULT.filters, raters)
    cache = cluster_of([])
    pod_class = cache.classes.acquire(make_pod("p"))
    fast = FastWays(cache.view, {PROFILE: framework})
    for nodes in looks:
        for i, (score, zone) in enumerate(nodes):
            cache.add_node(make_node(f"n{i}", labels={"score": str(score), "zone": zone}))
        slow = SlowAttempt(
            prepared(framework, pod_class.info, cache.view), lambda rows: int(rows[0])
        )
        assert disagreements(slow, fast, pod_class.class_id, PROFILE, seeks_room=False) == []
