"""Who berth is to the API server: the Authorization header, kept fresh, and what else says it.

A credential may change at any time, so each has a `serial`: whoever was refused says which serial it
used, and hears whether there is another by now. Many requests that are refused together lead to one
renewal.
"""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shared.errors import ConfigurationError
from shared.kube.api_errors import ConnectFailed

if TYPE_CHECKING:
    from shared.kube.client_certificate import ClientCertificate  # In a pod nobody has one.

TOKEN_FILE_REREAD_S: Final = 60.0
"""The kubelet renews a projected token when 80 % of its life is over (at least 10 minutes of it are
then left), so a minute is soon enough; client-go re-reads as often."""


class TokenUnreadable(ConnectFailed):
    """There is no token yet, so nothing was sent."""


class Credentials:
    """A token, a token file or a password, with or without a client certificate, or nothing."""

    def __init__(
        self,
        *,
        token: str = "",
        token_file: Path | None = None,
        username: str = "",
        password: str = "",
        certificate: "ClientCertificate | None" = None,
        impersonation: Iterable[tuple[str, str]] = (),
    ) -> None:
        """`impersonation` are headers that say on whose behalf the requests are made."""
        self._certificate = certificate
        self._impersonation = b"".join(_header_line(name, text) for name, text in impersonation)
        self._token_file = token_file
        self._read_at_s = float("-inf")
        self._authorization = b""
        self.serial = 0
        """Another one whenever header or certificate have changed."""
        if token:
            self._set_authorization(bearer_line(token, "the token"))
        elif username:
            pair = base64.b64encode(f"{username}:{password}".encode()).decode()
            self._set_authorization(f"Authorization: Basic {pair}\r\n".encode())

    @property
    def certificate_serial(self) -> int:
        """Of the client certificate; connections made with another one are not to be used again."""
        return 0 if self._certificate is None else self._certificate.serial

    def is_due(self) -> bool:
        """Whether `prepare` has to be awaited before `header_line`."""
        return False

    async def prepare(self) -> None:
        """Get credentials that take time to be had. Raises `OperationalError`."""

    def header_line(self, now_s: float) -> bytes:
        """The header lines with their ends, or nothing. Reads the token file when that is due.

        Raises `TokenUnreadable` while there is no token at all; a file that cannot be read later on, or
        holds what is none (it is half written), leaves the last token in force.
        """
        if self._token_file is not None and now_s - self._read_at_s >= TOKEN_FILE_REREAD_S:
            self._read_token_file(self._token_file, now_s)
        return self._authorization + self._impersonation

    async def renew(self, refused_serial: int, now_s: float) -> bool:
        """The server refused these; whether there are others now. Looks for them if need be."""
        if self.serial != refused_serial:
            return True
        if self._token_file is not None:
            self._read_token_file(self._token_file, now_s)
        self.before_connecting()
        return self.serial != refused_serial

    def before_connecting(self) -> None:
        """Take a certificate that was renewed on disk."""
        if self._certificate is not None and self._certificate.reload():
            self.serial += 1

    def _read_token_file(self, path: Path, now_s: float) -> None:
        try:
            line = bearer_line(path.read_text(encoding="utf-8").strip(), "what it holds")
        except (OSError, ValueError, ConfigurationError) as error:
            if not self._authorization:
                raise TokenUnreadable(f"token file {path}: {error}") from error
        else:
            self._set_authorization(line)
        self._read_at_s = now_s

    def _set_authorization(self, line: bytes) -> None:
        if line != self._authorization:
            self.serial += 1
        self._authorization = line


def bearer_line(token: str, source: str) -> bytes:
    """The header for a token; `ConfigurationError` if it cannot be one."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(source, ["not a bearer token: empty, or with spaces or line ends"])
    return f"Authorization: Bearer {token}\r\n".encode()


def _header_line(name: str, text: str) -> bytes:
    if not text.isprintable():
        raise ConfigurationError("user", [f"{name}: has characters that cannot stand in a header"])
    return f"{name}: {text}\r\n".encode()
