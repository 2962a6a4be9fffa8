"""A real binder process carries a preemption out at the simulated API server."""

from typing import Any

import pytest

from bench.apiserver import api_status as status
from bench.apiserver.api_faults import Disconnect, Refuse
from shared.messages.from_binder import BindReport, VictimDone
from shared.messages.to_binder import DeleteVictim, PreemptPods, ReportPods, StatusPatch
from tests.support.binder_stage import EPOCH, Stage, World
from tests.support.live_cluster import nominated_node

pytestmark = pytest.mark.integration

PODS = "/api/v1/namespaces/default/pods"


def running(world: World, name: str) -> str:
    uid = world.new_pod(name)
    world.bind(name, "n1")
    return uid


def order(number: int, name: str, uid: str) -> DeleteVictim:
    return DeleteVictim(
        number, "default-scheduler", "default", name, uid, "1", "n1", "default", "p", "up"
    )


def answers(stage: Stage, count: int) -> dict[int, VictimDone]:
    found: dict[int, VictimDone] = {}
    while len(found) < count:
        report = stage.next_of(BindReport)
        found.update({done.order_id: done for done in report.victims})
    return found


def is_marked(pod: dict[str, Any]) -> bool:
    return any(
        (c["type"], c["status"], c.get("reason"))
        == ("DisruptionTarget", "True", "PreemptionByScheduler")
        for c in pod["status"].get("conditions", [])
    )


def nominated(uid: str, node_name: str) -> ReportPods:
    patch = StatusPatch("default-scheduler", "default", "p", uid, nominated_node_name=node_name)
    return ReportPods(EPOCH, [patch])


def test_victims_are_marked_and_deleted_and_the_nomination_is_written(stage: Stage) -> None:
    world = stage.world
    uid, preemptor = running(world, "victim"), world.new_pod("p")
    stage.say(PreemptPods(EPOCH, [order(1, "victim", uid)], []))
    stage.say(nominated(preemptor, "n1"))
    assert answers(stage, 1) == {1: VictimDone(1, "")}
    victim = world.pod("victim")
    # It is bound, so it has its grace period; nobody here plays the kubelet.
    assert is_marked(victim)
    assert victim["metadata"]["deletionTimestamp"]
    world.wait_pod("p", lambda pod: nominated_node(pod) == "n1", "is nominated")
    stage.say(nominated(preemptor, ""))
    world.wait_pod("p", lambda pod: not nominated_node(pod), "is not nominated")


def test_another_pod_of_the_name_is_left_alone(stage: Stage) -> None:
    world = stage.world
    running(world, "victim")
    stage.say(
        PreemptPods(EPOCH, [order(1, "victim", "of-an-earlier-pod"), order(2, "gone", "x")], [])
    )
    assert set(answers(stage, 2).values()) == {VictimDone(1, ""), VictimDone(2, "")}
    victim = world.pod("victim")
    assert not is_marked(victim)
    assert "deletionTimestamp" not in victim["metadata"]


def test_a_server_that_fails_is_asked_again(stage: Stage) -> None:
    world = stage.world
    uid = running(world, "victim")
    world.faults.before["PATCH victim"] = [Refuse(status.internal("no"))]
    world.faults.after["DELETE victim"] = [Disconnect()]
    stage.say(PreemptPods(EPOCH, [order(1, "victim", uid)], []))
    assert answers(stage, 1) == {1: VictimDone(1, "")}
    assert world.faults.seen["PATCH victim"] == 2
    assert world.faults.seen["DELETE victim"] == 2


def test_orders_of_another_epoch_are_void(stage: Stage) -> None:
    world = stage.world
    uid, other = running(world, "victim"), running(world, "other")
    stage.say(PreemptPods(EPOCH + 1, [order(1, "victim", uid)], []))
    stage.say(PreemptPods(EPOCH, [order(2, "other", other)], []))
    assert list(answers(stage, 1)) == [2]
    assert not is_marked(world.pod("victim"))
