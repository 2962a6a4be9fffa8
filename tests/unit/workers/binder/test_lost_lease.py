"""A binder whose lease is lost: nothing begins, what is under way is given up, nobody is told."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from shared.messages.to_binder import BindPods, ReportPods, StatusPatch
from shared.transport.lease_gate import GATE_NAME, LeaseGate
from tests.unit.workers.binder.test_loop import Stage, orders, play
from tests.unit.workers.binder.virtual_time import LoopClock
from workers.binder.binder_loop import TICK_S

Scene = Callable[[Stage, LeaseGate], Awaitable[None]]


def decided_in(term: int, *tickets: int) -> BindPods:
    return msgspec.structs.replace(orders(*tickets), lease_term=term)


def play_with_gate(folder: Path, scene: Scene) -> None:
    async def with_gate(stage: Stage) -> None:
        gate = LeaseGate(folder / GATE_NAME, LoopClock())
        stage.fences._gate = gate
        await stage.welcome()
        await scene(stage, gate)

    play(with_gate, in_flight_max=2)


def test_orders_of_the_open_term_are_carried_out(tmp_path: Path) -> None:
    async def scene(stage: Stage, gate: LeaseGate) -> None:
        term = gate.begin_term(asyncio.get_running_loop().time() + 10)
        await stage.peer.say(decided_in(term, 1))
        await stage.binds.end(1)
        (report,) = await stage.reports()
        assert report.finished == [1]

    play_with_gate(tmp_path, scene)


def test_orders_that_come_while_the_gate_is_closed_or_in_another_term_are_dropped(
    tmp_path: Path,
) -> None:
    async def scene(stage: Stage, gate: LeaseGate) -> None:
        await stage.peer.say(decided_in(1, 1), decided_in(0, 2))
        term = gate.begin_term(asyncio.get_running_loop().time() + 10)
        await stage.peer.say(decided_in(term + 1, 3), decided_in(0, 4))
        assert stage.binds.begun == []

    play_with_gate(tmp_path, scene)


def test_when_the_lease_lapses_what_waits_is_dropped_and_what_is_under_way_is_cut(
    tmp_path: Path,
) -> None:
    async def scene(stage: Stage, gate: LeaseGate) -> None:
        term = gate.begin_term(asyncio.get_running_loop().time() + 10)
        await stage.peer.say(decided_in(term, 1, 2, 3))
        assert stage.binds.begun == [1, 2]
        await asyncio.sleep(10 + 2 * TICK_S)
        assert stage.binds.under_way == {}
        assert stage.binds.begun == [1, 2]
        assert await stage.reports() == []
        # The next term begins with the orders of the next owner.
        term = gate.begin_term(asyncio.get_running_loop().time() + 10)
        await stage.peer.say(decided_in(term, 4))
        assert stage.binds.begun == [1, 2, 4]

    play_with_gate(tmp_path, scene)


def test_a_binding_that_ends_after_the_lapse_begins_no_other(tmp_path: Path) -> None:
    async def scene(stage: Stage, gate: LeaseGate) -> None:
        term = gate.begin_term(asyncio.get_running_loop().time() + 10)
        await stage.peer.say(decided_in(term, 1, 2, 3))
        gate.close()
        await stage.binds.end(1, 2)
        assert stage.binds.begun == [1, 2]

    play_with_gate(tmp_path, scene)


def test_conditions_of_a_lost_term_are_not_recorded_and_those_of_the_open_one_open_the_way(
    tmp_path: Path,
) -> None:
    async def scene(stage: Stage, gate: LeaseGate) -> None:
        verdict = StatusPatch(
            "default-scheduler", "default", "p", "u", "Unschedulable", "no", write_event=False
        )
        await stage.peer.say(ReportPods(7, [verdict], lease_term=1))
        await asyncio.sleep(5)
        assert stage.api.requests == []
        term = gate.begin_term(asyncio.get_running_loop().time() + 10)
        await stage.peer.say(ReportPods(7, [verdict], lease_term=term))
        assert stage.fences.may_write()
        await asyncio.sleep(5)
        assert len(stage.api.requests) == 1

    play_with_gate(tmp_path, scene)
