"""Orders that are void: nothing more is written for them, and only their own pods wait for them."""

import asyncio

import msgspec

from shared.messages.from_binder import BinderReady, BindReport
from shared.messages.to_binder import BindPod, BindPods, ReportPods, Welcome
from shared.transport.channels import Connected
from tests.unit.workers.binder.fake_api import FakeApi, make_nomination, make_order, make_verdict
from tests.unit.workers.binder.test_loop import Stage, orders, play
from tests.unit.workers.binder.test_waiting_orders import preempting
from workers.binder.bind_call import Outcome


class HeldApi(FakeApi):
    """Answers patches when it is let."""

    def __init__(self) -> None:
        super().__init__(*[b"{}"] * 100)
        self.held: list[asyncio.Future[None]] = []

    async def patch(
        self, path: str, body: bytes, content_type: str = "", *, timeout_s: float | None = None
    ) -> bytes:
        answer = await super().patch(path, body, timeout_s=timeout_s)
        self.held.append(asyncio.get_running_loop().create_future())
        await self.held[-1]
        return answer

    async def let_go(self) -> None:
        for each in self.held:
            if not each.done():
                each.set_result(None)
        await asyncio.sleep(0.001)


def with_held_patches(stage: Stage) -> HeldApi:
    api = HeldApi()
    stage.recorder._api = api
    stage.evictor._api = api
    return api


def again(ticket: int, epoch: int) -> BindPods:
    order = msgspec.structs.replace(make_order(ticket, uid="u1"), look_first=True)
    return BindPods(epoch, [order])


def test_an_order_waits_for_what_is_in_flight_of_its_pod_and_no_other_does() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1))
        await stage.peer.say(Welcome(8), again(101, 8), orders(2, epoch=8))
        assert stage.binds.begun == [1, 2]
        await stage.binds.end(1)
        assert stage.binds.begun == [1, 2, 101]
        await stage.binds.end(2, 101)
        (report,) = await stage.reports()
        assert report == BindReport(8, [2, 101], [])

    play(scene)


def test_an_order_for_a_pod_that_a_former_one_may_have_bound_looks_first() -> None:
    """Of one owner too: the pod was deleted, and is there again, as the API server was restored."""
    bound: list[BindPod] = []

    async def scene(stage: Stage) -> None:
        bind = stage.binds.bind

        async def noted(order: BindPod) -> Outcome:
            bound.append(order)
            return await bind(order)

        stage.binds.bind = noted
        await stage.welcome()
        await stage.peer.say(orders(1), BindPods(7, [make_order(101, uid="u1")]))
        await stage.binds.end(1)
        await stage.binds.end(101)

    play(scene)
    assert [(order.ticket, order.look_first) for order in bound] == [(1, False), (101, True)]


def test_void_requests_that_hang_take_no_place_of_the_next_owners_orders() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2, 3))
        await stage.peer.say(Welcome(8), orders(4, 5, 6, epoch=8))
        assert stage.binds.begun == [1, 2, 4, 5]
        await stage.peer.say(Welcome(9), orders(7, 8, epoch=9))
        assert stage.binds.begun == [1, 2, 4, 5], "twice as many at most"
        await stage.binds.end(1)
        assert stage.binds.begun == [1, 2, 4, 5, 7]
        await stage.binds.end(2, 4, 5)
        assert stage.binds.begun == [1, 2, 4, 5, 7, 8]
        await stage.peer.say(orders(9, epoch=9))
        assert stage.binds.begun == [1, 2, 4, 5, 7, 8], "nothing is void any more"

    play(scene, in_flight_max=2)


def test_whoever_waits_for_a_pod_and_is_void_too_is_waited_for_in_turn() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1))
        await stage.peer.say(Welcome(8), again(101, 8))
        await stage.peer.say(Welcome(9), again(201, 9))
        assert stage.binds.begun == [1]
        await stage.binds.end(1)
        assert stage.binds.begun == [1, 201]

    play(scene)


def test_an_order_whose_pods_condition_is_being_written_is_not_begun_under_the_next_owner() -> None:
    async def scene(stage: Stage) -> None:
        api = with_held_patches(stage)
        await stage.welcome()
        await stage.peer.say(ReportPods(7, [make_verdict("u1")]))
        await asyncio.sleep(1)
        await stage.peer.say(orders(1))
        assert (len(api.held), stage.binds.begun) == (1, [])
        await stage.peer.say(Connected(), Welcome(8))
        assert stage.peer.take(BinderReady)[-1] == BinderReady(8), "nothing in flight"
        await api.let_go()
        assert stage.binds.begun == []

    play(scene)


def test_conditions_of_an_owner_that_is_gone_are_not_written() -> None:
    async def scene(stage: Stage) -> None:
        api = with_held_patches(stage)
        await stage.welcome()
        verdicts = [make_verdict(f"u{i}") for i in range(10)]
        await stage.peer.say(ReportPods(7, verdicts))
        await asyncio.sleep(1)
        begun = len(api.held)
        assert 0 < begun < 10
        await stage.peer.say(Connected(), Welcome(8))
        for _ in range(10):
            await api.let_go()
            await asyncio.sleep(1)
        assert len(api.held) == begun

    play(scene)


def test_a_nomination_that_is_void_is_followed_by_the_next_owners() -> None:
    def nominated(epoch: int, node: str) -> ReportPods:
        return ReportPods(epoch, [make_nomination(node)])

    async def scene(stage: Stage) -> None:
        api = with_held_patches(stage)
        await stage.welcome()
        await stage.peer.say(nominated(7, "n1"))
        await stage.peer.say(nominated(7, "n2"), Welcome(8), nominated(8, "n3"))
        for _ in range(3):
            await api.let_go()
        written = [body["status"]["nominatedNodeName"] for body in api.bodies]
        assert written in (["n1", "n3"], ["n3"])
        await stage.peer.say(orders(1, epoch=8))
        assert stage.binds.begun == [1], "nothing is left that the pod waits for"

    play(scene)


def test_deletions_that_are_void_are_not_reported() -> None:
    async def scene(stage: Stage) -> None:
        with_held_patches(stage)
        await stage.welcome()
        await stage.peer.say(preempting("u1"), Welcome(7))
        assert not stage.fences._fences
        await stage.peer.say(Connected())
        assert stage.peer.take(BindReport) == []

    play(scene)
