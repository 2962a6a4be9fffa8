"""What a worker proposes is taken apart pod by pod; nonsense costs another attempt and nothing else."""

import pytest

from daemon.core.events import ScorerSaid
from shared.messages.from_scorer import Placements, Proposals
from shared.telemetry.metrics import Count
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import EPOCH, Pipeline


def with_work(pod_count: int, *, logs_attempts: bool = False) -> tuple[Pipeline, list[int]]:
    """Three nodes for one pod each, and pods of one class out with the only worker."""
    pipeline = Pipeline(logs_attempts=logs_attempts)
    pods = [make_pod(f"p{i}", cpu="1") for i in range(pod_count)]
    pipeline.sync([make_node(f"n{i}", cpu="1") for i in range(3)], pods)
    scorer = pipeline.scorers[0]
    while not scorer.work:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    return pipeline, [task.ticket for work in scorer.work for task in work.tasks]


def propose(pipeline: Pipeline, tickets: list[int], rows: list[int]) -> None:
    scorer = pipeline.scorers[0]
    generation = scorer.replica.generation
    told = Proposals(0, EPOCH, 1, 1, generation, Placements(tickets, rows), [], [])
    pipeline.handle(ScorerSaid(scorer.peer, told))


def test_of_two_pods_on_one_full_row_the_first_has_it() -> None:
    pipeline, tickets = with_work(3)
    propose(pipeline, tickets, [1, 1, 2])
    assert [order.node_name for order in pipeline.orders] == ["n1", "n2"]
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] == 1
    pipeline.check()


def test_each_step_of_an_attempt_is_logged_with_its_ticket_where_that_is_wanted() -> None:
    pipeline, tickets = with_work(2, logs_attempts=True)
    names = [name for work in pipeline.scorers[0].work for name in work.names]
    propose(pipeline, tickets, [1, 1])
    told: dict[tuple[object, object], list[str]] = {}
    for note in pipeline.notes:
        if note.is_detail:
            told.setdefault((note.fields["pod"], note.fields["ticket"]), []).append(note.event)
    assert told[names[0], tickets[0]] == ["handed_out", "binding_ordered"]
    assert told[names[1], tickets[1]] == ["handed_out", "placement_refused"]
    again = [ticket for name, ticket in told if name == names[1] and ticket != tickets[1]]
    assert [told[names[1], ticket] for ticket in again] == [["handed_out"]]


def test_nothing_of_attempts_is_logged_where_nobody_asked() -> None:
    pipeline, tickets = with_work(2)
    propose(pipeline, tickets, [1, 1])
    assert not any(note.is_detail for note in pipeline.notes)
    assert not any(work.names for work in pipeline.scorers[0].work)


@pytest.mark.parametrize("row", [3, 10**6, -1])
def test_a_row_that_is_none_is_rejected(row: int) -> None:
    pipeline, tickets = with_work(2)
    propose(pipeline, tickets, [0, row])
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] >= 1
    pipeline.scorers[0].work.clear()
    pipeline.run_until_quiet()
    pipeline.check()


def test_an_unknown_or_repeated_ticket_is_stale() -> None:
    pipeline, tickets = with_work(1)
    propose(pipeline, [tickets[0], tickets[0], 999], [0, 1, 2])
    assert [order.name for order in pipeline.orders] == ["p0"]
    assert pipeline.state.counters[Count.PROPOSALS_STALE] == 2
    pipeline.check()
