"""An owner that stands by keeps everything up to date and gives out nothing."""

from daemon.core.administration import cache_answer, metrics_answer, status_of
from daemon.core.events import LeaseTaken
from shared.messages.admin import MetricsAnswer
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline
from tests.unit.daemon.core.queue.builders import Bench


def test_nothing_is_given_out_before_the_lease_is_taken_and_then_at_once() -> None:
    pipeline = Pipeline(is_candidate=True)
    pods = [make_pod(f"p{i}") for i in range(3)]
    pipeline.sync([make_node("n0")], pods)
    pipeline.run_until_quiet()
    status = status_of(pipeline.state)
    assert status.is_standby
    assert (status.queue.active, status.scorers_ready) == (3, 1), "warm"
    assert pipeline.bound == {}
    pipeline.handle(LeaseTaken(1))
    pipeline.run_until_quiet()
    assert not status_of(pipeline.state).is_standby
    assert len(pipeline.bound) == 3


def test_what_the_leader_binds_is_a_fact_and_counted_on_its_node() -> None:
    pipeline = Pipeline(is_candidate=True)
    pipeline.sync([make_node("n0"), make_node("n1")], [make_pod("a"), make_pod("b")])
    for name, node in (("a", "n1"), ("b", "n1")):
        pipeline.add_pod(make_pod(name, node_name=node))
    pipeline.run_until_quiet()
    status = status_of(pipeline.state)
    assert status.queue.active == 0
    assert status.pod_count == 2
    assert status.counters["foreign_binds"] == 2
    assert status.foreign_pods_by_node == {"n1": 2}
    pipeline.remove_node("n1")
    assert status_of(pipeline.state).foreign_pods_by_node == {}


def test_the_cache_is_told_by_uid_and_who_is_assumed() -> None:
    pipeline = Pipeline(schedulers=("default-scheduler", "another"))
    bound = make_pod("a", node_name="n0")
    pipeline.sync([make_node("n0")], [bound, make_pod("b"), make_pod("c", cpu="1000")])
    while not pipeline.state.cache.assumed_pods():
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    answer = cache_answer(pipeline.state)
    (node,) = answer.nodes
    assert not node.is_ghost
    assert {(pod.key, pod.is_assumed) for pod in node.pods} == {
        ("default/a", False),
        ("default/b", True),
    }
    assert [pod.key for pod in answer.pending] == ["default/c"]
    assert answer.profiles == ["another", "default-scheduler"]


def rejected(answer: MetricsAnswer) -> list[tuple[tuple[str, ...], int]]:
    counts = (one for one in answer.measured.counts if one.name == "unschedulable_pods")
    return [(one.labels, one.count) for one in counts]


def test_metrics_tell_who_rejected_what_waits() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [make_pod("a", cpu="1000"), make_pod("b")])
    pipeline.run_until_quiet()
    answer = metrics_answer(pipeline.state)
    assert rejected(answer) == [(("NodeResourcesFit", "default-scheduler"), 1)]
    incoming = {tuple(one.labels): one.count for one in answer.measured.counts}
    assert incoming["active", "UnschedulablePodAdd"] == 2
    attempts = {tuple(one.labels): sum(one.counts) for one in answer.measured.histograms}
    assert attempts["scheduled", "default-scheduler"] == 1


def test_a_plugin_that_said_pending_counts_among_those_that_rejected() -> None:
    bench = Bench()
    bench.park("a", ["NodeResourcesFit"], pending=["DynamicResources"])
    state = Pipeline().state
    state.queue = bench.queue
    answer = metrics_answer(state)
    told = [(labels[0], count) for labels, count in rejected(answer)]
    assert told == [("DynamicResources", 1), ("NodeResourcesFit", 1)]
