"""Orders, epochs, reports and the end of a binder, with an owner and bindings that do as told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest

from shared.limits import CHILD_STOP_S, QUIET_S
from shared.messages.codec import Drain
from shared.messages.from_binder import (
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
    FromBinder,
)
from shared.messages.to_binder import BindPod, BindPods, ReportPods, ToBinder, Welcome
from shared.transport.channels import Connected
from tests.unit.workers.binder.fake_api import FakeApi, at_once, make_order, make_verdict
from tests.unit.workers.binder.virtual_time import LoopClock, run_virtual
from workers.binder.bind_call import BOUND, Bound, NotBound, Outcome
from workers.binder.binder_loop import (
    RECORDER_DRAIN_S,
    REPORT_HELD_MAX,
    REPORT_HELD_S,
    TICK_S,
    BinderLoop,
)
from workers.binder.binding_cycle import BindingCycle, BindingPlugins
from workers.binder.claim_free import ClaimFreer, ClaimLines
from workers.binder.evictions import Evictor
from workers.binder.fences import Fences
from workers.binder.recorder import EventRecorder, RecorderSettings

M = TypeVar("M", bound=FromBinder)


class FakePeer:
    """The owner's end."""

    def __init__(self) -> None:
        self._to_binder: asyncio.Queue[ToBinder | Connected] = asyncio.Queue()
        self.sent: list[FromBinder] = []
        self.held_s: list[float] = []
        """Of the reports, which are kept without it."""
        self.is_full = False

    async def recv(self) -> ToBinder | Connected:
        return await self._to_binder.get()

    def send_nowait(self, message: FromBinder) -> bool:
        if not self.is_full:
            if isinstance(message, BindReport):
                self.held_s.append(message.held_s)
                message = msgspec.structs.replace(message, held_s=0.0)
            self.sent.append(message)
        return not self.is_full

    async def say(self, *messages: ToBinder | Connected) -> None:
        """Says it and lets the binder act on it."""
        for message in messages:
            self._to_binder.put_nowait(message)
        await asyncio.sleep(0.001)

    def take(self, kind: type[M]) -> list[M]:
        """What of this kind has come since the last time."""
        found = [m for m in self.sent if isinstance(m, kind)]
        self.sent = [m for m in self.sent if not isinstance(m, kind)]
        return found


class FakeBinds:
    """A Bind plugin whose bindings end when told."""

    NAME = "Fake"

    def __init__(self) -> None:
        self.under_way: dict[int, asyncio.Future[Outcome]] = {}
        self.begun: list[int] = []

    async def bind(self, order: BindPod) -> Outcome:
        self.begun.append(order.ticket)
        self.under_way[order.ticket] = asyncio.get_running_loop().create_future()
        try:
            return await self.under_way[order.ticket]
        finally:
            del self.under_way[order.ticket]

    async def end(self, *tickets: int, outcome: Outcome = BOUND) -> None:
        for ticket in tickets:
            self.under_way[ticket].set_result(outcome)
        await asyncio.sleep(0.001)

    async def fail(self, ticket: int, error: Exception) -> None:
        self.under_way[ticket].set_exception(error)
        await asyncio.sleep(0.001)


class Stage:
    """A binder with everything around it."""

    def __init__(self, in_flight_max: int) -> None:
        self.peer = FakePeer()
        self.binds = FakeBinds()
        self.api = FakeApi(*[b"{}"] * 100)
        loop = asyncio.get_running_loop()
        settings = RecorderSettings(trickle_per_s=0.001, held_s=0.0)
        self.recorder = EventRecorder(self.api, settings, LoopClock(), "host")
        self.fences = Fences()
        freer = ClaimFreer(self.api, ClaimLines())
        self.evictor = Evictor(
            self.api, LoopClock(), self.recorder.pod_preempted, freer, self.fences
        )
        self.binder = BinderLoop(
            3,
            self.peer,  # type: ignore[arg-type]  # A fake.
            BindingCycle(BindingPlugins(binds=(self.binds,)), at_once),
            self.recorder,
            in_flight_max,
            LoopClock(),
            self.evictor,
            self.fences,
        )
        self.running = loop.create_task(self.binder.run())

    async def welcome(self, epoch: int = 7) -> None:
        """Up to BinderReady."""
        await self.peer.say(Connected(), Welcome(epoch))
        assert self.peer.take(BinderReady) == [BinderReady(epoch)]
        self.peer.sent.clear()

    async def reports(self) -> list[BindReport]:
        """What was reported until nothing is held back any more."""
        await asyncio.sleep(REPORT_HELD_S + 0.001)
        return self.peer.take(BindReport)

    @property
    def has_ended(self) -> bool:
        return self.running.done()


