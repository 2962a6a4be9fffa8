"""What a benchmark writes: every run, the medians over the runs, and upstream's data items. Pure."""

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import msgspec

from bench.perf.config_file import MetricSelector
from bench.perf.samples import Percentiles, Throughput
from bench.watched.machine import Machine

FORMAT: Final = 1
MIB: Final = 2.0**20
ATTEMPT_METRIC: Final = "scheduler_scheduling_attempt_duration_seconds"


class ProcessUse(msgspec.Struct, frozen=True):
    """One process while metrics were collected."""

    cpu_s: float
    cpu_s_per_1000_pods: float
    rss_peak_mib: float
    """Over its whole life until the end of the run."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch between start and stop of the metrics."""

    name: str
    namespaces: list[str]
    pod_count: int
    duration_s: float
    throughput_pods_per_s: Throughput | None
    """None: nothing was bound."""
    end_to_end_latency_ms: Percentiles | None
    """decisions: from the watch event put in to the binding ordered; otherwise from the creation sent
    to the binding seen by a watch."""
    attempt_latency_ms: Percentiles | None = None
    """From a pod's being handed out to its placement's being assumed, or to its refusal, by the owner's
    own clock. None: there is no owner of ours."""
    attempts_by_result_ms: dict[str, Percentiles] = {}
    """The same, apart for each result: scheduled, unschedulable, error."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the workload in fresh processes."""

    measurements: list[Measurement]
    processes: dict[str, ProcessUse]
    owner_counters: dict[str, int]
    """Since the owner's start; empty when no owner of ours was there."""
    whole_s: float
    """From the first operation to the last."""
    problems: list[str]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the runs, of their last measurement."""

    run_count: int
    throughput_pods_per_s: dict[str, float]
    end_to_end_latency_ms: dict[str, float]
    attempt_latency_ms: dict[str, float] = {}
    """Empty in results of before it was measured."""
    cpu_s_per_1000_pods: dict[str, float]
    rss_peak_mib: dict[str, float]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The file that `berth bench run` writes."""

    format: int
    config: str
    workload: str
    """CASE/NAME."""
    topic: str
    mode: str
    parameters: dict[str, Any]
    threshold: float
    """Upstream's for kube-scheduler; 0: none."""
    options: dict[str, Any]
    notes: list[str]
    started: str
    """UTC."""
    commit: str
    machine: Machine
    median: Summary
    runs: list[Run]
    perfdata: dict[str, Any]
    """As upstream's --data-items-dir has it: of the last run."""


def summary_of(runs: Sequence[Run]) -> Summary:
    """Each figure's median by itself."""
    last = [run.measurements[-1] for run in runs if run.measurements]
    rates = [
        msgspec.structs.asdict(m.throughput_pods_per_s) for m in last if m.throughput_pods_per_s
    ]
    waits = [
        msgspec.structs.asdict(m.end_to_end_latency_ms) for m in last if m.end_to_end_latency_ms
    ]
    attempts = [msgspec.structs.asdict(m.attempt_latency_ms) for m in last if m.attempt_latency_ms]
    uses = [{n: u.cpu_s_per_1000_pods for n, u in run.processes.items()} for run in runs]
    peaks = [{n: u.rss_peak_mib for n, u in run.processes.items()} for run in runs]
    return Summary(
        run_count=len(runs),
        throughput_pods_per_s=_medians(rates),
        end_to_end_latency_ms=_medians(waits),
        attempt_latency_ms=_medians(attempts),
        cpu_s_per_1000_pods=_medians(uses),
        rss_peak_mib=_medians(peaks),
    )


def _medians(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(median(row[name] for row in rows if name in row)) for name in names}


def perf_data(workload: str, run: Run) -> dict[str, Any]:
    """perfdata "v1" (k8s.io/kubernetes/test/e2e/perftype), as perf-dash reads it."""
    items = []
    for one in run.measurements:
        name = f"{workload}/{one.name}"
        pairs = (
            ("SchedulingThroughput", "pods/s", one.throughput_pods_per_s),
            ("scheduler_pod_scheduling_sli_duration_seconds", "ms", one.end_to_end_latency_ms),
        )
        for metric, unit, figures in pairs:
            if figures is not None:
                items.append(_data_item({"Name": name, "Metric": metric}, unit, figures))
        for result, waits in sorted(one.attempts_by_result_ms.items()):
            labels = {"Name": name, "Metric": ATTEMPT_METRIC, "result": result}
            items.append(_data_item(labels, "ms", waits))
        items.append(
            {
                "data": {"Duration": one.duration_s},
                "unit": "s",
                "labels": {"Name": name, "Metric": "SchedulingDuration"},
            }
        )
    return {"version": "v1", "dataItems": items}


def _data_item(
    labels: dict[str, str], unit: str, figures: Throughput | Percentiles
) -> dict[str, Any]:
    return {
        "data": {
            "Average": figures.average,
            "Perc50": figures.p50,
            "Perc90": figures.p90,
            "Perc95": figures.p95,
            "Perc99": figures.p99,
        },
        "unit": unit,
        "labels": labels,
    }


def threshold_problems(
    items: Sequence[dict[str, Any]], threshold: float, metric: MetricSelector
) -> list[str]:
    """What is not within the threshold (`applyThreshold` upstream); a metric that is not measured here
    is named."""
    if not threshold:
        return []
    found = [
        item["data"][metric.data_bucket]
        for item in items
        if item["labels"]["Metric"] == metric.name
        and metric.labels.items() <= item["labels"].items()
        and metric.data_bucket in item["data"]
    ]
    what = f"{metric.name} {metric.data_bucket}"
    if not found:
        return [f"threshold: {what} is not measured"]
    if metric.expect_lower:
        return [f"{what}: {v:g}, not below {threshold:g}" for v in found if v >= threshold]
    return [f"{what}: {v:g}, not above {threshold:g}" for v in found if v <= threshold]
