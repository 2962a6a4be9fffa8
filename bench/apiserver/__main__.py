"""`python -m bench.apiserver`: the simulated API server as a process.

Prints one line of JSON on standard output when it listens (`{"address": ...}`), then nothing. Ends
on SIGTERM and SIGINT, and with `--exit-with-parent` when its standard input does.

With `--tls` it makes an authority and a certificate of its own; `--write-kubeconfig` says how to reach
it, with the authority and the token, as any Kubernetes client reads it.
"""

import argparse
import asyncio
import base64
import gc
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson

from bench.apiserver.api_cluster import ADMISSION_PLUGINS, OFF_BY_DEFAULT, Cluster, ClusterOptions
from bench.apiserver.fault_plan import read_plan
from bench.apiserver.http_server import ApiServer, ServerOptions
from bench.apiserver.served_resources import NODES, PODS
from bench.apiserver.writes import create
from bench.watched.server_pace import add_pace_options, pace_of
from shared.certificates import Authority
from shared.clock import SystemClock

_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until it is told to stop; return the exit code."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    with tempfile.TemporaryDirectory(prefix="berth-simulate-") as folder:
        try:
            authority_pem = _make_certificate(arguments, Path(folder))
            options = _options(arguments)
            faults = read_plan(arguments.faults, arguments.seed) if arguments.faults else None
            server = ApiServer(options, faults=faults)
            if arguments.nodes or arguments.pods:
                _populate(server.cluster, arguments.nodes, arguments.pods)
            return asyncio.run(_serve(server, arguments, authority_pem))
        except ValueError as error:
            print(f"apiserver: {error}", file=sys.stderr)
            return 2
        except OSError as error:
            print(
                f"apiserver: cannot listen on {arguments.host}:{arguments.port}: {error}. Choose"
                " another --port (0 lets the system choose), or check the TLS files and"
                " --write-kubeconfig.",
                file=sys.stderr,
            )
            return 1


def _make_certificate(arguments: argparse.Namespace, folder: Path) -> bytes | None:
    """For `--tls`; returns the authority's certificate, which clients have to trust."""
    if not arguments.tls:
        is_asked_for = arguments.tls_cert and arguments.write_kubeconfig
        # Its own authority, as such certificates for tests are.
        return arguments.tls_cert.read_bytes() if is_asked_for else None
    if arguments.tls_cert or arguments.tls_key:
        raise ValueError("--tls makes a certificate: leave --tls-cert and --tls-key out")
    authority = Authority(SystemClock().wall_s())
    pair = authority.server_pair(list(dict.fromkeys((arguments.host, *_LOCAL_NAMES))))
    arguments.tls_cert, arguments.tls_key = folder / "tls.crt", folder / "tls.key"
    arguments.tls_cert.write_bytes(pair.certificate_pem)
    arguments.tls_key.touch(0o600)
    arguments.tls_key.write_bytes(pair.key_pem)
    return authority.certificate_pem


def _populate(cluster: Cluster, node_count: int, pod_count: int) -> None:
    """So many nodes and pending pods, equal ones as in SchedulingBasic, made by the very handlers that
    serve a POST."""
    # Imported only here: the server itself needs nothing of the demo.
    from bench.demo.workload import NAMESPACE, synthetic_workload

    workload = synthetic_workload(node_count, pod_count)
    now_s = time.time()
    for body in workload.nodes:
        create(cluster, NODES, "", body, now_s)
    for pod in workload.pods:
        create(cluster, PODS, NAMESPACE, pod.body, now_s)
    # Nobody has watched yet.
    cluster.store.changed.clear()


