"""A turn has two halves: what pods wait for leaves first, what others are told of it second."""

import math

from daemon.core.cluster_changes import LATE_S
from daemon.core.events import Event, Publish, Tell
from shared.messages.to_binder import BindPods
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline


def test_a_binding_leaves_before_the_delta_that_tells_of_it() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    pipeline.run_until_quiet()
    pipeline.add_pod(make_pod("first"))  # Two of a class: the next may be foreseen.
    pipeline.run_until_quiet()
    pipeline.add_pod(make_pod("p"))
    while not pipeline.to_owner:
        assert pipeline.step_scorer(0)
    proposal: Event = pipeline.to_owner.popleft()
    state = pipeline.state
    (order,) = state.decide([proposal], pipeline.now_s)
    assert isinstance(order, Tell)
    assert isinstance(order.message, BindPods)
    assert [each.name for each in order.message.orders] == ["p"]
    (delta,) = state.spread(pipeline.now_s)
    assert isinstance(delta, Publish)


def mixed() -> Pipeline:
    """Pods of a class each came, one by one."""
    pipeline = Pipeline()
    pipeline.sync([make_node(f"n{i}") for i in range(3)], [])
    pipeline.run_until_quiet()
    pipeline.advance(LATE_S)
    pipeline.run_until_quiet()
    for i in range(3):
        pipeline.add_pod(make_pod(f"p{i}", cpu=f"{i + 1}00m"))
        pipeline.run_until_quiet()
    return pipeline


def is_told(pipeline: Pipeline) -> bool:
    """Whether the copies of workers are as the cache is."""
    return pipeline.state.snapshots.generation == pipeline.state.cache.generation


def test_where_pods_come_in_turn_of_many_classes_there_is_one_delta_a_pod() -> None:
    pipeline = mixed()
    before = pipeline.state.snapshots.sequence
    assert not is_told(pipeline)
    pipeline.add_node(make_node("n3"))
    assert pipeline.state.snapshots.sequence == before
    pipeline.add_pod(make_pod("q", cpu="2"))
    assert is_told(pipeline)
    pipeline.run_until_quiet()
    assert pipeline.state.snapshots.sequence == before + 1
    pipeline.check()


def test_without_a_pod_it_comes_soon() -> None:
    pipeline = mixed()
    due_s = pipeline.state.wakes_at_s
    assert due_s == pipeline.now_s + LATE_S
    pipeline.advance(LATE_S / 2)
    pipeline.add_node(make_node("n3"))
    assert pipeline.state.wakes_at_s == due_s, "it waits since the first of what it tells"
    pipeline.advance(LATE_S / 2)
    assert is_told(pipeline)
    assert pipeline.state.wakes_at_s == math.inf


def test_who_has_pods_in_hand_is_told_at_once() -> None:
    pipeline = mixed()
    pipeline.add_pod(make_pod("q", cpu="2"))
    pipeline.add_node(make_node("n3"))
    assert is_told(pipeline)


def test_and_so_is_everybody_after_two_pods_of_a_class() -> None:
    pipeline = mixed()
    for name in "ab":
        pipeline.add_pod(make_pod(name, cpu="2"))
        pipeline.run_until_quiet()
        assert is_told(pipeline) is (name == "b")
    pipeline.add_pod(make_pod("other"))
    pipeline.run_until_quiet()
    assert not is_told(pipeline)
