"""The workloads of the committed table, and the table itself: `berth bench suite`.

Each row names the workload and the mode, so that it can be run alone by the command that stands beside
it. A row whose plugins are not there, or that fails, stays in the table and says so.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.perf.comparison import read_result
from bench.perf.config_file import OUR_FILES, chosen, plan_of
from bench.perf.perf_run import Mode, RunOptions, run_benchmark
from bench.perf.result import Result
from bench.watched.output_file import figures_json, put_file
from bench.watched.server_pace import PaceOptions
from shared.errors import ConfigurationError, OperationalError


class Row(NamedTuple):
    """One line of the table."""

    workload: str
    mode: Mode
    peer: str = "-"
    """kube-scheduler v1.36.2 in its own suite (in-process API server, real etcd) on 2 shared cores of
    this kind, average pods/s; "-": not measured."""
    mark: float = 0.0
    """Pods/s overall that it has to reach on 2 quiet cores; 0: none."""

    pace: PaceOptions = PaceOptions()
    """http: how slow the server is."""

    @property
    def command(self) -> str:
        """What runs it alone."""
        command = f"berth bench run --workload {self.workload} --mode {self.mode}"
        return " ".join((command, *self.pace.arguments()))

    @property
    def told_mode(self) -> str:
        """The mode, and how slow the server is."""
        pace = self.pace
        latency = f", {pace.write_latency_ms:g} ms a write" if pace.write_latency_ms else ""
        rate = f", {pace.writes_per_s:,g} writes/s" if pace.writes_per_s else ""
        return f"{self.mode}{latency}{rate}"


SLOW: Final = PaceOptions(writes_per_s=1000)
"""Almost all orders wait for such a server: what a pod costs must not depend on how many there are."""

GANG_S: Final = 0.020
"""Such a gang of 64 GPUs is to be decided in at most this."""
MARK: Final = 2_000.0
"""Of volumes and devices on 5,000 nodes: some 80 times what kube-scheduler does."""

SUITE: Final = (
    Row("SchedulingBasic/5000Nodes_10000Pods", "decisions", "240-266"),
    Row("SchedulingBasic/5000Nodes_10000Pods", "http", "240-266"),
    *(
        Row("SchedulingBasic/5000Nodes_10000Pods", "http", pace=pace)
        for pace in (
            PaceOptions(write_latency_ms=2),
            PaceOptions(write_latency_ms=20),
            PaceOptions(writes_per_s=400),
        )
    ),
    *(
        Row(f"OneClass/5000Nodes_{count}Pods", "http", pace=SLOW)
        for count in (1_000, 10_000, 100_000)
    ),
    Row("SchedulingNodeAffinity/5000Nodes_10000Pods", "decisions", "176"),
    Row("Unschedulable/5kNodes/100Init/10kPods", "decisions", "201"),
    Row("SchedulingWithMixedChurn/5000Nodes_10000Pods", "decisions", "229"),
    Row("SchedulingWhileGated/1Node_10000GatedPods", "decisions"),
    Row("SchedulingDaemonset/15000Nodes", "decisions"),
    Row("TopologySpreading/5000Nodes_5000Pods", "decisions", "92"),
    Row("PreferredTopologySpreading/5000Nodes_5000Pods", "decisions", "93"),
    Row("SchedulingPodAntiAffinity/5000Nodes_2000Pods", "decisions", "72"),
    Row("SchedulingPodAffinity/5000Nodes_5000Pods", "decisions", "30"),
    Row("SchedulingPreferredPodAffinity/5000Nodes_5000Pods", "decisions", "65"),
    Row("SchedulingPreferredPodAntiAffinity/5000Nodes_5000Pods", "decisions"),
    Row("MixedSchedulingBasePod/5000Nodes_5000Pods", "decisions", "90"),
    Row("SchedulingRequiredPodAntiAffinityWithNSSelector/5000Nodes_2000Pods", "decisions"),
    Row("SchedulingPreferredAffinityWithNSSelector/5000Nodes_5000Pods", "decisions"),
    Row("PreemptionAsync/5000Nodes", "decisions"),
    Row("Openb/Full", "decisions"),
    Row("Openb/Full", "http"),
    Row("Heterogeneous/5000Nodes_2000Pods", "decisions"),
    Row("ManyJobs/5000Nodes_10000Pods", "decisions"),
    Row("ManyDeployments/5000Nodes_3000Pods", "decisions"),
    Row("SteadyArrival/5000Nodes_10PerSecond", "decisions"),
    Row("SteadyArrivalFast/5000Nodes_1000PerSecond", "decisions"),
    Row("ManyPods/5000Nodes_150000Pods", "decisions"),
    Row("Gangs/5000Nodes_100Gangs", "decisions", mark=15_000.0),
    Row("Gangs/5000Nodes_100Gangs", "http"),
    Row("OneGang/5000Nodes_4096Pods", "decisions"),
    Row("GangsNear/Openb_50Gangs", "decisions", mark=8 / GANG_S),
    Row("GangsOf64Near/Openb_50Gangs", "decisions", mark=64 / GANG_S),
    Row("OneClass/100000Nodes_10000Pods", "decisions"),
    Row("Heterogeneous/100000Nodes_1000Pods", "decisions"),
    # Volumes.
    Row("SchedulingSecrets/5000Nodes_10000Pods", "decisions", mark=MARK),
    Row("SchedulingInTreePVs/5000Nodes_2000Pods", "decisions", mark=MARK),
    Row("SchedulingMigratedInTreePVs/5000Nodes_5000Pods", "decisions", mark=MARK),
    Row("SchedulingCSIPVs/5000Nodes_5000Pods", "decisions", "26-29", mark=MARK),
    Row("PreemptionPVs/1000Nodes", "decisions"),
    # Devices.
    Row("PublishResourceSlices/5000nodes", "decisions"),
    Row("SchedulingWithResourceClaimTemplate/5000pods_500nodes", "decisions", mark=MARK),
    Row("SchedulingWithResourceClaimTemplate/10000pods_5000nodes", "decisions", mark=MARK),
    Row("SteadyStateClusterResourceClaimTemplate/half_500nodes", "decisions"),
    Row("SteadyStateClusterResourceClaimTemplate/full_500nodes", "decisions"),
    Row("SchedulingWithResourceClaim/5000pods_500nodes", "decisions", mark=MARK),
    Row("ConsumableCapacity/2000pods_100nodes", "decisions"),
    Row("Partitionable/2000pods_100nodes", "decisions"),
    Row("ExtendedResource_25Classes/5000pods_500nodes", "decisions", mark=MARK),
    Row("ExtendedResource_50Classes/5000pods_500nodes", "decisions", mark=MARK),
    Row("ImplicitExtendedResource_25Classes/5000pods_500nodes", "decisions", mark=MARK),
    Row("ExtendedResourceScoring/5000pods_500nodes", "decisions", mark=MARK),
    # Events: pods wait until something happens, which upstream lets happen 100 times a second.
    Row("EventHandlingPodDelete/50Nodes_500Pods", "decisions"),
    Row("EventHandlingPodUpdate/1Node_1000Pods", "decisions"),
    Row("EventHandlingNodeAdd/100Nodes_1000Pods", "decisions"),
    Row("EventHandlingPodAdd/1000Pods", "decisions"),
    Row("EventHandlingNodeUpdate/100Nodes_1000Pods", "decisions"),
    Row("NodeDeclaredFeaturesEnabled/5000Nodes100DeclaredFeatures", "decisions"),
)


class Outcome(NamedTuple):
    """A row that was run, or why it was not."""

    row: Row
    result: Result | None
    why_not: str


def keep(outcome: Outcome, folder: Path) -> str:
    """Writes the result, or the reason why there is none, for a later run of other rows; says what
    was wrong."""
    result_path, reason_path = _paths(outcome.row, folder)
    for path in (result_path, reason_path):
        path.unlink(missing_ok=True)
    if outcome.result is None:
        return put_file(reason_path, outcome.why_not.encode())
    return put_file(result_path, figures_json(outcome.result))


def known_outcome(row: Row, folder: Path) -> Outcome:
    """What an earlier run left in the folder."""
    result_path, reason_path = _paths(row, folder)
    if result_path.exists():
        return Outcome(row, read_result(result_path), "")
    if reason_path.exists():
        return Outcome(row, None, reason_path.read_text(encoding="utf-8"))
    return Outcome(row, None, "not run")


def _paths(row: Row, folder: Path) -> tuple[Path, Path]:
    slow = "".join(row.pace.arguments())
    stem = f"{row.workload.replace('/', '_')}-{row.mode}{slow}"
    return folder / f"{stem}.json", folder / f"{stem}.txt"


def run_row(row: Row, options: RunOptions, told: Callable[[str], None]) -> Outcome:
    """Runs a row; failures become part of the outcome."""
    ((file, case, workload),) = chosen(OUR_FILES, row.workload, "")
    try:
        plan = plan_of(file, case, workload)
        result = run_benchmark(plan, options, told)
    except ConfigurationError as error:
        return Outcome(
            row, None, "; ".join(problem.partition(";")[0] for problem in error.problems)
        )
    except OperationalError as error:
        return Outcome(row, None, f"failed: {str(error).splitlines()[0]}")
    return Outcome(row, result, "")


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The table, and the command of each row below it."""
    head = (
        "| # | workload | mode | pods/s overall | average (interval) | p50 / p99 ms end to end |"
        " p50 / p99 ms an attempt |"
        " CPU ms per pod: owner / scorer / others of berth | peak MiB: owner / scorer |"
        " kube-scheduler pods/s |"
    )
    lines = [head, "|" + "---|" * 10]
    lines.extend(_line(number, one) for number, one in enumerate(outcomes, 1))
    lines.extend(["", "Commands (each with `--runs` and `--timeout-s` as wanted):", ""])
    lines.extend(f"{number}. `{one.row.command}`" for number, one in enumerate(outcomes, 1))
    return "\n".join(lines) + "\n"


