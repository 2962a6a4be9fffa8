"""Requests that a pod's containers make for extended resources backed by device classes; the name of the
scheduler's own claim for them, and whose it is."""

from typing import Any

import msgspec

from shared.dra.extended import (
    NAME_LENGTH_MAX,
    classes_by_resource,
    extended_requests,
    pod_uid_of,
    special_claim_name,
)
from shared.kube.api.core_v1 import PodSpec
from shared.kube.api.resource_v1 import AllocatedDevice, AllocationResult, DeviceAllocationResult
from shared.kube.well_known import EXTENDED_RESOURCE_CLAIM
from tests.support.devices import make_claim, make_class

GPU = "example.com/gpu"


def container(name: str, count: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": "1", GPU: str(count)}}, **fields}


def requests_of(spec: dict[str, Any]) -> tuple[list[tuple[str, int]], list[tuple[str, str]]]:
    made = extended_requests(msgspec.convert(spec, PodSpec), {GPU: make_class("gpu")})
    counts = [(r.name, r.exactly.count) for r in made.requests if r.exactly is not None]
    return counts, [(m.container_name, m.request_name) for m in made.mappings]


def test_each_container_has_a_request_of_its_own() -> None:
    counts, mappings = requests_of({"containers": [container("a", 1), container("b", 2)]})
    assert counts == [("container-0-request-1", 1), ("container-1-request-1", 2)]
    assert mappings == [("a", "container-0-request-1"), ("b", "container-1-request-1")]


def test_init_containers_use_what_later_containers_hold() -> None:
    counts, mappings = requests_of(
        {"initContainers": [container("i", 2)], "containers": [container("a", 2)]}
    )
    assert counts == [("container-1-request-1", 2)]
    assert mappings == [("a", "container-1-request-1"), ("i", "container-1-request-1")]


def test_init_containers_share_the_largest_extra_request() -> None:
    spec = {
        "initContainers": [container("i", 2), container("j", 4)],
        "containers": [container("a", 1)],
    }
    counts, mappings = requests_of(spec)
    assert counts == [("container-1-request-1", 3), ("container-2-request-1", 1)]
    assert ("i", "container-1-request-1") in mappings


def test_a_sidecar_keeps_its_devices() -> None:
    spec = {
        "initContainers": [container("s", 1, restartPolicy="Always")],
        "containers": [container("a", 1)],
    }
    counts, _ = requests_of(spec)
    assert counts == [("container-0-request-1", 1), ("container-1-request-1", 1)]


def test_the_youngest_class_stands_for_a_resource() -> None:
    old, b, a = (make_class(n, extendedResourceName=GPU) for n in ("old", "b", "a"))
    old.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
    b.metadata.creation_timestamp = a.metadata.creation_timestamp = "2026-01-02T00:00:00Z"
    found = classes_by_resource([a, b, old])
    assert found[GPU] is a
    assert found["deviceclass.resource.kubernetes.io/old"] is old


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
