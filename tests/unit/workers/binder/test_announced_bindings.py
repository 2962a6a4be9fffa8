"""A pod whose binding takes time says where it is going before anything else is done for it."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from shared.framework.binding_api import ALLOWED, Allowed, Refused
from shared.kube.api_errors import Forbidden
from shared.messages.to_binder import BindPod, BindPods, ReportPods, StatusPatch
from tests.unit.workers.binder.fake_api import Answer, at_once, make_order
from tests.unit.workers.binder.test_loop import Stage
from tests.unit.workers.binder.virtual_time import run_virtual
from workers.binder.binding_cycle import BindingCycle, BindingPlugins

DENIED = Forbidden(403, "Forbidden", "not allowed")


class Prepares:
    """A PreBind plugin that notes how many nominations were written when it was asked."""

    NAME = "Prepares"

    def __init__(self, stage: Stage, answer: Allowed | Refused, *, has_work: bool) -> None:
        self._stage, self._answer, self._has_work = stage, answer, has_work
        self.written_before: list[int] = []

    def pre_flight(self, order: BindPod) -> bool:
        return self._has_work

    async def pre_bind(self, order: BindPod) -> Allowed | Refused:
        self.written_before.append(len(nominations(self._stage)))
        return self._answer


def nominations(stage: Stage) -> list[str]:
    bodies = [body.get("status", {}) for body in stage.api.bodies]
    return [each["nominatedNodeName"] for each in bodies if "nominatedNodeName" in each]


def play(
    scene: Callable[[Stage, Prepares], Awaitable[None]],
    answer: Allowed | Refused = ALLOWED,
    first: Answer = b"{}",
    *,
    has_work: bool = True,
) -> None:
    async def main() -> None:
        stage = Stage(10)
        stage.api.script[0] = first
        plugin = Prepares(stage, answer, has_work=has_work)
        stage.binder._cycle = BindingCycle(BindingPlugins((stage.binds,), (plugin,)), at_once)
        await stage.welcome()
        await scene(stage, plugin)
        stage.binder.stop_now()
        await stage.running
        stage.recorder.close()

    run_virtual(main())


def order(*, announces: bool = True) -> BindPods:
    return BindPods(7, [msgspec.structs.replace(make_order(1, uid="u1"), announces=announces)])


@pytest.mark.parametrize("first", [b"{}", DENIED])
def test_it_is_written_before_pre_bind_and_a_failure_keeps_no_pod_back(first: Answer) -> None:
    async def scene(stage: Stage, plugin: Prepares) -> None:
        await stage.peer.say(order())
        await asyncio.sleep(0.01)
        assert plugin.written_before == [1]
        await stage.binds.end(1)
        (report,) = await stage.reports()
        assert report.finished == [1]

    play(scene, first=first)


@pytest.mark.parametrize(("announces", "has_work"), [(True, False), (False, True)])
def test_nothing_is_written_without_work_or_without_the_owners_wish(
    announces: bool, has_work: bool
) -> None:
    async def scene(stage: Stage, plugin: Prepares) -> None:
        await stage.peer.say(order(announces=announces))
        await asyncio.sleep(0.01)
        await stage.binds.end(1)
        assert nominations(stage) == []
        assert len(plugin.written_before) == int(has_work)

    play(scene, has_work=has_work)


@pytest.mark.parametrize("announces", [True, False])
def test_the_owner_hears_of_it_when_the_binding_fails(announces: bool) -> None:
    async def scene(stage: Stage, plugin: Prepares) -> None:
        await stage.peer.say(order(announces=announces))
        await asyncio.sleep(0.01)
        (report,) = await stage.reports()
        assert [failed.was_announced for failed in report.failed] == [announces]

    play(scene, Refused("no"))


def test_no_binding_begins_before_what_the_owner_had_told_is_written() -> None:
    async def scene(stage: Stage, plugin: Prepares) -> None:
        opened = asyncio.Event()
        patch = stage.api.patch

        async def held(
            path: str, body: bytes, content_type: str = "", *, timeout_s: float | None = None
        ) -> bytes:
            await opened.wait()
            return await patch(path, body, timeout_s=timeout_s)

        stage.api.patch = held
        told = StatusPatch("p", "default", "p1", "u1", nominated_node_name="n1")
        await stage.peer.say(ReportPods(7, [told]), order(announces=False))
        await asyncio.sleep(0.01)
        assert stage.binds.begun == []
        opened.set()
        await asyncio.sleep(0.01)
        assert stage.binds.begun == [1]

    play(scene, has_work=False)
