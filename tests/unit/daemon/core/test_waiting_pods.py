"""Pods that wait for Permit plugins: whose word counts, time limits, and what becomes of them."""

from typing import Any, ClassVar

import pytest

from daemon.core.events import Tell
from daemon.core.queue.queued_pod import Place
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import PERMIT_TIMEOUT_MAX_S, WAIT, Handle, PermitResult
from shared.framework.pod_info import PodInfo
from shared.framework.status import SUCCESS, Code, Status
from shared.kube.pod_record import PodRecord
from shared.messages.admin import PodAnswer, PodRequest
from shared.messages.to_owner import PodChanged, PodDeleted
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline


class Asks:
    """A Permit plugin that answers what it is told, and keeps the handle."""

    NAME: ClassVar[str]
    handle: Handle

    def __init__(self, name: str, status: Status = WAIT, timeout_s: float = 60.0) -> None:
        vars(self).update(NAME=name)
        self.answer = PermitResult(status, timeout_s)

    def use_handle(self, handle: Handle) -> None:
        self.handle = handle

    def permit(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Any:
        return self.answer


class Waited(Pipeline):
    """A pipeline with Permit plugins, one node, and a pod that was placed on it."""

    def __init__(self, *plugins: Asks) -> None:
        super().__init__(permit=plugins)
        self.pod = make_pod("p", cpu="3")
        self.sync([make_node("n1", cpu="4")], [self.pod])
        self.run_until_quiet()

    @property
    def place(self) -> Place | None:
        queued = self.state.queue.get(self.pod.uid)
        return None if queued is None else queued.place

    @property
    def is_assumed(self) -> bool:
        return self.state.cache.is_assumed_pod(self.pod.uid)

    def messages(self) -> list[str]:
        return [verdict.message for verdict in self.verdicts]

    def settle(self) -> None:
        self.handle()
        self.run_until_quiet()
        self.check()


def test_a_pod_is_bound_when_all_have_allowed_it() -> None:
    first, second = Asks("A"), Asks("B")
    world = Waited(first, second)
    assert world.is_assumed
    assert world.bound == {}
    (waiting,) = first.handle.waiting_pods()
    assert waiting.pending_plugins == ("A", "B")
    waiting.allow("A")
    world.settle()
    assert world.bound == {}
    waiting.allow("B")
    waiting.reject("B", "too late")
    world.settle()
    assert world.bound == {world.pod.uid: ["n1"]}
    assert first.handle.waiting_pod(world.pod.uid) is None


class Notes(Asks):
    """A Reserve plugin as well, that notes what it is asked; refuses the pod "p0"."""

    def __init__(self) -> None:
        super().__init__("Notes")
        self.noted: list[str] = []

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        self.noted.append(f"reserve {record.name}")
        return SUCCESS

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        self.noted.append(f"unreserve {record.name}")

    def permit(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Any:
        self.noted.append(f"permit {record.name}")
        is_refused = record.name == "p0"
        return PermitResult(Status(Code.UNSCHEDULABLE, ("no",)) if is_refused else SUCCESS, 0.0)


def test_a_pod_is_reserved_and_permitted_before_the_next_one_is() -> None:
    """schedulingCycle in pkg/scheduler/schedule_one.go, v1.36.2."""
    plugin = Notes()
    world = Pipeline(permit=[plugin], reserve=[plugin])
    world.sync([make_node("n0", cpu="4")], [make_pod(f"p{i}", cpu="1") for i in range(3)])
    world.run_until_quiet()
    assert plugin.noted == [
        *("reserve p0", "permit p0", "unreserve p0"),
        *("reserve p1", "permit p1", "reserve p2", "permit p2"),
    ]


def test_who_asks_is_told_what_a_pod_waits_for_and_where() -> None:
    first = Asks("A")
    world = Waited(first, Asks("B"))
    (waiting,) = first.handle.waiting_pods()
    waiting.allow("A")
    asked = Said(b"who", PodRequest(world.pod.key))
    (answer,) = world.state.handle([asked], world.now_s)
    assert isinstance(answer, Tell)
    assert isinstance(answer.message, PodAnswer)
    facts = answer.message.facts
    assert facts is not None
    assert (facts.waits_for, facts.assumed_node) == (["B"], "n1")


def test_the_shortest_time_counts_and_the_pod_is_unschedulable_by_that_plugin() -> None:
    world = Waited(Asks("A", timeout_s=900), Asks("B", timeout_s=1.5))
    assert world.state.wakes_at_s <= world.now_s + 1.5
    world.advance(1.0)
    assert world.is_assumed
    world.advance(0.5)
    world.settle()
    assert not world.is_assumed
    assert world.messages() == [
        "0/1 nodes are available: 1 rejected due to timeout after waiting 1.5s at plugin B."
    ]
    queued = world.state.queue.get(world.pod.uid)
    assert queued is not None
    assert queued.unschedulable_plugins == {"B"}
    assert queued.place is Place.UNSCHEDULABLE
    (wait,) = (
        one for one in world.state.counters.measured().histograms if one.name == "permit_wait_s"
    )
    assert (wait.labels, sum(wait.counts), wait.sum) == (("Unschedulable",), 1, 1.5)


def test_nobody_waits_longer_than_a_quarter_of_an_hour() -> None:
    world = Waited(Asks("A", timeout_s=1e9))
    assert world.state.waiting.next_wakeup_s() == 1000.0 + PERMIT_TIMEOUT_MAX_S


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE])
def test_one_refusal_ends_it_whoever_else_would_wait(code: Code) -> None:
    world = Waited(Asks("A"), Asks("B", Status(code, ("no",))))
    assert not world.is_assumed
    assert len(world.state.waiting.by_uid) == 0
    assert world.messages() == ["0/1 nodes are available: 1 no."]