def _write_kubeconfig(
    path: Path, address: str, *, token: str | None, authority_pem: bytes | None
) -> None:
    """For its owner's eyes only. JSON, which is YAML too."""
    cluster: dict[str, str] = {"server": address}
    if authority_pem is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority_pem).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulated", "cluster": cluster}],
        "users": [{"name": "berth", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "simulated", "context": {"cluster": "simulated", "user": "berth"}}],
        "current-context": "simulated",
    }
    # Written aside and renamed: whoever waits for the file never reads half of it.
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    aside.rename(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="berth simulate", description="A simulated kube-apiserver, in memory."
    )
    _add_access(parser)
    _add_cluster(parser)
    _add_watching(parser)
    add_pace_options(parser)
    parser.add_argument(
        "--faults",
        type=Path,
        metavar="FILE",
        help="what goes wrong, and when (bench/apiserver/fault_plan.py)",
    )
    parser.add_argument(
        "--exit-with-parent", action="store_true", help="end when standard input does"
    )
    return parser


def _add_access(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    defaults = ServerOptions()
    add("--host", default=defaults.host)
    add("--port", type=int, default=defaults.port, help="0: the system chooses (default)")
    add("--token", help="bearer token that every request must carry")
    add("--tls", action="store_true", help="with a certificate made at the start")
    add("--tls-cert", type=Path, metavar="FILE", help="TLS with this certificate")
    add("--tls-key", type=Path, metavar="FILE")
    add(
        "--write-kubeconfig",
        type=Path,
        metavar="FILE",
        help="write how to reach this server there, as soon as it listens",
    )


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    cluster = ClusterOptions()
    add(
        "--seed", type=int, default=cluster.seed, help="decides uids, and faults when there are any"
    )
    add("--nodes", type=_count, default=0, metavar="N", help="nodes to begin with (default 0)")
    add("--pods", type=_count, default=0, metavar="N", help="pending pods to begin with")
    add(
        "--history",
        type=int,
        default=cluster.history_limit,
        metavar="N",
        help="changes kept per resource; older versions answer 410 (default %(default)s)",
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
        help=f"comma-separated, of {', '.join(sorted(ADMISSION_PLUGINS - OFF_BY_DEFAULT))}",
    )
    add(
        "--enable-admission-plugins",
        default="",
        metavar="NAMES",
        help=f"comma-separated, of {', '.join(sorted(OFF_BY_DEFAULT))}",
    )


def _add_watching(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    defaults = ServerOptions()
    add(
        "--bookmark-interval-s",
        type=float,
        default=defaults.bookmark_interval_s,
        metavar="S",
        help="how often an idle watch gets a bookmark (default %(default)s)",
    )
    add(
        "--no-progress-notify",
        action="store_true",
        help="as with an etcd that seldom tells how far it is: no bookmarks of what nobody changes",
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


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return number


def _names(text: str) -> frozenset[str]:
    return frozenset(name for name in text.split(",") if name)


def _options(arguments: argparse.Namespace) -> ServerOptions:
    if arguments.history < 1:
        raise ValueError(f"--history must be at least 1, not {arguments.history}")
    if not 0 <= arguments.port <= 65535:
        raise ValueError(f"--port {arguments.port}: must lie in 0..65535")
    if problems := pace_of(arguments).problems():
        raise ValueError("; ".join(problems))
    return ServerOptions(
        host=arguments.host,
        port=arguments.port,
        token=arguments.token,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
        bookmark_interval_s=arguments.bookmark_interval_s,
        has_progress_notify=not arguments.no_progress_notify,
        watch_lag_max=arguments.watch_lag_max,
        watch_pause_s=arguments.watch_pause_s,
        pace=pace_of(arguments),
        cluster=ClusterOptions(
            history_limit=arguments.history,
            disabled_admission=_names(arguments.disable_admission_plugins),
            enabled_admission=_names(arguments.enable_admission_plugins),
            kubelet_delay_s=arguments.kubelet_delay_s,
            event_ttl_s=arguments.event_ttl_s,
            seed=arguments.seed,
        ),
    )


async def _serve(
    server: ApiServer, arguments: argparse.Namespace, authority_pem: bytes | None
) -> int:
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
    if arguments.exit_with_parent:
        _stop_at_end_of_input(loop, stopped)
    address = await server.start()
    if arguments.write_kubeconfig:
        _write_kubeconfig(
            arguments.write_kubeconfig,
            address,
            token=arguments.token,
            authority_pem=authority_pem,
        )
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
