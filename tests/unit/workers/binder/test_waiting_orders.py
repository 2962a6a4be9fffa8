"""Pods that wait for their volumes before they are bound, beside pods that do not."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from shared.framework.binding_api import ALLOWED, Allowed, Refused
from shared.kube.binding_work import VolumeWork
from shared.messages.from_binder import (
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
    VictimDone,
)
from shared.messages.to_binder import BindPod, BindPods, DeleteVictim, PreemptPods, Welcome
from tests.support.binding_work import with_work
from tests.unit.workers.binder.fake_api import at_once, make_order
from tests.unit.workers.binder.test_loop import Stage, orders, play
from workers.binder.binding_cycle import PREEMPTED, BindingCycle, BindingPlugins
from workers.binder.volume_bind import VolumeBinder


class FakeVolumes(VolumeBinder):
    """Volumes that are there when told."""

    def __init__(self) -> None:
        self.awaited: dict[int, asyncio.Future[Allowed | Refused]] = {}
        self.cancelled: list[int] = []

    async def pre_bind(self, order: BindPod) -> Allowed | Refused:
        self.awaited[order.ticket] = asyncio.get_running_loop().create_future()
        try:
            return await self.awaited[order.ticket]
        except asyncio.CancelledError:
            self.cancelled.append(order.ticket)
            raise

    async def end(self, ticket: int, outcome: Allowed | Refused = ALLOWED) -> None:
        self.awaited[ticket].set_result(outcome)
        await asyncio.sleep(0.001)


def with_volumes(*tickets: int, epoch: int = 7) -> BindPods:
    work = VolumeWork([], [], 600)
    made = [make_order(i, uid=f"u{i}") for i in tickets]
    return BindPods(epoch, [with_work(order, work) for order in made])


def play_with_volumes(
    scene: Callable[[Stage, FakeVolumes], Awaitable[None]], in_flight_max: int = 10
) -> None:
    async def prepared(stage: Stage) -> None:
        volumes = FakeVolumes()
        cycle = BindingCycle(BindingPlugins((stage.binds,), (volumes,)), at_once)
        stage.binder._cycle = cycle
        await scene(stage, volumes)

    play(prepared, in_flight_max)


def test_a_pod_is_bound_once_its_volumes_are() -> None:
    async def scene(stage: Stage, volumes: FakeVolumes) -> None:
        await stage.welcome()
        await stage.peer.say(with_volumes(1))
        assert stage.binds.begun == []
        await volumes.end(1)
        assert stage.binds.begun == [1]
        await stage.binds.end(1)
        assert await stage.reports() == [BindReport(7, [1], [])]

    play_with_volumes(scene)


def test_a_pod_without_its_volumes_is_not_bound() -> None:
    async def scene(stage: Stage, volumes: FakeVolumes) -> None:
        await stage.welcome()
        await stage.peer.say(with_volumes(1))
        await volumes.end(1, Refused("no disk"))
        told = 'running PreBind plugin "VolumeBinding": no disk'
        failed = [BindFailed(1, BindFailureReason.REJECTED, told)]
        assert await stage.reports() == [BindReport(7, [], failed)]
        assert stage.binds.begun == []

    play_with_volumes(scene)


def test_who_waits_for_volumes_keeps_nobody_from_being_bound() -> None:
    async def scene(stage: Stage, volumes: FakeVolumes) -> None:
        await stage.welcome()
        await stage.peer.say(with_volumes(1, 2, 3), orders(4, 5))
        assert sorted(volumes.awaited) == [1, 2, 3]
        assert stage.binds.begun == [4]
        await stage.binds.end(4)
        assert stage.binds.begun == [4, 5]

    play_with_volumes(scene, in_flight_max=1)


def test_a_new_owner_is_not_kept_waiting_for_volumes() -> None:
    async def scene(stage: Stage, volumes: FakeVolumes) -> None:
        await stage.welcome()
        await stage.peer.say(with_volumes(1))
        await stage.peer.say(Welcome(8))
        assert volumes.cancelled == [1]
        # Cut at once; it is over a turn of the event loop later.
        assert stage.peer.take(BinderReady) == [BinderReady(8, 1), BinderReady(8)]
        assert await stage.reports() == []

    play_with_volumes(scene)


def test_an_owner_that_took_the_binder_for_dead_is_not_kept_waiting_for_volumes() -> None:
    async def scene(stage: Stage, volumes: FakeVolumes) -> None:
        await stage.welcome()
        await stage.peer.say(with_volumes(1))
        await stage.peer.say(Welcome(7))
        assert volumes.cancelled == [1]
        await stage.peer.say(with_volumes(1), orders(2))
        assert stage.binds.begun == [2]
        await volumes.end(1)
        assert stage.binds.begun == [2, 1]
        await stage.binds.end(1, 2)
        (report,) = await stage.reports()
        assert report.finished == [1, 2]

    play_with_volumes(scene)


def methods(stage: Stage) -> list[str]:
    return [method for method, _ in stage.api.requests]


def preempting(*uids: str) -> PreemptPods:
    victims = [
        DeleteVictim(
            order_id=100 + number,
            profile="default-scheduler",
            namespace="ns",
            name=f"pod-{uid}",
            uid=uid,
            resource_version="1",
            node_name="n1",
            preemptor_namespace="ns",
            preemptor_name="preemptor",
            preemptor_uid="high",
        )
        for number, uid in enumerate(uids)
    ]
    return PreemptPods(7, victims, [])


def test_a_victim_that_is_being_prepared_gives_up_and_is_not_deleted() -> None:
    async def scene(stage: Stage, volumes: FakeVolumes) -> None:
        await stage.welcome()
        await stage.peer.say(with_volumes(1, 2))
        await stage.peer.say(preempting("u1"))
        await asyncio.sleep(0.001)
        assert volumes.cancelled == [1]
        told = f'running PreBind plugin "VolumeBinding": {PREEMPTED}'
        failed = BindFailed(1, BindFailureReason.REJECTED, told)
        assert await stage.reports() == [BindReport(7, [], [failed], [VictimDone(100, "")])]
        assert methods(stage) == ["POST"], "it is told in an event, and not deleted"
        note = "Preempted by pod high on node n1 (in kube-scheduler memory)."
        assert stage.api.bodies[0]["note"] == note
        await volumes.end(2)
        await stage.binds.end(2)
        assert await stage.reports() == [BindReport(7, [2], [])]

    play_with_volumes(scene)


def test_of_a_victim_that_gave_its_place_up_only_an_event_tells() -> None:
    """It waited on Permit: the owner has it in its queue again."""

    async def scene(stage: Stage, volumes: FakeVolumes) -> None:
        await stage.welcome()
        told = preempting("u1")
        given_up = [msgspec.structs.replace(victim, is_given_up=True) for victim in told.victims]
        await stage.peer.say(PreemptPods(7, given_up, []))
        await asyncio.sleep(0.001)
        assert stage.peer.take(BindReport) == [BindReport(7, [], [], [VictimDone(100, "")])]
        assert methods(stage) == ["POST"]
        note = "Preempted by pod high on node n1 (in kube-scheduler memory)."
        assert stage.api.bodies[0]["note"] == note

    play_with_volumes(scene)


def test_a_victim_that_is_being_bound_already_is_deleted() -> None:
    async def scene(stage: Stage, volumes: FakeVolumes) -> None:
        await stage.welcome()
        await stage.peer.say(with_volumes(1))
        await volumes.end(1)
        assert stage.binds.begun == [1]
        await stage.peer.say(preempting("u1"))
        await asyncio.sleep(0.001)
        assert volumes.cancelled == []
        assert methods(stage) == ["PATCH", "DELETE", "POST"]

    play_with_volumes(scene)


def test_a_victim_that_was_told_to_give_up_can_be_ended_as_any_other() -> None:
    async def scene(stage: Stage, volumes: FakeVolumes) -> None:
        await stage.welcome()
        await stage.peer.say(with_volumes(1))
        await stage.peer.say(Welcome(8))
        await stage.peer.say(preempting("u1"))
        await asyncio.sleep(0.001)
        assert volumes.cancelled == [1]
        assert await stage.reports() == []

    play_with_volumes(scene)
