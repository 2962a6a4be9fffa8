"""GangScheduling's rules, after TestGangSchedulingFlow in
pkg/scheduler/framework/plugins/gangscheduling/gangscheduling_test.go, and PodGroupPodsCount's, after
podgrouppodscount/podgroup_pods_count_test.go beside it, v1.36.2."""

import msgspec
import numpy as np
import pytest

from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_group_rules import lets_in, needed
from shared.plugins.gates.gang_scheduling import PodGroupPodsCount


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
    scores = PodGroupPodsCount.placement_scores(np.array([2, 4, 100]), 0, np.array([0, 1]))
    assert scores[:2].tolist() == [50, 100]


def pods_count_scores(counts: list[int], scheduled: int) -> list[int]:
    everywhere = np.arange(len(counts))
    scores: list[int] = PodGroupPodsCount.placement_scores(
        np.array(counts), scheduled, everywhere
    ).tolist()
    return scores
