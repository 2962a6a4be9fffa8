"""An API server that is stated by its address."""

import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from shared import shown
from shared.errors import ConfigurationError
from shared.kube.cluster_access import ClusterAccess
from shared.kube.proxy import with_proxy


def access_at(
    url: str, source: str, tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
) -> ClusterAccess:
    """What the address says of the way there; `ConfigurationError` names `source`."""
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
    return ClusterAccess(
        host=parts.hostname,
        port=port or (443 if is_tls else 80),
        base_path=parts.path.rstrip("/"),
        tls=tls() if is_tls else None,
        source=source,
    )


def access_by_url(url: str, environment: Mapping[str, str] | None = None) -> ClusterAccess:
    """An API server that asks for no credentials, such as the simulated one."""
    return with_proxy(access_at(url, "server address"), environment or {})
