"""What the owner counts and times of its turns, under kube-scheduler's names."""

import itertools
from collections import Counter
from collections.abc import Callable

from daemon.core.administration import status_of
from daemon.core.counters import Counters
from daemon.core.holdings import Settings
from daemon.core.owner_counts import Count
from daemon.core.state import SchedulerState
from daemon.endpoints.metrics_text import metrics_text
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.plugin_times import IN_OWNER
from shared.messages.to_owner import NodeDeleted, PodChanged, PodDeleted
from shared.telemetry.metrics import HistogramState
from tests.support.builders import make_node, make_pod
from tests.support.owner_answers import metrics_answer, status_answer
from tests.support.pipeline import Pipeline, default_profile
from tests.unit.daemon.core.queue.builders import GATED

PROFILE = "default-scheduler"


def histograms(counters: Counters, name: str) -> dict[tuple[str, ...], HistogramState]:
    return {tuple(one.labels): one for one in counters.measured().histograms if one.name == name}


def counts(counters: Counters, name: str) -> Counter[tuple[str, ...]]:
    found = histograms(counters, name)
    return Counter({labels: sum(one.counts) for labels, one in found.items()})


def ticking() -> Callable[[], float]:
    """A stopwatch that is a second further at each look."""
    return itertools.count(0.0, 1.0).__next__


def test_every_change_is_told_by_its_event() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    before = counts(pipeline.state.counters, "event_s")
    assert before == {("NodeAdd",): 1}
    parked = make_pod("big", cpu="99")
    bound = make_pod("old", node_name="n0")
    lost = make_pod("lost", cpu="99")
    foreign = make_pod("foreign", spec={"schedulerName": "other"})
    pipeline.tell(PodChanged(parked), PodChanged(bound), PodChanged(lost), PodChanged(foreign))
    pipeline.run_until_quiet()
    pipeline.tell(PodChanged(make_pod("big", cpu="98", resource_version="2")))
    pipeline.tell(PodChanged(make_pod("lost", cpu="99", node_name="n0")))
    pipeline.tell(PodChanged(make_pod("old", node_name="n0", labels={"a": "b"})))
    pipeline.tell(PodDeleted(bound), PodDeleted(parked), NodeDeleted("n0"))
    assert counts(pipeline.state.counters, "event_s") - before == {
        ("UnschedulablePodAdd",): 2,
        ("AssignedPodAdd",): 2,
        ("UnschedulablePodUpdate",): 1,
        ("UnschedulablePodUpdatePodScaleDown",): 1,
        ("AssignedPodUpdate",): 1,
        ("AssignedPodUpdatePodLabel",): 1,
        ("AssignedPodDelete",): 1,
        ("UnschedulablePodDelete",): 2,
        ("NodeDelete",): 1,
    }


def test_points_of_the_owner_are_told_once_a_pod() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", pods=3)], [])
    for i in range(4):
        pipeline.add_pod(make_pod(f"p{i}"))
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 3
    assert counts(pipeline.state.counters, "extension_point_s") == {
        ("PreEnqueue", "Success", PROFILE): 4,
        ("Reserve", "Success", PROFILE): 3,
        ("Permit", "Success", PROFILE): 3,
    }


def test_times_are_those_of_the_stopwatch_and_no_decision_reads_it() -> None:
    pipeline = Pipeline()
    built = default_profile()
    settings = Settings(DEFAULT_GATES)
    pipeline.state = SchedulerState(
        7, settings, pipeline.frameworks, pipeline.plugins, 1000.0, None, ticking()
    )
    counters = pipeline.state.counters
    counters.plugin_times.watch(PROFILE, built.plugins_at["preEnqueue"], IN_OWNER)
    pipeline.sync([make_node("n0")], [])
    pipeline.add_pod(make_pod("p", spec=GATED))
    found = histograms(counters, "extension_point_s")
    assert found["PreEnqueue", "Success", PROFILE].sum == 1.0
    assert histograms(counters, "event_s")["UnschedulablePodAdd",].sum > 1.0


def test_a_hint_that_is_looked_at_counts_for_those_that_are_not() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    pipeline.add_pod(make_pod("big", cpu="99"))
    pipeline.run_until_quiet()
    for i in range(40):
        pipeline.add_node(make_node(f"m{i}"))
    found = counts(pipeline.state.counters, "hint_s")
    assert set(found) == {("NodeResourcesFit", "NodeAdd", "QueueSkip")}
    assert found.total() in (32, 48), "of 40, or of 41 with an update, each 16th"


def test_pods_placed_after_a_flush_are_counted() -> None:
    """Only of the attempt that the flush brought about (schedule_one.go:488)."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    pipeline.add_pod(make_pod("big", cpu="99"))
    pipeline.add_pod(make_pod("small"))
    pipeline.run_until_quiet()
    queue, counters = pipeline.state.queue, pipeline.state.counters
    queued = queue.get(make_pod("big").uid)
    assert queued is not None
    flushed = []
    for is_room in (False, True):
        if is_room:
            # Nobody tells the queue of it.
            pipeline.state.cache.add_node(make_node("n0", cpu="200"))
        while not queued.was_flushed:
            pipeline.advance(10.0)
        flushed.append(queued.attempts)
        pipeline.run_until_quiet()
        assert queued.was_flushed is is_room
        assert counters[Count.SCHEDULED_AFTER_FLUSH] == is_room
    assert make_pod("big").uid in pipeline.bound
    assert flushed[1] > flushed[0]


def test_what_kube_scheduler_tells_at_zero_is_there_at_zero() -> None:
    counters = Pipeline().state.counters
    text = metrics_text(metrics_answer(counters, status_answer()), [], None, now_s=0.0)
    lines = set(text.splitlines())
    for series in (
        "scheduler_preemption_attempts_total",
        "scheduler_preemption_victims_count",
        "scheduler_pod_scheduling_attempts_count",
        "scheduler_scheduling_algorithm_duration_seconds_count",
        "scheduler_pod_scheduled_after_flush_total",
        'scheduler_pending_pods{queue="gated"}',
        f'scheduler_plugin_evaluation_total{{plugin="NodeResourcesFit",extension_point="Filter",profile="{PROFILE}"}}',
        f'scheduler_plugin_evaluation_total{{plugin="TaintToleration",extension_point="PreScore",profile="{PROFILE}"}}',
    ):
        assert f"{series} 0" in lines, series


def test_bindings_under_way_are_what_goroutines_are() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    pipeline.add_pod(make_pod("p"))
    while not pipeline.orders:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    status = status_of(pipeline.state)
    text = metrics_text(metrics_answer(Counters(), status), [], None, now_s=0.0)
    assert 'scheduler_goroutines{operation="binding"} 1\n' in text
