"""What plugins take is told, whatever asks them, and under kube-scheduler's names."""

from typing import Any

import numpy as np

from shared.framework.plugin_api import PreFilterResult
from shared.framework.runtime.plugin_times import IN_OWNER, IN_SCORERS, SAMPLED, PluginTimes
from shared.framework.status import SKIP, Code, Status, Verdicts
from shared.telemetry.metrics import Tally
from tests.support.cluster import all_pass


class Ticking:
    """Each look at it is a second after the one before."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


class Plugin:
    NAME = "Mine"

    def __init__(self) -> None:
        self.pre_filtered = PreFilterResult(Status(Code.SUCCESS))
        self.verdicts = all_pass(2)

    def pre_filter(self, pod: Any, cluster: Any) -> PreFilterResult:
        return self.pre_filtered

    def filter(self, state: Any, pod: Any, cluster: Any, rows: Any) -> Verdicts:
        return self.verdicts

    def score(self, state: Any, pod: Any, cluster: Any, rows: Any) -> Any:
        return np.zeros(2, np.int64)

    def normalize(self, raw: Any, normalization: Any) -> Any:
        return raw

    def permit(self, *_: Any) -> tuple[Status, float]:
        return Status(Code.WAIT), 1.0


def watched(*plugins: object) -> tuple[PluginTimes, Tally]:
    tally = Tally()
    times = PluginTimes(Ticking(), tally)
    times.watch("p", plugins, (*IN_SCORERS, *IN_OWNER))
    return times, tally


def test_calls_are_timed_and_counted_by_plugin_point_and_outcome() -> None:
    plugin = Plugin()
    times, tally = watched(plugin, plugin)
    plugin.pre_filter(None, None)
    plugin.filter(None, None, None, None)
    codes = np.full(2, Code.UNSCHEDULABLE, np.uint8)
    plugin.verdicts = Verdicts(codes, np.ones(2, np.int64), ("no",))
    plugin.filter(None, None, None, None)
    plugin.score(None, None, None, None)
    plugin.normalize(None, None)
    plugin.permit()
    assert tally.counts == {
        ("plugin_evaluations", ("Mine", "PreFilter", "p")): SAMPLED,
        ("plugin_evaluations", ("Mine", "Filter", "p")): 2 * SAMPLED,
        ("plugin_evaluations", ("Mine", "Score", "p")): SAMPLED,
    }
    assert {
        labels: (sum(one.counts), one.sum) for (_, labels), one in tally.histograms.items()
    } == {
        ("Mine", "PreFilter", "Success"): (1, 1.0),
        ("Mine", "Filter", "Success"): (1, 1.0),
        ("Mine", "Filter", "Unschedulable"): (1, 1.0),
        ("Mine", "Score", "Success"): (1, 1.0),
        ("Mine", "ScoreExtensionNormalize", "Success"): (1, 1.0),
        ("Mine", "Permit", "Wait"): (1, 1.0),
    }
    assert times.each_s("Filter", "p", 4) == 0.5
    assert times.each_s("Score", "p", 1) == 2.0, "normalising is part of it"
    assert times.each_s("Score", "p", 1) == 0.0


def test_a_plugin_that_skips_the_pod_was_not_asked() -> None:
    plugin = Plugin()
    _, tally = watched(plugin)
    plugin.pre_filtered = PreFilterResult(SKIP)
    plugin.pre_filter(None, None)
    assert not tally.counts
    assert [labels for _, labels in tally.histograms] == [("Mine", "PreFilter", "Skip")]


def test_a_plugin_is_as_it_was_in_rounds_that_are_not_sampled() -> None:
    plugin, clock, tally = Plugin(), Ticking(), Tally()
    times = PluginTimes(clock, tally)
    times.watch("p", [plugin], (*IN_SCORERS, *IN_OWNER))
    looks = []
    for _ in range(2 * SAMPLED):
        times.begin_round()
        before_s = clock.now_s
        assert plugin.permit() == (Status(Code.WAIT), 1.0)
        assert plugin.filter(None, None, None, None) is plugin.verdicts
        looks.append(clock.now_s - before_s)
    assert looks == [4.0, *[0.0] * (SAMPLED - 1)] * 2
    assert [sum(one.counts) for one in tally.histograms.values()] == [2, 2]
    assert list(tally.counts.values()) == [2 * SAMPLED], "each for those of the others too"


def test_what_an_extension_point_took_is_told_in_all_rounds_as_of_the_latest_sampled_one() -> None:
    plugin = Plugin()
    times, _ = watched(plugin)
    told = []
    for call_count in (4, *[9] * (SAMPLED - 1), 6, 9):
        times.begin_round()
        for _ in range(call_count):
            plugin.filter(None, None, None, None)
        told.append(times.each_s("Filter", "p", 2))
    assert told == [2.0] * SAMPLED + [3.0] * 2


def test_a_plugin_that_takes_no_attributes_is_left_as_it_is() -> None:
    class Closed:
        __slots__ = ()
        NAME = "Closed"

        def filter(self, state: Any, pod: Any, cluster: Any, rows: Any) -> Verdicts:
            return all_pass(1)

    closed = Closed()
    _, tally = watched(closed)
    assert closed.filter(None, None, None, None).passes.all()
    assert not tally.counts