def orders(*tickets: int, epoch: int = 7) -> BindPods:
    return BindPods(epoch, [make_order(i, uid=f"u{i}") for i in tickets])


def play(scene: Callable[[Stage], Awaitable[None]], in_flight_max: int = 10) -> None:
    async def main() -> None:
        stage = Stage(in_flight_max)
        await scene(stage)
        stage.binder.stop_now()
        await stage.running
        stage.recorder.close()

    run_virtual(main())


def test_hello_is_said_on_connection_and_each_second_until_welcomed() -> None:
    async def scene(stage: Stage) -> None:
        await stage.peer.say(Connected())
        assert stage.peer.sent == [BinderHello(3)]
        await asyncio.sleep(2.5)
        assert len(stage.peer.take(BinderHello)) == 3
        await stage.peer.say(Welcome(7))
        assert stage.peer.sent == [BinderReady(7)]
        await asyncio.sleep(2.4)
        assert stage.peer.take(BinderHello) == []
        heartbeats = stage.peer.take(BinderHeartbeat)
        assert heartbeats
        assert heartbeats[0] == BinderHeartbeat(3)

    play(scene)


def test_a_heartbeat_follows_soon_after_an_order_each_second_while_it_is_bound_and_seldom_after() -> (
    None
):
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await asyncio.sleep(10 * QUIET_S)
        assert 9 <= len(stage.peer.take(BinderHeartbeat)) <= 11
        await stage.peer.say(orders(1))
        await asyncio.sleep(TICK_S)
        assert len(stage.peer.take(BinderHeartbeat)) == 1
        await asyncio.sleep(5 * TICK_S)
        assert len(stage.peer.take(BinderHeartbeat)) == 5
        await stage.binds.end(1)
        await asyncio.sleep(10 * QUIET_S)
        assert 9 <= len(stage.peer.take(BinderHeartbeat)) <= 11

    play(scene)


def test_a_welcome_of_the_same_epoch_voids_what_was_ordered_before_it() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2))
        await stage.peer.say(Welcome(7), orders(3))
        assert stage.peer.take(BinderReady) == [BinderReady(7, 1)]
        await stage.binds.end(1)
        assert stage.peer.sent == [BinderReady(7)]
        assert stage.binds.begun == [1, 3]

    play(scene, in_flight_max=1)


def test_welcomes_that_answer_several_hellos_cost_no_order() -> None:
    async def scene(stage: Stage) -> None:
        await stage.peer.say(Connected())
        await stage.peer.say(Welcome(7), Welcome(7), orders(1))
        assert stage.peer.take(BinderReady) == [BinderReady(7)] * 2
        assert stage.binds.begun == [1]

    play(scene)


def test_no_more_bindings_than_allowed_are_in_flight_and_the_rest_follow_in_order() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2, 3), orders(4, 5))
        assert stage.binds.begun == [1, 2]
        await stage.binds.end(2)
        assert stage.binds.begun == [1, 2, 3]
        await stage.binds.end(1, 3)
        assert stage.binds.begun == [1, 2, 3, 4, 5]
        await asyncio.sleep(1)
        heartbeat = stage.peer.take(BinderHeartbeat)[-1]
        told = {one.labels[0]: sum(one.counts) for one in heartbeat.measured.histograms}
        assert told == {"Bind": 3, "PostBind": 3, "PreBind": 5, "PreBindPreFlight": 5}
        labels = {tuple(one.labels) for one in heartbeat.measured.histograms}
        assert ("PreBindPreFlight", "Skip", "default-scheduler") in labels
        assert ("PreBind", "Success", "default-scheduler") in labels

    play(scene, in_flight_max=2)


