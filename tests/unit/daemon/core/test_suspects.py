"""A pod that no scorer survives: it is found among others, parked, and all others are placed."""

import pytest

from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import Place
from daemon.core.suspects import LOSSES_IN_COMPANY_MAX, PARKED, PARKED_S, SUSPICION_S
from shared.framework.pod_info import PodInfo
from shared.kube.pod_record import PodRecord
from shared.messages.to_owner import PodChanged, PodDeleted
from shared.messages.to_scorer import SchedulePods
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline
from tests.support.tasks import tasks_of

pytestmark = pytest.mark.usefixtures("all_labels_matter")

BAD = {"is": "bad"}


class Deadly:
    """A pipeline whose scorers die as soon as they evaluate a pod with the label."""

    def __init__(self, worker_count: int = 1) -> None:
        self.pipeline = Pipeline(worker_count=worker_count)
        self.deaths = 0

    def run(self) -> None:
        """Until nothing moves any more."""
        pipeline = self.pipeline
        for _ in range(10_000):
            moved = False
            for index in list(pipeline.scorers):
                if self._is_doomed(index):
                    self.deaths += 1
                    pipeline.lose_scorer(index)
                    pipeline.start_scorer(index)
                    moved = True
                else:
                    moved |= pipeline.step_scorer(index)
            moved |= pipeline.step_owner()
            moved |= pipeline.step_binder()
            if not moved:
                return
        pytest.fail("it never ends")

    def _is_doomed(self, index: int) -> bool:
        scorer = self.pipeline.scorers[index]
        if scorer.inbox or not scorer.work or not isinstance(scorer.work[0], SchedulePods):
            return False
        known = scorer.replica.classes
        return any(
            self.is_deadly(known[task.class_id].info)
            for task in tasks_of(scorer.work[0])
            if task.class_id in known
        )

    def is_deadly(self, pod: PodInfo) -> bool:
        return pod.labels == BAD

    def place_of(self, pod: PodRecord) -> Place | None:
        queued = self.pipeline.state.queue.get(pod.uid)
        return None if queued is None else queued.place

    def is_parked(self, pod: PodRecord) -> bool:
        queued = self.pipeline.state.queue.get(pod.uid)
        return queued is not None and queued.gated_by == PARKED


def good(count: int) -> list[PodRecord]:
    return [make_pod(f"good{i}", cpu=f"{10 + i % 7}m") for i in range(count)]


def bad(count: int) -> list[PodRecord]:
    return [make_pod(f"bad{i}", labels=BAD) for i in range(count)]


@pytest.mark.parametrize("worker_count", [1, 3])
def test_the_one_that_nobody_survives_is_found_and_parked(worker_count: int) -> None:
    deadly = Deadly(worker_count)
    others, guilty = good(40), bad(1)
    deadly.pipeline.sync([make_node("n0", cpu="64")], [*others[:20], *guilty, *others[20:]])
    deadly.run()
    assert deadly.deaths == 2
    assert deadly.pipeline.bound.keys() == {pod.uid for pod in others}
    assert deadly.is_parked(guilty[0])
    assert not deadly.pipeline.state.suspects.is_careful
    (told,) = deadly.pipeline.verdicts
    assert (told.name, told.reason) == ("bad0", "SchedulerError")
    assert "again and again" in told.message
    assert deadly.pipeline.state.counters[Count.PODS_PARKED] == 1
    deadly.pipeline.check()


def test_all_pods_of_its_class_are_parked_with_it() -> None:
    deadly = Deadly()
    guilty = bad(20)
    deadly.pipeline.sync([make_node("n0", cpu="64")], [*guilty, *good(5)])
    deadly.run()
    late = make_pod("late", labels=BAD)
    deadly.pipeline.add_pod(late)
    deadly.run()
    assert deadly.deaths == 2
    assert all(deadly.is_parked(pod) for pod in (*guilty, late))
    assert len(deadly.pipeline.bound) == 5
    deadly.pipeline.check()


