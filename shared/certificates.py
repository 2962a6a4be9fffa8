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
        usage = x509.KeyUsage(**{**_NO_USAGE, "key_cert_sign": True, "crl_sign": True})
        own = self._certificate(self._name, self._key, usage, is_authority=True)
        self.certificate_pem = _pem(own)

    def server_pair(self, hosts: Sequence[str]) -> CertificatePair:
        """For a server that is reached by these names and addresses."""
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        return self._pair(_name(hosts[0]), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client_pair(self, user: str, groups: Sequence[str] = ()) -> CertificatePair:
        """For a client; the API server takes the common name for the user (x509 authentication)."""
        return self._pair(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _pair(
        self, name: x509.Name, purpose: x509.ObjectIdentifier, *more: x509.ExtensionType
    ) -> CertificatePair:
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(**{**_NO_USAGE, "digital_signature": True})
        extensions = (x509.ExtendedKeyUsage([purpose]), *more)
        signed = self._certificate(name, key, usage, *extensions, is_authority=False)
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        return CertificatePair(_pem(signed), text)

    def _certificate(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        usage: x509.KeyUsage,
        *extensions: x509.ExtensionType,
        is_authority: bool,
    ) -> x509.Certificate:
        public, own = key.public_key(), self._key.public_key()
        constraints = x509.BasicConstraints(ca=is_authority, path_length=None)
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
        return builder.sign(self._key, hashes.SHA256())


def _name(common_name: str, groups: Sequence[str] = ()) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
