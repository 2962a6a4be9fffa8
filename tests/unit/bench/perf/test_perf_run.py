"""How a run ends."""

import asyncio
from pathlib import Path

from bench.perf.config_file import matching, plan_of, read_cases
from bench.perf.perf_run import RunOptions, _execute
from bench.perf.result import Run
from shared.clock import SystemClock
from shared.errors import OperationalError
from tests.support.waiting import HANG_S
from tests.unit.bench.perf.recording_cluster import RecordingCluster

WORKLOADS = Path(__file__).parents[4] / "bench/perf/workloads"


class Untidy(RecordingCluster):
    """What was made stays."""

    async def close(self) -> None:
        raise OperationalError("namespace-1 is still there")


def run(cluster: RecordingCluster, clock: SystemClock) -> Run:
    ((case, workload),) = matching(
        read_cases(WORKLOADS / "misc.yaml"), "SchedulingBasic/5Nodes", ""
    )
    plan = plan_of(WORKLOADS / "misc.yaml", case, workload)
    options = RunOptions(timeout_s=HANG_S)

    async def forever() -> None:
        await asyncio.Event().wait()

    return asyncio.run(_execute(plan, options, clock, cluster, forever(), asyncio.sleep(0)))


def test_what_was_measured_is_told_though_something_is_left_behind() -> None:
    clock = SystemClock()
    done = run(Untidy(clock), clock)
    assert [one.pod_count for one in done.measurements] == [10]
    assert done.problems == ["left behind: namespace-1 is still there"]
