"""A real binder process writes a pod's resource claims at the simulated API server, then binds it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shared.kube.objects import AllocatedDevice, AllocationResult, DeviceAllocationResult
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPods, ClaimWork
from tests.integration.test_binder import EPOCH, Stage, World
from workers.binder.claim_bind import FINALIZER

pytestmark = pytest.mark.integration

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


@pytest.fixture
def stage() -> Iterator[Stage]:
    world = World()
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        stage = Stage(world, Path(folder))
        try:
            stage.welcome()
            yield stage
        finally:
            stage.close()
            world.close()


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
    return ClaimWork("default", "gpu", uid, allocation, is_new=True, is_generated=False)


def order(stage: Stage, name: str, uid: str, claim: ClaimWork, *, again: bool = False) -> int:
    made = stage._order(name, uid, look_first=again)
    stage.say(BindPods(EPOCH, [msgspec.structs.replace(made, claims=[claim])]))
    return made.order_id


def test_a_claim_is_allocated_and_reserved_and_the_pod_bound(stage: Stage) -> None:
    world = stage.world
    claim, uid = work(add_claim(world)), world.add_pod("p")
    assert stage.outcome(order(stage, "p", uid, claim)) is None
    assert stage.outcome(order(stage, "p", uid, claim, again=True)) is None
    held = world.ask("GET", f"{CLAIMS}/gpu")
    assert held["metadata"]["finalizers"] == [FINALIZER]
    (device,) = held["status"]["allocation"]["devices"]["results"]
    assert device["device"] == "gpu-0"
    assert held["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
    assert world.node_of("p") == "n1"


def test_a_claim_that_was_allocated_differently_keeps_the_pod_unbound(stage: Stage) -> None:
    world = stage.world
    claim = add_claim(world)
    assert stage.outcome(order(stage, "p", world.add_pod("p"), work(claim))) is None
    late = order(stage, "late", world.add_pod("late"), work(claim, "gpu-1"))
    assert stage.outcome(late) is BindFailureReason.REJECTED
    assert not world.node_of("late")
