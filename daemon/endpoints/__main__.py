"""`python -m daemon.endpoints`: the endpoints' process, started by the supervisor.

Ends with 0 when told to stop or when the supervisor is gone, with 1 when it cannot listen; the
supervisor starts it anew, for ever: scheduling goes on without it.
"""

import argparse
import asyncio
import signal
import ssl
import sys
from pathlib import Path
from typing import Final

from daemon.endpoints.facts import FactSource
from daemon.endpoints.pages import Pages
from daemon.endpoints.server import EndpointServer
from shared import exit_codes
from shared.clock import SystemClock
from shared.telemetry.log import LEVELS, EventLog, start_logging
from shared.transport.heartbeat import Heartbeat
from shared.transport.lease_gate import GATE_NAME, LeaseGate
from shared.transport.parent import Lifeline, add_options

log: Final = EventLog("endpoints")

RENEWAL_PERIOD_S: Final = 60.0
"""How often certificate and key are read again: whoever renews them need not know of berth."""


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m daemon.endpoints", description=__doc__)
    parser.add_argument("--runtime-dir", type=Path, required=True)
    add_options(parser)
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    parser.add_argument("--bind-address", default="127.0.0.1")
    parser.add_argument("--secure-port", type=int, required=True)
    parser.add_argument("--tls-cert-file", default="")
    parser.add_argument("--tls-private-key-file", default="")
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--elect-leader", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Runs until told to stop; the exit code."""
    options = parse_options(arguments)
    start_logging("endpoints", options.log_level)
    try:
        asyncio.run(_run(options))
    except OSError as error:  # ssl.SSLError is one.
        where = f"{options.bind_address}:{options.secure_port}"
        log.error("not_listening", address=where, problem=str(error), remedy="scheduling goes on")
        return exit_codes.FAILED
    return exit_codes.OK


async def _run(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    Heartbeat(options.heartbeat_fd).keep(loop)
    clock = SystemClock()
    gate = LeaseGate(options.runtime_dir / GATE_NAME, clock) if options.elect_leader else None
    source = FactSource(options.runtime_dir, gate, clock)
    token = TokenFile(options.token_file).read if options.token_file else None
    server = EndpointServer(Pages(source, token))
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if options.lifeline_fd is not None:
        Lifeline(options.lifeline_fd).call_when_cut(loop, stopped.set)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if options.tls_cert_file else None
    if tls is not None:
        tls.load_cert_chain(options.tls_cert_file, options.tls_private_key_file)
    try:
        await server.start(options.bind_address, options.secure_port, tls)
        while not stopped.is_set():
            try:
                async with asyncio.timeout(RENEWAL_PERIOD_S):
                    await stopped.wait()
            except TimeoutError:
                if tls is not None:
                    _renew(tls, options)
    finally:
        await server.close()
        source.close()


def _renew(tls: ssl.SSLContext, options: argparse.Namespace) -> None:
    """For connections from now on. Files that do not fit (yet) leave everything as it is."""
    files = (options.tls_cert_file, options.tls_private_key_file)
    try:
        # Tried aside first: half a pair would leave the one in use without its key.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*files)
        tls.load_cert_chain(*files)
    except OSError as error:
        log.warning("certificate_not_renewed", file=options.tls_cert_file, problem=str(error))


class TokenFile:
    """A bearer token that may be replaced while we run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (0, 0)
        self._token = ""

    def read(self) -> str:
        """The token; that of the last time if the file cannot be read now."""
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                self._token = self._path.read_text(encoding="ascii").strip()
                self._seen = seen
        except (OSError, UnicodeDecodeError) as error:
            log.warning("token_not_read", file=str(self._path), problem=str(error))
        return self._token


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
