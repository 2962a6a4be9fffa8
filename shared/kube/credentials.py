"""Who berth is to the API server: the Authorization header and the client certificate, kept fresh.

A credential may change at any time, so each has a `serial`: whoever was refused says which serial it
used, and hears whether there is another by now. Many requests that are refused together lead to one
renewal.

`ssl` takes certificates from files only and keeps them in the context, so a certificate from memory is
laid in a folder of our own for a moment. A replaced one is shown by connections made from then on;
whoever keeps connections compares `serial`.
"""

import base64
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from shared.errors import ConfigurationError

_PLACES = "user.client-certificate, user.client-key"


class ClientCertificate:
    """Of one TLS context."""

    def __init__(self, context: ssl.SSLContext, source: str) -> None:
        self._context = context
        self._source = source
        self._files: tuple[Path, Path] | None = None
        self._stamps: tuple[int, ...] = ()
        self._pem: tuple[bytes, bytes] | None = None
        self.serial = 0
        """Another one for each certificate."""

    def use_files(self, certificate: Path, key: Path) -> None:
        """Show what is in these files, and what is in them later on (`reload`)."""
        self._files = (certificate, key)
        stamps = self._read_stamps()
        self._load(certificate, key)
        self._stamps = stamps

    def use_pem(self, certificate: bytes, key: bytes) -> None:
        """Show this certificate. No trace of the key is left on disk."""
        if self._pem == (certificate, key):
            return
        try:
            with tempfile.TemporaryDirectory(prefix="berth-") as folder:
                paths = Path(folder) / "tls.crt", Path(folder) / "tls.key"
                for path, content in zip(paths, (certificate, key), strict=True):
                    path.write_bytes(content)
                self._load(*paths)
        except OSError as error:
            problem = f"the certificate cannot be written for a moment to $TMPDIR: {error}"
            raise ConfigurationError(self._source, [problem]) from error
        self._pem = (certificate, key)

    def reload(self) -> bool:
        """Take the files again if they have changed; whether there is another certificate now.

        Files that cannot be used (one of them is written, the other not yet) leave the last certificate
        in force; the next call tries again.
        """
        if self._files is None:
            return False
        try:
            stamps = self._read_stamps()
            if stamps == self._stamps:
                return False
            self._load(*self._files)
        except ConfigurationError:
            return False
        self._stamps = stamps
        return True

    def _read_stamps(self) -> tuple[int, ...]:
        assert self._files is not None, "only files have times"
        try:
            states = [path.stat() for path in self._files]
        except (OSError, ValueError) as error:
            raise ConfigurationError(self._source, [f"{_PLACES}: {error}"]) from error
        return tuple(part for s in states for part in (s.st_mtime_ns, s.st_ino, s.st_size))

    def _load(self, certificate: Path, key: Path) -> None:
        try:
            # Without a password given, ssl would ask for one on the terminal.
            self._context.load_cert_chain(certificate, key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(self._source, [f"{_PLACES}: {error}"]) from error
        self.serial += 1


TOKEN_FILE_REREAD_S: Final = 60.0
"""The kubelet renews a projected token when 80 % of its life is over (at least 10 minutes of it are
then left), so a minute is soon enough; client-go re-reads as often."""


class Credentials:
    """A token, a token file or a password, with or without a client certificate, or nothing."""

    def __init__(
        self,
        *,
        token: str = "",
        token_file: Path | None = None,
        username: str = "",
        password: str = "",
        certificate: ClientCertificate | None = None,
        impersonation: Iterable[tuple[str, str]] = (),
    ) -> None:
        """`impersonation` are headers that say on whose behalf the requests are made."""
        self._token_file = token_file
        self._read_at_s = float("-inf")
        self._authorization = b""
        self._certificate = certificate
        self._impersonation = b"".join(_header_line(name, text) for name, text in impersonation)
        self._line = b""
        self.serial = 0
        """Another one whenever header or certificate have changed."""
        if token:
            self._set_authorization(bearer_line(token, "the token"))
        elif username:
            pair = base64.b64encode(f"{username}:{password}".encode()).decode()
            self._set_authorization(f"Authorization: Basic {pair}\r\n".encode())
        else:
            self._set_authorization(b"")

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

        Raises `ConfigurationError` while there is no readable token at all; a file that cannot be
        read later on leaves the last token in force.
        """
        if self._token_file is not None and now_s - self._read_at_s >= TOKEN_FILE_REREAD_S:
            self._read_at_s = now_s
            self._read_token_file(self._token_file)
        return self._line

    async def renew(self, refused_serial: int, now_s: float) -> bool:
        """The server refused these; whether there are others now. Looks for them if need be."""
        if self.serial != refused_serial:
            return True
        if self._token_file is not None:
            self._read_at_s = now_s
            self._read_token_file(self._token_file)
        self.before_connecting()
        return self.serial != refused_serial

    def before_connecting(self) -> None:
        """Take a certificate that was renewed on disk."""
        if self._certificate is not None and self._certificate.reload():
            self.serial += 1

    def _read_token_file(self, path: Path) -> None:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            if self._authorization:
                return
            raise ConfigurationError(str(path), [f"token file cannot be read: {error}"]) from error
        if not token and self._authorization:
            return
        self._set_authorization(bearer_line(token, str(path)))

    def _set_authorization(self, line: bytes) -> None:
        if line != self._authorization:
            self.serial += 1
        self._authorization = line
        self._line = line + self._impersonation


def bearer_line(token: str, source: str) -> bytes:
    """The header for a token; `ConfigurationError` if it cannot be one."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(source, ["not a bearer token: empty, or with spaces or line ends"])
    return f"Authorization: Bearer {token}\r\n".encode()


def _header_line(name: str, text: str) -> bytes:
    if not text.isprintable():
        raise ConfigurationError("user", [f"{name}: has characters that cannot stand in a header"])
    return f"{name}: {text}\r\n".encode()
