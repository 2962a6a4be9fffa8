"""`berth bench run|suite|compare|plot|scale|list`: reads the options, runs, prints, writes."""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path

from bench.perf.comparison import comparison, read_result
from bench.perf.config_file import OUR_FILES, Plan, chosen, plan_of, topic_of
from bench.perf.perf_run import MODES, RunOptions, run_benchmark
from bench.perf.plot import plot_svg
from bench.perf.result import Result
from bench.perf.scale import scale_report
from bench.perf.suite import SUITE, keep, known_outcome, markdown, run_row
from bench.watched.output_file import OutputFile, figures_json, output_folder, put_file
from bench.watched.server_pace import PaceOptions, add_pace_options, pace_of
from daemon.commands.text_table import table as columns
from shared import exit_codes
from shared.errors import ConfigurationError
from shared.telemetry.log import start_logging

CORES_MAX = 1024
PODS_MAX = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: done; 1: a run failed, or a pod was bound twice; 2: cannot be run."""
    parsed = _parser().parse_args(arguments)
    start_logging("bench", "warning")
    if parsed.command == "compare":
        print(comparison(read_result(parsed.a), read_result(parsed.b)))
        return exit_codes.OK
    if parsed.command == "scale":
        return _scale(parsed)
    if parsed.command == "plot":
        return _plot(parsed)
    if parsed.command == "list":
        print(_listing(parsed.config or OUR_FILES, parsed.labels))
        return exit_codes.OK
    if parsed.command == "suite":
        return _run_suite(parsed)
    return _run(parsed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="berth bench",
        description="Runs workloads in the format of kube-scheduler's scheduler_perf against berth.",
    )
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    _add_run(commands.add_parser("run", help="run a workload and write the result"))
    compare = commands.add_parser("compare", help="print the ratios of two results")
    compare.add_argument("a", type=Path, metavar="A.json")
    compare.add_argument("b", type=Path, metavar="B.json")
    _add_scale(commands.add_parser("scale", help="simulate more cores, from measured costs"))
    plot = commands.add_parser("plot", help="draw the results of some runs as an SVG file")
    plot.add_argument("results", type=Path, nargs="+", metavar="RESULT.json")
    plot.add_argument("--output", type=Path, required=True, metavar="FILE.svg")
    suite = commands.add_parser("suite", help="run the workloads of bench/RESULTS.md")
    suite.add_argument("--runs", type=int, default=3, metavar="N", help="default %(default)s")
    suite.add_argument("--timeout-s", type=float, default=300.0, metavar="S", help="for each run")
    suite.add_argument("--only", default="", metavar="WORD", help="rows that contain this word")
    suite.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="results and table.md go there"
    )
    listing = commands.add_parser("list", help="list workloads")
    listing.add_argument("--config", type=Path, action="append", metavar="FILE", help=_FILES_HELP)
    listing.add_argument("--labels", default="", metavar="LABELS", help=_LABELS_HELP)
    return parser


_FILES_HELP = "performance-config.yaml; may be repeated (default: all that come with berth)"
_LABELS_HELP = "only workloads with these, such as performance,-short"


def _add_run(parser: argparse.ArgumentParser) -> None:
    defaults = RunOptions()
    add = parser.add_argument
    add("--config", type=Path, action="append", metavar="FILE", help=_FILES_HELP)
    add("--workload", default="", metavar="CASE/NAME", help="CASE alone: all of its workloads")
    add("--labels", default="", metavar="LABELS", help=_LABELS_HELP)
    add("--mode", choices=MODES, default=defaults.mode, help="default %(default)s")
    add(
        "--output",
        type=Path,
        metavar="RESULT.json",
        help="a folder when several workloads are run (default: print only)",
    )
    add("--runs", type=int, default=defaults.runs, metavar="N", help="default %(default)s")
    add("--workers", type=int, default=defaults.workers, metavar="W", help="scoring processes")
    add("--binders", type=int, default=defaults.binders, metavar="B", help="binding processes")
    add("--seed", type=int, default=defaults.seed, metavar="N")
    add(
        "--timeout-s",
        type=float,
        default=defaults.timeout_s,
        metavar="S",
        help="for each run (default %(default)s)",
    )
    add("--scheduler-config", default="", metavar="FILE", help="KubeSchedulerConfiguration")
    add("--kubeconfig", default="", metavar="FILE", help="the API server of --mode cluster")
    add(
        "--external-scheduler",
        action="store_true",
        help="--mode cluster: start no berth, measure the scheduler that is there",
    )
    add_pace_options(parser)
    add(
        "--profile-dir",
        default="",
        metavar="DIR",
        help="--mode decisions: run every process under cProfile and leave NAME.prof there; slow",
    )


def _add_scale(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("one", type=Path, metavar="ONE.json", help="of a run with --workers 1")
    add(
        "more",
        type=Path,
        nargs="+",
        metavar="MORE.json",
        help="of the same with --workers 2 or more",
    )
    add("--cores", default="8,32,128", metavar="N,N", help="default %(default)s")
    add("--pods", type=int, default=20_000, metavar="N", help="simulated; default %(default)s")
    add("--seed", type=int, default=0, metavar="N")


def _scale(parsed: argparse.Namespace) -> int:
    counts = parsed.cores.split(",")
    if not all(count.isdecimal() and 1 <= int(count) <= CORES_MAX for count in counts):
        problem = f"must be numbers from 1 to {CORES_MAX} with commas between"
        raise ConfigurationError(f"--cores {parsed.cores}", [problem])
    if not 1 <= parsed.pods <= PODS_MAX:
        raise ConfigurationError(f"--pods {parsed.pods}", [f"must lie in 1..{PODS_MAX}"])
    more = [read_result(path) for path in parsed.more]
    cores = [int(count) for count in counts]
    print(scale_report(read_result(parsed.one), more, cores, parsed.pods, parsed.seed))
    return exit_codes.OK


def _plot(parsed: argparse.Namespace) -> int:
    svg = plot_svg([read_result(path) for path in parsed.results])
    with OutputFile("--output", parsed.output) as output:
        problem = output.put(svg.encode())
    print(f"plot: {problem or parsed.output}")
    return exit_codes.FAILED if problem else exit_codes.OK


def _run(parsed: argparse.Namespace) -> int:
    options = _options(parsed)
    wanted = f"{parsed.workload} {parsed.labels}".strip()
    if not wanted and not parsed.config:
        problem = "all would take a day; name some, or labels, or a file"
        raise ConfigurationError("--workload", [problem])
    found = list(chosen(parsed.config or OUR_FILES, parsed.workload, parsed.labels))
    if not found:
        problem = "no workload is called so and has these labels; berth bench list shows them"
        raise ConfigurationError(wanted, [problem])
    is_good = True
    with ExitStack() as outputs:
        put = _putter(parsed.output, outputs, is_folder=len(found) > 1)
        for file, case, workload in found:
            plan = plan_of(file, case, workload)
            print(f"{plan.name} ({options.mode})", flush=True)
            result = run_benchmark(plan, options, lambda line: print(f"  {line}", flush=True))
            print(_table(result))
            problem = put(plan, result)
            is_good = is_good and not problem and not any(run.problems for run in result.runs)
    return exit_codes.OK if is_good else exit_codes.FAILED


def _putter(
    output: Path | None, outputs: ExitStack, *, is_folder: bool
) -> Callable[[Plan, Result], str]:
    """What writes a result, and says what was wrong; the place is fit for it."""
    if output is None:
        return lambda *_: ""
    if is_folder:
        folder = output_folder("--output", output)

        def put(plan: Plan, result: Result) -> str:
            path = folder / (plan.name.replace("/", "_") + ".json")
            return _told(path, put_file(path, figures_json(result)))

    else:
        file = outputs.enter_context(OutputFile("--output", output))

        def put(plan: Plan, result: Result) -> str:  # noqa: ARG001 # As the other one.
            return _told(output, file.put(figures_json(result)))

    return put


def _told(path: Path, problem: str) -> str:
    print(f"  result: {problem or path}")
    return problem


def _run_suite(parsed: argparse.Namespace) -> int:
    output_folder("--output", parsed.output)
    problem = ""
    outcomes = {row: known_outcome(row, parsed.output) for row in SUITE}
    for row in SUITE:
        if parsed.only not in f"{row.workload} {row.told_mode}":
            continue
        print(f"{row.workload} ({row.told_mode})", flush=True)
        options = RunOptions(
            mode=row.mode,
            runs=parsed.runs,
            timeout_s=parsed.timeout_s,
            write_latency_ms=row.pace.write_latency_ms,
            writes_per_s=row.pace.writes_per_s,
        )
        outcome = run_row(row, options, lambda line: print(f"  {line}", flush=True))
        outcomes[row] = outcome
        problem = keep(outcome, parsed.output) or problem
        if outcome.result is None:
            print(f"  {outcome.why_not}", flush=True)
        # Written after each row: a suite that is stopped has not been in vain.
        table = markdown(list(outcomes.values()))
        problem = put_file(parsed.output / "table.md", table.encode()) or problem
    print(f"table: {problem or parsed.output / 'table.md'}")
    return exit_codes.FAILED if problem else exit_codes.OK


def _options(parsed: argparse.Namespace) -> RunOptions:
    problems = [
        f"--{option}: must be 1 or more"
        for option in ("runs", "workers", "binders")
        if getattr(parsed, option) < 1
    ]
    if not 0 < parsed.timeout_s < inf:
        problems.append("--timeout-s: must be more than 0, and finite")
    if parsed.profile_dir and (parsed.mode != "decisions" or not Path(parsed.profile_dir).is_dir()):
        problems.append("--profile-dir: needs --mode decisions and a folder that is there")
    if (parsed.kubeconfig or parsed.external_scheduler) and parsed.mode != "cluster":
        problems.append("--kubeconfig and --external-scheduler: need --mode cluster")
    pace = pace_of(parsed)
    problems += pace.problems()
    if pace != PaceOptions() and parsed.mode != "http":
        problems.append("--write-latency-ms and --writes-per-s: need --mode http")
    if problems:
        raise ConfigurationError("command line", problems)
    if parsed.profile_dir:
        parsed.profile_dir = str(Path(parsed.profile_dir).absolute())
    return RunOptions(**{name: getattr(parsed, name) for name in RunOptions.__struct_fields__})


def _table(result: Result) -> str:
    middle = result.median
    rates, waits = middle.throughput_pods_per_s, middle.end_to_end_latency_ms
    lines = [
        "  "
        + ", ".join(
            f"{name} {rates[name]:,.0f}"
            for name in ("overall", "average", "p50", "p90", "p95", "p99")
            if name in rates
        )
        + " pods/s",
        *(
            f"  {title}: " + ", ".join(f"{name} {ms:,.1f}" for name, ms in figures.items()) + " ms"
            for title, figures in (("end to end", waits), ("attempts", middle.attempt_latency_ms))
            if figures
        ),
    ]
    rows = [
        (f"  {name}", f"{cpu_s:.3f}", f"{middle.rss_peak_mib.get(name, 0):.0f}")
        for name, cpu_s in middle.cpu_s_per_1000_pods.items()
    ]
    lines.extend(columns(("  PROCESS", "CPU ms/pod", "PEAK MiB"), rows))
    lines.extend(f"  note: {note}" for note in result.notes)
    for run in result.runs:
        lines.extend(f"  PROBLEM: {problem}" for problem in run.problems)
    return "\n".join(lines)


def _listing(files: Sequence[Path], labels: str) -> str:
    rows = []
    for file, case, workload in chosen(files, "", labels):
        try:
            plan_of(file, case, workload)
            why = ""
        except ConfigurationError as error:
            why = "; ".join(error.problems)
        params = " ".join(f"{key}={value}" for key, value in workload.params.items())
        name = f"{case.name}/{workload.name}"
        rows.append((name, topic_of(file), ",".join(workload.labels), params, why))
    head = ("WORKLOAD", "TOPIC", "LABELS", "PARAMETERS", "NOT RUN BECAUSE")
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )


if __name__ == "__main__":
    sys.exit(main())
