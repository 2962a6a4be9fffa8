"""What a scorer says that none of ours would say costs it its place, and nothing of it counts."""

import math

import msgspec
import pytest

from daemon.core.events import Tell
from daemon.core.owner_counts import Count
from shared.limits import PROCESSES_MAX
from shared.messages.from_scorer import (
    AskForPods,
    Failure,
    Forecast,
    FromScorer,
    Placements,
    PreemptionProposal,
    Proposals,
    ResyncRequest,
    ScorerHeartbeat,
    ScorerHello,
)
from shared.messages.to_scorer import GreetAgain, ScorerRefused
from shared.telemetry.metrics import METRICS, HistogramState, LabelledCount, Measured
from shared.transport.channels import Channel
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import EPOCH, Pipeline

FAR, KEY = b"far", "rack1"
INDEX = PROCESSES_MAX + 7


def proposals(**changes: object) -> Proposals:
    plain = Proposals(
        epoch=EPOCH, batch_id=1, proposal_sequence=1, generation=0,
        placements=Placements([], []), failures=[], skipped=[],
    )  # fmt: skip
    return msgspec.structs.replace(plain, **changes)


def failure(preemption: PreemptionProposal | None = None, **changes: object) -> Failure:
    plain = Failure([1], "no", ["NodeResourcesFit"], [], False, preemption)
    return msgspec.structs.replace(plain, **changes)


def answers_to(pipeline: Pipeline, message: FromScorer, peer: bytes, key: str) -> list[object]:
    effects = pipeline.state.handle([Said(peer, message, key)], pipeline.now_s)
    to_scorers = (e for e in effects if isinstance(e, Tell) and e.channel is Channel.SCORERS)
    return [each.message for each in to_scorers if each.peer == peer]


def far_worker(pipeline: Pipeline) -> None:
    """A worker of another host joins, in the place of those of this host."""
    hello = ScorerHello(INDEX, "far", "")
    assert answers_to(pipeline, hello, FAR, KEY)
    assert pipeline.state.scorers.get(FAR) is not None


BAD = {
    "unequal columns": proposals(placements=Placements([1, 2], [0])),
    "a copy from the future": proposals(generation=1 << 40),
    "an answer given before": proposals(proposal_sequence=0),
    "room for two pods": proposals(failures=[failure(PreemptionProposal(0, [0]), tickets=[1, 2])]),
    "no victim": proposals(failures=[failure(PreemptionProposal(0, []))]),
    "a victim twice": proposals(failures=[failure(PreemptionProposal(0, [0, 0]))]),
    "no plugins": proposals(failures=[failure(plugins=["x" * 5000])]),
    "no number": Forecast(EPOCH, 1, 1, 1, [0], math.nan),
    "before the beginning": Forecast(EPOCH, 1, 1, 1, [0], -1.0),
    "more than anybody asks for": Forecast(EPOCH, 1, 1, 1, [0] * 1000, 0.1),
    "all nodes a thousand times": AskForPods(EPOCH, 1, 1, [0] * 1000),
    "an endless reason": ResyncRequest("x" * (1 << 20)),
    "fewer than none": ScorerHeartbeat(
        1, Measured([LabelledCount("requests", ("200", "GET", "h"), -1)], [])
    ),
    "an infinite sum": ScorerHeartbeat(
        1,
        Measured(
            [],
            [
                HistogramState(
                    "algorithm_s", (), [0] * (len(METRICS["algorithm_s"].bounds) + 1), math.inf
                )
            ],
        ),
    ),
}


