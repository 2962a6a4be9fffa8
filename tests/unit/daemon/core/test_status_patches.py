"""What a pod's status is to say, beside what it says already (updatePod in pkg/scheduler/schedule_one.go
and UpdatePodCondition in pkg/api/v1/pod/util.go, v1.36.2)."""

import pytest

from shared.messages.to_binder import StatusPatch
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline

MESSAGE = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes "
    "are available: 1 Preemption is not helpful for scheduling."
)


def verdict_on(*conditions: dict[str, str]) -> StatusPatch | None:
    """What is said of a pod that fits nowhere, and has these conditions."""
    pipeline = Pipeline()
    pod = make_pod("p", cpu="9", conditions=conditions)
    pipeline.sync([make_node("n1", cpu="4")], [pod])
    pipeline.run_until_quiet()
    return next(iter(pipeline.verdicts), None)


def scheduled(status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": "PodScheduled", "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("condition", "is_same_status", "is_told"),
    [
        (scheduled("False", "Unschedulable", MESSAGE), True, True),
        (scheduled("False", "SchedulerError", MESSAGE), True, False),
        (scheduled("False", "SchedulingGated", "Scheduling is blocked"), True, False),
        (scheduled("Unknown", "Unschedulable", MESSAGE), False, False),
        ({**scheduled("False", "Unschedulable", MESSAGE), "type": "Ready"}, False, False),
    ],
)
def test_what_the_pod_says_already_is_known(
    condition: dict[str, str], is_same_status: bool, is_told: bool
) -> None:
    verdict = verdict_on({"type": "Initialized", "status": "False"}, condition)
    assert verdict is not None
    assert (verdict.reason, verdict.message) == ("Unschedulable", MESSAGE)
    assert (verdict.is_same_status, verdict.is_told) == (is_same_status, is_told)


def test_a_pod_on_a_node_carries_nothing_of_it() -> None:
    bound = make_pod("p", node_name="n1", conditions=[scheduled("False", "Unschedulable", "no")])
    assert not bound.told_why