def _line(number: int, outcome: Outcome) -> str:
    row, result = outcome.row, outcome.result
    start = f"| {number} | {row.workload} | {row.told_mode} |"
    if result is None:
        return f"{start} {outcome.why_not} | | | | | | {row.peer} |"
    middle = result.median
    rates, waits = middle.throughput_pods_per_s, middle.end_to_end_latency_ms
    attempts = middle.attempt_latency_ms
    cpu, peak = middle.cpu_s_per_1000_pods, middle.rss_peak_mib
    ours = {name for name in cpu if name.startswith(("adapter", "binder", "supervisor"))}
    scorers = {name for name in cpu if name.startswith("scorer")}
    others = f"{sum(cpu[name] for name in ours):.3f}" if ours else "-"
    return (
        f"{start} {_speed(row, result)} |"
        f" {rates.get('average', 0):,.0f} ({rates.get('sample_interval_s', 0):g} s) |"
        f" {waits.get('p50', 0):,.1f} / {waits.get('p99', 0):,.1f} |"
        f" {attempts.get('p50', 0):,.1f} / {attempts.get('p99', 0):,.1f} |"
        f" {cpu.get('owner', 0):.3f} / {sum(cpu[name] for name in scorers):.3f} / {others} |"
        f" {peak.get('owner', 0):,.0f} /"
        f" {max((peak[name] for name in scorers), default=0):,.0f} | {row.peer} |"
    )


def _speed(row: Row, result: Result) -> str:
    """Pods/s overall, and the mark; how long it took where no pod was bound."""
    overall = result.median.throughput_pods_per_s.get("overall")
    if overall is None:
        took = median(run.measurements[-1].duration_s for run in result.runs)
        return f"no pods: {took:.1f} s"
    if not row.mark:
        return f"{overall:,.0f}"
    return f"{overall:,.0f} ({'at least' if overall >= row.mark else 'MISSES'} {row.mark:,.0f})"
