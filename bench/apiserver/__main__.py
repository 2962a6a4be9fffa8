"""`python -m bench.apiserver`: the simulated API server as a process.

Prints one line of JSON on standard output when it listens (`{"address": ...}`), then nothing. Ends
on SIGTERM and SIGINT, and with `--exit-with-parent` when its standard input does.
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from bench.apiserver.cluster import ADMISSION_PLUGINS, ClusterOptions
from bench.apiserver.server import ApiServer, ServerOptions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until it is told to stop; return the exit code."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        options = _options(arguments)
        server = ApiServer(options)
    except ValueError as error:
        print(f"apiserver: {error}", file=sys.stderr)
        return 2
    try:
        return asyncio.run(_serve(server, exits_with_parent=arguments.exit_with_parent))
    except ValueError as error:
        print(f"apiserver: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"apiserver: cannot listen on {options.host}:{options.port}: {error}. Choose another "
            "--port (0 lets the system choose), or check the TLS files.",
            file=sys.stderr,
        )
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.apiserver", description="A simulated kube-apiserver, in memory."
    )
    add = parser.add_argument
    defaults = ServerOptions()
    cluster = ClusterOptions()
    add("--host", default=defaults.host)
    add("--port", type=int, default=defaults.port, help="0: the system chooses (default)")
    add(
        "--seed", type=int, default=cluster.seed, help="decides uids, and faults when there are any"
    )
    add(
        "--history",
        type=int,
        default=cluster.history_limit,
        metavar="N",
        help="changes kept per resource; older versions answer 410 (default %(default)s)",
    )
    add("--token", help="bearer token that every request must carry")
    add("--tls-cert", type=Path, metavar="FILE")
    add("--tls-key", type=Path, metavar="FILE")
    add(
        "--bookmark-interval-s",
        type=float,
        default=defaults.bookmark_interval_s,
        metavar="S",
        help="how often an idle watch gets a bookmark (default %(default)s)",
    )
    add(
        "--watch-lag-max",
        type=int,
        metavar="N",
        help="changes that a watcher may be behind before it is dropped (default: the history)",
    )
    add(
        "--watch-pause-s",
        type=float,
        default=defaults.watch_pause_s,
        metavar="S",
        help="at most how long changes are held back to be sent together (default %(default)s)",
    )
    add(
        "--kubelet-delay-s",
        type=float,
        metavar="S",
        help="a bound pod deleted with grace is gone after this (default: its whole grace)",
    )
    add(
        "--event-ttl-s",
        type=float,
        default=cluster.event_ttl_s,
        metavar="S",
        help="how long events live (default %(default)s)",
    )
    add(
        "--disable-admission-plugins",
        default="",
        metavar="NAMES",
        help=f"comma-separated, of {', '.join(sorted(ADMISSION_PLUGINS))}",
    )
    add("--exit-with-parent", action="store_true", help="end when standard input does")
    return parser


def _options(arguments: argparse.Namespace) -> ServerOptions:
    if arguments.history < 1:
        raise ValueError(f"--history must be at least 1, not {arguments.history}")
    disabled = {name for name in arguments.disable_admission_plugins.split(",") if name}
    return ServerOptions(
        host=arguments.host,
        port=arguments.port,
        token=arguments.token,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
        bookmark_interval_s=arguments.bookmark_interval_s,
        watch_lag_max=arguments.watch_lag_max,
        watch_pause_s=arguments.watch_pause_s,
        cluster=ClusterOptions(
            history_limit=arguments.history,
            disabled_admission=frozenset(disabled),
            kubelet_delay_s=arguments.kubelet_delay_s,
            event_ttl_s=arguments.event_ttl_s,
            seed=arguments.seed,
        ),
    )


async def _serve(server: ApiServer, *, exits_with_parent: bool) -> int:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    exit_code = 0

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        nonlocal exit_code
        loop.default_exception_handler(context)
        if not isinstance(context.get("exception"), OSError):
            # A bug: the process ends, and whoever started it sees why.
            exit_code = 70
            stopped.set()

    loop.set_exception_handler(fail)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if exits_with_parent:
        _stop_at_end_of_input(loop, stopped)
    address = await server.start()
    # Requests allocate little that lives, and stored objects are bytes: cycles are rare, so full
    # collections over a million objects would be wasted.
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    print(orjson.dumps({"address": address, "pid": os.getpid()}).decode(), flush=True)
    await stopped.wait()
    await server.stop()
    return exit_code


def _stop_at_end_of_input(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    descriptor = sys.stdin.fileno()

    def read() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            stopped.set()

    try:
        loop.add_reader(descriptor, read)
    except PermissionError:
        raise ValueError(
            "--exit-with-parent needs a pipe or a terminal as standard input, not a file"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
