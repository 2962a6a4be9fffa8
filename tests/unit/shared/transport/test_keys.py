"""Key files: what is written can be read, what cannot be used is refused with the remedy."""

from pathlib import Path

import pytest

from shared.errors import ConfigurationError
from shared.transport.remote import read_key_pair, read_public_key, read_public_keys, write_keys


def test_the_two_files_of_a_pair_belong_together_and_the_secret_is_its_users_alone(
    tmp_path: Path,
) -> None:
    secret, public = write_keys(tmp_path, "worker-1")
    assert secret.stat().st_mode & 0o777 == 0o600
    pair = read_key_pair(secret)
    assert read_public_key(public) == pair.public
    assert pair.secret != pair.public
    assert pair.secret.hex() not in public.read_text()


def test_a_pair_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    secret, public = write_keys(tmp_path, "w")
    before = secret.read_text()
    with pytest.raises(ConfigurationError, match="is there already"):
        write_keys(tmp_path, "w")
    public.unlink()
    with pytest.raises(ConfigurationError, match=r"w\.key: is there already"):
        write_keys(tmp_path, "w")
    assert secret.read_text() == before


@pytest.mark.parametrize("name", ["", "a/b", "a b", "-a", "a" * 64])
def test_names_that_are_no_file_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="must be letters"):
        write_keys(tmp_path, name)


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    secret, _ = write_keys(tmp_path, "w")
    secret.chmod(0o440)  # As Kubernetes hands secrets to containers.
    read_key_pair(secret)
    secret.chmod(0o604)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_key_pair(secret)


def test_a_list_of_allowed_keys_is_public_files_one_after_the_other(tmp_path: Path) -> None:
    publics = [write_keys(tmp_path, name)[1] for name in ("a", "b")]
    allowed = tmp_path / "allowed"
    allowed.write_text("# rack 1\n\n" + "".join(path.read_text() for path in publics))
    keys = read_public_keys(allowed)
    assert list(keys.values()) == ["a", "b"]
    assert list(keys) == [read_public_key(path) for path in publics]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("berth-public-key zz w\n", "line 1: the key is not 64 hex digits"),
        ("\nberth-public-key 00 w\n", "line 2: the key is not 64 hex digits"),
        ("ssh-ed25519 AAAA\n", "line 1: write berth-public-key HEX NAME"),
        ("", "has 0 public keys, one is expected"),
        ("Schlüssel\n", "is no key file"),
    ],
)
def test_what_is_no_public_key_is_refused_by_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "w.pub"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=problem):
        read_public_key(path)


def test_a_public_key_in_place_of_a_secret_one_is_refused(tmp_path: Path) -> None:
    _, public = write_keys(tmp_path, "w")
    public.chmod(0o600)
    with pytest.raises(ConfigurationError, match="is no secret key"):
        read_key_pair(public)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"w\.key: cannot be read"):
        read_key_pair(tmp_path / "w.key")
