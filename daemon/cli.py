"""The command `berth`: reads arguments, calls the subcommand, turns errors into exit codes.

What a command needs is imported when it is asked for. A production installation may lack the package
`bench`, and is told so.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from daemon.commands.installation import BENCH_DISTRIBUTION, DISTRIBUTION
from daemon.commands.run_flags import add_options, add_run_flags, options_of, with_dashes
from daemon.supervisor.process_list import AlreadyRunningError, NotRunningError
from shared import exit_codes, shown
from shared.errors import ConfigurationError, FileError, OperationalError
from shared.feature_gates import BOOLEANS
from shared.runtime_options import RuntimeOptions
from shared.telemetry.log import LEVELS

BENCH_COMMANDS: Final = {
    "demo": ("bench.demo", "run a cluster's trace through berth and a simulated API server"),
    "simulate": ("bench.apiserver", "run the simulated API server alone"),
    "bench": ("bench.perf", "run benchmarks in scheduler_perf's format"),
    "soak": ("bench.soak", "run berth under traffic for minutes, and look for drift and leaks"),
    "sim": ("bench.sim", "play all of berth under faults on a virtual clock, seed by seed"),
    "fuzz": ("bench.fuzz", "tell each part of berth what nobody would say, and look what it does"),
    "conformance": ("bench.conformance", "compare berth's decisions with recorded ones"),
}
"""Package, whose `__main__` reads its own arguments; help."""
OTHER_COMMANDS: Final = {
    **{name: (f"{package}.__main__", told) for name, (package, told) in BENCH_COMMANDS.items()},
    "explain": ("daemon.trial.explain", "why a pod of a running berth is where it is, or nowhere"),
    "what-if": (
        "daemon.trial.what_if_command",
        "where pods would go if there were others, other nodes or settings",
    ),
    "replay": (
        "daemon.trial.replay",
        "decide a recorded day again, beside who did or by another configuration",
    ),
    "test": ("daemon.commands.test", "run all tests (in a clone)"),
}
"""All that read their own arguments, and are imported only when they are asked for: module, help."""
Command = Callable[[argparse.Namespace], int | None]
"""The exit code; None: all is well."""
_EXIT_CODES: Final[dict[type[OperationalError], int]] = {
    AlreadyRunningError: exit_codes.ALREADY_RUNNING,
    NotRunningError: exit_codes.NOT_RUNNING,
}
"""Of errors after which it is not `FAILED`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The console command; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _refuse_what_is_no_text(given)
        if given and given[0] in OTHER_COMMANDS:
            return _run_other(given[0], given[1:])
        parsed, unknown = _parser().parse_known_args(with_dashes(given))
        # Templates of manifests leave empty arguments behind, which kube-scheduler passes over.
        unknown = [each for each in unknown if each]
        if unknown:
            parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        command: Command = parsed.command
        return command(parsed) or exit_codes.OK
    except ConfigurationError as error:
        _complain(f"{error.source} cannot be used:", *(f"  {one}" for one in error.problems))
        return exit_codes.FAILED if isinstance(error, FileError) else exit_codes.UNUSABLE
    except OperationalError as error:
        _complain(str(error))
        return _EXIT_CODES.get(type(error), exit_codes.FAILED)
    except KeyboardInterrupt:
        _complain("interrupted")
        return exit_codes.FAILED


def _refuse_what_is_no_text(given: Sequence[str]) -> None:
    """Other processes are told what was given as JSON or in messages, which hold text alone."""
    for argument in given:
        try:
            argument.encode()
        except UnicodeEncodeError:
            told = os.fsencode(argument).decode(errors="backslashreplace")
            raise ConfigurationError("the command line", [f"{told} is not UTF-8"]) from None


def show(lines: Iterable[str]) -> None:
    """What a command has found. Who reads it may stop early (`berth status | head`): then the command
    ends as other programs do, by the signal that Python ignores."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        print(*map(shown.lines, lines), sep="\n", flush=True)
    finally:
        signal.signal(signal.SIGPIPE, before)


def as_json(told: object) -> str:
    """For programs."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def _complain(*lines: str) -> None:
    for line in lines:
        print(shown.lines(f"berth: {line}"), file=sys.stderr)


def _run_other(name: str, arguments: Sequence[str]) -> int:
    module_name, _ = OTHER_COMMANDS[name]
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or "?"
        if missing.partition(".")[0] == "bench":
            what = f"berth {name} is not part of this installation"
            _complain(f"{what}; install {BENCH_DISTRIBUTION} of version {_installed_version()}")
        else:
            remedy = f"pip install '{DISTRIBUTION}[demo]'"
            _complain(f"berth {name} needs {missing}; install it with: {remedy}")
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

    def add(name: str, command: Command, told: str, *options: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=told, allow_abbrev=False)
        add_options(added, *options)
        added.set_defaults(command=command, parser=added)
        return added

    run = add("run", _run, "schedule a cluster's pods, until told to stop")
    run.usage = "berth run [OPTION]..."
    add_run_flags(run)
    for name, (_, told) in OTHER_COMMANDS.items():
        commands.add_parser(name, help=told, add_help=False)
    told = "show the processes and queues of a running berth"
    status = add("status", _status, told, "runtime_dir")
    status.add_argument("--json", action="store_true", help="for programs: one JSON object")
    told = "watch a running berth: the live page on a terminal"
    top = add("top", _top, told, "runtime_dir")
    top.add_argument("--once", action="store_true", help="one screen and the end, for scripts")
    told = "have a running berth read its configuration anew; fails if it is refused"
    add("reload", _reload, told, "runtime_dir")
    told = "check a KubeSchedulerConfiguration and show what it comes to"
    check = add("check-config", _check_config, told, "feature_gates")
    what = check.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", help="path of the file; - for kube-scheduler's defaults")
    told = "kube-scheduler's static pod: prints the one that has berth in its place"
    what.add_argument("--from-manifest", type=Path, metavar="FILE", help=told)
    told = "print everything a running berth holds and waits for"
    dump = add("dump", _dump, told, "runtime_dir")
    told = "look for contradictions; exit 1 if there are any"
    dump.add_argument("--compare", action="store_true", help=told)
    told = "compare a running berth's cache and queue with the API server"
    compare = add("compare", _compare, told, "runtime_dir")
    compare.add_argument("--log", action="store_true", help="as log lines (berth does, on SIGUSR2)")
    told = "score for a berth that runs on another host"
    _add_worker_options(add("worker", _worker, told, "feature_gates"))
    keys = add("keys", _keys, "make a pair of keys for berth or for a worker")
    keys.add_argument("name", help="NAME.key (secret) and NAME.pub are written")
    keys.add_argument("--output", default=".", metavar="DIR", help="default: the current folder")
    add("version", _version, "print the version")
    for one in (parser, run):
        told = "print the version"
        one.add_argument(
            "--version", action=_Version, nargs="?", const="true", metavar="BOOL", help=told
        )
    return parser


