"""The certificates of the simulated server convince OpenSSL, and only of what they say."""

import ssl
from pathlib import Path

import pytest

from shared.certificates import Authority, CertificatePair
from shared.clock import SystemClock
from tests.support.client_certificates import client_pair

NOW_S = SystemClock().wall_s()


def contexts(
    folder: Path, trusted: Authority, server: CertificatePair, client: CertificatePair | None = None
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    def chain(context: ssl.SSLContext, pair: CertificatePair, name: str) -> None:
        (folder / f"{name}.crt").write_bytes(pair.certificate_pem)
        (folder / f"{name}.key").write_bytes(pair.key_pem)
        context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")

    authority_pem = trusted.certificate_pem.decode()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority_pem)
    chain(theirs, server, "server")
    ours = ssl.create_default_context(cadata=authority_pem)
    ours.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        theirs.verify_mode = ssl.CERT_REQUIRED
        chain(ours, client, "client")
    return ours, theirs


def shake_hands(ours: ssl.SSLContext, theirs: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Both ends in memory; returns the server's."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ours.wrap_bio(to_client, to_server, server_hostname=host)
    server = theirs.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    client.write(b"hello")
    assert server.read(5) == b"hello"
    return server


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_trusts_the_server(tmp_path: Path, host: str) -> None:
    authority = Authority(NOW_S)
    pair = authority.server_pair(["localhost", "127.0.0.1", "::1"])
    ours, theirs = contexts(tmp_path, authority, pair)
    shake_hands(ours, theirs, host)
    with pytest.raises(ssl.SSLCertVerificationError, match="match"):
        shake_hands(ours, theirs, "other.example.com")


def test_another_authority_convinces_nobody(tmp_path: Path) -> None:
    pair = Authority(NOW_S).server_pair(["localhost"])
    ours, theirs = contexts(tmp_path, Authority(NOW_S), pair)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(ours, theirs, "localhost")


def test_a_client_shows_who_it_is(tmp_path: Path) -> None:
    authority = Authority(NOW_S)
    client = client_pair(authority, "jane", ["system:masters"])
    ours, theirs = contexts(tmp_path, authority, authority.server_pair(["localhost"]), client)
    shown = shake_hands(ours, theirs, "localhost").getpeercert()
    assert shown is not None
    assert shown["subject"] == (
        (("organizationName", "system:masters"),),
        (("commonName", "jane"),),
    )


def test_a_client_certificate_is_none_for_a_server(tmp_path: Path) -> None:
    authority = Authority(NOW_S)
    ours, theirs = contexts(tmp_path, authority, client_pair(authority, "localhost"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(ours, theirs, "localhost")
