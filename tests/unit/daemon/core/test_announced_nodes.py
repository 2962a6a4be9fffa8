"""Pods that wait for Permit plugins or binders tell where they are going, and take it back."""

import msgspec
import pytest

from daemon.core.events import Tell
from daemon.core.status_patches import StatusPatches, nomination_of, verdict_of
from shared.framework.plugin_api import PermitResult, WaitingPod
from shared.framework.status import SUCCESS
from shared.messages.from_binder import BindFailed, BindFailureReason, BindReport
from shared.messages.to_binder import BindPod, BindPods
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import BINDER, EPOCH, Pipeline
from tests.unit.daemon.core.test_waiting_pods import Asks


class Announced(Pipeline):
    """A pod on its way to the one node there is, with one Permit plugin."""

    def __init__(self, *, announces_nodes: bool = True, nominated: str = "") -> None:
        self.plugin = Asks("A")
        super().__init__(permit=(self.plugin,), announces_nodes=announces_nodes)
        self.pod = msgspec.structs.replace(make_pod("p", cpu="3"), nominated_node_name=nominated)
        self.sync([make_node("n1", cpu="4")], [self.pod])
        while not self.state.waiting.by_uid:
            assert self.step_owner() or self.step_scorer(0)

    @property
    def told(self) -> str | None:
        return self.nominated.get(self.pod.uid)

    @property
    def waiting_pod(self) -> WaitingPod:
        (waiting,) = self.plugin.handle.waiting_pods()
        return waiting


def test_a_pod_that_waits_says_where_and_takes_no_room_twice() -> None:
    world = Announced()
    assert world.told == "n1"
    world.add_pod(msgspec.structs.replace(world.pod, nominated_node_name="n1"))
    assert not len(world.state.cache.view.nominations), "the assumed pod itself takes the room"
    world.plugin.answer = PermitResult(SUCCESS)
    small = make_pod("small", cpu="1")
    world.add_pod(small)
    world.run_until_quiet()
    assert world.bound == {small.uid: ["n1"]}
    world.check()


@pytest.mark.parametrize("is_seen", [False, True])
def test_it_takes_that_back_when_permit_refuses(is_seen: bool) -> None:
    world = Announced()
    if is_seen:
        world.add_pod(msgspec.structs.replace(world.pod, nominated_node_name="n1"))
    world.waiting_pod.reject("A", "no")
    world.handle()
    world.run_until_quiet()
    assert world.told == ""
    assert not len(world.state.queue.nominator.node_by_uid)
    world.check()


def test_nothing_is_told_that_the_status_says_already_or_that_is_switched_off() -> None:
    assert Announced(nominated="n1").told is None
    assert Announced(nominated="n2").told == "n1"
    off = Announced(announces_nodes=False)
    assert off.told is None
    off.waiting_pod.allow("A")
    off.handle()
    assert [order.announces for order in off.orders] == [False]


def test_the_binder_is_not_to_tell_again_what_the_owner_had_told() -> None:
    world = Announced()
    world.waiting_pod.allow("A")
    world.handle()
    assert [order.announces for order in world.orders] == [False]


def test_what_no_binder_knows_yet_is_recalled_and_what_was_said_before_is_not() -> None:
    patches, pod = StatusPatches(), make_pod("p")
    verdict = verdict_of(1, pod, "default-scheduler", "no", is_error=False)
    for said in ([], [verdict]):
        for patch in (*said, nomination_of(2, pod, "n1")):
            patches.add(patch)
        assert len(patches.by_uid) == 1
        assert patches.recall(pod.uid)
        assert not patches.recall(pod.uid)
        assert patches.take() == said


@pytest.mark.parametrize(
    ("was_nominated", "is_announced", "expected"),
    [("", False, True), ("n1", False, False), ("n0", False, True), ("", True, False)],
)
def test_orders_say_whether_the_node_is_to_be_told(
    was_nominated: str, is_announced: bool, expected: bool
) -> None:
    def ordered(world: Announced) -> BindPod:
        pod = world.state.queue.get(world.pod.uid)
        assert pod is not None
        record = msgspec.structs.replace(world.pod, nominated_node_name=was_nominated)
        world.state._ends.order_binding(pod, record, "n1", is_announced=is_announced)
        (effect,) = world.state.binders.flush()
        assert isinstance(effect, Tell)
        assert isinstance(effect.message, BindPods)
        return effect.message.orders[0]

    assert ordered(Announced()).announces is expected
    assert not ordered(Announced(announces_nodes=False)).announces


def test_failures_carry_what_the_binder_told_the_world() -> None:
    old = msgspec.msgpack.encode([1, "rejected", "no"])
    assert not msgspec.msgpack.decode(old, type=BindFailed).was_announced
    told = BindFailed(1, BindFailureReason.REJECTED, "no", True)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=BindFailed) == told


@pytest.mark.parametrize("by_owner", [True, False])
@pytest.mark.parametrize("by_binder", [True, False])
def test_it_is_taken_back_by_whoever_told_it_when_the_binding_fails(
    by_owner: bool, by_binder: bool
) -> None:
    world = Announced(announces_nodes=by_owner)
    world.waiting_pod.allow("A")
    world.handle()
    (order,) = world.orders
    failed = BindFailed(order.ticket, BindFailureReason.REJECTED, "no", by_binder)
    world.handle(Said(BINDER, BindReport(EPOCH, [], [failed])))
    assert world.told == ("" if by_owner or by_binder else None)
    world.check()


def test_an_order_whose_outcome_is_unknown_takes_nothing_back() -> None:
    world = Announced()
    world.waiting_pod.allow("A")
    world.handle()
    failed = BindFailed(world.orders[0].ticket, BindFailureReason.UNREACHABLE, "lost", True)
    world.handle(Said(BINDER, BindReport(EPOCH, [], [failed])))
    assert world.told == "n1"
    world.advance(1.0)
    assert world.orders[-1].look_first
