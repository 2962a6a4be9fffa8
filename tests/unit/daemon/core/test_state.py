"""The owner's core with scorers and a binder around it, message by message."""

import numpy as np
import pytest

from daemon.core import status_patches
from daemon.core.events import Tell
from daemon.core.owner_counts import Count
from daemon.core.pod_groups import GroupSettings
from shared.kube.resources import ALL_KINDS
from shared.messages.admin import StatusAnswer, StatusRequest
from shared.messages.from_binder import (
    BinderHello,
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
)
from shared.messages.from_scorer import ScorerHeartbeat
from shared.messages.to_owner import (
    AdapterBatch,
    AdapterHello,
    AdapterMeasured,
    KindUnavailable,
    SyncFinished,
    SyncStarted,
)
from shared.messages.to_scorer import GreetAgain
from shared.telemetry.metrics import NOTHING
from shared.transport.channels import Channel
from shared.transport.heard import PeerGone, Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import ADAPTER, BINDER, EPOCH, Pipeline


def test_all_pods_that_fit_are_bound_once_and_the_rest_is_reported() -> None:
    pipeline = Pipeline()
    pods = [make_pod(f"p{i}", cpu="1") for i in range(10)]
    pipeline.sync([make_node("n0", cpu="4"), make_node("n1", cpu="4")], pods)
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 8
    assert all(len(nodes) == 1 for nodes in pipeline.bound.values())
    reported = {verdict.name for verdict in pipeline.verdicts}
    assert len(reported) == 2
    messages = {verdict.message for verdict in pipeline.verdicts}
    assert messages == {
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 "
        "nodes are available: 2 No preemption victims found for incoming pod."
    }
    lengths = pipeline.state.queue.pending_lengths()
    assert (lengths.unschedulable, lengths.in_flight) == (2, 0)
    pipeline.check()


def test_a_pod_arriving_before_any_scorer_is_placed_when_one_comes() -> None:
    pipeline = Pipeline(worker_count=0)
    pipeline.sync([make_node("n0")], [make_pod("p")])
    pipeline.run_until_quiet()
    assert not pipeline.bound
    pipeline.start_scorer(0)
    pipeline.run_until_quiet()
    assert list(pipeline.bound.values()) == [["n0"]]


def test_a_new_node_wakes_a_pod_that_fitted_nowhere() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("small", cpu="1")], [make_pod("big", cpu="3")])
    pipeline.run_until_quiet()
    assert not pipeline.bound
    pipeline.add_node(make_node("large", cpu="8"))
    pipeline.advance(2.0)
    pipeline.run_until_quiet()
    assert list(pipeline.bound.values()) == [["large"]]


def test_what_a_dead_scorer_had_in_hand_goes_to_its_next_life() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [make_pod(f"p{i}") for i in range(5)])
    pipeline.step_owner()
    assert pipeline.state.queue.pending_lengths().in_flight == 5
    pipeline.start_scorer(0)
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 5
    pipeline.check()


def test_a_failed_binding_gives_the_room_back_and_the_pod_is_tried_again() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="1")], [make_pod("p", cpu="1")])
    while not pipeline.orders:
        pipeline.step_owner()
        pipeline.step_scorer(0)
    pipeline.step_binder(fails=True)
    pipeline.step_owner()
    row = pipeline.state.cache.nodes.row_of("n0")
    assert pipeline.state.cache.nodes.requested[0, row] == 0
    pipeline.advance(2.0)
    pipeline.run_until_quiet()
    assert list(pipeline.bound.values()) == [["n0"]]
    assert pipeline.state.counters[Count.BINDS_FAILED] == 1


