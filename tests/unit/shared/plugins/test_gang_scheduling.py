"""GangScheduling's rules, after TestGangSchedulingFlow in
pkg/scheduler/framework/plugins/gangscheduling/gangscheduling_test.go, v1.36.2."""

import msgspec

from shared.framework.status import Code
from shared.kube.objects import PodGroup
from shared.plugins.gates.gang_scheduling import needed, pre_enqueue


def _group(policy: object) -> PodGroup:
    return msgspec.convert({"spec": {"schedulingPolicy": policy}}, PodGroup)


GANG = _group({"gang": {"minCount": 3}})
BASIC = _group({"basic": {}})


def test_basic_policy_pod_succeeds_immediately() -> None:
    assert pre_enqueue("pg3", BASIC, 1).is_success
    assert needed(BASIC, 0) == 1


def test_gang_pod_fails_pre_enqueue_when_pod_group_is_not_yet_created() -> None:
    status = pre_enqueue("pg1", None, 5)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == 'waiting for pods\'s pod group "pg1" to appear in scheduling queue'


def test_gang_pod_fails_pre_enqueue_when_quorum_is_not_met() -> None:
    status = pre_enqueue("pg1", GANG, 2)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    told = "waiting for minCount pods from a gang to appear in scheduling queue"
    assert status.message == told


def test_gang_pod_passes_pre_enqueue_but_waits_at_permit() -> None:
    assert pre_enqueue("pg1", GANG, 3).is_success
    assert needed(GANG, 1) == 2


def test_final_gang_pod_needs_nobody_else() -> None:
    assert needed(GANG, 2) == 1
    assert needed(GANG, 5) == 1
