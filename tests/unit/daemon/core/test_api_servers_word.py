"""What the API server says of a pod that the owner has decided about otherwise: it is believed, and no
attempt is left behind."""

from typing import Any

import msgspec
import pytest

from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import Place
from daemon.core.status_patches import verdict_of
from shared.framework.status import SUCCESS
from shared.kube.pod_record import PodRecord
from shared.limits import VERDICT_LENGTH_MAX
from shared.messages.from_binder import BindFailed, BindFailureReason, BindReport
from shared.messages.to_owner import PodChanged
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import BINDER, EPOCH, Pipeline
from tests.unit.daemon.core.test_waiting_pods import Asks

DELETED = "2026-01-01T00:01:00Z"


def started(*plugins: Asks, node_count: int = 1) -> Pipeline:
    pipeline = Pipeline(permit=plugins)
    pipeline.sync([make_node(f"n{i}", cpu="4") for i in range(node_count)], [])
    pipeline.run_until_quiet()
    return pipeline


def ordered(pipeline: Pipeline, name: str = "x", **parts: Any) -> PodRecord:
    """A pod whose binding is ordered, and that the binder has not answered."""
    pod = make_pod(name, **parts)
    pipeline.add_pod(pod)
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass
    assert [order.uid for order in pipeline.orders] == [pod.uid]
    return pod


def place_of(pipeline: Pipeline, pod: PodRecord) -> Place | None:
    queued = pipeline.state.queue.get(pod.uid)
    return None if queued is None else queued.place


def report(pipeline: Pipeline, ticket: int, reason: BindFailureReason | None = None) -> None:
    finished = [] if reason else [ticket]
    failed = [BindFailed(ticket, reason, "no")] if reason else []
    pipeline.handle(Said(BINDER, BindReport(EPOCH, finished, failed)))


# Bound by somebody else ---------------------------------------------------------------------------


def test_an_attempt_ends_when_its_pod_was_bound_elsewhere_before_the_binder_says_so() -> None:
    pipeline = started(node_count=2)
    pod = ordered(pipeline)
    (order,) = pipeline.orders
    other = "n0" if order.node_name == "n1" else "n1"
    pipeline.add_pod(make_pod("x", node_name=other, resource_version="2"))
    report(pipeline, order.ticket, BindFailureReason.CONFLICT)
    assert place_of(pipeline, pod) is None
    assert pipeline.state.queue.pending_lengths().in_flight == 0
    held = pipeline.state.cache.get_pod(pod.uid)
    assert held is not None
    assert held.node_name == other
    assert not pipeline.verdicts
    pipeline.check()


def test_an_attempt_ends_when_a_binding_that_failed_is_seen_to_have_been_carried_out() -> None:
    pipeline = started()
    pod = ordered(pipeline)
    (order,) = pipeline.orders
    pipeline.add_pod(make_pod("x", node_name=order.node_name, resource_version="2"))
    report(pipeline, order.ticket, BindFailureReason.TIMEOUT)
    assert place_of(pipeline, pod) is None
    pipeline.check()


# Bound, and shown without a node again (etcd was restored) ----------------------------------------


def test_a_pod_that_is_shown_without_its_node_again_is_scheduled_anew() -> None:
    pipeline = started()
    large = make_pod("large", cpu="4", node_name="n0")
    pipeline.add_pod(large)
    small = make_pod("small", cpu="4", priority=0)
    pipeline.add_pod(small)
    pipeline.run_until_quiet()
    assert place_of(pipeline, small) is Place.UNSCHEDULABLE
    pipeline.add_pod(make_pod("large", cpu="4"))
    # Its room is free: both are tried, and one of them is bound.
    pipeline.run_until_quiet()
    pipeline.check()
    assert len(pipeline.bound) == 1
    assert pipeline.state.counters[Count.DISAGREEMENTS] == 1
    assert pipeline.state.counters[Count.ATTEMPTS_REPEATED] == 0
    notes = [note.fields["kind"] for note in pipeline.notes if "kind" in note.fields]
    assert notes == ["unbound"]


