"""Pods that fit nowhere because of a worker's own placements that the owner has not confirmed."""

from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import Place
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline


def handed_out(pipeline: Pipeline, *pods: PodRecord) -> None:
    """The pods go to the worker as a batch, which it has not looked at yet."""
    for pod in pods:
        pipeline.add_pod(pod)


def worker_answers(pipeline: Pipeline) -> None:
    """The worker does all that it has in hand; the owner hears nothing of it yet."""
    while pipeline.step_scorer(0):
        pass


def started(*, cpu: str = "4") -> Pipeline:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu=cpu)], [])
    pipeline.run_until_quiet()
    return pipeline


def test_a_preemptor_takes_the_room_of_pods_that_were_not_confirmed_yet() -> None:
    pipeline = started()
    low = [make_pod(f"low{i}", cpu="2", priority=1) for i in range(2)]
    high = make_pod("high", cpu="4", priority=10)
    handed_out(pipeline, *low)
    handed_out(pipeline, high)
    worker_answers(pipeline)
    assert len(pipeline.to_owner) > 1, "the owner has heard of neither"
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound.get(high.uid) == ["n0"]
    assert pipeline.evicted == {pod.uid for pod in low}
    pipeline.check()


def test_confirmed_pods_beside_them_go_as_well() -> None:
    pipeline = started()
    low = [make_pod(f"low{i}", cpu="2", priority=1) for i in range(2)]
    handed_out(pipeline, low[0])
    pipeline.run_until_quiet()
    assert pipeline.bound.get(low[0].uid) == ["n0"]
    high = make_pod("high", cpu="4", priority=10)
    handed_out(pipeline, low[1])
    handed_out(pipeline, high)
    worker_answers(pipeline)
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound.get(high.uid) == ["n0"]
    assert pipeline.evicted == {pod.uid for pod in low}


def test_a_preemptor_that_unconfirmed_pods_do_not_keep_away_is_told_at_once() -> None:
    pipeline = started()
    handed_out(pipeline, make_pod("low", cpu="2", priority=1))
    high = make_pod("high", cpu="5", priority=10)
    handed_out(pipeline, high)
    worker_answers(pipeline)
    pipeline.run_until_quiet()
    queued = pipeline.state.queue.get(high.uid)
    assert queued is not None
    assert (queued.place, queued.attempts) == (Place.UNSCHEDULABLE, 1)
    assert pipeline.state.counters[Count.UNSCHEDULABLE] == 1


def test_pods_of_one_class_behind_unconfirmed_pods_are_all_tried_again() -> None:
    pipeline = started()
    low = [make_pod(f"low{i}", cpu="2", priority=1) for i in range(2)]
    high = [make_pod(f"high{i}", cpu="2", priority=10) for i in range(2)]
    handed_out(pipeline, *low)
    handed_out(pipeline, *high)
    worker_answers(pipeline)
    for _ in range(3):
        pipeline.run_until_quiet()
        pipeline.advance(20.0)
    assert all(pipeline.bound.get(pod.uid) == ["n0"] for pod in high)
    pipeline.check()


def room_for_the_first() -> tuple[Pipeline, PodRecord, PodRecord]:
    """The worker has placed one pod, and found no room beside it for another."""
    pipeline = started(cpu="2")
    first, second = make_pod("first", cpu="2"), make_pod("second", cpu="2")
    handed_out(pipeline, first)
    handed_out(pipeline, second)
    worker_answers(pipeline)
    return pipeline, first, second


def test_a_pod_that_was_kept_away_by_a_refused_placement_is_tried_again() -> None:
    pipeline, first, second = room_for_the_first()
    # Its placement is refused now, and `second` was found to fit nowhere.
    pipeline.delete_pod(first)
    pipeline.run_until_quiet()
    assert pipeline.bound.get(second.uid) == ["n0"]
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] == 1
    assert pipeline.state.counters[Count.UNSCHEDULABLE] == 0
    pipeline.check()


def test_a_preemption_that_a_refused_placement_made_necessary_is_not_carried_out() -> None:
    pipeline = Pipeline()
    low = make_pod("low", cpu="2", node_name="n0", priority=1)
    pipeline.sync([make_node("n0", cpu="4")], [low])
    pipeline.run_until_quiet()
    first, second = (make_pod(name, cpu="2", priority=10) for name in ("first", "second"))
    handed_out(pipeline, first)
    handed_out(pipeline, second)
    worker_answers(pipeline)
    pipeline.delete_pod(first)
    pipeline.run_until_quiet()
    assert pipeline.bound.get(second.uid) == ["n0"]
    assert not pipeline.evicted
    pipeline.check()


def test_a_pod_that_finds_no_room_on_a_copy_with_all_verdicts_is_parked() -> None:
    pipeline, first, second = room_for_the_first()
    pipeline.run_until_quiet()
    queued = pipeline.state.queue.get(second.uid)
    assert queued is not None
    assert queued.place is Place.UNSCHEDULABLE
    pipeline.delete_pod(first)
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound.get(second.uid) == ["n0"]
