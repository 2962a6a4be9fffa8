"""Key files of workers on other hosts: who the owner is, and who may work for it.

CURVE keys are 32 bytes each. A secret key has a file of its own that only its user reads; a public key
is a line that may be copied, mailed, and put with others into the owner's list of allowed workers. Hex,
not ZeroMQ's Z85, because Z85 is full of characters that shells and YAML have plans for.
"""

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

import zmq
from zmq.utils import z85

from shared.errors import ConfigurationError

KEY_BYTES: Final = 32
SECRET_WORD: Final = "berth-secret-key"  # noqa: S105 # It stands before the secret.
PUBLIC_WORD: Final = "berth-public-key"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_OTHERS: Final = 0o007
"""A group may read a secret: that is how Kubernetes hands one to a container that is not root."""


class KeyPair(NamedTuple):
    """Raw, as ZeroMQ takes them."""

    public: bytes
    secret: bytes


def require_curve() -> None:
    """ConfigurationError where ZeroMQ was built without encryption."""
    if not zmq.has("curve"):
        problem = "was built without CURVE; install pyzmq from its wheel, which has it"
        raise ConfigurationError("libzmq", [problem])


def write_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """A new pair as NAME.key (mode 0600) and NAME.pub. Never writes over a file that is there."""
    require_curve()
    if not NAME.fullmatch(name):
        problem = "must be letters, digits, dots, dashes and underscores, 63 at most"
        raise ConfigurationError(f"key name {name!r}", [problem])
    secret_path, public_path = folder / f"{name}.key", folder / f"{name}.pub"
    if public_path.exists():
        problem = "is there already; remove it with its key, or choose another name"
        raise ConfigurationError(str(public_path), [problem])
    public, secret = (z85.decode(key) for key in zmq.curve_keypair())
    _write_new(secret_path, f"{SECRET_WORD} {secret.hex()}\n", 0o600)
    _write_new(public_path, f"{PUBLIC_WORD} {public.hex()} {name}\n", 0o644)
    return secret_path, public_path


def read_key_pair(path: Path) -> KeyPair:
    """Of a NAME.key file; ConfigurationError if it is none, or if everybody may read it."""
    require_curve()
    text = _read(path)
    if path.stat().st_mode & _OTHERS:
        raise ConfigurationError(str(path), [f"others may read it; run: chmod 600 {path}"])
    lines = _lines(text)
    if len(lines) != 1 or len(lines[0][1]) != 2 or lines[0][1][0] != SECRET_WORD:
        problem = f"is no secret key: one line, {SECRET_WORD} HEX; berth keys makes one"
        raise ConfigurationError(str(path), [problem])
    secret = _key(path, *lines[0])
    return KeyPair(z85.decode(zmq.curve_public(z85.encode(secret))), secret)


def read_public_key(path: Path) -> bytes:
    """Of a NAME.pub file."""
    keys = list(read_public_keys(path))
    if len(keys) != 1:
        raise ConfigurationError(str(path), [f"has {len(keys)} public keys, one is expected"])
    return keys[0]


def read_public_keys(path: Path) -> dict[bytes, str]:
    """Key -> name of the worker that has it: any number of NAME.pub files, one after the other."""
    found: dict[bytes, str] = {}
    for number, words in _lines(_read(path)):
        if len(words) not in (2, 3) or words[0] != PUBLIC_WORD:
            problem = f"line {number}: write {PUBLIC_WORD} HEX NAME, as in a .pub file"
            raise ConfigurationError(str(path), [problem])
        found[_key(path, number, words)] = words[2] if len(words) == 3 else f"line {number}"
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), ["is no key file of berth"]) from error


def _lines(text: str) -> list[tuple[int, list[str]]]:
    numbered = ((number, line.split()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, words) for number, words in numbered if words and words[0][0] != "#"]


def _key(path: Path, number: int, words: list[str]) -> bytes:
    try:
        key = bytes.fromhex(words[1])
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        problem = f"line {number}: the key is not {2 * KEY_BYTES} hex digits"
        raise ConfigurationError(str(path), [problem])
    return key


def _write_new(path: Path, text: str, mode: int) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError as error:
        problem = "is there already; a key that is in use is not written over"
        raise ConfigurationError(str(path), [problem]) from error
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be made: {error.strerror}"]) from error
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(text)
