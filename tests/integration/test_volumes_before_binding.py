"""A real binder process gives volumes to claims at the simulated API server, then binds the pod."""

from typing import Any

import pytest

from shared.kube.binding_work import MakeVolume, TakeVolume, VolumeWork
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPods
from tests.support.binder_stage import EPOCH, Stage, World
from tests.support.binding_work import with_work
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


def add_claim(world: World, name: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    return world.ask("POST", CLAIMS, {**body, "spec": spec})


def add_volume(world: World, name: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    return world.ask("POST", VOLUMES, {**body, "spec": spec})


def finish(world: World, name: str, volume: str) -> None:
    """What the volume controllers do in the end."""
    claim = world.ask("GET", f"{CLAIMS}/{name}")
    claim["spec"]["volumeName"] = volume
    annotations = claim["metadata"].setdefault("annotations", {})
    annotations["pv.kubernetes.io/bind-completed"] = "yes"
    world.ask("PUT", f"{CLAIMS}/{name}", claim)


def version_of(made: dict[str, Any]) -> str:
    version: str = made["metadata"]["resourceVersion"]
    return version


def work_for(world: World) -> VolumeWork:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    world.ask("POST", "/api/v1/nodes", node)
    volume, taking = add_volume(world, "pv"), add_claim(world, "taking")
    making = add_claim(world, "making")
    uid = taking["metadata"]["uid"]
    take = TakeVolume("pv", version_of(volume), True, "default", "taking", version_of(taking), uid)
    make = MakeVolume("default", "making", version_of(making), making["metadata"]["uid"])
    return VolumeWork([take], [make], HANG_S)


def order(stage: Stage, name: str, uid: str, work: VolumeWork, *, look_first: bool = False) -> int:
    made = stage._order(name, uid, look_first=look_first)
    stage.say(BindPods(EPOCH, [with_work(made, work)]))
    return made.ticket


def test_a_pod_is_bound_when_its_volumes_are(stage: Stage) -> None:
    world = stage.world
    work = work_for(world)
    ticket = order(stage, "p", world.new_pod("p"), work)
    volume = world.wait(f"{VOLUMES}/pv", lambda v: v["spec"]["claimRef"], "is promised")
    assert volume["spec"]["claimRef"]["name"] == "taking"
    assert volume["spec"]["claimRef"]["uid"] == work.take[0].claim_uid
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    claim = world.wait(f"{CLAIMS}/making", lambda c: c["metadata"]["annotations"], "has its node")
    assert claim["metadata"]["annotations"] == {"volume.kubernetes.io/selected-node": "n1"}
    assert not world.node_of("p")
    # Others are bound meanwhile.
    assert stage.outcome(stage.order("other")) is None
    finish(world, "taking", "pv")
    add_volume(world, "made")
    finish(world, "making", "made")
    assert stage.outcome(ticket) is None
    assert world.node_of("p") == "n1"


def test_an_order_that_was_lost_half_way_is_carried_on(stage: Stage) -> None:
    world = stage.world
    work, uid = work_for(world), world.new_pod("p")
    order(stage, "p", uid, work)
    world.wait(f"{CLAIMS}/making", lambda c: c["metadata"]["annotations"], "has its node")
    again = order(stage, "p", uid, work, look_first=True)
    finish(world, "taking", "pv")
    add_volume(world, "made")
    finish(world, "making", "made")
    assert set(stage.outcomes(2).values()) == {None}
    assert again
    assert world.node_of("p") == "n1"


def test_a_volume_that_changed_since_is_left_alone(stage: Stage) -> None:
    world = stage.world
    work = work_for(world)
    volume = world.ask("GET", f"{VOLUMES}/pv")
    volume["metadata"]["labels"] = {"somebody": "else"}
    world.ask("PUT", f"{VOLUMES}/pv", volume)
    ticket = order(stage, "p", world.new_pod("p"), work)
    assert stage.outcome(ticket) is BindFailureReason.REJECTED
    assert "claimRef" not in world.ask("GET", f"{VOLUMES}/pv")["spec"]
    assert not world.node_of("p")
