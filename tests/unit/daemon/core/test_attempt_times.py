"""Attempts are observed in bunches, and none is lost or counted twice."""

import math

import pytest

from daemon.core.counters import ATTEMPTS_LABELLED_MAX, Counters
from daemon.core.owner_counts import Count
from daemon.core.pod_classes import PodClasses
from daemon.core.queue.queued_pod import QueuedPod
from shared.columns.table import NodeTable
from shared.telemetry.metrics import HistogramState
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline


def queued(name: str, *, popped_s: float, attempts: int = 1, profile: str = "default") -> QueuedPod:
    record = make_pod(name, spec={"schedulerName": profile})
    pod_class = PodClasses(NodeTable()).acquire(record)
    return QueuedPod(
        record=record, pod_class=pod_class, tried_as=pod_class, priority=0, timestamp_s=0.0,
        arrival=1, added_s=1.0, attempts=attempts, popped_s=popped_s, initial_attempt_s=1.0,
    )  # fmt: skip


def by_name(counters: Counters) -> dict[tuple[str, ...], HistogramState]:
    return {(state.name, *state.labels): state for state in counters.measured().histograms}


def test_each_attempt_is_observed_once_with_its_own_duration() -> None:
    counters = Counters()
    for popped_s in (2.0, 2.0, 3.0):
        counters.bound(queued("p", popped_s=popped_s), 4.0)
    counters.refused(queued("q", popped_s=3.5), 4.0, is_error=False)
    counters.refused(queued("r", popped_s=3.5, profile="other"), 4.0, is_error=True)
    counters.flush()
    counters.flush()
    found = by_name(counters)
    placed = found["attempt_s", "scheduled", "default"]
    assert (sum(placed.counts), placed.sum) == (3, pytest.approx(2 + 2 + 1))
    assert found["attempt_s", "unschedulable", "default"].sum == pytest.approx(0.5)
    assert found["attempt_s", "error", "other"].sum == pytest.approx(0.5)
    whole = found["sli_s", "1"]
    assert (sum(whole.counts), whole.sum) == (3, pytest.approx(9.0))
    assert found["attempts",].sum == 3


@pytest.mark.parametrize(("ago_s", "took_s"), [(0.25, 1.75), (math.inf, 0.0)])
def test_what_a_binder_held_back_is_no_part_of_what_an_attempt_took(
    ago_s: float, took_s: float
) -> None:
    counters = Counters()
    counters.bound(queued("p", popped_s=2.0), 4.0 - ago_s)
    found = by_name(counters)
    assert found["attempt_s", "scheduled", "default"].sum == pytest.approx(took_s)
    assert found["sli_s", "1"].sum == pytest.approx(max(0.0, 3.0 - ago_s))


def test_very_many_attempts_are_one_label() -> None:
    counters = Counters()
    for attempts in (ATTEMPTS_LABELLED_MAX - 1, ATTEMPTS_LABELLED_MAX, 99):
        counters.bound(queued("p", popped_s=2.0, attempts=attempts), 3.0)
    found = by_name(counters)
    assert sum(found["sli_s", "14"].counts) == 1
    assert sum(found["sli_s", "15+"].counts) == 2


def test_the_owner_observes_what_becomes_of_each_pod() -> None:
    pipeline = Pipeline()
    pods = [make_pod(f"p{i}", cpu="1") for i in range(4)]
    pipeline.sync([make_node("n0", cpu="3")], pods)
    pipeline.run_until_quiet()
    found = by_name(pipeline.state.counters)
    assert sum(found["attempt_s", "scheduled", "default-scheduler"].counts) == 3
    assert sum(found["attempt_s", "unschedulable", "default-scheduler"].counts) == 1


def test_a_binding_is_part_of_its_attempt_and_one_that_fails_is_an_error() -> None:
    """As in bindingCycle and handleSchedulingFailure (schedule_one.go, v1.36.2)."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [make_pod("p")])
    while not pipeline.orders:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    counters = pipeline.state.counters
    assert not any(name == "attempt_s" for name, *_ in by_name(counters))
    pipeline.now_s += 3.0
    pipeline.step_binder(fails=True)
    pipeline.step_owner()
    pipeline.advance(10.0)
    while not pipeline.orders:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    pipeline.now_s += 2.0
    pipeline.step_binder()
    pipeline.step_owner()
    found = by_name(counters)
    assert found["attempt_s", "error", "default-scheduler"].sum == pytest.approx(3.0)
    assert found["attempt_s", "scheduled", "default-scheduler"].sum == pytest.approx(2.0)
    assert found["sli_s", "2"].sum == pytest.approx(15.0)


def test_every_pod_that_fits_nowhere_is_an_attempt_at_preemption() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="3")], [make_pod(f"p{i}", cpu="1") for i in range(5)])
    pipeline.run_until_quiet()
    assert pipeline.state.counters[Count.UNSCHEDULABLE] == 2
    assert pipeline.state.counters[Count.PREEMPTION_ATTEMPTS] == 2


def test_without_nodes_nobody_looks_for_room() -> None:
    pipeline = Pipeline()
    pipeline.sync([], [make_pod("p", cpu="1")])
    pipeline.run_until_quiet()
    assert pipeline.state.counters[Count.UNSCHEDULABLE] == 1
    assert pipeline.state.counters[Count.PREEMPTION_ATTEMPTS] == 0