def test_who_says_pending_waits_for_its_own_event() -> None:
    world = Waited(Asks("A", Status(Code.PENDING, ("not yet",))))
    queued = world.state.queue.get(world.pod.uid)
    assert queued is not None
    assert queued.pending_plugins == {"A"}


def test_a_rejection_wakes_others_and_not_the_pod_itself() -> None:
    plugin = Asks("A")
    world = Waited(plugin)
    plugin.answer = PermitResult(SUCCESS)
    other = make_pod("other", cpu="2")
    world.add_pod(other)
    world.run_until_quiet()
    queued = world.state.queue.get(other.uid)
    assert queued is not None
    assert queued.place is Place.UNSCHEDULABLE
    (waiting,) = plugin.handle.waiting_pods()
    waiting.reject("A", "no")
    world.settle()
    assert world.place is Place.UNSCHEDULABLE
    world.advance(20.0)
    world.settle()
    assert world.bound == {other.uid: ["n1"]}


def test_a_waiting_pod_that_is_deleted_or_bound_elsewhere_is_forgotten() -> None:
    for happens in ("deleted", "bound"):
        world = Waited(Asks("A"))
        if happens == "deleted":
            world.delete_pod(world.pod)
        else:
            world.add_pod(make_pod("p", cpu="3", node_name="n1"))
        assert len(world.state.waiting.by_uid) == 0
        assert world.place is None
        world.settle()
        assert world.bound == {}


def test_a_re_list_without_the_pod_ends_its_waiting() -> None:
    world = Waited(Asks("A"))
    world.sync([make_node("n1", cpu="4")], [])
    assert len(world.state.waiting.by_uid) == 0
    world.settle()


def test_a_preempted_pod_goes_back_without_being_deleted() -> None:
    plugin = Asks("A")
    world = Waited(plugin)
    plugin.answer = PermitResult(SUCCESS)
    urgent = make_pod("urgent", cpu="3", priority=100)
    world.add_pod(urgent)
    while not world.victims:
        assert world.step_owner() or world.step_scorer(0)
    (told,) = world.victims
    assert told.is_given_up, "its event is written, and nothing else"
    world.run_until_quiet()
    world.advance(20.0)
    world.settle()
    assert world.evicted == set()
    assert world.bound == {urgent.uid: ["n1"]}
    assert world.place is not None
    assert "waiting on permit for pod: preempted" in world.messages()


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_pod_that_cannot_be_read_any_more_waits_no_more(*, is_allowed: bool) -> None:
    """It leaves the queue, so nobody may decide about it; its room is for others."""
    first = Asks("A")
    world = Waited(first)
    (waiting,) = first.handle.waiting_pods()
    other = make_pod("other", cpu="3")
    world.add_pod(other)
    world.run_until_quiet()
    world.tell(PodChanged(make_pod("p", cpu="nonsense")))
    if is_allowed:
        waiting.allow("A")
    world.settle()
    assert world.place is None
    assert not world.is_assumed
    assert [each.record.uid for each in first.handle.waiting_pods()] == [other.uid]


def test_what_a_plugin_decides_about_a_pod_that_is_gone_counts_for_nobody() -> None:
    first = Asks("A")
    world = Waited(first)
    (waiting,) = first.handle.waiting_pods()
    world.tell(PodDeleted(world.pod))
    waiting.allow("A")
    world.settle()
    assert world.bound == {}
    assert world.place is None
