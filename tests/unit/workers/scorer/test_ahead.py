"""What a worker computes before it is asked: in calm moments only, and without a say in any decision."""

import pytest

from bench.manual_clock import ManualClock
from daemon.core.cluster_changes import LATE_S
from daemon.core.events import Tell
from shared.limits import QUIET_S
from shared.messages.from_scorer import Forecast, FromScorer, ScorerHeartbeat
from shared.messages.to_scorer import GreetAgain, SnapshotDelta, ToScorer
from shared.transport.channels import Channel
from shared.transport.heard import Said
from shared.transport.scorer_sockets import FromOwner
from tests.support.builders import make_node, make_pod
from tests.support.lone_scorer import loop_on
from tests.support.pipeline import Pipeline
from workers.scorer.scorer_loop import CALM_MS, HEARTBEAT_S


class Polls:
    """One message, then nothing more; remembers how long each poll was ready to wait."""

    is_connected = True

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
    loop = loop_on(polls, ManualClock(now_s=10.0))
    loop.run(lambda: len(polls.timeouts_ms) == 5)
    long_ms = round(HEARTBEAT_S * 1000)
    assert polls.timeouts_ms[1:] == [long_ms, CALM_MS, long_ms, long_ms]


def test_nobody_polls_for_nothing_when_a_heartbeat_is_almost_due() -> None:
    polls, clock = Polls(), ManualClock(now_s=10.0)
    loop = loop_on(polls, clock)

    def is_stopped() -> bool:
        """What is left until the next heartbeat is less than polls count in."""
        clock.now_s = loop._next_heartbeat_s - 0.0004
        return len(polls.timeouts_ms) == 5

    loop.run(is_stopped)
    assert polls.timeouts_ms[3:] == [1, 1]


def placements(*, is_ahead: bool) -> dict[str, list[str]]:
    """Of ten pods that come one by one to nodes of which some are fuller."""
    pipeline = Pipeline()
    nodes = [make_node(f"n{i}") for i in range(6)]
    pipeline.sync(nodes, [make_pod(f"old{i}", node_name=f"n{i % 3}") for i in range(7)])
    for i in range(10):
        pipeline.add_pod(make_pod(f"p{i}", cpu=f"{100 + 50 * (i % 2)}m"))
        pipeline.run_until_quiet()
        if is_ahead:
            pipeline.scorers[0].cycle.foresee()
    return pipeline.bound


def test_placements_are_the_same_with_and_without_it() -> None:
    found = placements(is_ahead=True)
    assert len(found) == 10
    assert found == placements(is_ahead=False)


def test_before_the_first_pod_there_is_nothing_to_prepare() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    pipeline.run_until_quiet()
    pipeline.scorers[0].cycle.foresee()
    pipeline.add_pod(make_pod("p"))
    pipeline.run_until_quiet()
    assert list(pipeline.bound.values()) == [["n0"]]


def test_after_a_new_snapshot_nothing_is_foreseen_until_pods_come() -> None:
    """Another owner may have given the number of the last class to other pods."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    pipeline.add_pod(make_pod("p"))
    pipeline.run_until_quiet()
    scorer = pipeline.scorers[0]
    foreseen = scorer.cycle.foresee()
    assert foreseen is not None
    scorer.cycle.start_over()
    class_id = foreseen.class_id
    of_others = scorer.replica.classes[class_id]
    engine = scorer.cycle._engine  # What asks extenders evaluates with it, too.
    engine.evaluate(class_id, of_others.info, of_others.profile)
    assert scorer.cycle.foresee() is None


@pytest.mark.usefixtures("classes_go_with_their_pods")
def test_in_calm_a_worker_without_work_forgets_classes_that_are_gone() -> None:
    """Others may get all the work, and pods like no other come and go."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    pod = make_pod("p")
    pipeline.add_pod(pod)
    pipeline.run_until_quiet()
    scorer = pipeline.scorers[0]
    (class_id,) = scorer.replica.classes
    pipeline.delete_pod(make_pod("p", node_name="n0"))
    pipeline.advance(LATE_S)
    pipeline.run_until_quiet()
    assert scorer.replica.newly_retired == [class_id]
    scorer.cycle.foresee()
    assert not scorer.replica.newly_retired
    assert class_id not in scorer.cycle._engine.evaluations  # Nothing else tells.


