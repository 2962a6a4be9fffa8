"""The condition of a PodGroup that was tried: cases of TestUpdatePodGroupCondition in
pkg/scheduler/schedule_one_podgroup_test.go, v1.36.2, by name."""

from typing import Any, Final

import msgspec
import pytest

from daemon.core.status_patches import group_verdict
from shared.kube.api.scheduling_v1alpha2 import PodGroup

SCHEDULED: Final = ("True", "Scheduled", "")
UNSCHEDULABLE: Final = ("False", "Unschedulable", "no room")
FAILED: Final = ("False", "SchedulerError", "broken")


def told(before: tuple[str, str, str] | None, now: tuple[str, str, str], seen: int = 5) -> Any:
    """What is written of a group of generation 5 that is `now` so; `before` is what its condition said,
    of generation `seen`."""
    conditions = []
    if before is not None:
        status, reason, message = before
        one = {"type": "PodGroupScheduled", "status": status, "reason": reason, "message": message}
        conditions.append({**one, "observedGeneration": seen})
    body = {
        "metadata": {"name": "pg", "namespace": "default", "uid": "u", "generation": 5},
        "spec": {"schedulingPolicy": {"basic": {}}},
        "status": {"conditions": conditions},
    }
    status, reason, message = now
    verdict = group_verdict(
        msgspec.convert(body, PodGroup),
        message,
        is_scheduled=status == "True",
        is_error=reason == "SchedulerError",
    )
    if verdict is None:
        return None
    assert verdict.observed_generation == 5
    assert verdict.is_same_status == (before is not None and before[0] == status)
    return "True" if verdict.is_scheduled else "False", verdict.reason, verdict.message


@pytest.mark.parametrize("now", [SCHEDULED, UNSCHEDULABLE, FAILED])
def test_set_scheduled_condition_on_empty_status(now: tuple[str, str, str]) -> None:
    assert told(None, now) == now


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (UNSCHEDULABLE, SCHEDULED),
        (FAILED, SCHEDULED),
        (UNSCHEDULABLE, FAILED),
        (FAILED, UNSCHEDULABLE),
        (UNSCHEDULABLE, ("False", "Unschedulable", "less room")),
    ],
)
def test_transition(before: tuple[str, str, str], now: tuple[str, str, str]) -> None:
    assert told(before, now) == now


@pytest.mark.parametrize("now", [UNSCHEDULABLE, FAILED])
def test_do_not_regress_scheduled(now: tuple[str, str, str]) -> None:
    assert told(SCHEDULED, now) is None


@pytest.mark.parametrize("same", [SCHEDULED, UNSCHEDULABLE, FAILED])
def test_what_the_condition_says_already_is_not_written_unless_for_an_earlier_generation(
    same: tuple[str, str, str],
) -> None:
    assert told(same, same) is None
    assert told(same, same, seen=4) == same