@pytest.mark.parametrize("message", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("is_far", [True, False])
def test_who_says_what_no_scorer_says_is_sent_away(message: FromScorer, is_far: bool) -> None:
    pipeline = Pipeline(worker_count=0)
    pipeline.sync([make_node("n0")], [make_pod("old", node_name="n0")])
    key = KEY if is_far else ""
    index = INDEX if is_far else 0
    assert answers_to(pipeline, ScorerHello(index, "w", ""), FAR, key)
    pipeline.add_pod(make_pod("p"))
    before = pipeline.state.cache.generation
    assert sum(len(each.attempts) for each in pipeline.state.scorers) == 1
    (answer,) = answers_to(pipeline, message, FAR, key)
    assert isinstance(answer, ScorerRefused if is_far else GreetAgain)
    assert pipeline.state.scorers.get(FAR) is None
    assert sum(len(each.attempts) for each in pipeline.state.scorers) == 0
    assert pipeline.state.cache.generation == before
    assert pipeline.state.counters[Count.WORKERS_REFUSED] == 1
    if is_far:
        hello = ScorerHello(index, "w", "")
        assert answers_to(pipeline, hello, FAR, key) == [], "nobody listens any more"
    pipeline.start_scorer(1)
    pipeline.run_until_quiet()
    assert list(pipeline.bound) == [make_pod("p").uid]
    pipeline.check()


@pytest.mark.parametrize("row", [-1, 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1])
def test_a_row_that_is_none_places_nothing(row: int) -> None:
    pipeline = Pipeline(worker_count=0)
    pipeline.sync([make_node("n0")], [])
    far_worker(pipeline)
    pipeline.add_pod(make_pod("p"))
    ticket = pipeline.state.scorers.next_ticket - 1
    placed = proposals(
        generation=pipeline.state.cache.generation, placements=Placements([ticket], [row])
    )
    answers_to(pipeline, placed, FAR, KEY)
    assert not pipeline.state.cache.assumed_pods()
    forecast = Forecast(EPOCH, pipeline.state.snapshots.sequence, 1, 1, [row], 0.1)
    answers_to(pipeline, forecast, FAR, KEY)
    answers_to(pipeline, AskForPods(EPOCH, 1, 1, [row]), FAR, KEY)
    pipeline.check()


@pytest.mark.parametrize("index", [0, PROCESSES_MAX - 1, -1, 1 << 62])
def test_nobody_from_outside_takes_the_number_of_a_process_of_this_host(index: int) -> None:
    pipeline = Pipeline(worker_count=1)
    pipeline.sync([make_node("n0")], [])
    pipeline.run_until_quiet()
    (answer,) = answers_to(pipeline, ScorerHello(index, "far", ""), FAR, KEY)
    assert isinstance(answer, ScorerRefused)
    assert pipeline.state.scorers.get(pipeline.scorers[0].peer) is not None


def test_a_number_belongs_to_a_key() -> None:
    pipeline = Pipeline(worker_count=0)
    pipeline.sync([make_node("n0")], [])
    far_worker(pipeline)
    hello = ScorerHello(INDEX, "other", "")
    (answer,) = answers_to(pipeline, hello, b"other", "rack2")
    assert isinstance(answer, ScorerRefused)
    assert not isinstance(answers_to(pipeline, hello, b"far again", KEY)[0], ScorerRefused)
    assert pipeline.state.scorers.get(FAR) is None, "it came back by another connection"


def test_nobody_speaks_in_the_name_of_another() -> None:
    pipeline = Pipeline(worker_count=1)
    pipeline.sync([make_node("n0")], [])
    pipeline.run_until_quiet()
    peer = pipeline.scorers[0].peer
    (answer,) = answers_to(pipeline, ScorerHeartbeat(1), peer, KEY)
    assert isinstance(answer, ScorerRefused)


def preempting(spec: dict[str, object] | None = None) -> tuple[Pipeline, dict[str, int], int]:
    """A far worker has a pod that needs one of two equal pods of n0 to go: their rows, and its
    ticket."""
    pipeline = Pipeline(worker_count=0)
    old = [make_pod(name, cpu="1800m", node_name="n0") for name in ("a", "b")]
    pipeline.sync([make_node("n0")], old)
    far_worker(pipeline)
    pod = make_pod("high", cpu="1800m", priority=10)
    if spec is not None:
        requests = {"requests": {"cpu": "1800m"}}
        containers = [{"name": "c", "image": "i", "resources": requests}]
        pod = make_pod("high", priority=10, spec={"containers": containers, **spec})
    pipeline.add_pod(pod)
    rows = {held.record.name: held.row for held in pipeline.state.cache.pods()}
    return pipeline, rows, pipeline.state.scorers.next_ticket - 1


@pytest.mark.parametrize(("names", "is_carried_out"), [("ab", False), ("a", False), ("b", True)])
def test_a_far_worker_evicts_no_more_and_no_others_than_a_search_of_ours(
    names: str, is_carried_out: bool
) -> None:
    pipeline, rows, ticket = preempting()
    generation = pipeline.state.cache.generation
    victims = PreemptionProposal(0, [rows[name] for name in names])
    told = proposals(generation=generation, failures=[failure(victims, tickets=[ticket])])
    answers_to(pipeline, told, FAR, KEY)
    assert pipeline.state.counters[Count.PREEMPTIONS] == is_carried_out
    assert pipeline.state.counters[Count.PREEMPTIONS_REJECTED] == (not is_carried_out)


def test_a_pod_that_makes_nobody_go_makes_nobody_go() -> None:
    pipeline, rows, ticket = preempting({"preemptionPolicy": "Never"})
    generation = pipeline.state.cache.generation
    victims = PreemptionProposal(0, [rows["b"]])
    told = proposals(generation=generation, failures=[failure(victims, tickets=[ticket])])
    answers_to(pipeline, told, FAR, KEY)
    assert pipeline.state.counters[Count.PREEMPTIONS] == 0
    assert pipeline.state.counters[Count.PREEMPTIONS_REJECTED] == 1
