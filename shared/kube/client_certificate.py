"""Client certificates of kubeconfig files. One that is replaced is shown by connections made from then
on; whoever keeps connections compares `serial`."""

import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import ConfigurationError
from shared.kube.cluster_access import ServerTls, file_stamp

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
    """Of the connections to one server."""

    def __init__(self, tls: ServerTls, source: str) -> None:
        self._tls = tls
        tls.load_certificate = self._load_again
        self._source = source
        self._files: tuple[Path, Path] | None = None
        self._stamps: tuple[tuple[int, ...], ...] = ()
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
        self._load_pem(self._tls.context, certificate, key)
        self._pem = (certificate, key)
        self.serial += 1

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
            stamps = tuple(map(file_stamp, files))
        except (OSError, ValueError) as error:
            raise ConfigurationError(self._source, [f"{_PLACES}: {error}"]) from error
        if stamps == self._stamps:
            return False
        self._load(self._tls.context, *files)
        self._stamps = stamps
        self.serial += 1
        return True

    def _load_again(self, context: ssl.SSLContext) -> None:
        if self._files is not None:
            self._load(context, *self._files)
        elif self._pem is not None:
            self._load_pem(context, *self._pem)

    def _load_pem(self, context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        try:
            with written_for_a_moment(certificate, key) as paths:
                self._load(context, *paths)
        except OSError as error:
            problem = f"the certificate cannot be written for a moment to $TMPDIR: {error}"
            raise ConfigurationError(self._source, [problem]) from error

    def _load(self, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
        try:
            # Without a password given, ssl would ask for one on the terminal.
            context.load_cert_chain(certificate, key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(self._source, [f"{_PLACES}: {error}"]) from error
