"""The endpoints' side of TLS: their certificate, given or made, and what they speak.

Rules: staging/src/k8s.io/apiserver/pkg/server/options/serving.go (`MaybeDefaultWithSelfSignedCerts`),
v1.36.2.
"""

import errno
import os
import socket
import ssl
import sys
from pathlib import Path
from typing import Final

import msgspec

from shared.clock import SystemClock
from shared.errors import OperationalError
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import read_answer
from shared.runtime_options import EndpointOptions
from shared.telemetry.log import EventLog
from shared.trust import trusting_context

log: Final = EventLog("endpoints")

PAIR_NAME: Final = "kube-scheduler"
_MADE_FOLDER: Final = "endpoints-tls"
_CLUSTER_AUTHENTICATION: Final = (
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
)
"""Where a kube-apiserver says which authority its clients' certificates are of."""
TLS_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
"""Of --tls-min-version, as Go names them. Older ones than 1.2 may be asked for, and are not spoken."""
_OF_TLS_13: Final = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
"""These are there always, as in Go."""
_WITH_ALL_KEYS: Final = (
    "AES_128_CBC_SHA", "AES_256_CBC_SHA", "AES_128_CBC_SHA256", "AES_128_GCM_SHA256",
    "AES_256_GCM_SHA384", "RC4_128_SHA",
)  # fmt: skip
_CHACHA20: Final = ("CHACHA20_POLY1305", "CHACHA20_POLY1305_SHA256")
CIPHER_SUITES: Final = _OF_TLS_13.union(
    f"TLS_{keys}_WITH_{cipher}"
    for keys, further in (
        ("ECDHE_RSA", (*_CHACHA20, "3DES_EDE_CBC_SHA")),
        ("ECDHE_ECDSA", _CHACHA20),
        ("RSA", ("3DES_EDE_CBC_SHA",)),
    )
    for cipher in (*_WITH_ALL_KEYS, *further)
)
"""What --tls-cipher-suites takes: those of Go's crypto/tls (`allCiphers` in
staging/src/k8s.io/component-base/cli/flag/ciphersuites_flag.go, v1.36.2)."""


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


def pair_files(options: EndpointOptions, runtime_dir: Path) -> tuple[str, str]:
    """Those that were given, or are in the folder that was given, or are made; OSError if they cannot
    be."""
    if options.tls_cert_file:
        return options.tls_cert_file, options.tls_private_key_file
    folder = Path(options.cert_dir) if options.cert_dir else runtime_dir / _MADE_FOLDER
    certificate, key = folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key"
    if not (options.cert_dir and certificate.exists() and key.exists()):
        _make(certificate, key, options.bind_address)
    return str(certificate), str(key)


def server_context(options: EndpointOptions, pair: tuple[str, str]) -> ssl.SSLContext:
    """OSError (ssl.SSLError is one) if the pair or the ciphers cannot be used."""
    context = trusting_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = TLS_VERSIONS[options.tls_min_version]
    if options.tls_cipher_suites:
        stated = [name for name in options.tls_cipher_suites if name not in _OF_TLS_13]
        suites = [_openssl_name(name) for name in stated if is_spoken(name)]
        if suites:
            context.set_ciphers(":".join(suites))
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(*pair)
    return context


def is_spoken(suite: str) -> bool:
    """OpenSSL, as it is here, has this one of `CIPHER_SUITES`."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(_openssl_name(suite))
    except ssl.SSLError:
        return suite in _OF_TLS_13
    return True


class ServedTls:
    """The context that connections are made with, kept as its files and the cluster say; another one
    when whose clients are trusted has changed."""

    def __init__(
        self, options: EndpointOptions, runtime_dir: Path, cluster: ApiClient | None
    ) -> None:
        """`cluster` is asked for the authority of its clients; OSError if there is no certificate."""
        self._options = options
        self._pair = pair_files(options, runtime_dir)
        self._cluster = cluster
        self._trusted = ""
        self._problem = ""
        self.context = server_context(options, self._pair)

    async def renew(self) -> None:
        """For connections from now on. Files that do not fit (yet) leave everything as it is."""
        try:
            # Tried aside first: half a pair would leave the one in use without its key.
            server_context(self._options, self._pair)
            self.context.load_cert_chain(*self._pair)
        except OSError as error:
            log.warning("certificate_not_renewed", file=self._pair[0], problem=str(error))
        await self.look_up_clients()

    async def look_up_clients(self) -> None:
        """Whose certificates clients may show; `OperationalError` only where that is asked for."""
        try:
            authorities = await self._authorities()
            if authorities and authorities != self._trusted:
                # A context only ever trusts more, and knows its clients' sessions.
                context = server_context(self._options, self._pair)
                context.load_verify_locations(cadata=authorities)
                context.verify_mode = ssl.CERT_OPTIONAL
                self.context, self._trusted = context, authorities
        except (OperationalError, OSError, ValueError, TypeError) as error:  # The last: not ASCII.
            if str(error) != self._problem:
                log.warning("client_authority_not_found", problem=str(error))
            self._problem = str(error)
            if not self._options.authentication_tolerate_lookup_failure and not self._trusted:
                raise

    async def _authorities(self) -> str:
        options = self._options
        if options.client_ca_file:
            return Path(options.client_ca_file).read_text(encoding="ascii")
        if self._cluster is None or options.authentication_skip_lookup:
            return ""
        answer = await self._cluster.get(_CLUSTER_AUTHENTICATION)
        found = read_answer(msgspec.json.Decoder(_ConfigMap), answer)
        return found.data.get("client-ca-file", "")


def _make(certificate: Path, key: Path, address: str) -> None:
    """By a fork, which takes along what nobody needs once they are made: 11 MB of a library."""
    maker = os.fork()
    if maker == 0:
        code = errno.EIO
        try:
            _write(certificate, key, address)
            code = 0
        except OSError as error:
            code = error.errno or code
        except BaseException:  # noqa: BLE001 # As an interpreter does at its end.
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(maker, 0)[1])
    if code:
        reason = os.strerror(code) if code > 0 else f"ended by signal {-code}"
        raise OSError(abs(code), f"no certificate was made: {reason}", str(certificate))


def _write(certificate: Path, key: Path, address: str) -> None:
    from shared.certificates import Authority

    certificate.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = Authority(SystemClock().wall_s(), f"{PAIR_NAME}-ca@{socket.gethostname()}")
    made = authority.server_pair(["localhost", "127.0.0.1", address])
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(made.key_pem)
    certificate.write_bytes(made.certificate_pem + authority.certificate_pem)


def _openssl_name(iana: str) -> str:
    """OpenSSL's name of a cipher suite of TLS 1.2: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is
    ECDHE-RSA-AES128-GCM-SHA256 there."""
    name = iana.removeprefix("TLS_").removeprefix("RSA_WITH_").replace("_WITH_", "-")
    name = name.removesuffix("_SHA256") if "POLY1305" in name else name
    return name.replace("AES_", "AES").replace("_CBC_SHA", "_SHA").replace("_", "-")
