"""Certificates for servers that were given none: an authority made at each start, and what it signs.

P-256 with SHA-256. Keys are held in memory, unless whoever asked for them writes them.
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME: Final = timedelta(days=365)
_CLOCK_SKEW: Final = timedelta(hours=1)
_NO_USAGE: Final = dict.fromkeys(
    (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ),
    False,
)


class CertificatePair(NamedTuple):
    certificate_pem: bytes
    key_pem: bytes


class Authority:
    def __init__(self, now_s: float, name: str = "simulated-ca") -> None:
        """What it signs is good from an hour before `now_s` (wall clock) until a year after."""
        self._name = _name(name)
        self._now = datetime.fromtimestamp(now_s, UTC)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate_pem = self._signed(self._name, self._key, ("key_cert_sign", "crl_sign"))

    def server_pair(self, hosts: Sequence[str]) -> CertificatePair:
        """For a server that is reached by these names and addresses."""
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        return self.pair(_name(hosts[0]), purpose, names)

    def pair(self, name: x509.Name, *extensions: x509.ExtensionType) -> CertificatePair:
        """For who has this name, and is what the extensions say."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = self._signed(name, key, ("digital_signature",), *extensions)
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        return CertificatePair(signed, text)

    def _signed(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        uses: Sequence[str],
        *extensions: x509.ExtensionType,
    ) -> bytes:
        """A certificate for the key, which may be our own, as PEM."""
        public, own = key.public_key(), self._key.public_key()
        usage = x509.KeyUsage(**{**_NO_USAGE, **dict.fromkeys(uses, True)})
        constraints = x509.BasicConstraints(ca=key is self._key, path_length=None)
        builder = (
            x509.CertificateBuilder()
            .issuer_name(self._name)
            .subject_name(name)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _CLOCK_SKEW)
            .not_valid_after(self._now + _LIFETIME)
            .public_key(public)
            .add_extension(constraints, critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
