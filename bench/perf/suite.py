"""The workloads of the committed table, and the table itself: `berth bench suite`.

Each row names the file, the workload and the mode, so that it can be run alone by the command that
stands beside it. A row whose plugins are not there, or that fails, stays in the table and says so.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.perf.comparison import read_result
from bench.perf.config_file import matching, plan_of, read_cases
from bench.perf.result import Result
from bench.perf.run import Mode, RunOptions, run_benchmark
from bench.watched.output_file import figures_json, put_file
from bench.watched.server_pace import PaceOptions
from shared.errors import ConfigurationError, OperationalError

HERE: Final = Path(__file__).parent


class Row(NamedTuple):
    """One line of the table."""

    config: str
    """Path below bench/perf, without the file's name."""
    workload: str
    mode: Mode
    peer: str = "-"
    """kube-scheduler v1.36.2 in its own suite (in-process API server, real etcd) on 2 shared cores of
    this kind, average pods/s; "-": not measured."""

    pace: PaceOptions = PaceOptions()
    """http: how slow the server is."""

    @property
    def command(self) -> str:
        """What runs it alone."""
        command = (
            f"berth bench run --config bench/perf/{self.config}/performance-config.yaml"
            f" --workload {self.workload} --mode {self.mode}"
        )
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

SUITE: Final = (
    Row("upstream/misc", "SchedulingBasic/5000Nodes_10000Pods", "decisions", "240-266"),
    Row("upstream/misc", "SchedulingBasic/5000Nodes_10000Pods", "http", "240-266"),
    *(
        Row("upstream/misc", "SchedulingBasic/5000Nodes_10000Pods", "http", "-", pace)
        for pace in (
            PaceOptions(write_latency_ms=2),
            PaceOptions(write_latency_ms=20),
            PaceOptions(writes_per_s=400),
        )
    ),
    *(
        Row("workloads", f"OneClass/5000Nodes_{count}Pods", "http", "-", SLOW)
        for count in (1_000, 10_000, 100_000)
    ),
    Row("upstream/affinity", "SchedulingNodeAffinity/5000Nodes_10000Pods", "decisions", "176"),
    Row("upstream/misc", "Unschedulable/5kNodes/100Init/10kPods", "decisions", "201"),
    Row("upstream/misc", "SchedulingWithMixedChurn/5000Nodes_10000Pods", "decisions", "229"),
    Row("upstream/misc", "SchedulingWhileGated/1Node_10000GatedPods", "decisions"),
    Row("upstream/misc", "SchedulingDaemonset/15000Nodes", "decisions"),
    Row("upstream/topology_spreading", "TopologySpreading/5000Nodes_5000Pods", "decisions", "92"),
    Row(
        "upstream/topology_spreading",
        "PreferredTopologySpreading/5000Nodes_5000Pods",
        "decisions",
        "93",
    ),
    Row("upstream/affinity", "SchedulingPodAntiAffinity/5000Nodes_2000Pods", "decisions", "72"),
    Row("upstream/affinity", "SchedulingPodAffinity/5000Nodes_5000Pods", "decisions", "30"),
    Row(
        "upstream/affinity", "SchedulingPreferredPodAffinity/5000Nodes_5000Pods", "decisions", "65"
    ),
    Row("upstream/affinity", "SchedulingPreferredPodAntiAffinity/5000Nodes_5000Pods", "decisions"),
    Row("upstream/affinity", "MixedSchedulingBasePod/5000Nodes_5000Pods", "decisions", "90"),
    Row(
        "upstream/affinity",
        "SchedulingRequiredPodAntiAffinityWithNSSelector/5000Nodes_2000Pods",
        "decisions",
    ),
    Row(
        "upstream/affinity",
        "SchedulingPreferredAffinityWithNSSelector/5000Nodes_5000Pods",
        "decisions",
    ),
    Row("upstream/misc", "PreemptionAsync/5000Nodes", "decisions"),
    Row("workloads", "Openb/Full", "decisions"),
    Row("workloads", "Openb/Full", "http"),
    Row("workloads", "Heterogeneous/5000Nodes_2000Pods", "decisions"),
    Row("workloads", "SteadyArrival/5000Nodes_10PerSecond", "decisions"),
    Row("workloads", "SteadyArrivalFast/5000Nodes_1000PerSecond", "decisions"),
    Row("workloads", "ManyPods/5000Nodes_150000Pods", "decisions"),
    Row("workloads", "OneClass/100000Nodes_10000Pods", "decisions"),
    Row("workloads", "Heterogeneous/100000Nodes_1000Pods", "decisions"),
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
    file = HERE / row.config / "performance-config.yaml"
    ((case, workload),) = matching(read_cases(file), row.workload, "")
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
        f"{start} {rates.get('overall', 0):,.0f} |"
        f" {rates.get('average', 0):,.0f} ({rates.get('sample_interval_s', 0):g} s) |"
        f" {waits.get('p50', 0):,.1f} / {waits.get('p99', 0):,.1f} |"
        f" {attempts.get('p50', 0):,.1f} / {attempts.get('p99', 0):,.1f} |"
        f" {cpu.get('owner', 0):.3f} / {sum(cpu[name] for name in scorers):.3f} / {others} |"
        f" {peak.get('owner', 0):,.0f} /"
        f" {max((peak[name] for name in scorers), default=0):,.0f} | {row.peer} |"
    )
