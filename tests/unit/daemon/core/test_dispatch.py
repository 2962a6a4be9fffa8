"""Work is handed out in runs, with tickets that follow one another in queue order."""

import pytest

from daemon.core import dispatch
from daemon.core.cache import Cache
from daemon.core.dispatch import (
    BATCH_PODS_MAX,
    CREDIT_PODS,
    WINDOW_PODS_MIN,
    WINDOW_STEP_PODS,
    Scorer,
    ScorerFleet,
)
from daemon.core.events import Tell
from daemon.core.pod_classes import PodClasses
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.snapshot_log import SnapshotLog
from shared.columns.table import NodeTable
from shared.feature_gates import DEFAULT_GATES
from shared.messages.to_scorer import PodTask, SchedulePods, TaskRun
from tests.support.builders import make_pod
from tests.support.tasks import tasks_of


def empty_fleet(*nominated: str) -> ScorerFleet:
    snapshots = SnapshotLog(Cache(DEFAULT_GATES), epoch=1)
    snapshots.sequence = 5
    return ScorerFleet(1, snapshots, nominated)


def joined(scorers: ScorerFleet, peer: bytes, index: int) -> Scorer:
    scorers.join(peer, index, "i", now_s=0.0)
    scorer = scorers.get(peer)
    assert scorer is not None
    return scorer


def fleet(*nominated: str) -> ScorerFleet:
    scorers = empty_fleet(*nominated)
    joined(scorers, b"s", 0).is_ready = True
    return scorers


def pods_of(cpus: list[str]) -> list[QueuedPod]:
    classes = PodClasses(NodeTable())
    pods = []
    for i, cpu in enumerate(cpus):
        record = make_pod(f"p{i}", cpu=cpu)
        pod_class = classes.acquire(record)
        pod = QueuedPod(
            record=record, pod_class=pod_class, tried_as=pod_class, priority=0,
            timestamp_s=0.0, arrival=i, added_s=0.0,
        )  # fmt: skip
        pods.append(pod)
    return pods


def work_of(scorers: ScorerFleet, cpus: list[str]) -> list[SchedulePods]:
    effects = scorers.hand_out(pods_of(cpus))
    found = []
    for effect in effects:
        assert isinstance(effect, Tell)
        assert isinstance(effect.message, SchedulePods)
        found.append(effect.message)
    return found


def test_pods_of_a_class_that_follow_one_another_are_a_run() -> None:
    (work,) = work_of(fleet(), ["1", "1", "2", "1"])
    assert work.runs == [TaskRun(1, 2), TaskRun(2, 1), TaskRun(1, 1)]
    assert [task.ticket for task in tasks_of(work)] == [1, 2, 3, 4]
    assert [task.class_id for task in tasks_of(work)] == [1, 1, 2, 1]
    assert work.pod_count == 4
    assert work.min_sequence == 5


def test_a_run_is_no_longer_than_workers_believe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "RUN_PODS_MAX", 2)
    (work,) = work_of(fleet(), ["1"] * 5)
    assert work.runs == [TaskRun(1, 2), TaskRun(1, 2), TaskRun(1, 1)]


def test_a_nominated_pod_is_a_run_of_its_own() -> None:
    (work,) = work_of(fleet("uid-default-p2"), ["1"] * 4)
    assert work.runs == [TaskRun(1, 2), TaskRun(1, 1, "uid-default-p2"), TaskRun(1, 1)]
    assert tasks_of(work)[2] == PodTask(3, 1, "uid-default-p2")


def test_the_answer_finds_the_attempt_by_its_ticket() -> None:
    scorers = fleet()
    (work,) = work_of(scorers, ["1", "2", "1"])
    scorer = scorers.get(b"s")
    assert scorer is not None
    names = {task.ticket: scorer.attempts[task.ticket].record.name for task in tasks_of(work)}
    assert names == {1: "p0", 2: "p1", 3: "p2"}


