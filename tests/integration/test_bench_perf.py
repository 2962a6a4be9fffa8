"""`berth bench run` from end to end, on tiny workloads in each mode."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bench.perf.config_file import OUR_FILES, chosen, plan_of
from bench.perf.executor import WorkloadFailedError
from bench.perf.perf_run import RunOptions, run_benchmark
from bench.watched.watched_processes import start_api_server
from daemon import cli
from shared import exit_codes
from tests.support.kubeconfigs import kubeconfig_of
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

BASIC = "SchedulingBasic/5Nodes"
LIMIT = ("--timeout-s", f"{HANG_S}")


def result_of(path: Path, *arguments: str) -> dict[str, Any]:
    code = cli.main(["bench", "run", *arguments, "--output", str(path), *LIMIT])
    assert code == exit_codes.OK
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def check(result: dict[str, Any], pod_count: int) -> None:
    for run in result["runs"]:
        assert run["problems"] == []
        (measured,) = run["measurements"]
        assert measured["pod_count"] == pod_count
        assert measured["throughput_pods_per_s"]["overall"] > 0
        assert measured["end_to_end_latency_ms"]["p99"] > 0
        # Counted before the order leaves; "bound" may still be on its way back at the end.
        assert run["owner_counters"]["scheduled"] >= pod_count
    assert result["perfdata"]["dataItems"]


def test_decisions_mode_with_several_runs_workers_and_binders(tmp_path: Path) -> None:
    many = ("--runs", "2", "--workers", "2", "--binders", "2")
    result = result_of(tmp_path / "r.json", "--workload", BASIC, *many)
    check(result, 10)
    assert len(result["runs"]) == 2
    assert set(result["runs"][0]["processes"]) == {
        *("owner", "scorer-0", "scorer-1", "null-binder-0", "null-binder-1", "feeder"),
    }


@pytest.mark.parametrize(
    ("workload", "count"),
    [
        ("Heterogeneous/5Nodes", 10),
        ("ManyJobs/5Nodes", 10),
        ("ManyDeployments/5Nodes", 10),
        ("ExtendedResourceScoring/fast", 10),
        ("SteadyArrival/5Nodes_10PerSecond", 5),
        ("GangsNear/Openb_1Gang", 8),
    ],
)
def test_unlike_pods_a_configuration_arrivals_and_a_gang(
    tmp_path: Path, workload: str, count: int
) -> None:
    check(result_of(tmp_path / "r.json", "--workload", workload), count)


def test_gated_and_deleted_pods_in_decisions_mode(tmp_path: Path) -> None:
    workload = ("--workload", "SchedulingWhileGated/1Node_10GatedPods")
    check(result_of(tmp_path / "r.json", *workload), 10)


def test_http_mode_with_churn(tmp_path: Path) -> None:
    result = result_of(
        tmp_path / "r.json",
        *("--workload", "SchedulingWithMixedChurn/10Nodes"),
        *("--mode", "http"),
    )
    check(result, 100)
    assert {"apiserver", "owner", "adapter", "scorer-0", "binder-0"} <= set(
        result["runs"][0]["processes"]
    )


REAL_SERVERS_DO = """
faults:
- {at: request, do: refuse, method: POST, path: "*/pods", code: 500, retry_after_s: 1}
- {at: request, do: refuse, method: DELETE, path: "*/pods", code: 504, times: 2}
"""


def test_cluster_mode_leaves_the_cluster_as_it_was(tmp_path: Path) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text(REAL_SERVERS_DO)
    # New nodes are not ready until somebody says so, as at a real API server.
    tainted = ("--enable-admission-plugins", "TaintNodesByCondition")
    more = ("--disable-admission-plugins", "Priority", *tainted, "--faults", str(faults))
    server, address = asyncio.run(start_api_server(tmp_path, 100_000, 0, more))
    try:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_of({"server": address})))
        result = result_of(
            tmp_path / "r.json",
            *("--workload", BASIC),
            *("--mode", "cluster", "--kubeconfig", str(kubeconfig), "--runs", "2"),
        )
    finally:
        server.stop()
    # The second run would have met the first one's namespaces and nodes.
    check(result, 10)


def test_a_workload_that_does_not_end_says_how_far_it_came() -> None:
    (found,) = chosen(OUR_FILES, BASIC, "")
    plan = plan_of(*found)
    with pytest.raises(WorkloadFailedError, match=r"not finished after 0.01 s .*operation"):
        run_benchmark(plan, RunOptions(timeout_s=0.01), lambda _: None)


def test_a_workload_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["bench", "run", "--workload", "Nothing/5Nodes"])
    assert code == exit_codes.UNUSABLE
    assert "berth bench list shows them" in capsys.readouterr().err


def test_all_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "list", "--labels", "short"]) == exit_codes.OK
    told = capsys.readouterr().out
    assert "SchedulingBasic/5Nodes " in told
    assert "EventHandlingPodAdd/10Pods " in told