def add_output(parser: argparse.ArgumentParser) -> None:
    """How the answer is written."""
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")


class _Version(argparse.Action):
    """Looked up only when it is asked for: --version, =true and =raw (`Set` in
    staging/src/k8s.io/component-base/version/verflag/verflag.go, v1.36.2)."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - argparse's signature
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002 - argparse's signature
    ) -> None:
        text = str(values)
        if text == "raw" or BOOLEANS.get(text):
            _version()
            sys.exit(exit_codes.OK)
        if text not in BOOLEANS:
            parser.error(f"argument --version: {text!r} is neither true nor false nor raw")


def _add_worker_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--connect", required=True, metavar="tcp://HOST:PORT", help="berth's --workers-address")
    add("--server-key", required=True, metavar="FILE", help="berth's public key (its .pub file)")
    add("--key", required=True, metavar="FILE", help="this worker's secret key")
    told = "the KubeSchedulerConfiguration that berth has"
    add("--config", default="", metavar="FILE", help=told)
    add("--server", default="", metavar="URL", help="API server; with extenders only")
    add("--kubeconfig", default="", metavar="FILE", help="as above")
    add("--log-level", choices=LEVELS, default="info")


def _keys(parsed: argparse.Namespace) -> None:
    from daemon.commands.worker import make_keys

    show(make_keys(parsed.output, parsed.name))


def _worker(parsed: argparse.Namespace) -> int:
    from daemon.supervisor.launcher import limit_threads

    limit_threads(os.environ)  # Before numpy is imported.
    from daemon.commands.worker import become_worker

    given = vars(parsed)
    names = given.keys() & RuntimeOptions.__struct_fields__
    options = RuntimeOptions(**{name: given[name] for name in names})
    return become_worker(options, parsed.connect, parsed.server_key, parsed.key)


def _run(parsed: argparse.Namespace) -> int:
    from daemon.supervisor.launcher import limit_threads
    from shared.collector import Collector

    # Children are forks of this process: what holds for it, and what it has imported, they have as well.
    Collector()  # To look through what is imported, again and again as it grows, is a tenth of a start.
    limit_threads(os.environ)  # Before numpy is imported.
    from daemon.commands.run_berth import run_berth, write_configuration

    options = options_of(parsed)
    if parsed.write_config_to:
        write_configuration(options, Path(parsed.write_config_to))
        return exit_codes.OK
    return run_berth(options)


def _status(parsed: argparse.Namespace) -> None:
    from daemon.commands.show_status import read_status, status_for_programs, status_lines

    status = read_status(parsed.runtime_dir)
    show([as_json(status_for_programs(status))] if parsed.json else status_lines(status))


def _top(parsed: argparse.Namespace) -> None:
    from daemon.commands.show_top import look_once, watch_on

    if parsed.once:
        show(look_once(parsed.runtime_dir))
    else:
        watch_on(parsed.runtime_dir)


def _reload(parsed: argparse.Namespace) -> None:
    from daemon.commands.reload import reload

    show(reload(parsed.runtime_dir))


def _check_config(parsed: argparse.Namespace) -> None:
    from daemon.commands.check_config import effective_yaml
    from daemon.commands.from_manifest import berths_manifest

    if parsed.from_manifest:
        text = berths_manifest(parsed.from_manifest)
    else:
        text = effective_yaml("" if parsed.file == "-" else parsed.file, parsed.feature_gates)
    show(text.splitlines())


def _dump(parsed: argparse.Namespace) -> int:
    from daemon.commands.compare_caches import NO_CONTRADICTIONS
    from daemon.commands.show_status import ask_for_text

    lines = ask_for_text(parsed.runtime_dir, is_compare=parsed.compare)
    show(lines)
    is_wrong = parsed.compare and lines != NO_CONTRADICTIONS
    return exit_codes.FAILED if is_wrong else exit_codes.OK


def _compare(parsed: argparse.Namespace) -> int:
    from daemon.commands.compare_caches import compare, log_findings

    comparison = compare(parsed.runtime_dir)
    if parsed.log:
        log_findings(comparison)
    else:
        show(comparison.lines())
    return exit_codes.FAILED if comparison.differences else exit_codes.OK


def _version(_: argparse.Namespace | None = None) -> None:
    show([f"berth {_installed_version()}"])


def _installed_version() -> str:
    from importlib.metadata import version

    return version(DISTRIBUTION)
