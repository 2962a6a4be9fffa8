"""Who is a worker of this owner: one that has greeted, and works by the same configuration."""

from daemon.core.events import Tell
from shared.messages.from_scorer import ScorerHeartbeat, ScorerHello
from shared.messages.to_scorer import GreetAgain, ScorerRefused
from shared.transport.channels import Channel
from shared.transport.heard import Said
from tests.support.pipeline import Pipeline

PEER = b"far"
KEY = "rack1"


def told(pipeline: Pipeline, message: ScorerHello | ScorerHeartbeat) -> list[object]:
    effects = pipeline.state.handle([Said(PEER, message, KEY)], pipeline.now_s)
    to_scorers = (e for e in effects if isinstance(e, Tell) and e.channel is Channel.SCORERS)
    return [each.message for each in to_scorers if each.peer == PEER]


def hello(configuration: str) -> ScorerHello:
    return ScorerHello(300, "far", configuration)


def test_a_worker_that_speaks_before_it_has_greeted_is_asked_to() -> None:
    pipeline = Pipeline(worker_count=1)
    assert told(pipeline, ScorerHeartbeat(5)) == [GreetAgain()]
    assert pipeline.state.scorers.get(PEER) is None
    assert GreetAgain() not in told(pipeline, hello(""))
    assert pipeline.state.scorers.get(PEER) is not None
    assert told(pipeline, ScorerHeartbeat(5)) == []


def test_a_worker_of_another_configuration_is_refused_with_the_remedy() -> None:
    pipeline = Pipeline(worker_count=1)
    (refused,) = told(pipeline, hello("another"))
    assert isinstance(refused, ScorerRefused)
    assert "give it the same file" in refused.problem
    assert pipeline.state.scorers.get(PEER) is None
