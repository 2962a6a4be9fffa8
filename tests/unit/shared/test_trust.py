"""Chains are verified as kube-scheduler's are, on each Python."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shared.clock import SystemClock
from shared.extenders.extender_client import extender_access
from shared.extenders.extender_config import ExtenderConfig, ExtenderTls
from shared.kube.cluster_access import tls_context
from shared.trust import trusting_context
from tests.unit.shared.test_certificates import shake_hands

NOW = datetime.fromtimestamp(SystemClock().wall_s(), UTC)


class Signer:
    """An authority of which nothing is stated but that it is one."""

    def __init__(self, name: str, by: "Signer | None" = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        authority = x509.BasicConstraints(ca=True, path_length=None)
        self.pem = (by or self).sign(self.name, self.key, authority)

    def sign(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType
    ) -> str:
        made = x509.CertificateBuilder().subject_name(name).issuer_name(self.name)
        made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
        made = made.not_valid_before(NOW - timedelta(1)).not_valid_after(NOW + timedelta(1))
        for extension in extensions:
            made = made.add_extension(extension, critical=False)
        return (
            made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
        )

    def server(self, folder: Path) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        (folder / "server.crt").write_text(self.sign(subject, key, names))
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        shown = key.private_bytes(encoding, form, serialization.NoEncryption())
        (folder / "server.key").write_bytes(shown)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.crt", folder / "server.key")
        return context


def extender_tls(ca_text: str) -> ssl.SSLContext:
    tls = ExtenderTls(ca_data=ca_text.encode())
    access = extender_access(ExtenderConfig(url_prefix="https://localhost:1", tls_config=tls))
    assert access.tls is not None
    return access.tls.context


def cluster_tls(ca_text: str) -> ssl.SSLContext:
    return tls_context("kubeconfig", "", ca_text)


BY_TEXT = [cluster_tls, extender_tls]


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python 3.13 and newer make contexts."""
    make = ssl.create_default_context

    def made(*args: Any, **kwargs: Any) -> ssl.SSLContext:
        context = make(*args, **kwargs)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", made)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("trusting", BY_TEXT)
def test_an_authority_need_not_say_what_it_signs(
    trusting: Callable[[str], ssl.SSLContext], tmp_path: Path
) -> None:
    authority = Signer("authority")
    shake_hands(trusting(authority.pem), authority.server(tmp_path), "localhost")


@pytest.mark.parametrize("trusting", BY_TEXT)
def test_an_authority_that_another_signed_is_trusted_by_itself(
    trusting: Callable[[str], ssl.SSLContext], tmp_path: Path
) -> None:
    root = Signer("root")
    between = Signer("between", by=root)
    shake_hands(trusting(between.pem), between.server(tmp_path), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(trusting(Signer("between").pem), between.server(tmp_path), "localhost")


def test_servers_are_verified_with_the_authorities_of_the_system() -> None:
    context = trusting_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
