"""`berth demo`: reads the options, runs, prints the table, writes report and figures."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from bench.demo.figures import table
from bench.demo.progress import Progress
from bench.demo.run import DemoOptions, run_demo
from bench.demo.workload import Workload, openb_workload, synthetic_workload
from bench.watched.berth_options import add_berth_options
from bench.watched.figures_file import place_problems, write_figures
from shared import exit_codes
from shared.errors import ConfigurationError
from shared.telemetry.log import start_logging

NODES_MAX = 1_000_000
PODS_MAX = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: the run came to its end and the check found nothing wrong."""
    parsed = _parser().parse_args(arguments)
    report_path, json_path = _places(parsed)
    workload = _workload(parsed)
    options = DemoOptions(
        workers=parsed.workers,
        binders=parsed.binders,
        seed=parsed.seed,
        rate_per_s=parsed.rate,
        timeout_s=parsed.timeout_s,
        config=parsed.config,
        log_level=parsed.log_level,
    )
    # No window is ever opened, whatever the machine's own settings say.
    mpl.use("svg")
    start_logging("demo", "warning")
    with Progress() as progress:
        outcome = run_demo(workload, options, progress)
    print(table(outcome.figures))
    from bench.demo.report import write_report

    write_report(outcome, report_path)
    print(f"report: {report_path}")
    if json_path is not None:
        write_figures(outcome.figures, json_path)
    return exit_codes.FAILED if outcome.figures.problems else exit_codes.OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="berth demo",
        description="Runs a cluster's pods through a whole berth and a simulated API server. Without"
        " --nodes and --pods: the openb trace (1,523 nodes with GPUs, 8,152 pods).",
    )
    defaults = DemoOptions()
    add = parser.add_argument
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
    add_berth_options(parser, defaults, seed_decides="ties between equal scores, the server's uids")
    return parser


def _places(parsed: argparse.Namespace) -> tuple[Path, Path | None]:
    """Where results go, checked before minutes are spent on them."""
    problems = place_problems({"--report": parsed.report, "--json": parsed.json})
    if problems:
        raise ConfigurationError("command line", problems)
    return parsed.report, parsed.json


def _workload(parsed: argparse.Namespace) -> Workload:
    problems = []
    if (parsed.nodes is None) != (parsed.pods is None):
        problems.append("--nodes and --pods: give both, or neither for the openb trace")
    for option, number, most in (
        ("--nodes", parsed.nodes, NODES_MAX),
        ("--pods", parsed.pods, PODS_MAX),
    ):
        if number is not None and not 1 <= number <= most:
            problems.append(f"{option} {number}: must lie in 1..{most}")
    if parsed.rate < 0 or parsed.timeout_s <= 0:
        problems.append("--rate must not be negative, --timeout-s must be more than 0")
    if problems:
        raise ConfigurationError("command line", problems)
    if parsed.nodes is None:
        return openb_workload()
    return synthetic_workload(parsed.nodes, parsed.pods)


if __name__ == "__main__":
    sys.exit(main())
