"""What a scorer tells of extension points and plugins, once a pod, whatever way the pods went."""

import itertools
from collections import Counter

import pytest

from bench.manual_clock import ManualClock
from daemon.core.events import Tell
from daemon.core.owner_counts import Count
from shared.framework.runtime import plugin_times
from shared.framework.runtime.plugin_times import PluginTimes
from shared.messages.to_scorer import GreetAgain
from shared.transport.channels import Channel
from tests.support.builders import make_node, make_pod
from tests.support.lone_scorer import loop_on
from tests.support.pipeline import Pipeline
from tests.unit.workers.scorer.test_ahead import Line
from workers.scorer import scorer_loop
from workers.scorer.scorer_loop import HEARTBEAT_S

PROFILE = "default-scheduler"


def told(pipeline: Pipeline, rounds: list[list[str]]) -> tuple[Counter[tuple[str, ...]], int]:
    """(extension point, status) -> pods, and how many forecasts there were, after pods of these names
    were given to a scorer, a list at a time. "low" ones may make room for "high" ones, "big" ones fit
    nowhere."""
    clock = ManualClock(now_s=10.0)
    while pipeline.step_owner():
        pass
    scorer = pipeline.scorers[0]
    scorer.inbox.append(Tell(Channel.SCORERS, scorer.peer, GreetAgain(), ()))
    line = Line(pipeline)
    stopwatch = itertools.count(0.0, 1.0).__next__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scorer_loop, "PluginTimes", lambda _, tally: PluginTimes(stopwatch, tally))
        loop = loop_on(line, clock, profiles=[pipeline.profile], worker_index=0)
    for names in [[], *rounds, []]:
        for name in names:
            pipeline.add_pod(
                make_pod(
                    name,
                    cpu="99" if name.startswith("big") else "2",
                    priority=10 if name.startswith("high") else 0,
                )
            )
        clock.now_s += HEARTBEAT_S
        line.calm_count = 0
        loop.run(lambda: line.calm_count == 3)
    found: Counter[tuple[str, ...]] = Counter()
    for one in pipeline.state.counters.measured().histograms:
        if one.name == "extension_point_s" and one.labels[0] in (
            "PreFilter", "Filter", "PostFilter", "PreScore", "Score",
        ):  # fmt: skip
            found[tuple(one.labels[:2])] += sum(one.counts)
            assert one.sum > 0.0, "time was spent there"
    return found, len(line.forecasts())


def test_each_pod_counts_once_at_each_point_that_it_came_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugin_times, "SAMPLED", 1)  # Each kind of pod comes in one round alone.
    pipeline = Pipeline(preempts_async=False)
    pipeline.sync([make_node("n0", cpu="4"), make_node("n1", cpu="4")], [])
    found, forecast_count = told(pipeline, [["low0", "low1", "low2", "low3"], ["big"], ["high"]])
    counters = pipeline.state.counters
    placed = counters[Count.SCHEDULED] - counters[Count.FORECASTS_USED] + forecast_count
    failed = counters[Count.UNSCHEDULABLE]
    assert (failed, counters[Count.ATTEMPTS_REPEATED]) == (2, 0)
    assert found["Filter", "Success"] == placed + failed
    assert found["PreFilter", "Success"] == found["Filter", "Success"]
    assert found["Score", "Success"] == found["PreScore", "Success"]
    assert found["Score", "Success"] == placed
    assert found["PostFilter", "Unschedulable"] == 1
    assert found["PostFilter", "Success"] == 1
    evaluated = {
        tuple(one.labels[:2]): one.count
        for one in pipeline.state.counters.measured().counts
        if one.name == "plugin_evaluations"
    }
    assert evaluated["NodeResourcesFit", "Filter"] > 0
    assert evaluated["NodePorts", "PreFilter"] == 0, "it skipped all pods"
    assert any(one.name == "plugin_s" for one in pipeline.state.counters.measured().histograms)
