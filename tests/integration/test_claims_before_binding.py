"""A real binder process writes a pod's resource claims at the simulated API server, then binds it."""

import msgspec
import pytest

from bench.apiserver.api_faults import Disconnect
from shared.kube.api.core_v1_parts import ContainerExtendedResourceRequest
from shared.kube.api.resource_v1 import (
    AllocatedDevice,
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from shared.kube.binding_work import ClaimWork, GeneratedClaim
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPods, PreemptPods, ReleaseClaim
from tests.support.binder_stage import EPOCH, Stage, World
from tests.support.binding_work import with_work
from tests.support.waiting import HANG_S
from workers.binder.claim_free import FINALIZER

pytestmark = pytest.mark.integration

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def add_claim(world: World) -> str:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu"},
        "spec": {"devices": {"requests": [request]}},
    }
    uid: str = world.ask("POST", CLAIMS, body)["metadata"]["uid"]
    return uid


def work(uid: str, device: str = "gpu-0") -> ClaimWork:
    given = AllocatedDevice(request="r", driver="d", pool="p", device=device)
    allocation = AllocationResult(devices=DeviceAllocationResult(results=[given]))
    return ClaimWork("default", "gpu", uid, allocation, is_new=True, ready_timeout_s=HANG_S)


def generated(name: str) -> ClaimWork:
    asked = ExactDeviceRequest(device_class_name="gpu", allocation_mode="ExactCount", count=1)
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=[DeviceRequest(name="r", exactly=asked)]))
    mapping = ContainerExtendedResourceRequest("c", "example.com/gpu", "r")
    made = GeneratedClaim(spec, [mapping])
    return msgspec.structs.replace(work(""), name=name, generated=made)


def order(stage: Stage, name: str, uid: str, claim: ClaimWork, *, again: bool = False) -> int:
    made = stage._order(name, uid, look_first=again)
    stage.say(BindPods(EPOCH, [with_work(made, [claim])]))
    return made.ticket


def test_a_claim_is_allocated_and_reserved_and_the_pod_bound(stage: Stage) -> None:
    world = stage.world
    claim, uid = work(add_claim(world)), world.new_pod("p")
    assert stage.outcome(order(stage, "p", uid, claim)) is None
    assert stage.outcome(order(stage, "p", uid, claim, again=True)) is None
    held = world.ask("GET", f"{CLAIMS}/gpu")
    assert held["metadata"]["finalizers"] == [FINALIZER]
    (device,) = held["status"]["allocation"]["devices"]["results"]
    assert device["device"] == "gpu-0"
    assert held["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
    assert held["status"]["allocation"]["allocationTimestamp"]
    assert world.node_of("p") == "n1"


def test_a_claim_that_was_allocated_differently_keeps_the_pod_unbound(stage: Stage) -> None:
    world = stage.world
    claim = add_claim(world)
    assert stage.outcome(order(stage, "p", world.new_pod("p"), work(claim))) is None
    late = order(stage, "late", world.new_pod("late"), work(claim, "gpu-1"))
    assert stage.outcome(late) is BindFailureReason.REJECTED
    assert not world.node_of("late")


def test_the_claim_for_extended_resources_is_made_once_although_answers_are_lost(
    stage: Stage,
) -> None:
    world = stage.world
    uid = world.new_pod("p")
    world.faults.after["POST resourceclaims"] = [Disconnect()]
    world.faults.after["PUT p-claim"] = [Disconnect()]
    assert stage.outcome(order(stage, "p", uid, generated("p-claim"))) is None
    assert not any(world.faults.after.values()), "every fault was met"
    (held,) = world.ask("GET", CLAIMS)["items"]
    assert held["metadata"]["ownerReferences"][0]["uid"] == uid
    assert held["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
    told = world.pod("p")["status"]["extendedResourceClaimStatus"]
    assert told["resourceClaimName"] == "p-claim"
    assert [each["requestName"] for each in told["requestMappings"]] == ["r"]
    assert world.node_of("p") == "n1"


def test_a_pod_that_is_not_bound_after_all_leaves_its_claims_as_they_were(stage: Stage) -> None:
    world = stage.world
    for claim in (work(add_claim(world)), generated("p-claim")):
        gone = "00000000-0000-0000-0000-000000000000"
        assert stage.outcome(order(stage, "nobody", gone, claim)) in (
            BindFailureReason.GONE,
            BindFailureReason.REJECTED,
        )
    (held,) = world.ask("GET", CLAIMS)["items"]
    assert held["metadata"]["name"] == "gpu"
    assert not held.get("status")


def test_a_claim_that_the_owner_wants_freed_is_free(stage: Stage) -> None:
    world = stage.world
    claim, uid = add_claim(world), world.new_pod("p")
    assert stage.outcome(order(stage, "p", uid, work(claim))) is None
    release = ReleaseClaim("default", "gpu", claim, uid, is_generated=False)
    stage.say(PreemptPods(EPOCH, [], [release]))
    world.wait(f"{CLAIMS}/gpu", lambda claim: not claim["status"], "is free")
