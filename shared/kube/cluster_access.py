"""Where the API server is and how to be let in: what `find_access` finds and `api_client` uses."""

import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from shared import shown
from shared.errors import ConfigurationError
from shared.kube.credentials import Credentials
from shared.telemetry.log import EventLog
from shared.trust import trusting_context

if TYPE_CHECKING:
    from shared.kube.proxy import Proxy  # Few have one.

log: Final = EventLog("kube")


class ServerTls:
    """How connections to one server are secured."""

    def __init__(
        self, make: Callable[[], ssl.SSLContext] = trusting_context, ca_file: str = ""
    ) -> None:
        """`ca_file`: where `make` reads whom to trust, if it does so."""
        self._make = make
        self._ca_file = ca_file
        self._stamp = self._stamp_now()
        self._problem = ""
        self.load_certificate: Callable[[ssl.SSLContext], object] | None = None
        """Has another context show what this one does."""
        self.context = make()

    def reload(self) -> None:
        """For connections from now on: trust whom the file names by now. One that cannot be used (it is
        half written) leaves everything as it is; the next call tries again. As `atomicTransportHolder`
        in staging/src/k8s.io/client-go/transport/ca_rotation.go, v1.36, which looks each 5 minutes.
        """
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        try:
            context = self._make()
            if self.load_certificate is not None:
                self.load_certificate(context)
        except ConfigurationError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                remedy = "the old one stays in use until it can be read"
                log.warning("authority_not_renewed", problem=self._problem, remedy=remedy)
            return
        self._stamp, self._problem, self.context = stamp, "", context
        log.info("authority_renewed", file=self._ca_file)

    def _stamp_now(self) -> tuple[int, ...]:
        if self._ca_file:
            with suppress(OSError, ValueError):  # Who reads it says what is wrong.
                return file_stamp(Path(self._ca_file))
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """One API server. Not a msgspec struct: it never leaves the process."""

    host: str
    port: int
    source: str
    """Where this was found, for messages."""
    base_path: str = ""
    """Prefix of every path, without a slash at its end."""
    tls: ServerTls | None = None
    tls_server_name: str = ""
    """The name that the server's certificate must bear; empty for the host."""
    credentials: Credentials = field(default_factory=Credentials)
    proxy: "Proxy | None" = None
    """The way there; None: straight."""

    @property
    def url(self) -> str:
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{self.host_header}{self.base_path}"

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def access_at(
    url: str, source: str = "server address", tls: Callable[[], ServerTls] = ServerTls
) -> ClusterAccess:
    """A server that is stated by its address, which asks for no credentials unless it is told some;
    `ConfigurationError` names `source`."""
    what = f"server {shown.url(url)}"
    parts = split_url(url, what, source)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        told = f'{what}: write it like "https://host:6443" or "http://127.0.0.1:8001"'
        raise ConfigurationError(source, [told])
    if parts.query or parts.fragment or parts.username:
        raise ConfigurationError(source, [f"{what}: only scheme, host, port and path"])
    is_tls = parts.scheme == "https"
    return ClusterAccess(
        host=parts.hostname,
        port=parts.port or (443 if is_tls else 80),
        base_path=parts.path.rstrip("/"),
        tls=tls() if is_tls else None,
        source=source,
    )


def split_url(url: str, what: str, source: str) -> SplitResult:
    """The parts of a URL, its port among them; `ConfigurationError` names `what` it is and `source`."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # Whose text shows what it took for the port: a part of a password, perhaps.
        raise ConfigurationError(source, [f"{what}: host or port cannot be read"]) from None
    return parts


def tls_context(source: str, ca_file: str, ca_text: str) -> ssl.SSLContext:
    """A context that trusts the given authority, or the system's where none is given."""
    try:
        return trusting_context(ca_file=ca_file, ca_text=ca_text)
    except (OSError, ValueError) as error:
        place = ca_file or "cluster.certificate-authority-data"
        raise ConfigurationError(source, [f"{place}: no usable certificate: {error}"]) from error


def file_stamp(path: Path) -> tuple[int, ...]:
    """Another one where the file was written or replaced; OSError or ValueError if it is not there."""
    state = path.stat()
    return state.st_mtime_ns, state.st_ino, state.st_size


def is_missing(path: Path) -> bool:
    """Nothing is there. Of a path that no file can have, or in a folder that may not be entered, that
    cannot be said: whoever reads it says what is wrong."""
    try:
        path.stat()
    except (OSError, ValueError) as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False
