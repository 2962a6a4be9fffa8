"""Where the API server is and how to be let in: what `kubeconfig` finds and `api_client` uses."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from shared import shown
from shared.errors import ConfigurationError
from shared.kube.credentials import Credentials
from shared.kube.proxy import Proxy, proxy_of_environment


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """One API server. Not a msgspec struct: it never leaves the process."""

    host: str
    port: int
    base_path: str
    """Prefix of every path, without a slash at its end; usually empty."""
    tls: ssl.SSLContext | None
    tls_server_name: str
    """The name that the server's certificate must bear; empty for the host."""
    credentials: Credentials
    source: str
    """Where this was found, for messages."""
    proxy: Proxy | None = None
    """The way there; None: straight."""

    @property
    def url(self) -> str:
        """The address, for people."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{self.host_header}{self.base_path}"

    @property
    def host_header(self) -> str:
        """Host and port as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


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


def moved(access: ClusterAccess, url: str, environment: Mapping[str, str]) -> ClusterAccess:
    """The same server, with the same credentials, at another address."""
    there = access_by_url(url, environment)
    return replace(
        access,
        host=there.host,
        port=there.port,
        base_path=there.base_path,
        tls=(access.tls or there.tls) if there.tls is not None else None,
        proxy=access.proxy or there.proxy,
    )


def tls_context(source: str, ca_file: str, ca_text: str) -> ssl.SSLContext:
    """A context that trusts the given authority, or the system's where none is given."""
    try:
        return ssl.create_default_context(cafile=ca_file or None, cadata=ca_text or None)
    except (OSError, ValueError) as error:
        place = ca_file or "cluster.certificate-authority-data"
        raise ConfigurationError(source, [f"{place}: no usable certificate: {error}"]) from error


def is_missing(path: Path) -> bool:
    """Nothing is there. Of a path that no file can have, or in a folder that may not be entered, that
    cannot be said: whoever reads it says what is wrong."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False
