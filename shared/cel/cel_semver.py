"""Versions as blang/semver v4 reads them, which upstream uses, with its words where a text is none."""

import re
from typing import Final

from shared.cel.cel_values import UINT_MAX, CelError, Semver
from shared.limits import CEL_ERROR_LETTERS_MAX
from shared.shown import quoted

_DIGITS_MAX: Final = 20
"""Of UINT_MAX. Python refuses to read more than 4,300."""
_DECIMALS: Final = frozenset("0123456789")
_DIGITS: Final = re.compile("[0-9]*", re.ASCII)
_ALPHANUM: Final = re.compile("[0-9A-Za-z-]*", re.ASCII)


def parse_semver(text: str) -> Semver:
    """The version. Raises CelError for a text that is not strictly one."""
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _semver_number(parts[0], "major"), _semver_number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    rest, dash, pre = rest.partition("-")
    patch = _semver_number(rest, "patch")
    identifiers = tuple(pre.split(".")) if dash else ()
    for each in identifiers:
        if not each:
            raise CelError("Prerelease is empty")
        if _DIGITS.fullmatch(each) is None:
            _check_letters(_ALPHANUM, each, "prerelease")
        else:
            _uint64(each, "Numeric PreRelease version")
    for each in build.split(".") if plus else ():
        if not each:
            raise CelError("Build meta data is empty")
        _check_letters(_ALPHANUM, each, "build meta data")
    return Semver(major, minor, patch, identifiers)


def _semver_number(text: str, name: str) -> int:
    _check_letters(_DIGITS, text, f"{name} number")
    return _uint64(text, f"{name.capitalize()} number")


def _check_letters(allowed: re.Pattern[str], text: str, what: str) -> None:
    if allowed.fullmatch(text) is None:
        raise CelError(f"Invalid character(s) found in {what} {_quoted(text)}")


def _uint64(digits: str, what: str) -> int:
    """As strconv.ParseUint of Go reads it, but for leading zeros."""
    if digits[:1] == "0" and len(digits) > 1:
        raise CelError(f"{what} must not contain leading zeroes {_quoted(digits)}")
    if not digits:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if len(digits) > _DIGITS_MAX or int(digits) > UINT_MAX:
        raise CelError(f'strconv.ParseUint: parsing "{digits}": value out of range')
    return int(digits)


def _quoted(text: str) -> str:
    return quoted(text[:CEL_ERROR_LETTERS_MAX])


def normalized_semver(text: str) -> str:
    """What `semver(x, true)` reads: a leading v, leading zeros and missing parts are forgiven."""
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[i] = bare if bare[:1] in _DECIMALS else "0" + bare
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3])
