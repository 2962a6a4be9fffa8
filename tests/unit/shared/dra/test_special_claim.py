"""The name of the scheduler's own claim, and whose it is."""

import msgspec

from shared.dra.special_claim import NAME_LENGTH_MAX, pod_uid_of, special_claim_name
from shared.kube.api.resource_v1 import AllocatedDevice, AllocationResult, DeviceAllocationResult
from shared.kube.well_known import EXTENDED_RESOURCE_CLAIM
from tests.support.devices import make_claim


def allocation(device: str) -> AllocationResult:
    given = AllocatedDevice(request="r", driver="d", pool="p", device=device)
    return AllocationResult(devices=DeviceAllocationResult(results=[given]))


def test_the_name_is_the_same_for_the_same_pod_and_devices_and_for_no_others() -> None:
    name = special_claim_name("p", "u1", allocation("a"))
    assert name.startswith("p-extended-resources-")
    assert name == special_claim_name("p", "u1", allocation("a"))
    assert name != special_claim_name("p", "u2", allocation("a")), "a pod of the same name"
    assert name != special_claim_name("p", "u1", allocation("b")), "a later attempt"


def test_a_long_name_is_cut_to_a_valid_one() -> None:
    for pod_name in ("p" * 253, "p" * 50 + ".-" * 20):
        name = special_claim_name(pod_name, "u1", allocation("a"))
        assert len(name) <= NAME_LENGTH_MAX
        assert ".-" not in name
        assert "-." not in name


def test_only_a_schedulers_claim_tells_its_pod() -> None:
    owned = make_claim(owner="u1")
    assert pod_uid_of(owned) == "", "a claim of a template"
    meta = msgspec.structs.replace(owned.metadata, annotations={EXTENDED_RESOURCE_CLAIM: "true"})
    assert pod_uid_of(msgspec.structs.replace(owned, metadata=meta)) == "u1"
    assert pod_uid_of(make_claim()) == ""