class Line:
    """The sockets between an owner in this process and one worker's loop; calm when nothing came."""

    is_connected = True

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._inbox = pipeline.scorers[0].inbox
        self.told: list[FromScorer] = []
        self.calm_count = 0
        self.timeouts_ms: list[int] = []

    def poll(self, timeout_ms: int) -> list[FromOwner]:
        self.timeouts_ms.append(timeout_ms)
        if not self._inbox:
            self.calm_count += 1
            return []
        effect = self._inbox.popleft()
        assert isinstance(effect.message, ToScorer | SnapshotDelta)
        return [FromOwner(effect.message, effect.buffers)]

    def send(self, message: FromScorer, timeout_ms: int = 0) -> bool:
        del timeout_ms
        self.told.append(message)
        self._pipeline.handle(Said(self._pipeline.scorers[0].peer, message))
        return True

    def forecasts(self) -> list[Forecast]:
        return [message for message in self.told if isinstance(message, Forecast)]


class TimedLine(Line):
    """One on which time passes while nothing comes."""

    def __init__(self, pipeline: Pipeline, clock: ManualClock) -> None:
        super().__init__(pipeline)
        self._clock = clock

    def poll(self, timeout_ms: int) -> list[FromOwner]:
        came = super().poll(timeout_ms)
        if not came:
            self._clock.now_s += timeout_ms / 1000 + 0.001
        return came

    def heartbeats(self) -> int:
        return sum(isinstance(message, ScorerHeartbeat) for message in self.told)


def test_a_heartbeat_follows_soon_after_news_and_seldom_when_there_are_none() -> None:
    pipeline, clock = Pipeline(), ManualClock(now_s=10.0)
    pipeline.sync([make_node("n0")], [])
    line = TimedLine(pipeline, clock)
    loop = loop_on(line, clock, profiles=[pipeline.profile], worker_index=0)

    def next_heartbeat_s() -> float:
        begun_s, before = clock.now_s, line.heartbeats()
        loop.run(lambda: line.heartbeats() > before)
        return clock.now_s - begun_s

    while pipeline.step_owner():
        pass
    line.poll(0)
    pipeline.scorers[0].inbox.append(
        Tell(Channel.SCORERS, pipeline.scorers[0].peer, GreetAgain(), ())
    )
    while next_heartbeat_s() < QUIET_S - 0.1:
        pass
    assert next_heartbeat_s() >= QUIET_S - 0.1
    pipeline.add_pod(make_pod("news"))
    assert next_heartbeat_s() <= HEARTBEAT_S + 0.1


def test_it_says_what_it_foresees_after_each_change_twice_as_much_as_was_used() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node(f"n{i}") for i in range(3)], [])
    while pipeline.step_owner():
        pass
    line = Line(pipeline)
    loop = loop_on(line, ManualClock(now_s=10.0), profiles=[pipeline.profile], worker_index=0)

    def run_until_calm() -> None:
        line.calm_count = 0
        loop.run(lambda: line.calm_count == 3)

    run_until_calm()
    assert not line.forecasts(), "no pod was placed yet"
    pipeline.add_pod(make_pod("asked"))
    line.timeouts_ms.clear()
    run_until_calm()
    assert not line.forecasts(), "the owner has not said yet what became of it"
    assert CALM_MS not in line.timeouts_ms[-3:], "nor is there anything to wake for"
    pipeline.advance(LATE_S)
    run_until_calm()
    assert len(line.forecasts()) == 1
    for name in "ab":
        pipeline.add_pod(make_pod(name))
    assert [order.name for order in pipeline.orders] == ["asked", "a", "b"]
    run_until_calm()
    first, second = line.forecasts()
    assert second.sequence == first.sequence + 1
    assert second.ticket == first.ticket + 2
    assert [len(each.node_rows) for each in (first, second)] == [2, 4]
    pipeline.add_node(make_node("new"))
    pipeline.advance(LATE_S)
    run_until_calm()
    assert len(line.forecasts()[-1].node_rows) == 1, "something else happens before pods come"
