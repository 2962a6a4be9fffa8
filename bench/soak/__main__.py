"""`berth soak`: reads the options, runs, prints the table."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from math import inf
from pathlib import Path

from bench.soak.disturbance import CHILDREN, KILLABLE
from bench.soak.soak_figures import table
from bench.soak.soak_run import SoakOptions, run_soak
from bench.watched.berth_options import add_berth_options
from bench.watched.output_file import OutputFile, figures_json
from shared import exit_codes
from shared.errors import ConfigurationError
from shared.telemetry.log import start_logging


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: no drift, no leak, no pod lost, no node overcommitted."""
    parsed = _parser().parse_args(arguments)
    options = _options(parsed)
    start_logging("soak", "warning")
    start_s = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - start_s:7.0f} s  {line}", file=sys.stderr, flush=True)

    output = OutputFile("--json", parsed.json) if parsed.json is not None else None
    with output or nullcontext():
        figures = run_soak(options, tell)
        print(table(figures))
        problem = output.put(figures_json(figures)) if output is not None else ""
    if problem:
        print(f"figures: {problem}")
    return exit_codes.FAILED if problem or figures.problems else exit_codes.OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="berth soak",
        description="Runs a whole berth against a simulated API server (TLS, token) under steady"
        " traffic of pods and changes of nodes, and looks for drift, leaks and lost pods.",
    )
    defaults = SoakOptions()
    add = parser.add_argument
    for option, kind, metavar, default, told in (
        ("--minutes", float, "M", defaults.minutes, "how long pods are created"),
        ("--rate", float, "R", defaults.rate_per_s, "pods created per second"),
        ("--nodes", int, "N", defaults.nodes, "nodes of 4 CPU, without the tight pool"),
        ("--life-s", float, "S", defaults.life_s, "mean life of a bound pod"),
        ("--node-changes", float, "R", defaults.node_changes_per_s, "changes of nodes per second"),
        ("--check-every-s", float, "S", defaults.check_every_s, "compares cache and API server"),
        ("--kill-every-s", float, "S", defaults.kill_every_s, "kill -9 of a process; 0: never"),
        ("--stop-every-s", float, "S", defaults.stop_every_s, "stops one a while; 0: never"),
        ("--starve-every-s", float, "S", defaults.starve_every_s, "keeps the cores busy; 0: never"),
    ):
        add(
            option,
            type=kind,
            default=default,
            metavar=metavar,
            help=f"{told} (default %(default)s)",
        )
    add(
        "--warm-up-s",
        type=float,
        metavar="S",
        help="before memory is judged (default: a fifth of the time, 120 s at most)",
    )
    add(
        "--kill",
        default=",".join(CHILDREN),
        metavar="NAMES",
        help="whom these may kill or stop (default %(default)s; also leader and endpoints, which run"
        " then, and supervisor: then berth is started anew, as a service manager would)",
    )
    add(
        "--faults",
        default="",
        metavar="FILE",
        help="what goes wrong at the API server (bench/apiserver/fault_plan.py; an example is"
        " bench/soak/faults.yaml)",
    )
    add("--json", type=Path, metavar="FILE", help="also write the figures there")
    add_berth_options(parser, defaults, seed_decides="pods, changes of nodes, kills and ties")
    return parser


def _options(parsed: argparse.Namespace) -> SoakOptions:
    kill = tuple(name for name in parsed.kill.split(",") if name)
    problems = [
        f"{option} must be more than 0, and finite"
        for option, number in (
            ("--minutes", parsed.minutes),
            ("--rate", parsed.rate),
            ("--life-s", parsed.life_s),
            ("--node-changes", parsed.node_changes),
            ("--check-every-s", parsed.check_every_s),
        )
        if not 0 < number < inf
    ]
    if parsed.nodes < 10:
        problems.append("--nodes must be at least 10: some of them are always closed")
    pauses_s = (
        *(parsed.kill_every_s, parsed.stop_every_s, parsed.starve_every_s),
        parsed.warm_up_s or 0,
    )
    if not all(0 <= pause_s < inf for pause_s in pauses_s):
        problems.append("--kill-, --stop-, --starve-every-s, --warm-up-s must not be negative")
    unknown = sorted(set(kill) - set(KILLABLE))
    if unknown:
        problems.append(f"--kill {','.join(unknown)}: there are {','.join(KILLABLE)}")
    if parsed.faults and not Path(parsed.faults).is_file():
        problems.append(f"--faults {parsed.faults}: no such file")
    if problems:
        raise ConfigurationError("command line", problems)
    return SoakOptions(
        minutes=parsed.minutes,
        rate_per_s=parsed.rate,
        nodes=parsed.nodes,
        life_s=parsed.life_s,
        node_changes_per_s=parsed.node_changes,
        check_every_s=parsed.check_every_s,
        warm_up_s=parsed.warm_up_s,
        kill_every_s=parsed.kill_every_s,
        stop_every_s=parsed.stop_every_s,
        starve_every_s=parsed.starve_every_s,
        kill=kill,
        faults=parsed.faults,
        workers=parsed.workers,
        binders=parsed.binders,
        seed=parsed.seed,
        config=parsed.config,
        log_level=parsed.log_level,
    )


if __name__ == "__main__":
    sys.exit(main())
