"""Who berth is to the API server: the Authorization header, kept fresh.

Client certificates are part of the TLS settings and not of this.
"""

import base64
from pathlib import Path
from typing import Final

from shared.errors import ConfigurationError

TOKEN_FILE_REREAD_S: Final = 60.0
"""The kubelet renews a projected token when 80 % of its life is over (at least 10 minutes of it are
then left), so a minute is soon enough; client-go re-reads as often."""


class Credentials:
    """Makes the Authorization header line; without any credentials it is empty."""

    def __init__(
        self,
        *,
        token: str = "",
        token_file: Path | None = None,
        username: str = "",
        password: str = "",
    ) -> None:
        self._token_file = token_file
        self._read_at_s = float("-inf")
        self._line = b""
        if token:
            self._line = _bearer(token, "the token")
        elif username:
            pair = base64.b64encode(f"{username}:{password}".encode()).decode()
            self._line = f"Authorization: Basic {pair}\r\n".encode()

    def header_line(self, now_s: float) -> bytes:
        """The header with its line end, or nothing. Reads the token file when that is due.

        Raises `ConfigurationError` while there is no readable token at all; a file that cannot be
        read later on leaves the last token in force.
        """
        if self._token_file is not None and now_s - self._read_at_s >= TOKEN_FILE_REREAD_S:
            self._read_at_s = now_s
            self._read_token_file(self._token_file)
        return self._line

    def refresh(self, now_s: float) -> bool:
        """Read the token file now, because the server refused; whether there is another token."""
        if self._token_file is None:
            return False
        before = self._line
        self._read_at_s = now_s
        self._read_token_file(self._token_file)
        return self._line != before

    def _read_token_file(self, path: Path) -> None:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._line:
                return
            raise ConfigurationError(str(path), [f"token file cannot be read: {error}"]) from error
        if not token and self._line:
            return
        self._line = _bearer(token, str(path))


def _bearer(token: str, source: str) -> bytes:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(source, ["not a bearer token: empty, or with spaces or line ends"])
    return f"Authorization: Bearer {token}\r\n".encode()
