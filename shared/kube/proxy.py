"""The way through an HTTP proxy: which one to take, and the tunnel (CONNECT) through it.

Kubeconfig's `proxy-url` goes before the environment's HTTPS_PROXY, HTTP_PROXY and NO_PROXY, which are
read as Go's net/http reads them (golang.org/x/net/http/httpproxy): client-go does no more. Always by
tunnel, also for an API server without TLS.
"""

import asyncio
import base64
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import unquote

from shared import shown
from shared.errors import ConfigurationError
from shared.kube.api_errors import ConnectFailed
from shared.kube.cluster_access import ClusterAccess, split_url
from shared.limits import PROXY_HEAD_BYTES_MAX

_SUCCESS: Final = re.compile(r"HTTP/1\.\S*\s+2")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Proxy:
    host: str
    port: int
    authorization: str = field(default="", repr=False)
    """What to tell it who we are; empty: nothing."""

    async def opened(self, host: str, port: int) -> asyncio.Transport:
        """A connection through the proxy to `host`; its protocol is to be set at once.

        Raises `ConnectFailed` when the proxy refuses, `OSError` when it cannot be reached.
        """
        head = asyncio.StreamReader(PROXY_HEAD_BYTES_MAX)
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: asyncio.StreamReaderProtocol(head), self.host, self.port
        )
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", "User-Agent: berth"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        try:
            transport.write("\r\n".join([*lines, "", ""]).encode())
            answer = await head.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            transport.abort()
            raise ConnectFailed(
                f"the proxy closed the connection, or has no end ({error})"
            ) from error
        except BaseException:
            transport.abort()
            raise
        status_line = answer.partition(b"\r\n")[0].decode("latin-1")
        if _SUCCESS.match(status_line) is None:
            transport.abort()
            raise ConnectFailed(f"proxy {self.host}:{self.port} refused: {status_line!r}")
        return transport


def parse_proxy(url: str, source: str) -> Proxy:
    """A proxy's address; `ConfigurationError` names `source`, and never the password."""
    what = f"proxy {shown.url(url)}"
    parts = split_url(url, what, source)
    if parts.scheme != "http":
        raise ConfigurationError(source, [f"{what}: only http:// proxies can be used"])
    if not parts.hostname:
        raise ConfigurationError(source, [f'{what}: write it like "http://proxy:3128"'])
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return Proxy(parts.hostname, parts.port or 80, authorization)


def with_proxy(access: ClusterAccess, environment: Mapping[str, str]) -> ClusterAccess:
    """The same server, by the way that the environment names."""
    name, url = _first(environment, "HTTP_PROXY" if access.tls is None else "HTTPS_PROXY")
    no_proxy = _first(environment, "NO_PROXY")[1]
    if not url or _is_excepted(access.host, access.port, no_proxy):
        return replace(access, proxy=None)
    stated = url if "://" in url else f"http://{url}"
    return replace(access, proxy=parse_proxy(stated, f"${name}"))


def _first(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    for written in (name, name.lower()):
        if environment.get(written):
            return written, environment[written]
    return name, ""


def _is_excepted(host: str, port: int, no_proxy: str) -> bool:
    name = host.lower().rstrip(".")
    address = _address(name)
    if name == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(
        _matches(pattern.strip().lower(), name, address, port) for pattern in no_proxy.split(",")
    )


def _matches(pattern: str, name: str, address: _Address | None, port: int) -> bool:
    if not pattern:
        return False
    if pattern == "*":
        return True
    if "/" in pattern:
        try:
            return address is not None and address in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return False
    pattern_host, pattern_port = _split_port(pattern)
    if pattern_port and pattern_port != str(port):
        return False
    pattern_address = _address(pattern_host)
    if pattern_address is not None:
        return pattern_address == address
    domain = pattern_host.removeprefix("*")
    if domain.startswith("."):
        return name.endswith(domain)
    return name == domain or name.endswith(f".{domain}")


def _split_port(pattern: str) -> tuple[str, str]:
    if pattern.startswith("["):
        host, _, rest = pattern[1:].partition("]")
        return host, rest.removeprefix(":")
    host, colon, port = pattern.rpartition(":")
    return (host, port) if colon and ":" not in host else (pattern, "")


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