def test_outcomes_of_one_turn_are_one_report() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2, 3))
        stage.binds.under_way[3].set_result(NotBound(BindFailureReason.CONFLICT, "taken"))
        await stage.binds.end(1, 2)
        finished = [1, 2]
        failed = [BindFailed(3, BindFailureReason.CONFLICT, "taken")]
        assert stage.peer.sent == [BindReport(7, finished, failed)]

    play(scene)


def test_a_report_that_cannot_be_sent_is_kept_and_grows() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2))
        stage.peer.is_full = True
        await stage.binds.end(1)
        await asyncio.sleep(REPORT_HELD_S + 0.01)
        await stage.binds.end(2)
        stage.peer.is_full = False
        await asyncio.sleep(0.1)
        assert stage.peer.sent == [BindReport(7, [1, 2], [])]

    play(scene)


def test_orders_of_another_epoch_and_before_the_welcome_are_dropped() -> None:
    async def scene(stage: Stage) -> None:
        await stage.peer.say(Connected(), orders(1))
        await stage.welcome()
        await stage.peer.say(orders(2, epoch=6), orders(3))
        assert stage.binds.begun == [3]

    play(scene)


def test_a_new_epoch_drops_what_is_queued_and_says_when_all_in_flight_is_over() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2, 3))
        await stage.peer.say(Welcome(8))
        assert stage.peer.sent == [BinderReady(8, 2)]
        await stage.binds.end(1)
        # One of the new epoch takes the place that has become free, and waits for nobody.
        await stage.peer.say(orders(9, epoch=8))
        assert stage.binds.begun == [1, 2, 9]
        await stage.binds.end(2)
        assert stage.peer.sent == [BinderReady(8, 2), BinderReady(8)]

    play(scene, in_flight_max=2)


def test_a_new_connection_to_the_same_owner_reports_nothing_of_before() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2, 3))
        await stage.peer.say(Connected())
        assert stage.peer.take(BinderHello) == [BinderHello(3)]
        await stage.binds.end(1)
        assert stage.peer.sent == []
        await stage.peer.say(Welcome(7))
        await stage.binds.end(2)
        assert stage.peer.sent == [BinderReady(7, 1), BinderReady(7)]
        assert stage.binds.begun == [1, 2]

    play(scene, in_flight_max=2)


def test_outcomes_for_an_owner_that_is_gone_are_dropped() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1))
        await stage.peer.say(Connected())
        await stage.binds.end(1)
        stage.peer.sent.clear()
        await stage.peer.say(Welcome(8))
        assert stage.peer.sent == [BinderReady(8)]

    play(scene)


def test_a_bug_in_a_plugin_costs_one_binding_and_its_outcome_is_unknown() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2))
        await stage.binds.fail(1, KeyError("oops"))
        await stage.binds.end(2)
        told = "internal error: KeyError: 'oops'"
        assert await stage.reports() == [
            BindReport(7, [], [BindFailed(1, BindFailureReason.UNREACHABLE, told)]),
            BindReport(7, [2], []),
        ]

    play(scene)


def test_that_pods_are_bound_is_told_together_after_a_while() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2, 3))
        await stage.binds.end(1)
        await asyncio.sleep(REPORT_HELD_S / 2)
        await stage.binds.end(2)
        assert stage.peer.take(BindReport) == []
        await asyncio.sleep(REPORT_HELD_S / 2)
        assert stage.peer.take(BindReport) == [BindReport(7, [1, 2], [])]
        assert stage.peer.held_s == [pytest.approx(0.75 * REPORT_HELD_S, abs=0.005)]
        await stage.binds.end(3)
        assert await stage.reports() == [BindReport(7, [3], [])]
        assert stage.peer.held_s[1:] == [pytest.approx(REPORT_HELD_S, abs=0.005)]

    play(scene)


