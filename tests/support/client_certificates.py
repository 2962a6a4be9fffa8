"""Certificates of clients, which berth itself makes none of."""

from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shared.certificates import Authority, CertificatePair


def client_pair(authority: Authority, user: str, groups: Sequence[str] = ()) -> CertificatePair:
    """The API server takes the common name for the user (x509 authentication)."""
    told = [*((NameOID.ORGANIZATION_NAME, group) for group in groups), (NameOID.COMMON_NAME, user)]
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in told])
    return authority.pair(name, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))
