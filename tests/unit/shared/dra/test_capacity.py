"""How much of a shared capacity a request takes."""

from typing import Any

import msgspec
import pytest

from shared.dra.capacity import consumed_by, fits
from shared.dra.resource_slices import DeviceFacts
from shared.feature_gates import DEFAULT_GATES
from shared.kube.api.resource_v1_devices import Device
from shared.kube.quantity import canonical, parse

RANGE = {"default": "1Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}}
VALUES = {"default": "1Gi", "validValues": ["1Gi", "4Gi"]}


def capacities(policy: dict[str, Any] | None) -> Any:
    body: dict[str, Any] = (
        {"value": "10Gi"} if policy is None else {"value": "10Gi", "requestPolicy": policy}
    )
    device = msgspec.convert({"name": "d", "capacity": {"memory": body}}, Device)
    return DeviceFacts(device, "driver", DEFAULT_GATES).capacity


@pytest.mark.parametrize(
    ("policy", "asked", "taken", "is_possible"),
    [
        (None, None, "10Gi", True),
        (None, "3Gi", "3Gi", True),
        (None, "11Gi", "11Gi", False),
        (RANGE, None, "1Gi", True),
        (RANGE, "1", "2Gi", True),
        (RANGE, "3Gi", "4Gi", True),
        (RANGE, "9Gi", "10Gi", False),
        (VALUES, "2Gi", "4Gi", True),
        (VALUES, "5Gi", "5Gi", False),
        ({"default": "1Gi"}, "3Gi", "3Gi", True),
        ({"validRange": {"min": "2Gi"}}, "5Gi", "5Gi", True),
    ],
)
def test_policies(
    policy: dict[str, Any] | None, asked: str | None, taken: str, is_possible: bool
) -> None:
    capacity = capacities(policy)
    requested = {} if asked is None else {"memory": parse(asked)}
    assert canonical(consumed_by(requested.get("memory"), capacity["memory"])) == taken
    assert fits(requested, capacity, {}, {}) is is_possible


def test_a_capacity_that_the_device_does_not_have_is_not_given() -> None:
    assert not fits({"cores": parse("1")}, capacities(None), {}, {})


def test_what_others_use_and_what_is_being_taken_both_count() -> None:
    four, capacity = parse("4Gi"), capacities(None)
    assert fits({"memory": four}, capacity, {"memory": four.nanos}, {})
    assert not fits({"memory": four}, capacity, {"memory": four.nanos}, {"memory": four.nanos})