def test_that_nobody_looked_at_an_answer_is_no_part_of_what_the_binding_took() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1))
        await asyncio.sleep(0.25)
        await stage.binds.end(1, outcome=Bound(0.2))
        await stage.reports()
        assert stage.peer.held_s == [pytest.approx(0.2 + REPORT_HELD_S, abs=0.005)]
        await asyncio.sleep(2 * TICK_S)
        (taken,) = [
            one
            for beat in stage.peer.take(BinderHeartbeat)
            for one in beat.measured.histograms
            if one.labels[0] == "Bind"
        ]
        assert taken.sum == pytest.approx(0.05, abs=0.005)

    play(scene)


def test_a_failure_is_told_at_once_and_takes_along_what_waits() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2))
        await stage.binds.end(1)
        await stage.binds.end(2, outcome=NotBound(BindFailureReason.GONE, "gone"))
        failed = BindFailed(2, BindFailureReason.GONE, "gone")
        assert stage.peer.take(BindReport) == [BindReport(7, [1], [failed])]

    play(scene)


def test_a_message_that_is_worth_it_is_not_held_back() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        ids = range(1, REPORT_HELD_MAX + 1)
        await stage.peer.say(orders(*ids))
        await stage.binds.end(*ids)
        (report,) = stage.peer.take(BindReport)
        assert report.finished == list(ids)

    play(scene, in_flight_max=REPORT_HELD_MAX)


def test_drain_finishes_and_reports_what_was_accepted_then_ends() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2), Drain(), orders(3))
        assert not stage.has_ended
        await stage.binds.end(1)
        await stage.binds.end(2)
        assert stage.has_ended
        assert stage.binds.begun == [1, 2]
        reported = [ticket for r in stage.peer.take(BindReport) for ticket in r.finished]
        assert reported == [1, 2]

    play(scene, in_flight_max=1)


def test_a_binding_that_hangs_is_cut_before_the_supervisor_kills_the_binder() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2))
        await stage.binds.end(1)
        stage.binder.drain()
        await asyncio.sleep(CHILD_STOP_S - RECORDER_DRAIN_S)
        assert stage.has_ended
        assert stage.binds.under_way == {}
        reported = [ticket for r in stage.peer.take(BindReport) for ticket in r.finished]
        assert reported == [1]

    play(scene)


def test_drain_waits_until_the_last_report_is_sent() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1))
        stage.peer.is_full = True
        stage.binder.drain()
        await stage.binds.end(1)
        assert not stage.has_ended
        stage.peer.is_full = False
        await asyncio.sleep(0.1)
        assert stage.has_ended
        assert stage.peer.sent == [BindReport(7, [1], [])]

    play(scene)


def test_an_idle_binder_drains_at_once_even_without_an_owner() -> None:
    async def scene(stage: Stage) -> None:
        stage.binder.drain()
        await asyncio.sleep(0.001)
        assert stage.has_ended

    play(scene)


def test_without_an_owner_drain_does_not_wait_for_reports_to_be_heard() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1))
        await stage.peer.say(Connected())
        stage.binder.drain()
        await stage.binds.end(1)
        assert stage.has_ended

    play(scene)


def test_verdicts_are_recorded_and_those_of_another_epoch_are_not() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(
            ReportPods(7, [make_verdict("u1")]), ReportPods(6, [make_verdict("u2")])
        )
        await asyncio.sleep(1)
        assert {path.split("/")[-2] for _, path in stage.api.requests if "pods" in path} == {
            "pod-u1"
        }

    play(scene)


def test_bound_pods_are_recorded_once_bindings_are_over() -> None:
    async def scene(stage: Stage) -> None:
        await stage.welcome()
        await stage.peer.say(orders(1, 2, 3))
        await stage.binds.end(1, 2)
        await asyncio.sleep(1)
        trickle = len(stage.api.requests)
        await stage.binds.end(3)
        await asyncio.sleep(1)
        assert (trickle, len(stage.api.requests)) == (1, 3)

    play(scene)
