"""An API server that is stated by its address."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from shared import shown
from shared.errors import ConfigurationError
from shared.kube.cluster_access import ClusterAccess
from shared.kube.credentials import Credentials
from shared.kube.proxy import proxy_of_environment


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A server address, taken apart."""

    is_tls: bool
    host: str
    port: int
    base_path: str


def parse_server_url(url: str, source: str) -> ServerUrl:
    """Take an API server's address apart; raises `ConfigurationError` naming `source`."""
    shown_url = shown.url(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # Whose text shows what it took for the port: a part of a password, perhaps.
        told = f"server {shown_url}: host or port cannot be read"
        raise ConfigurationError(source, [told]) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            source,
            [f'server {shown_url}: write it like "https://host:6443" or "http://127.0.0.1:8001"'],
        )
    if parts.query or parts.fragment or parts.username:
        raise ConfigurationError(source, [f"server {shown_url}: only scheme, host, port and path"])
    is_tls = parts.scheme == "https"
    return ServerUrl(
        is_tls, parts.hostname, port or (443 if is_tls else 80), parts.path.rstrip("/")
    )


def access_by_url(url: str, environment: Mapping[str, str] | None = None) -> ClusterAccess:
    """An API server that asks for no credentials, such as the simulated one."""
    server = parse_server_url(url, "server address")
    proxy = proxy_of_environment(environment or {}, server.host, server.port, is_tls=server.is_tls)
    return ClusterAccess(
        host=server.host,
        port=server.port,
        base_path=server.base_path,
        tls=ssl.create_default_context() if server.is_tls else None,
        tls_server_name="",
        credentials=Credentials(),
        source="server address",
        proxy=proxy,
    )