@pytest.mark.usefixtures("all_labels_matter")
def test_two_scorers_never_overcommit_a_node_between_them() -> None:
    pipeline = Pipeline(worker_count=2)
    while pipeline.step_owner():
        pass  # Both are known before there is work, so both get some.
    pods = [make_pod(f"p{i}", cpu="1", labels={"k": str(i % 2)}) for i in range(12)]
    pipeline.sync([make_node("n0", cpu="4"), make_node("n1", cpu="4")], pods)
    pipeline.run_until_quiet()
    nodes = pipeline.state.cache.nodes
    rows = nodes.present_rows()
    assert (nodes.requested[0, rows] <= nodes.allocatable[0, rows]).all()
    assert len(pipeline.bound) == 8
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] > 0
    # The workers' copies agree with the owner again, rejected placements included.
    for scorer in pipeline.scorers.values():
        assert np.array_equal(scorer.replica.nodes.requested[:, rows], nodes.requested[:, rows])
    pipeline.check()


def test_a_pod_deleted_while_a_scorer_has_it_is_not_assumed() -> None:
    pipeline = Pipeline()
    pod = make_pod("p")
    pipeline.sync([make_node("n0")], [pod])
    pipeline.step_owner()
    pipeline.delete_pod(pod)
    pipeline.run_until_quiet()
    assert not pipeline.bound
    assert pipeline.state.cache.pod_count() == 0
    pipeline.check()


def test_a_relist_drops_what_it_no_longer_shows() -> None:
    pipeline = Pipeline()
    kept, gone = make_pod("kept", node_name="n0"), make_pod("gone", node_name="n0")
    pipeline.sync([make_node("n0"), make_node("n1")], [kept, gone, make_pod("waiting", cpu="9")])
    pipeline.run_until_quiet()
    pipeline.sync([make_node("n0")], [kept])
    assert pipeline.state.cache.node_count() == 1
    assert {pod.record.name for pod in pipeline.state.cache.pods()} == {"kept"}
    assert len(pipeline.state.queue) == 0
    assert pipeline.state.counters[Count.MISSED_DELETES] == 3
    pipeline.check()


def test_pods_of_other_schedulers_are_counted_and_left_alone() -> None:
    pipeline = Pipeline()
    foreign = make_pod("f", spec={"schedulerName": "another"})
    pipeline.sync([make_node("n0")], [foreign])
    pipeline.run_until_quiet()
    assert not pipeline.bound
    assert pipeline.state.counters[Count.FOREIGN_PODS] == 1


def test_equal_events_and_seed_give_equal_decisions() -> None:
    def decide() -> dict[str, list[str]]:
        pipeline = Pipeline(seed=3)
        nodes = [make_node(f"n{i}") for i in range(20)]
        pipeline.sync(nodes, [make_pod(f"p{i}") for i in range(50)])
        pipeline.run_until_quiet()
        return pipeline.bound

    assert decide() == decide()


def test_the_pods_of_a_stuck_scorer_go_to_another_and_it_is_told_to_greet_again() -> None:
    pipeline = Pipeline(worker_count=2)
    while pipeline.step_owner():
        pass
    pipeline.sync([make_node("n0")], [make_pod(f"p{i}") for i in range(4)])
    stuck = pipeline.scorers[0]
    assert pipeline.state.scorers.get(stuck.peer) is not None
    pipeline.stuck.add(0)
    for _ in range(70):
        pipeline.advance(1.0)
        while pipeline.step_scorer(1) or pipeline.step_owner() or pipeline.step_binder():
            pass
    assert len(pipeline.bound) == 4
    assert pipeline.state.scorers.get(stuck.peer) is None
    pipeline.handle(Said(stuck.peer, ScorerHeartbeat(0)))
    assert isinstance(stuck.inbox[-1].message, GreetAgain)
    pipeline.check()


def test_the_status_says_when_the_adapter_and_the_api_server_were_heard() -> None:
    pipeline = Pipeline()
    pipeline.handle(Said(ADAPTER, AdapterBatch(0, [AdapterHello()])))
    pipeline.tell(AdapterMeasured(NOTHING, 12.5, {"nodes": 11.0, "pods": 12.0}))
    status = status_of(pipeline)
    assert (status.adapter_told_s, status.api_heard_s) == (12.5, {"nodes": 11.0, "pods": 12.0})


