"""What a worker computes before it is asked: in calm moments only, and without a say in any decision."""

from typing import cast

from shared.clock import ManualClock
from shared.kube.object_codec import decode_object
from shared.messages.from_scorer import FromScorer
from shared.messages.to_scorer import GreetAgain
from shared.transport.scorer_sockets import FromOwner, ScorerSockets
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline
from workers.scorer.loop import CALM_MS, HEARTBEAT_S, ScorerLoop
from workers.scorer.tie_break import BY_SEED


class Polls:
    """One message, then nothing more; remembers how long each poll was ready to wait."""

    def __init__(self) -> None:
        self.timeouts_ms: list[int] = []

    def poll(self, timeout_ms: int) -> list[FromOwner]:
        self.timeouts_ms.append(timeout_ms)
        return [FromOwner(GreetAgain(), ())] if len(self.timeouts_ms) == 2 else []

    def send(self, message: FromScorer, timeout_ms: int = 0) -> bool:
        del message, timeout_ms
        return True


def test_there_is_one_short_wait_after_news_and_no_busy_polling() -> None:
    polls = Polls()
    loop = ScorerLoop(
        cast("ScorerSockets", polls),
        worker_index=0,
        instance="s",
        seed=0,
        tie_break=BY_SEED,
        frameworks={},
        reserves={},
        decode_object=decode_object,
        clock=ManualClock(now_s=10.0),
    )
    loop.run(lambda: len(polls.timeouts_ms) == 5)
    long_ms = round(HEARTBEAT_S * 1000)
    assert polls.timeouts_ms[1:] == [long_ms, CALM_MS, long_ms, long_ms]


def placements(*, is_prepared: bool) -> dict[str, list[str]]:
    """Of ten pods that come one by one to nodes of which some are fuller."""
    pipeline = Pipeline()
    nodes = [make_node(f"n{i}") for i in range(6)]
    pipeline.sync(nodes, [make_pod(f"old{i}", node_name=f"n{i % 3}") for i in range(7)])
    for i in range(10):
        pipeline.add_pod(make_pod(f"p{i}", cpu=f"{100 + 50 * (i % 2)}m"))
        pipeline.run_until_quiet()
        if is_prepared:
            pipeline.scorers[0].cycle.prepare()
    return pipeline.bound


def test_placements_are_the_same_with_and_without_it() -> None:
    found = placements(is_prepared=True)
    assert len(found) == 10
    assert found == placements(is_prepared=False)


def test_before_the_first_pod_there_is_nothing_to_prepare() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    pipeline.run_until_quiet()
    pipeline.scorers[0].cycle.prepare()
    pipeline.add_pod(make_pod("p"))
    pipeline.run_until_quiet()
    assert list(pipeline.bound.values()) == [["n0"]]
