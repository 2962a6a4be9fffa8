"""`berth demo`: reads the options, runs, prints the table, writes report and figures."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path

import msgspec

from bench.demo.demo_figures import table
from bench.demo.demo_run import DemoOptions, Outcome, run_demo
from bench.demo.progress import Progress
from bench.demo.report import report_html
from bench.demo.workload import Workload, openb_jobs, openb_workload, synthetic_workload
from bench.watched.berth_options import add_berth_options
from bench.watched.output_file import OutputFile, figures_json
from bench.watched.server_pace import add_pace_options, pace_of
from shared import exit_codes
from shared.errors import ConfigurationError
from shared.telemetry.log import start_logging

NODES_MAX = 1_000_000
PODS_MAX = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: the run came to its end and the check found nothing wrong."""
    parsed = _parser().parse_args(arguments)
    workload = _workload(parsed)
    options = DemoOptions(
        workers=parsed.workers,
        binders=parsed.binders,
        seed=parsed.seed,
        rate_per_s=parsed.rate,
        pace=pace_of(parsed),
        timeout_s=parsed.timeout_s,
        config=parsed.config,
        log_level=parsed.log_level,
    )
    start_logging("demo", "warning")
    with ExitStack() as outputs:
        report = outputs.enter_context(OutputFile("--report", parsed.report))
        figures = None
        if parsed.json is not None:
            figures = outputs.enter_context(OutputFile("--json", parsed.json))
        with Progress() as progress:
            outcome = run_demo(workload, options, progress)
            if parsed.gangs:
                outcome = beside(outcome, run_demo(openb_jobs(as_gangs=True), options, progress))
        print(table(outcome.figures))
        problem = report.put(report_html(outcome).encode())
        print(f"report: {problem or parsed.report}")
        if figures is not None and (untold := figures.put(figures_json(outcome.figures))):
            problem = untold
            print(f"figures: {untold}")
    return exit_codes.FAILED if problem or outcome.figures.problems else exit_codes.OK


def beside(before: Outcome, outcome: Outcome) -> Outcome:
    """A run, with what became of jobs in the one before."""
    jobs = [*before.figures.jobs, *outcome.figures.jobs]
    problems = [*before.figures.problems, *outcome.figures.problems]
    figures = msgspec.structs.replace(outcome.figures, jobs=jobs, problems=problems)
    return msgspec.structs.replace(outcome, figures=figures)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="berth demo",
        description="Runs a cluster's pods through a whole berth and a simulated API server. Without"
        " --nodes and --pods: the openb trace (1,523 nodes with GPUs, 8,152 pods).",
    )
    defaults = DemoOptions()
    add = parser.add_argument
    add(
        "--gangs",
        action="store_true",
        help="each pod of the trace with several GPUs is a job of as many pods: a run pod by pod, then"
        " one with jobs as gangs, side by side in the report",
    )
    add("--nodes", type=int, metavar="N", help="a synthetic cluster of N equal nodes instead")
    add("--pods", type=int, metavar="N", help="and N equal pods")
    add(
        "--rate",
        type=float,
        default=defaults.rate_per_s,
        metavar="R",
        help="pods created per second (default: as fast as the server takes them)",
    )
    add(
        "--report",
        type=Path,
        default=Path("berth-demo-report.html"),
        metavar="FILE",
        help="where the report goes (default %(default)s)",
    )
    add("--json", type=Path, metavar="FILE", help="also write the figures there")
    add(
        "--timeout-s",
        type=float,
        default=defaults.timeout_s,
        metavar="S",
        help="when it is over, the run has failed (default %(default)s)",
    )
    add_pace_options(parser)
    add_berth_options(parser, defaults, seed_decides="ties between equal scores, the server's uids")
    return parser


def _workload(parsed: argparse.Namespace) -> Workload:
    problems = []
    if (parsed.nodes is None) != (parsed.pods is None):
        problems.append("--nodes and --pods: give both, or neither for the openb trace")
    if parsed.gangs and parsed.nodes is not None:
        problems.append("--gangs: of the openb trace; leave --nodes and --pods away")
    for option, number, most in (
        ("--nodes", parsed.nodes, NODES_MAX),
        ("--pods", parsed.pods, PODS_MAX),
    ):
        if number is not None and not 1 <= number <= most:
            problems.append(f"{option} {number}: must lie in 1..{most}")
    if not 0 <= parsed.rate < inf or not 0 < parsed.timeout_s < inf:
        problems.append("--rate must be 0 or more, --timeout-s more than 0, and both finite")
    problems += pace_of(parsed).problems()
    if problems:
        raise ConfigurationError("command line", problems)
    if parsed.gangs:
        return openb_jobs(as_gangs=False)
    if parsed.nodes is None:
        return openb_workload()
    return synthetic_workload(parsed.nodes, parsed.pods)


if __name__ == "__main__":
    sys.exit(main())