def test_a_list_that_ended_is_word_from_the_adapter_and_the_api_server() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    status = status_of(pipeline)
    assert status.adapter_told_s == status.api_heard_s["nodes"] == pipeline.now_s


def status_of(pipeline: Pipeline) -> StatusAnswer:
    (effect,) = pipeline.state.handle([Said(b"who", StatusRequest())], pipeline.now_s)
    assert isinstance(effect, Tell)
    assert isinstance(effect.message, StatusAnswer)
    return effect.message


def test_kinds_that_are_not_listed_yet_are_named() -> None:
    pipeline = Pipeline()
    watched = sorted(kind.plural for kind in ALL_KINDS if not kind.feature_gate)
    assert status_of(pipeline).awaited_kinds == watched
    assert "podgroups" in status_of(Pipeline(groups=GroupSettings())).awaited_kinds
    pipeline.handle(Said(ADAPTER, AdapterBatch(0, [AdapterHello()])))
    for kind in ALL_KINDS:
        if kind.plural != "pods":
            pipeline.tell(SyncStarted(kind.plural), SyncFinished(kind.plural, "1"))
    pipeline.tell(KindUnavailable("resourceclaims", "404"))
    assert status_of(pipeline).awaited_kinds == ["pods"]
    assert not status_of(pipeline).synced
    pipeline.tell(SyncStarted("pods"), SyncFinished("pods", "1"))
    assert status_of(pipeline).awaited_kinds == []
    assert status_of(pipeline).synced


def test_verdicts_wait_for_a_binder_the_last_of_each_pod_and_a_bounded_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_patches, "VERDICTS_MAX", 3)
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="1")], [])
    pipeline.run_until_quiet()
    pipeline.handle(PeerGone(Channel.BINDERS, BINDER))
    for i in range(5):
        pipeline.add_pod(make_pod(f"p{i}", cpu="2"))
        pipeline.run_until_quiet()
    # A node that is too small, too: all are tried again.
    pipeline.add_node(make_node("n1", cpu="1500m"))
    pipeline.now_s += 5.0
    pipeline.handle()
    pipeline.run_until_quiet()
    assert pipeline.verdicts == []
    pipeline.handle(Said(BINDER, BinderHello(0)))
    pipeline.handle(Said(BINDER, BinderReady(EPOCH)))
    told = [verdict.name for verdict in pipeline.verdicts]
    assert len(told) == len(set(told)) == 3


def test_what_waits_for_a_binder_is_not_said_of_a_pod_that_is_to_be_bound() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="1")], [])
    pipeline.run_until_quiet()
    pipeline.handle(PeerGone(Channel.BINDERS, BINDER))
    pod = make_pod("p", cpu="2")
    pipeline.add_pod(pod)
    pipeline.run_until_quiet()
    pipeline.add_node(make_node("n1", cpu="2"))
    pipeline.now_s += 5.0
    pipeline.handle()
    pipeline.run_until_quiet()
    pipeline.handle(Said(BINDER, BinderHello(0)))
    pipeline.handle(Said(BINDER, BinderReady(EPOCH)))
    pipeline.run_until_quiet()
    assert pipeline.bound == {pod.uid: ["n1"]}
    assert pipeline.patches == []


def test_that_a_pod_is_deleted_while_it_is_being_bound_is_nothing_to_warn_of() -> None:
    pipeline = Pipeline()
    pod = make_pod("p")
    pipeline.sync([make_node("n0")], [pod])
    while not pipeline.orders:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    order = pipeline.orders.popleft()
    pipeline.delete_pod(pod)
    gone = BindFailed(order.ticket, BindFailureReason.GONE, "not found")
    pipeline.handle(Said(BINDER, BindReport(EPOCH, [], [gone])))
    pipeline.run_until_quiet()
    assert pipeline.state.counters[Count.DISAGREEMENTS] == 0
    assert [note.event for note in pipeline.notes if note.is_warning] == []
    pipeline.check()