def test_tickets_go_on_from_batch_to_batch() -> None:
    first, second = work_of(fleet(), ["1"] * (BATCH_PODS_MAX + 3))
    assert (first.first_ticket, first.pod_count) == (1, BATCH_PODS_MAX)
    assert (second.first_ticket, second.pod_count) == (BATCH_PODS_MAX + 1, 3)


def fleet_of(count: int) -> tuple[ScorerFleet, list[Scorer]]:
    scorers = empty_fleet()
    all_joined = [joined(scorers, b"s%d" % i, i) for i in range(count)]
    for scorer in all_joined:
        scorer.is_ready = True
    return scorers, all_joined


def counts_by_worker(scorers: ScorerFleet, cpus: list[str]) -> dict[bytes, int]:
    counts: dict[bytes, int] = {}
    for effect in scorers.hand_out(pods_of(cpus)):
        assert isinstance(effect, Tell)
        assert isinstance(effect.message, SchedulePods)
        counts[effect.peer] = counts.get(effect.peer, 0) + effect.message.pod_count
    return counts


def test_a_class_stays_with_its_worker_and_classes_spread_over_all() -> None:
    scorers, _ = fleet_of(3)
    assert counts_by_worker(scorers, ["1", "1", "2", "3", "1", "2"]) == {
        b"s0": 3,
        b"s1": 2,
        b"s2": 1,
    }
    assert counts_by_worker(scorers, ["1"] * 5) == {b"s0": 5}


def test_a_class_moves_on_when_its_worker_has_no_credit() -> None:
    scorers, (first, second) = fleet_of(2)
    counts = counts_by_worker(scorers, ["1"] * (CREDIT_PODS + 7))
    assert counts == {b"s0": CREDIT_PODS, b"s1": 7}
    assert (first.credit, second.credit) == (0, CREDIT_PODS - 7)
    assert scorers.credit() == CREDIT_PODS - 7


def test_many_classes_go_evenly_to_the_workers_with_most_credit() -> None:
    scorers, joined = fleet_of(4)
    joined[2].window = CREDIT_PODS - 3
    counts = counts_by_worker(scorers, [str(i + 1) for i in range(17)])
    assert counts == {b"s0": 5, b"s1": 5, b"s2": 2, b"s3": 5}


def test_refusals_halve_the_window_once_for_all_that_was_out_and_success_lets_it_grow() -> None:
    scorers, (scorer,) = fleet_of(1)
    counts_by_worker(scorers, ["1"] * (BATCH_PODS_MAX + 1))
    scorer.judged(8, 8, batch_id=1)
    assert scorer.window == CREDIT_PODS // 2
    scorer.judged(0, 1, batch_id=2)  # It was out already.
    assert scorer.window == CREDIT_PODS // 2
    counts_by_worker(scorers, ["1"])
    scorer.judged(0, 1, batch_id=3)
    assert scorer.window == CREDIT_PODS // 4
    scorer.judged(15, 1, batch_id=3)  # Few refusals are the price of working at the same time.
    assert scorer.window == CREDIT_PODS // 4 + WINDOW_STEP_PODS
    for _ in range(100):
        scorer.judged(1, 0, batch_id=3)
    assert scorer.window == CREDIT_PODS


def test_a_window_never_closes_and_an_empty_answer_changes_nothing() -> None:
    scorers, (scorer,) = fleet_of(1)
    for batch_id in range(1, 20):
        counts_by_worker(scorers, ["1"])
        scorer.judged(0, 1, batch_id)
    assert scorer.window == WINDOW_PODS_MIN
    scorer.judged(0, 0, batch_id=20)
    assert scorer.window == WINDOW_PODS_MIN


def test_a_worker_whose_window_shrank_below_what_it_has_gets_nothing_until_it_answers() -> None:
    scorers, (first, second) = fleet_of(2)
    counts_by_worker(scorers, ["1"] * 400)
    first.judged(0, 100, batch_id=1)
    assert first.credit < 0
    assert scorers.credit() == second.credit
    assert counts_by_worker(scorers, ["1"] * 10) == {b"s1": 10}
