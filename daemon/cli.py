"""The command `berth`: reads arguments, calls the subcommand, turns errors into exit codes.

Exit codes (`shared/exit_codes.py`): 0 done; 1 tried and failed; 2 arguments, configuration or
surroundings cannot be used; 3 no berth is running there; 4 another berth is.

The commands of `bench` (demo, simulate, bench, conformance) are imported when they are asked for: a
production installation may lack that package, and is told so.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from daemon.supervisor.process_list import AlreadyRunningError, NotRunningError
from shared import exit_codes
from shared.config import RuntimeOptions, default_runtime_dir
from shared.errors import ConfigurationError, OperationalError
from shared.telemetry.log import LEVELS

DEFAULTS: Final = RuntimeOptions()


class BenchCommand(NamedTuple):
    """A subcommand that lives in `bench` and reads its own arguments."""

    module: str
    help: str


BENCH_COMMANDS: Final = {
    "demo": BenchCommand(
        "bench.demo.__main__", "run a cluster's trace through berth and a simulated API server"
    ),
    "simulate": BenchCommand("bench.apiserver.__main__", "run the simulated API server alone"),
    "bench": BenchCommand("bench.perf.__main__", "run benchmarks in scheduler_perf's format"),
    "conformance": BenchCommand(
        "bench.conformance.__main__", "compare berth's decisions with recorded ones"
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The console command; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given and given[0] in BENCH_COMMANDS:
            return _run_bench(given[0], given[1:])
        if given and given[0] == "test":
            from daemon.commands.test import run_tests

            return run_tests(given[1:])
        parsed = _parser().parse_args(given)
        command: Callable[[argparse.Namespace], int] = parsed.command
        return command(parsed)
    except ConfigurationError as error:
        _complain_of(error)
        return exit_codes.UNUSABLE
    except AlreadyRunningError as error:
        _complain(str(error))
        return exit_codes.ALREADY_RUNNING
    except NotRunningError as error:
        _complain(str(error))
        return exit_codes.NOT_RUNNING
    except OperationalError as error:
        _complain(str(error))
        return exit_codes.FAILED
    except KeyboardInterrupt:
        _complain("interrupted")
        return exit_codes.FAILED


def _complain_of(error: ConfigurationError) -> None:
    _complain(f"{error.source} cannot be used:", *(f"  {one}" for one in error.problems))


def _complain(*lines: str) -> None:
    for line in lines:
        print(f"berth: {line}", file=sys.stderr)


def _run_bench(name: str, arguments: Sequence[str]) -> int:
    module_name = BENCH_COMMANDS[name].module
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or "?"
        if missing.partition(".")[0] == "bench":
            _complain(f"berth {name} is not part of this installation (no {missing}); use a clone")
        else:
            _complain(f"berth {name} needs {missing}; install it with: pip install 'berth[demo]'")
        return exit_codes.UNUSABLE
    sub_main: Callable[[Sequence[str]], int] = module.main
    return sub_main(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="berth",
        description="A Kubernetes scheduler with kube-scheduler's decisions.",
        epilog="Exit codes: 0 done; 1 tried and failed; 2 arguments or configuration cannot be"
        " used; 3 no berth is running there; 4 another berth is.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="schedule a cluster's pods, until told to stop"))
    for name, bench in BENCH_COMMANDS.items():
        commands.add_parser(name, help=bench.help, add_help=False)
    status = commands.add_parser("status", help="show the processes and queues of a running berth")
    _add_runtime_dir(status)
    status.add_argument("--json", action="store_true", help="for programs: one JSON object")
    status.set_defaults(command=_status)
    check = commands.add_parser(
        "check-config", help="check a KubeSchedulerConfiguration and show what it comes to"
    )
    check.add_argument("file", help="path of the file; - for kube-scheduler's defaults")
    check.set_defaults(command=_check_config)
    dump = commands.add_parser("dump", help="print everything a running berth holds and waits for")
    _add_runtime_dir(dump)
    dump.add_argument(
        "--compare", action="store_true", help="look for contradictions; exit 1 if there are any"
    )
    dump.set_defaults(command=_dump)
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(command=_version)
    commands.add_parser("test", help="run all tests (in a clone)", add_help=False)
    return parser


def _add_runtime_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime-dir",
        default=default_runtime_dir(),
        metavar="DIR",
        help="sockets, lock and process list; private to one berth (default %(default)s)",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_run)
    parser.add_argument(
        "--server", default="", metavar="URL", help="API server that asks for no credentials"
    )
    parser.add_argument(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="default: the configuration's clientConnection.kubeconfig, the pod's service account,"
        " $KUBECONFIG, ~/.kube/config",
    )
    parser.add_argument(
        "--config", default="", metavar="FILE", help="KubeSchedulerConfiguration v1"
    )
    _add_runtime_dir(parser)
    for option, default, told in (
        ("--workers", DEFAULTS.workers, "scoring processes"),
        ("--binders", DEFAULTS.binders, "binding processes"),
        ("--max-in-flight", DEFAULTS.max_in_flight, "bindings under way at once in each binder"),
        ("--seed", DEFAULTS.seed, "breaks ties between equal scores"),
    ):
        parser.add_argument(
            option, type=int, default=default, metavar="N", help=f"{told} (default %(default)s)"
        )
    parser.add_argument(
        "--assume-ttl-s",
        type=float,
        default=DEFAULTS.assume_ttl_s,
        metavar="S",
        help="give an assumed pod up when nobody confirmed its binding for so long; 0: never"
        " (default %(default)s)",
    )
    parser.add_argument(
        "--drain-s",
        type=float,
        default=DEFAULTS.drain_s,
        metavar="S",
        help="for bindings in flight after SIGTERM (default %(default)s)",
    )
    parser.add_argument("--log-level", choices=LEVELS, default=DEFAULTS.log_level)
    parser.add_argument(
        "--exit-with-parent",
        action="store_true",
        help="drain and stop when standard input ends (for programs that start berth)",
    )


def _run(parsed: argparse.Namespace) -> int:
    from daemon.commands.run import run_berth

    names = RuntimeOptions.__struct_fields__
    return run_berth(RuntimeOptions(**{name: getattr(parsed, name) for name in names}))


def _status(parsed: argparse.Namespace) -> int:
    from daemon.commands.status import read_status, status_json, status_lines

    status = read_status(parsed.runtime_dir)
    print(status_json(status) if parsed.json else "\n".join(status_lines(status)))
    return exit_codes.OK


def _check_config(parsed: argparse.Namespace) -> int:
    from daemon.commands.check_config import effective_yaml

    try:
        text = effective_yaml("" if parsed.file == "-" else parsed.file)
    except ConfigurationError as error:
        # Finding problems is this command's work, not its own failure to start.
        _complain_of(error)
        return exit_codes.FAILED
    print(text, end="")
    return exit_codes.OK


def _dump(parsed: argparse.Namespace) -> int:
    from daemon.commands.status import NO_CONTRADICTIONS, ask_for_text

    lines = ask_for_text(parsed.runtime_dir, is_compare=parsed.compare)
    print("\n".join(lines))
    is_wrong = parsed.compare and lines != NO_CONTRADICTIONS
    return exit_codes.FAILED if is_wrong else exit_codes.OK


def _version(_: argparse.Namespace) -> int:
    from importlib.metadata import version

    print(f"berth {version('berth')}")
    return exit_codes.OK