def test_it_is_tried_again_alone_after_an_hour() -> None:
    deadly = Deadly()
    (pod,) = bad(1)
    deadly.pipeline.sync([make_node("n0", cpu="64")], [pod])
    deadly.run()
    assert deadly.deaths == 2
    for _ in range(round(PARKED_S / 30) - 1):
        deadly.pipeline.advance(30.0)
        deadly.run()
    assert deadly.deaths == 2
    deadly.pipeline.advance(31.0)
    for other in good(5):
        deadly.pipeline.add_pod(other)
    deadly.run()
    assert deadly.deaths == 3, "one is enough now"
    assert deadly.is_parked(pod)
    assert len(deadly.pipeline.bound) == 5


def test_it_is_tried_again_when_it_changes() -> None:
    deadly = Deadly()
    (pod,) = bad(1)
    deadly.pipeline.sync([make_node("n0", cpu="64")], [pod])
    deadly.run()
    assert deadly.is_parked(pod)
    deadly.pipeline.tell(PodChanged(make_pod("bad0", labels={"is": "better"})))
    deadly.run()
    assert deadly.pipeline.bound.keys() == {pod.uid}
    assert deadly.deaths == 2
    assert not deadly.pipeline.state.suspects.parked
    deadly.pipeline.check()


def test_nothing_is_remembered_of_pods_that_are_gone() -> None:
    deadly = Deadly()
    (pod,) = bad(1)
    deadly.pipeline.sync([make_node("n0", cpu="64")], [pod])
    deadly.run()
    deadly.pipeline.tell(PodDeleted(pod))
    assert not deadly.pipeline.state.suspects.parked


def test_a_scorer_that_dies_of_itself_costs_nobody_anything() -> None:
    deadly = Deadly()
    pipeline = deadly.pipeline
    pipeline.sync([make_node("n0", cpu="64")], good(30))
    while not pipeline.scorers[0].work:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    pipeline.lose_scorer(0)
    pipeline.start_scorer(0)
    deadly.run()
    assert len(pipeline.bound) == 30
    assert not pipeline.state.suspects.is_careful
    assert pipeline.state.counters[Count.PODS_PARKED] == 0


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_scorer_that_is_only_cut_off_costs_nobody_anything(is_noticed: bool) -> None:
    deadly = Deadly()
    pipeline = deadly.pipeline
    pods = good(3)
    pipeline.lose_scorer(0)
    pipeline.start_scorer(0, "far")
    while pipeline.to_owner:
        pipeline.step_owner()
    pipeline.sync([make_node("n0", cpu="64")], pods)
    for _ in range(LOSSES_IN_COMPANY_MAX + 1):
        while not pipeline.scorers[0].work:
            assert pipeline.step_scorer(0) or pipeline.step_owner()
        if is_noticed:
            pipeline.lose_scorer(0)
        pipeline.start_scorer(0, "far")
        while pipeline.to_owner:
            pipeline.step_owner()
        assert not pipeline.state.suspects.is_careful
    deadly.run()
    assert pipeline.bound.keys() == {pod.uid for pod in pods}
    assert pipeline.state.counters[Count.PODS_PARKED] == 0


def test_a_loss_that_was_none_parks_nobody_for_long() -> None:
    """One scorer dies with the pod alone in hand; of the next one only the way to it is lost."""
    deadly = Deadly()
    pipeline = deadly.pipeline
    pod = make_pod("p")
    pipeline.sync([make_node("n0", cpu="64")], [pod])

    def lose_with_the_pod() -> None:
        while not pipeline.scorers[0].work:
            assert pipeline.step_scorer(0) or pipeline.step_owner()
        pipeline.lose_scorer(0)

    lose_with_the_pod()
    pipeline.start_scorer(0, "far")
    lose_with_the_pod()
    while pipeline.step_owner():
        pass
    assert deadly.is_parked(pod)
    pipeline.start_scorer(0, "far")
    deadly.run()
    pipeline.advance(1.0)
    deadly.run()
    assert pipeline.bound.keys() == {pod.uid}


def test_suspicion_ends_where_nobody_asks_for_the_pod() -> None:
    deadly = Deadly()
    pipeline = deadly.pipeline
    pod = make_pod("p")
    pipeline.sync([make_node("n0", cpu="64")], [pod])
    while not pipeline.scorers[0].work:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    pipeline.lose_scorer(0)
    pipeline.step_owner()
    assert pipeline.state.suspects.is_careful
    pipeline.advance(SUSPICION_S + 1)
    assert not pipeline.state.suspects.is_careful
