"""Where the API server is and how to be let in: what `find_access` finds and `api_client` uses."""

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from shared.errors import ConfigurationError
from shared.kube.credentials import Credentials


class Tunnel(Protocol):
    """A way that leads through somebody else; `proxy.Proxy` is one."""

    async def opened(self, host: str, port: int) -> asyncio.Transport: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """One API server. Not a msgspec struct: it never leaves the process."""

    host: str
    port: int
    source: str
    """Where this was found, for messages."""
    base_path: str = ""
    """Prefix of every path, without a slash at its end."""
    tls: ssl.SSLContext | None = None
    tls_server_name: str = ""
    """The name that the server's certificate must bear; empty for the host."""
    credentials: Credentials = field(default_factory=Credentials)
    proxy: Tunnel | None = None
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
