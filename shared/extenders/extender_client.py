"""HTTP calls to one extender.

Callers may rely on: an answer of 200 is returned, everything else is an `ExtenderError` that names
the extender, the verb and the problem; why there was no answer at all is its cause. The timeout is
that of the configuration, over everything. A question may be asked twice where a kept connection
turns out to be dead; a binding is not.
"""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from shared.errors import ConfigurationError
from shared.extenders.extender_config import ExtenderConfig, ExtenderTls
from shared.extenders.extender_wire import ExtenderError
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import ApiError, ConnectionLost, TransportError
from shared.kube.client_certificate import written_for_a_moment
from shared.kube.cluster_access import ClusterAccess, ServerTls, access_at
from shared.kube.connection_problems import ConnectionProblems
from shared.kube.http_connection import Answer
from shared.limits import LIST_BYTES_MAX
from shared.trust import trusting_context

REMEDY: Final = "check that the extender runs there, and its urlPrefix, tlsConfig and httpTimeout"


class ExtenderClient:
    """Belongs to one event loop."""

    def __init__(self, config: ExtenderConfig, problems: ConnectionProblems | None = None) -> None:
        """`problems` is told of calls that bring no answer."""
        self.config = config
        self._problems = problems
        self._client = ApiClient(
            extender_access(config),
            timeout_s=config.http_timeout_s + 1.0,
            body_bytes_max=LIST_BYTES_MAX,  # It may answer with all nodes.
        )

    async def ask(self, verb: str, body: bytes) -> bytes:
        """The answer to a question, which may arrive twice."""
        return await self._within_time(verb, body, tries=2)

    async def order(self, verb: str, body: bytes) -> bytes:
        """The answer to what must not be done twice. After an error it may have been done."""
        return await self._within_time(verb, body, tries=1)

    async def close(self) -> None:
        await self._client.close()

    async def _within_time(self, verb: str, body: bytes, tries: int) -> bytes:
        prefix, timeout_s = self.config.url_prefix.rstrip("/"), self.config.http_timeout_s
        concern = f"ask extender {prefix}/{verb}"
        cause: Exception | None = None
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._posted(verb, body, tries)
        except TimeoutError as error:
            cause, problem = error, f"no answer within {timeout_s:g} s"
        except TransportError as error:
            cause, problem = error, str(error)
        except ApiError as error:
            problem = f"code {error.http_status}"
        else:
            if answer.status == 200:
                if self._problems is not None:
                    self._problems.end(concern)
                return answer.body
            problem = f"code {answer.status}"
        told = f"failed {verb} with extender at URL {prefix}/{verb}, {problem}"
        if self._problems is not None:
            self._problems.add(f"extender {prefix}", concern, told, REMEDY)
        raise ExtenderError(told) from cause

    async def _posted(self, verb: str, body: bytes, tries: int) -> Answer:
        for _ in range(1, tries):
            with suppress(ConnectionLost):
                return await self._client.request("POST", f"/{verb}", body)
        return await self._client.request("POST", f"/{verb}", body)


def extender_access(config: ExtenderConfig) -> ClusterAccess:
    """ConfigurationError where its address or certificates cannot be used."""
    source = f"extender {config.url_prefix}"
    access = access_at(config.url_prefix, source, partial(_tls, config, source))
    return replace(
        access, tls_server_name=config.tls_config.server_name if config.tls_config else ""
    )


def _tls(config: ExtenderConfig, source: str) -> ServerTls:
    """As makeTransport in pkg/scheduler/extender.go: enableHTTPS without a CA trusts anybody, and files
    are read once."""
    tls = config.tls_config or ExtenderTls()
    has_ca = bool(tls.ca_file or tls.ca_data)
    try:
        ca_text = tls.ca_data.decode("ascii") if tls.ca_data else ""
        context = trusting_context(ca_file=tls.ca_file, ca_text=ca_text)
        if tls.insecure or (config.enable_https and not has_ca):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.cert_file or tls.cert_data:
            cert = tls.cert_data or Path(tls.cert_file).read_bytes()
            key = tls.key_data or Path(tls.key_file).read_bytes()
            with written_for_a_moment(cert, key) as paths:
                # Without a password given, ssl would ask for one on the terminal.
                context.load_cert_chain(*paths, password="")
    except (OSError, ValueError) as error:
        raise ConfigurationError(source, [f"tlsConfig: {error}"]) from error
    return ServerTls(lambda: context)
