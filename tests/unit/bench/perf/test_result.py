"""Medians, upstream's data items, the comparison, the table, and what a workload needs."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.perf.comparison import comparison, read_result
from bench.perf.config_file import OUR_FILES, MetricSelector, matching, plan_of, read_cases
from bench.perf.result import (
    FORMAT,
    Measurement,
    ProcessUse,
    Result,
    Run,
    perf_data,
    summary_of,
    threshold_problems,
)
from bench.perf.samples import Percentiles, Throughput
from bench.perf.suite import SUITE, Outcome, keep, known_outcome, markdown
from bench.watched.machine import Machine, commit, this_machine
from shared.errors import ConfigurationError


def run_of(rate: float) -> Run:
    measured = Measurement(
        name="namespace-2",
        namespaces=["namespace-2"],
        pod_count=10,
        duration_s=2.0,
        throughput_pods_per_s=Throughput(rate, rate, rate, rate, rate, rate * 2, 1.0, 7),
        end_to_end_latency_ms=Percentiles(5.0, 4.0, 8.0, 9.0, 10.0),
        attempt_latency_ms=Percentiles(3.0, 2.0, 4.0, 5.0, 6.0),
        attempts_by_result_ms={"scheduled": Percentiles(3.0, 2.0, 4.0, 5.0, 6.0)},
    )
    return Run(
        measurements=[measured],
        processes={"owner": ProcessUse(0.1, rate / 100, 50.0)},
        owner_counters={},
        whole_s=3.0,
        problems=[],
    )


def result_of(*rates: float, **changes: Any) -> Result:
    runs = [run_of(rate) for rate in rates]
    fields: dict[str, Any] = {
        "format": FORMAT,
        "config": "misc/performance-config.yaml",
        "workload": "A/one",
        "topic": "misc",
        "mode": "decisions",
        "parameters": {"initNodes": 5},
        "threshold": 0.0,
        "options": {},
        "notes": [],
        "started": "2026-01-01T00:00:00Z",
        "commit": "abc",
        "machine": Machine("cpu", 2, 4.0, "6", "3.11", "2"),
        "median": summary_of(runs),
        "runs": runs,
        "perfdata": perf_data("A/one", runs[-1]),
    }
    return Result(**(fields | changes))


def test_each_figure_is_the_median_of_the_runs() -> None:
    median = result_of(100, 300, 200).median
    assert median.run_count == 3
    assert median.throughput_pods_per_s["average"] == 200
    assert median.throughput_pods_per_s["overall"] == 400
    assert median.cpu_s_per_1000_pods == {"owner": 2.0}
    assert median.rss_peak_mib == {"owner": 50.0}


def test_data_items_are_named_as_upstream_names_them() -> None:
    perfdata = perf_data("A/one", run_of(100))
    assert perfdata["version"] == "v1"
    throughput = perfdata["dataItems"][0]
    assert throughput == {
        "data": {"Average": 100, "Perc50": 100, "Perc90": 100, "Perc95": 100, "Perc99": 100},
        "unit": "pods/s",
        "labels": {"Name": "A/one/namespace-2", "Metric": "SchedulingThroughput"},
    }
    metrics = [item["labels"]["Metric"] for item in perfdata["dataItems"]]
    assert metrics[1:] == [
        "scheduler_pod_scheduling_sli_duration_seconds",
        "scheduler_scheduling_attempt_duration_seconds",
        "SchedulingDuration",
    ]
    assert perfdata["dataItems"][2] == {
        "data": {"Average": 3, "Perc50": 2, "Perc90": 4, "Perc95": 5, "Perc99": 6},
        "unit": "ms",
        "labels": {
            "Name": "A/one/namespace-2",
            "Metric": "scheduler_scheduling_attempt_duration_seconds",
            "result": "scheduled",
        },
    }


def test_two_results_are_compared_as_ratios(tmp_path: Path) -> None:
    paths = (tmp_path / "a.json", tmp_path / "b.json")
    for path, result in zip(paths, (result_of(100), result_of(150, mode="http")), strict=True):
        path.write_bytes(msgspec.json.encode(result))
    told = comparison(*(read_result(path) for path in paths))
    assert "differs: mode: decisions and http" in told
    row = next(one for one in told.splitlines() if one.startswith("pods/s average"))
    assert row.split() == ["pods/s", "average", "100.000", "150.000", "1.500"]


def test_a_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_result(path)
    path.write_text("{}")
    with pytest.raises(ConfigurationError, match="is no result"):
        read_result(path)
    path.write_bytes(msgspec.json.encode(result_of(1, format=99)))
    with pytest.raises(ConfigurationError, match="has format 99"):
        read_result(path)


def test_the_table_has_a_row_and_a_command_for_each_workload_also_where_it_failed() -> None:
    done = Outcome(SUITE[0], result_of(100), "")
    failed = Outcome(SUITE[1], None, "failed: too slow")
    table = markdown([done, failed])
    assert "| 1 | SchedulingBasic/5000Nodes_10000Pods | decisions | 200 |" in table
    assert "| 2 | SchedulingBasic/5000Nodes_10000Pods | http | failed: too slow |" in table
    assert f"2. `{SUITE[1].command}`" in table
    widths = {line.count("|") for line in table.splitlines() if line.startswith("|")}
    assert widths == {11}
    assert "| 4.0 / 10.0 | 2.0 / 6.0 |" in table


def test_a_suite_remembers_what_earlier_runs_left(tmp_path: Path) -> None:
    done, failed = Outcome(SUITE[0], result_of(100), ""), Outcome(SUITE[1], None, "failed: slow")
    for outcome in (done, failed):
        keep(outcome, tmp_path)
        assert known_outcome(outcome.row, tmp_path) == outcome
    assert known_outcome(SUITE[2], tmp_path).why_not == "not run"
    keep(Outcome(SUITE[0], None, "failed: broken"), tmp_path)
    assert known_outcome(SUITE[0], tmp_path).result is None, "not the old figure for a new failure"


def test_every_row_of_the_suite_is_a_workload_that_can_be_planned() -> None:
    by_file = {file: read_cases(file) for file in OUR_FILES}
    for row in SUITE:
        ((file, case, workload),) = (
            (file, *found)
            for file, cases in by_file.items()
            for found in matching(cases, row.workload, "")
        )
        assert plan_of(file, case, workload).name == row.workload


ITEMS = [
    {
        "data": {"Average": 100.0, "Perc99": 180.0},
        "labels": {"Metric": "SchedulingThroughput", "Name": "a"},
    },
    {"data": {"Average": 7.0}, "labels": {"Metric": "attempts", "result": "scheduled"}},
]


@pytest.mark.parametrize(
    ("threshold", "metric", "problems"),
    [
        (0, MetricSelector(), []),
        (99, MetricSelector(), []),
        (100, MetricSelector(), ["SchedulingThroughput Average: 100, not above 100"]),
        (
            7,
            MetricSelector(name="attempts", labels={"result": "scheduled"}, expect_lower=True),
            ["attempts Average: 7, not below 7"],
        ),
        (
            1,
            MetricSelector(name="attempts", labels={"result": "error"}),
            ["threshold: attempts Average is not measured"],
        ),
    ],
)
def test_a_threshold_is_compared_with_the_metric_that_it_is_for(
    threshold: float, metric: MetricSelector, problems: list[str]
) -> None:
    assert threshold_problems(ITEMS, threshold, metric) == problems


def test_the_machine_is_described() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert machine.cpu
    assert commit()
