"""Where searches of devices are long, the owner hears of the first answers before the last are found."""

import pytest

from tests.support.pipeline import Pipeline
from tests.support.tasks import tasks_of
from tests.unit.daemon.core.test_proposals import with_devices
from workers.scorer import cycle


def first_answers(pipeline: Pipeline) -> tuple[int, int]:
    """How many of the first batch are placed, and how many the worker gives back."""
    scorer = pipeline.scorers[0]
    answers = scorer.cycle.run(scorer.work.popleft())
    scorer.replica.drop_tentative()
    return len(answers.placements.tickets), len(answers.skipped)


@pytest.mark.parametrize(("steps_max", "placed_count"), [(0, 1), (2, 2), (1000, 6)])
def test_a_batch_ends_with_the_search_by_which_enough_devices_were_tried(
    monkeypatch: pytest.MonkeyPatch, steps_max: int, placed_count: int
) -> None:
    pipeline, tickets = with_devices(6)
    assert len(tickets) == len(tasks_of(pipeline.scorers[0].work[0])), "one batch"
    monkeypatch.setattr(cycle, "BATCH_STEPS_MAX", steps_max)
    assert first_answers(pipeline) == (placed_count, 6 - placed_count)


def test_what_was_given_back_is_placed_by_the_batches_that_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cycle, "BATCH_STEPS_MAX", 0)
    pipeline, _ = with_devices(8)
    pipeline.run_until_quiet()
    assert sorted(node for (node,) in pipeline.bound.values()) == [
        f"n{i}" for i in range(4) for _ in range(2)
    ]
    pipeline.check()
