"""GangScheduling's rules, after TestGangSchedulingFlow in
pkg/scheduler/framework/plugins/gangscheduling/gangscheduling_test.go, and PodGroupPodsCount's, after
podgrouppodscount/podgroup_pods_count_test.go beside it, v1.36.2."""

import msgspec
import numpy as np
import pytest

from shared.columns.schema import Rows
from shared.framework.plugin_api import GroupFits
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_group_rules import lets_in, needed
from shared.plugins.gates import PodGroupPodsCount
from tests.support.builders import make_node
from tests.support.cluster import cluster_of, pod_with


def _group(policy: object) -> PodGroup:
    return msgspec.convert({"spec": {"schedulingPolicy": policy}}, PodGroup)


GANG = _group({"gang": {"minCount": 3}})
BASIC = _group({"basic": {}})


def test_basic_policy_pod_succeeds_immediately() -> None:
    assert lets_in(BASIC, 1)
    assert needed(BASIC, 0) == 1


def test_gang_pod_fails_pre_enqueue_when_pod_group_is_not_yet_created() -> None:
    assert not lets_in(None, 5)


def test_gang_pod_fails_pre_enqueue_when_quorum_is_not_met() -> None:
    assert not lets_in(GANG, 2)


def test_gang_pod_passes_pre_enqueue_but_waits_at_permit() -> None:
    assert lets_in(GANG, 3)
    assert needed(GANG, 1) == 2


def test_final_gang_pod_needs_nobody_else() -> None:
    assert needed(GANG, 2) == 1
    assert needed(GANG, 5) == 1


# PodGroupPodsCount -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param([10, 50, 110], [9, 45, 100], id="distinct scores"),
        pytest.param([50, 50], [100, 100], id="equal scores"),
        pytest.param([50], [100], id="single score"),
        pytest.param(
            [11, 100, 101, 102],
            [10, 98, 99, 100],
            id="some minimal score that is far from a group of scores located closely",
        ),
    ],
)
def test_normalize_placement_score(counts: list[int], expected: list[int]) -> None:
    assert pods_count_scores(counts, 0) == expected


@pytest.mark.parametrize(
    ("scheduled", "expected"),
    [
        pytest.param(3, [80, 100], id="existing assigned and assumed pods"),
        pytest.param(1, [66, 100], id="no assumed pods, or no assigned pods"),
        pytest.param(0, [50, 100], id="no assigned pods, no assumed pods"),
    ],
)
def test_score_placement(scheduled: int, expected: list[int]) -> None:
    """Beside a placement with one pod, one with two: 2 proposed pods, and so many that have a node."""
    assert pods_count_scores([1, 2], scheduled) == expected


def test_placements_that_do_not_take_the_group_count_for_nothing() -> None:
    assert pods_count_scores([2, 4, 100], 0, np.array([0, 1]))[:2] == [50, 100]


def pods_count_scores(
    counts: list[int], scheduled: int, successful: Rows | None = None
) -> list[int]:
    nodes = [make_node(f"n{i}", labels={"rack": f"r{i}"}) for i in range(len(counts))]
    view = cluster_of(nodes).view
    topology = view.topology("rack")
    by_domain, of_row = topology.by_domain(), topology.domain_of_row[: len(counts)]
    by_domain[of_row] = counts
    domains = of_row if successful is None else of_row[successful]
    fits = GroupFits(topology, [(pod_with({}), by_domain)], scheduled, domains)
    scores: list[int] = PodGroupPodsCount().score_placements(fits, view)[of_row].tolist()
    return scores
