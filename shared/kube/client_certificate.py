"""Client certificates of kubeconfig files. One that is replaced is shown by connections made from then
on; whoever keeps connections compares `serial`."""

import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import ConfigurationError

_PLACES = "user.client-certificate, user.client-key"


@contextmanager
def written_for_a_moment(certificate: bytes, key: bytes) -> Iterator[tuple[Path, Path]]:
    """As files, which `ssl` needs. No trace of the key is left on disk."""
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        paths = Path(folder, "tls.crt"), Path(folder, "tls.key")
        for path, content in zip(paths, (certificate, key), strict=True):
            path.write_bytes(content)
        yield paths


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
        self._take_files(self._files)

    def use_pem(self, certificate: bytes, key: bytes) -> None:
        """Show this certificate."""
        if self._pem == (certificate, key):
            return
        try:
            with written_for_a_moment(certificate, key) as paths:
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
        try:
            return self._files is not None and self._take_files(self._files)
        except ConfigurationError:
            return False

    def _take_files(self, files: tuple[Path, Path]) -> bool:
        try:
            states = [path.stat() for path in files]
        except (OSError, ValueError) as error:
            raise ConfigurationError(self._source, [f"{_PLACES}: {error}"]) from error
        stamps = tuple(part for s in states for part in (s.st_mtime_ns, s.st_ino, s.st_size))
        if stamps == self._stamps:
            return False
        self._load(*files)
        self._stamps = stamps
        return True

    def _load(self, certificate: Path, key: Path) -> None:
        try:
            # Without a password given, ssl would ask for one on the terminal.
            self._context.load_cert_chain(certificate, key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(self._source, [f"{_PLACES}: {error}"]) from error
        self.serial += 1
