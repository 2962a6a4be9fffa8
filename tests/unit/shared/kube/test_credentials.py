"""The Authorization header and when it is made anew."""

import asyncio
from pathlib import Path

import pytest

from shared.errors import ConfigurationError
from shared.kube.api_errors import ConnectFailed
from shared.kube.credentials import TOKEN_FILE_REREAD_S, Credentials


def renewed(credentials: Credentials, now_s: float) -> bool:
    return asyncio.run(credentials.renew(credentials.serial, now_s))


def test_no_credentials_make_no_header() -> None:
    credentials = Credentials()
    assert credentials.header_line(0.0) == b""
    assert not renewed(credentials, 0.0)


def test_a_token_and_a_password_make_a_header() -> None:
    assert Credentials(token="abc").header_line(0.0) == b"Authorization: Bearer abc\r\n"
    basic = Credentials(username="u", password="p")
    assert basic.header_line(0.0) == b"Authorization: Basic dTpw\r\n"


def test_a_token_file_is_read_again_when_due(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credentials = Credentials(token_file=file)
    assert credentials.header_line(10.0) == b"Authorization: Bearer one\r\n"
    file.write_text("two")
    assert b"one" in credentials.header_line(10.0 + TOKEN_FILE_REREAD_S - 1)
    assert b"two" in credentials.header_line(10.0 + TOKEN_FILE_REREAD_S)


def test_a_refusal_makes_it_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = Credentials(token_file=file)
    credentials.header_line(0.0)
    assert not renewed(credentials, 1.0)
    file.write_text("two")
    assert renewed(credentials, 1.0)
    assert b"two" in credentials.header_line(1.0)


def test_a_file_that_vanishes_leaves_the_last_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = Credentials(token_file=file)
    credentials.header_line(0.0)
    file.unlink()
    assert b"one" in credentials.header_line(TOKEN_FILE_REREAD_S)


@pytest.mark.parametrize("content", [b"", b"two\nlines", b"with a blank", b"\xff"])
def test_a_file_that_holds_no_token_leaves_the_last_one(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = Credentials(token_file=file)
    credentials.header_line(0.0)
    file.write_bytes(content)
    assert b"one" in credentials.header_line(TOKEN_FILE_REREAD_S)
    assert not renewed(credentials, TOKEN_FILE_REREAD_S)
    file.write_text("two")
    assert b"two" in credentials.header_line(2 * TOKEN_FILE_REREAD_S)


@pytest.mark.parametrize("content", [None, "", "two\nlines"])
def test_without_a_token_yet_the_file_is_named_and_read_with_the_next_request(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    credentials = Credentials(token_file=file)
    for _ in range(2):
        with pytest.raises(ConnectFailed, match=str(file)):
            credentials.header_line(0.0)
    file.write_text("one")
    assert b"one" in credentials.header_line(0.0)


@pytest.mark.parametrize("token", ["a b", "a\r\nX-Evil: 1", "\N{SNOWMAN}"])
def test_a_token_cannot_smuggle_in_a_header(token: str) -> None:
    with pytest.raises(ConfigurationError, match="not a bearer token"):
        Credentials(token=token)
