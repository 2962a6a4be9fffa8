"""What endpoints speak: Go's names for it, in OpenSSL's."""

import errno
import ssl
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from daemon.endpoints.tls import CIPHER_SUITES, is_spoken, pair_files, server_context
from shared.certificates import Authority, CertificatePair
from shared.runtime_options import EndpointOptions

_FOLDER = Path(__file__).parents[2] / "shared" / "kube" / "tls"
PAIR = (str(_FOLDER / "cert.pem"), str(_FOLDER / "key.pem"))


@pytest.mark.parametrize(
    ("suites", "of_tls_12"),
    [
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", ["AES128-GCM-SHA256"]),
        (
            "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            ["ECDHE-RSA-AES256-GCM-SHA384"],
        ),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", ["ECDHE-RSA-CHACHA20-POLY1305"]),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", ["ECDHE-ECDSA-AES128-SHA"]),
    ],
)
def test_suites_of_tls_12_are_those_that_are_named(suites: str, of_tls_12: list[str]) -> None:
    context = server_context(EndpointOptions(tls_cipher_suites=tuple(suites.split(","))), PAIR)
    found = [str(each["name"]) for each in context.get_ciphers()]
    assert [name for name in found if not name.startswith("TLS_")] == of_tls_12
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_with_suites_of_tls_13_alone_nothing_older_is_spoken() -> None:
    options = EndpointOptions(
        tls_cipher_suites=("TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
    )
    assert server_context(options, PAIR).minimum_version is ssl.TLSVersion.TLSv1_3


def test_with_suites_that_openssl_lacks_alone_tls_13_is_spoken() -> None:
    options = EndpointOptions(tls_cipher_suites=("TLS_RSA_WITH_RC4_128_SHA",))
    assert server_context(options, PAIR).minimum_version is ssl.TLSVersion.TLSv1_3


def test_openssl_has_all_of_gos_suites_that_are_in_use() -> None:
    assert len(CIPHER_SUITES) == 27
    lacking = {name for name in CIPHER_SUITES if not is_spoken(name)}
    assert {name for name in lacking if "RC4" not in name and "3DES" not in name} == set()


def test_older_versions_may_be_asked_for_and_are_not_spoken() -> None:
    for version in ("VersionTLS10", "VersionTLS11"):
        context = server_context(EndpointOptions(tls_min_version=version), PAIR)
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_certificate_is_made_by_a_process_that_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_here: list[Sequence[str]] = []
    make = Authority.server_pair

    def noted(authority: Authority, hosts: Sequence[str]) -> CertificatePair:
        made_here.append(hosts)
        return make(authority, hosts)

    monkeypatch.setattr(Authority, "server_pair", noted)
    before = psutil.Process().children()
    pair = pair_files(EndpointOptions(bind_address="127.0.0.1"), tmp_path)
    server_context(EndpointOptions(), pair)
    assert not made_here
    assert Path(pair[1]).stat().st_mode & 0o777 == 0o600
    assert psutil.Process().children() == before


def test_what_keeps_a_certificate_from_being_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder is to be")
    options = EndpointOptions(cert_dir=str(tmp_path / "taken" / "folder"))
    with pytest.raises(OSError, match="no certificate was made: Not a directory") as refused:
        pair_files(options, tmp_path)
    assert refused.value.errno == errno.ENOTDIR


def test_a_fault_of_ours_in_its_making_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("a name that is none")

    monkeypatch.setattr(Authority, "server_pair", fails)
    with pytest.raises(OSError, match="no certificate was made: Input/output error"):
        pair_files(EndpointOptions(), tmp_path)