def test_a_binding_that_was_undone_before_it_was_reported_is_tried_again() -> None:
    pipeline = started()
    pod = ordered(pipeline)
    (order,) = pipeline.orders
    pipeline.orders.clear()
    pipeline.add_pod(make_pod("x", node_name=order.node_name, resource_version="2"))
    pipeline.add_pod(make_pod("x", resource_version="1"))
    report(pipeline, order.ticket)
    assert place_of(pipeline, pod) is Place.BACKOFF
    pipeline.advance(5.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {pod.uid: ["n0"]}
    pipeline.check()


# Assumed, and being deleted -----------------------------------------------------------------------


def two_for_one_room(pipeline: Pipeline) -> PodRecord:
    """A pod that waits for the room of another, which is assumed."""
    second = make_pod("second", cpu="4")
    pipeline.add_pod(second)
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass
    assert place_of(pipeline, second) is Place.UNSCHEDULABLE
    return second


def test_a_pod_that_waits_on_permit_and_is_being_deleted_gives_its_room_up() -> None:
    waits = Asks("A", timeout_s=900.0)
    pipeline = started(waits)
    first = make_pod("first", cpu="4")
    pipeline.add_pod(first)
    pipeline.run_until_quiet()
    assert pipeline.state.cache.is_assumed_pod(first.uid)
    second = two_for_one_room(pipeline)
    waits.answer = waits.answer._replace(status=SUCCESS)
    gone = make_pod("first", cpu="4", deleted=DELETED, resource_version="2")
    pipeline.tell(PodChanged(gone), PodChanged(gone))
    pipeline.advance(2.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {second.uid: ["n0"]}
    assert not pipeline.state.cache.is_assumed_pod(first.uid)
    pipeline.check()


def test_a_pod_that_is_being_bound_and_deleted_gives_its_room_up_at_once() -> None:
    pipeline = started()
    first = ordered(pipeline, "first", cpu="4")
    (order,) = pipeline.orders
    pipeline.orders.clear()
    second = two_for_one_room(pipeline)
    pipeline.add_pod(make_pod("first", cpu="4", deleted=DELETED, resource_version="2"))
    assert not pipeline.state.cache.is_assumed_pod(first.uid)
    pipeline.advance(2.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {second.uid: ["n0"]}
    # The binding goes on, and fails; the pod is not tried again.
    report(pipeline, order.ticket, BindFailureReason.REJECTED)
    assert place_of(pipeline, first) is Place.BACKOFF
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert place_of(pipeline, first) is None
    pipeline.check()


def test_a_pod_that_is_being_deleted_and_was_bound_nevertheless_is_done() -> None:
    pipeline = started()
    pod = ordered(pipeline)
    (order,) = pipeline.orders
    pipeline.add_pod(make_pod("x", deleted=DELETED, resource_version="2"))
    report(pipeline, order.ticket)
    assert place_of(pipeline, pod) is None
    bound = make_pod("x", node_name="n0", deleted=DELETED, resource_version="3")
    pipeline.add_pod(bound)
    assert pipeline.state.cache.get_pod(pod.uid) is not None
    pipeline.check()


def test_a_placement_of_a_pod_that_is_being_deleted_is_not_taken() -> None:
    pipeline = started()
    pod = make_pod("x")
    pipeline.add_pod(pod)
    pipeline.add_pod(make_pod("x", deleted=DELETED, resource_version="2"))
    pipeline.run_until_quiet()
    assert pipeline.bound == {}
    assert place_of(pipeline, pod) is None


@pytest.mark.usefixtures("all_labels_matter")
def test_a_change_of_an_assumed_pod_counts_when_its_binding_fails() -> None:
    pipeline = started()
    pod = ordered(pipeline)
    (order,) = pipeline.orders
    newer = make_pod("x", labels={"new": "label"}, nominated_node_name="n0", resource_version="2")
    pipeline.add_pod(newer)
    assert pipeline.state.cache.is_assumed_pod(pod.uid)
    report(pipeline, order.ticket, BindFailureReason.REJECTED)
    queued = pipeline.state.queue.get(pod.uid)
    assert queued is not None
    assert queued.record.resource_version == "2"
    assert queued.info.labels == {"new": "label"}
    assert not pipeline.state.cache.view.nominations.all()
    pipeline.check()


# Nominated, and gone ------------------------------------------------------------------------------


def nominated(pipeline: Pipeline) -> tuple[PodRecord, PodRecord]:
    """A preemptor whose victim takes its time, and a lesser pod that would fit beside the victim."""
    pipeline.add_pod(make_pod("victim", cpu="2", node_name="n0"))
    preemptor, lesser = make_pod("preemptor", cpu="4", priority=9), make_pod("lesser", cpu="1")
    for pod in (preemptor, lesser):
        pipeline.add_pod(pod)
        while pipeline.step_owner() or pipeline.step_scorer(0):
            pass
    pipeline.victims.clear()
    assert [each.uid for each in pipeline.state.cache.view.nominations.all()] == [preemptor.uid]
    assert place_of(pipeline, lesser) is Place.UNSCHEDULABLE
    return preemptor, lesser


def test_pods_that_a_nomination_kept_away_are_woken_when_its_pod_is_deleted() -> None:
    pipeline = started()
    preemptor, lesser = nominated(pipeline)
    pipeline.delete_pod(preemptor)
    pipeline.advance(2.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {lesser.uid: ["n0"]}


def test_pods_that_a_nomination_kept_away_are_woken_when_its_pod_waits_for_finalizers_alone() -> (
    None
):
    """As those of all pods of a Job that are deleted do."""
    pipeline = started()
    preemptor, lesser = nominated(pipeline)
    pipeline.add_pod(make_pod("victim", cpu="2", node_name="n0", deleted=DELETED))
    pipeline.add_pod(msgspec.structs.replace(preemptor, deleted=DELETED))
    assert place_of(pipeline, lesser) is Place.UNSCHEDULABLE
    pipeline.state.queue.activate([preemptor.uid], pipeline.now_s)
    pipeline.advance(2.0)
    pipeline.run_until_quiet()
    assert place_of(pipeline, preemptor) is None, "it is passed over"
    assert pipeline.bound == {lesser.uid: ["n0"]}


def test_pods_that_a_nomination_kept_away_are_woken_when_somebody_ends_it() -> None:
    pipeline = started()
    preemptor, lesser = nominated(pipeline)
    seen = make_pod("preemptor", cpu="4", priority=9, nominated_node_name="n0")
    pipeline.add_pod(seen)
    assert place_of(pipeline, lesser) is Place.UNSCHEDULABLE
    pipeline.state.queue.incoming.clear()
    pipeline.add_pod(msgspec.structs.replace(seen, nominated_node_name="elsewhere"))
    assert pipeline.state.queue.incoming["backoff", "AssignedPodDelete"] == 1
    assert place_of(pipeline, lesser) is not Place.UNSCHEDULABLE
    held = pipeline.state.queue.get(preemptor.uid)
    assert held is not None
    assert held.gated_by == "DefaultPreemption", "its victims are still being asked to go"


def test_pods_of_a_higher_priority_are_not_woken_by_the_end_of_a_nomination() -> None:
    pipeline = started()
    preemptor, lesser = nominated(pipeline)
    high = make_pod("high", cpu="5", priority=10)
    pipeline.add_pod(high)
    pipeline.run_until_quiet()
    assert place_of(pipeline, high) is Place.UNSCHEDULABLE
    pipeline.state.queue.incoming.clear()
    pipeline.delete_pod(preemptor)
    assert pipeline.state.queue.incoming["backoff", "AssignedPodDelete"] == 1
    assert place_of(pipeline, high) is Place.UNSCHEDULABLE
    assert place_of(pipeline, lesser) is not Place.UNSCHEDULABLE


# What nobody is told ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_deleted", [True, False])
def test_nobody_is_told_of_an_attempt_that_fails_after_its_pod_was_deleted(
    is_deleted: bool,
) -> None:
    pipeline = started()
    big = make_pod("big", cpu="5")
    pipeline.add_pod(big)
    while pipeline.step_scorer(0):
        pass
    if is_deleted:
        pipeline.delete_pod(big)
    pipeline.run_until_quiet()
    assert bool(pipeline.verdicts) is not is_deleted


def test_a_message_is_as_long_as_the_owner_can_hold() -> None:
    pod = make_pod("x")
    verdict = verdict_of(1, pod, "default-scheduler", "y" * (VERDICT_LENGTH_MAX + 1), is_error=True)
    assert verdict.message == "y" * VERDICT_LENGTH_MAX
