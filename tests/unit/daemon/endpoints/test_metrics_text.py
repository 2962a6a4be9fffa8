"""Metrics as text: what stands there can be read again, by the rules of the format."""

import re

from daemon.core.counters import Counters
from daemon.core.owner_counts import Count
from daemon.endpoints.metrics_text import metrics_text
from daemon.supervisor.process_list import ProcessUse
from shared.messages.admin import MetricsAnswer, QueueLengths
from tests.support.owner_answers import metrics_answer, status_answer

OWNER = ProcessUse(
    "owner",
    7,
    0.0,
    2,
    "signal 9",
    is_alive=True,
    cpu_s=1.5,
    rss_bytes=1000,
    rss_peak_bytes=2000,
    running_s=60.0,
)
SERIES = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')


def answer(counters: Counters) -> MetricsAnswer:
    status = status_answer(
        queue=QueueLengths(5, 1, 2, 3, 4),
        counters=counters.plain(),
        foreign_pods_by_node={'a"b\\': 3},
    )
    return metrics_answer(counters, status)


def parsed(text: str) -> dict[str, float]:
    """Series -> number. Fails where a family is told twice, or a series before its type."""
    series: dict[str, float] = {}
    types: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            _, what, name, rest = line.split(" ", 3)
            if what == "TYPE":
                assert name not in types
                types[name] = rest
            continue
        matched = SERIES.fullmatch(line)
        assert matched is not None, line
        name = matched[1]
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        assert list(types)[-1] in (name, family), f"{line} stands in another family"
        key = f"{name}{{{matched[2]}}}" if matched[2] else name
        assert key not in series, f"{key} twice"
        series[key] = float(matched[3])
    return series


def test_every_kind_of_metric_is_told() -> None:
    counters = Counters()
    counters[Count.BOUND] = 4
    counters[Count.PREEMPTION_ATTEMPTS] = 2
    counters.observe("attempt_s", ("scheduled", "p"), 0.0015, times=3)
    counters.observe("attempt_s", ("unschedulable", "p"), 100.0)
    counters.observe("victims", (), 2.0)
    counters.count("queue_incoming", ("active", "UnschedulablePodAdd"), by=6)
    told = parsed(metrics_text(answer(counters), [OWNER], is_leading=True, now_s=100.0))
    attempts = "scheduler_schedule_attempts_total"
    assert told[f'{attempts}{{result="scheduled",profile="p"}}'] == 3
    assert told[f'{attempts}{{result="unschedulable",profile="p"}}'] == 1
    assert told['berth_binds_total{result="bound"}'] == 4
    assert told["scheduler_preemption_attempts_total"] == 2
    waiting = {"active": 5, "backoff": 1, "unschedulable": 2, "gated": 3}
    assert {part: told[f'scheduler_pending_pods{{queue="{part}"}}'] for part in waiting} == waiting
    assert told["berth_pods_in_flight"] == 4
    assert told['scheduler_cache_size{type="assumed_pods"}'] == 1
    incoming = 'scheduler_queue_incoming_pods_total{queue="active",event="UnschedulablePodAdd"}'
    assert told[incoming] == 6
    assert told['scheduler_unschedulable_pods{plugin="NodeAffinity",profile="p"}'] == 2
    assert told['leader_election_master_status{name="kube-scheduler"}'] == 1
    assert told['berth_process_restarts_total{process="owner"}'] == 2
    assert told["process_cpu_seconds_total"] == 1.5
    assert told['berth_foreign_pods_on_node{node="a\\"b\\\\"}'] == 3


def test_buckets_count_all_below_their_bound() -> None:
    counters = Counters()
    counters.observe("attempt_s", ("scheduled", "p"), 0.001, times=2)
    counters.observe("attempt_s", ("scheduled", "p"), 0.0011)
    counters.observe("attempt_s", ("scheduled", "p"), 1000.0)
    told = parsed(metrics_text(answer(counters), [], None, now_s=100.0))
    name = "scheduler_scheduling_attempt_duration_seconds"
    labels = 'result="scheduled",profile="p"'
    below = [told[f'{name}_bucket{{{labels},le="{le}"}}'] for le in ("0.001", "0.002", "16.384")]
    assert below == [2, 3, 3]
    assert told[f'{name}_bucket{{{labels},le="+Inf"}}'] == told[f"{name}_count{{{labels}}}"] == 4
    assert told[f"{name}_sum{{{labels}}}"] == 1000.0031


def test_without_the_owner_the_processes_are_told() -> None:
    told = parsed(metrics_text(None, [OWNER], None, now_s=100.0))
    assert told["berth_owner_up"] == 0
    assert told['berth_process_up{process="owner"}'] == 1
    assert not any(name.startswith("scheduler_") for name in told)
