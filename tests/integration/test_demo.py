"""The demo from end to end: API server, every process of a berth, load, check, report."""

import json
import shutil
from pathlib import Path

import pytest

from bench.demo.demo_run import DemoFailedError, DemoOptions, run_demo
from bench.demo.progress import Progress
from bench.demo.workload import Workload, jobs_of, synthetic_workload
from bench.openb.trace import TraceNode, TracePod
from daemon import cli
from shared import exit_codes
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration


def folder_of(error: Exception) -> Path:
    """Where a failed run says that it has left its logs."""
    return Path(str(error).rpartition("all logs are in ")[2].rstrip(")"))


def test_every_pod_is_bound_and_the_figures_and_the_report_are_written(tmp_path: Path) -> None:
    report, figures_path = tmp_path / "report.html", tmp_path / "figures.json"
    size = ["--nodes", "20", "--pods", "60", "--workers", "2", "--binders", "2"]
    places = ["--report", str(report), "--json", str(figures_path)]
    assert cli.main(["demo", *size, *places, "--timeout-s", f"{HANG_S}"]) == exit_codes.OK
    figures = json.loads(figures_path.read_text())
    assert (figures["bound_count"], figures["unschedulable_count"]) == (60, 0)
    assert figures["problems"] == []
    assert figures["resources"]["cpu"]["requested"] == pytest.approx(6.0)
    assert {one["name"] for one in figures["processes"]} == {
        *("apiserver", "load and watch", "supervisor", "owner", "adapter"),
        *("scorer-0", "scorer-1", "binder-0", "binder-1"),
    }
    assert report.read_text().count("<figure") == 9


def test_what_does_not_fit_is_reported_with_kube_schedulers_message() -> None:
    # 2 nodes of 4 CPU take 80 pods of 100m CPU; the rest cannot be placed.
    crowded = synthetic_workload(2, 90)
    outcome = run_demo(crowded, DemoOptions(timeout_s=HANG_S), Progress())
    assert (outcome.figures.bound_count, outcome.figures.unschedulable_count) == (80, 10)
    (message,) = outcome.figures.unschedulable
    assert message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert outcome.figures.problems == []
    assert outcome.figures.resources["cpu"].percent == pytest.approx(100.0)


def test_of_jobs_that_are_gangs_none_holds_a_gpu_for_nothing() -> None:
    nodes = [TraceNode("n", 64_000, 65_536, 4, "T4")]
    trace = [TracePod(f"job{number}", 4_000, 4_096, 4, (), "LS") for number in range(2)]
    workload = jobs_of(nodes, trace, as_gangs=True)
    outcome = run_demo(workload, DemoOptions(timeout_s=HANG_S), Progress())
    (jobs,) = outcome.figures.jobs
    assert (jobs.job_count, jobs.whole_count, jobs.stranded_pod_count) == (2, 1, 0)
    assert jobs.gpus_useful_percent == 100.0
    assert outcome.figures.problems == []


def test_a_run_that_cannot_end_fails_loudly_and_keeps_its_logs() -> None:
    workload = synthetic_workload(1, 1)
    with pytest.raises(DemoFailedError, match="all logs are in") as caught:
        run_demo(workload, DemoOptions(timeout_s=0.01), Progress())
    folder = folder_of(caught.value)
    assert (folder / "apiserver.log").exists()
    shutil.rmtree(folder)


def test_a_body_that_the_server_refuses_fails_the_run_with_its_answer() -> None:
    bad = Workload(title="bad", note="", nodes=[b'{"metadata":{"name":"Not_a_name"}}'], pods=[])
    with pytest.raises(DemoFailedError, match="Not_a_name") as caught:
        run_demo(bad, DemoOptions(timeout_s=HANG_S), Progress())
    shutil.rmtree(folder_of(caught.value))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nodes", "5"],
        ["--nodes", "0", "--pods", "1"],
        ["--rate", "-1"],
        ["--gangs", "--nodes", "5", "--pods", "5"],
        ["--report", "/nowhere/at/all.html"],
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_starts(arguments: list[str]) -> None:
    assert cli.main(["demo", *arguments]) == exit_codes.UNUSABLE
