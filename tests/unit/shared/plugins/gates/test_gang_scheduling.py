"""GangScheduling's rules, after TestGangSchedulingFlow in
pkg/scheduler/framework/plugins/gangscheduling/gangscheduling_test.go, v1.36.2."""

import msgspec

from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_group_rules import lets_in, needed


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
