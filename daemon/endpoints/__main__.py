"""`python -m daemon.endpoints`: the endpoints' process, started by the supervisor.

Ends with 0 when told to stop or when the supervisor is gone, with 1 when it cannot listen; the
supervisor starts it anew, for ever: scheduling goes on without it.
"""

import asyncio
import ipaddress
import sys
from pathlib import Path
from typing import Final

from daemon.endpoints.access import Access, DelegatedAccess, TokenAccess, reviewer
from daemon.endpoints.facts import FactSource
from daemon.endpoints.pages import Pages
from daemon.endpoints.server import EndpointServer
from daemon.endpoints.tls import ServedTls
from shared import exit_codes
from shared.child_plan import ChildStart, child_start, exit_code_of
from shared.clock import SystemClock
from shared.kube.api_client import ApiClient
from shared.runtime_options import EndpointOptions
from shared.telemetry.log import EventLog
from shared.transport.heartbeat import Heartbeat

log: Final = EventLog("endpoints")

RENEWAL_PERIOD_S: Final = 60.0
"""How often certificate and key are read again: whoever renews them need not know of berth."""


def main(arguments: list[str]) -> int:
    """Runs until told to stop; the exit code."""
    start = child_start("endpoints", arguments)
    options = start.options.endpoints
    try:
        return exit_code_of("endpoints", lambda: asyncio.run(_run(start, options)))
    except OSError as error:  # ssl.SSLError is one.
        where = f"{options.bind_address}:{options.secure_port}"
        remedy = "scheduling goes on; another --secure-port serves, 0 says that none is wanted"
        log.error("not_listening", address=where, problem=str(error), remedy=remedy)
        return exit_codes.FAILED


async def _run(start: ChildStart, options: EndpointOptions) -> int:
    loop = asyncio.get_running_loop()
    Heartbeat(start.heartbeat_fd).keep(loop)
    clock = SystemClock()
    source = FactSource(start.runtime_dir, start.gate(clock), clock)
    stopped = asyncio.Event()
    start.call_at_end(loop, stopped.set)
    authentication = reviewer(options, options.authentication_kubeconfig)
    authorization = reviewer(options, options.authorization_kubeconfig)
    access = _access(options, authentication, authorization, clock)
    server = EndpointServer(Pages(source, access))
    served = ServedTls(options, start.runtime_dir, authentication)
    try:
        await served.look_up_clients()
        address, port = str(ipaddress.ip_address(options.bind_address)), options.secure_port
        shares_port = options.permit_port_sharing
        await server.start(address, port, served.context, shares_port=shares_port)
        while not stopped.is_set():
            try:
                async with asyncio.timeout(RENEWAL_PERIOD_S):
                    await stopped.wait()
            except TimeoutError:
                await served.renew()
                await server.speak(served.context)
        return exit_codes.OK
    finally:
        await server.close()
        for client in filter(None, (authentication, authorization)):
            await client.close()


def _access(
    options: EndpointOptions,
    authentication: ApiClient | None,
    authorization: ApiClient | None,
    clock: SystemClock,
) -> Access:
    if options.endpoints_token_file:
        return TokenAccess(TokenFile(Path(options.endpoints_token_file)).read)
    if options.is_local and not (authentication or authorization or options.client_ca_file):
        return None
    return DelegatedAccess(options, authentication, authorization, clock)


class TokenFile:
    """A bearer token that may be replaced while we run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = ""

    def read(self) -> str:
        """The token; that of the last time if the file cannot be read now."""
        try:
            self._token = self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            log.warning("token_not_read", file=str(self._path), problem=str(error))
        return self._token


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
