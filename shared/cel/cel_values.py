"""CEL's values in Python, what is equal, greater or an error among them, and their members.

CEL type -> Python type: bool, int, double -> bool, int, float; uint -> `Uint`; string, bytes, null ->
str, bytes, None; list -> list; map -> dict; and the types of this module. A runtime error is the
exception `CelError`, whose text is cel-go's.

Rules: google/cel-go common/types; staging/src/k8s.io/apiserver/pkg/cel/{quantity,semver}.go, v1.36;
blang/semver v4.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from shared.errors import OperationalError
from shared.kube.quantity import NANOS_PER_UNIT, ExactQuantity
from shared.limits import CEL_ERROR_LETTERS_MAX

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
_DIGITS_MAX: Final = 20
"""Of UINT_MAX. Python refuses to read more than 4,300."""


class CelError(OperationalError):
    """An expression that could not be evaluated."""

    def __init__(self, text: str) -> None:
        is_long = len(text) > CEL_ERROR_LETTERS_MAX
        super().__init__(f"{text[:CEL_ERROR_LETTERS_MAX]}..." if is_long else text)


class CelCompileError(OperationalError):
    """A text that is no valid expression."""


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class CelQuantity(NamedTuple):
    """kubernetes.Quantity."""

    exact: ExactQuantity
    is_kept_whole: bool = True
    """Without decimal places, as far as it matters to isInteger()."""

    @property
    def nanos(self) -> int:
        return self.exact.nanos

    @property
    def is_integer(self) -> bool:
        """Whether it is a whole number within 64 bits, and kept as one."""
        units, rest = divmod(self.exact.nanos, NANOS_PER_UNIT)
        return self.is_kept_whole and rest == 0 and INT_MIN <= units <= INT_MAX


_DECIMALS: Final = frozenset("0123456789")
_DIGITS: Final = re.compile("[0-9]*", re.ASCII)
_ALPHANUM: Final = re.compile("[0-9A-Za-z-]*", re.ASCII)


class Semver(NamedTuple):
    """kubernetes.Semver, without build metadata, which does not count in comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...]

    def order(self) -> tuple[Any, ...]:
        """Compares as semver.org 2.0.0 says: a pre-release comes first, numbers before words."""
        parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, parts)


class SemverError(CelError):
    """A text that is no version, in the words of the library that upstream reads it with."""


def parse_semver(text: str) -> Semver:
    """The version. Raises SemverError for a text that is not strictly one."""
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise SemverError("No Major.Minor.Patch elements found")
    major, minor = _semver_number(parts[0], "major"), _semver_number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    rest, dash, pre = rest.partition("-")
    patch = _semver_number(rest, "patch")
    identifiers = tuple(pre.split(".")) if dash else ()
    for each in identifiers:
        _check_prerelease(each)
    for each in build.split(".") if plus else ():
        if not each:
            raise SemverError("Build meta data is empty")
        _check_letters(_ALPHANUM, each, "build meta data")
    return Semver(major, minor, patch, identifiers)


def _check_prerelease(text: str) -> None:
    if not text:
        raise SemverError("Prerelease is empty")
    if _DIGITS.fullmatch(text) is None:
        _check_letters(_ALPHANUM, text, "prerelease")
    else:
        _uint64(text, "Numeric PreRelease version")


def _semver_number(text: str, name: str) -> int:
    _check_letters(_DIGITS, text, f"{name} number")
    return _uint64(text, f"{name.capitalize()} number")


def _check_letters(allowed: re.Pattern[str], text: str, what: str) -> None:
    if allowed.fullmatch(text) is None:
        raise SemverError(f"Invalid character(s) found in {what} {_quoted(text)}")


def _uint64(digits: str, what: str) -> int:
    """As strconv.ParseUint of Go reads it, but for leading zeros."""
    if digits[:1] == "0" and len(digits) > 1:
        raise SemverError(f"{what} must not contain leading zeroes {_quoted(digits)}")
    if not digits:
        raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
    if len(digits) > _DIGITS_MAX or int(digits) > UINT_MAX:
        raise SemverError(f'strconv.ParseUint: parsing "{digits}": value out of range')
    return int(digits)


def _quoted(text: str) -> str:
    """As Go's %q, of letters that can be printed."""
    return json.dumps(text, ensure_ascii=False)


def normalized_semver(text: str) -> str:
    """What `semver(x, true)` reads: a leading v, leading zeros and missing parts are forgiven."""
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[i] = bare if bare[:1] in _DECIMALS else "0" + bare
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise SemverError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3])


class Optional(NamedTuple):
    """optional(T)."""

    is_present: bool
    value: Any = None


NONE: Final = Optional(False)


class Type(NamedTuple):
    """What `type()` tells of a value."""

    name: str


class DefaultMap(dict[str, Any]):
    """`device.attributes` and `device.capacity`: an unknown domain reads as an empty map."""

    __slots__ = ()


DEVICE_FIELDS: Final = frozenset({"driver", "attributes", "capacity", "allowMultipleAllocations"})


def device_object(
    driver: str, attributes: DefaultMap, capacity: DefaultMap, *, allow_multiple_allocations: bool
) -> dict[str, Any]:
    """kubernetes.DRADevice, what the variable `device` holds: a map like any other at run time."""
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": allow_multiple_allocations,
    }


class NoOverloadError(CelError):
    """Arguments of types that a function does not take. Who calls it tells its name."""

    def __init__(self) -> None:
        super().__init__("no such overload")


_COMPUTED: Final = frozenset({"int", "uint", "double", "string"})
_COMPARED: Final = _COMPUTED | {"bytes", "bool"}
_OPERANDS: Final[Mapping[str, frozenset[str]]] = {
    "_+_": _COMPUTED | {"bytes", "list"}, "_-_": _COMPUTED, "_*_": _COMPUTED, "_/_": _COMPUTED,
    "_%_": _COMPUTED - {"double"}, "-_": _COMPUTED - {"uint"} | {"bool"},
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _COMPARED), "size": frozenset(),
}  # fmt: skip
"""Operator -> types that have it; where the first operand has not, cel-go names the operator."""
_UNNAMED: Final = frozenset({"_==_", "_!=_", "!_", "@in", "contains", "startsWith", "endsWith",
                             "matches", "find", "findAll"})  # fmt: skip


def overload_error(function: str, values: Sequence[Any]) -> CelError:
    """A function was called with values of types that it does not take: as cel-go tells it."""
    if function in _UNNAMED or type_name(values[0]) in _OPERANDS.get(function, ()):
        return CelError("no such overload")
    if function in _OPERANDS:
        return CelError(f"no such overload: {function}")
    types = ", ".join(map(type_name, values))
    return CelError(f"no such overload: {function}({types})")


def is_number(value: Any) -> bool:
    """Whether it is an int, uint or double."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


_NUMBERS: Final = (int, float)


def is_equal(a: Any, b: Any) -> bool:
    """The operator ==. A version or quantity on its left has an overload for its own kind alone."""
    if _has_no_equality(a, b):
        raise NoOverloadError
    return equals(a, b)


def _has_no_equality(a: Any, b: Any) -> bool:
    return isinstance(a, Semver | CelQuantity) and b is not None and type(a) is not type(b)


def _are_equal_inside(a: Any, b: Any) -> bool:
    """Of the elements of two lists or maps; cel-go takes an error for equal there."""
    return equals(a, b) or _has_no_equality(a, b)


def equals(a: Any, b: Any) -> bool:
    """Whether values are the same: numbers of different types compare by value, anything else of
    different types is not."""
    if type(a) is str or type(a) is bool:
        return type(a) is type(b) and bool(a == b)
    if is_number(a) and is_number(b):
        return bool(a == b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_are_equal_inside, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(k in b and _are_equal_inside(v, b[k]) for k, v in a.items())
    if isinstance(a, CelQuantity) and isinstance(b, CelQuantity):
        return a.nanos == b.nanos
    if isinstance(a, Optional) and isinstance(b, Optional):
        return a.is_present == b.is_present and equals(a.value, b.value)
    return type(a) is type(b) and bool(a == b)


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1 by CEL's order; CelError for types that have none."""
    if not (is_number(a) and is_number(b)) and not (
        type(a) is type(b) and isinstance(a, str | bool | bytes)
    ):
        raise NoOverloadError
    if a != a or b != b:
        raise CelError("NaN values cannot be ordered")
    return int(a > b) - int(a < b)


def checked_int(value: int) -> int:
    """The value, unless it does not fit into 64 bits."""
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


T = TypeVar("T")


def key_of(value: T) -> T:
    """A value as the key of a map; CelError for types that cannot be one."""
    if not isinstance(value, str | bool | int | float):
        raise CelError(f"unsupported key type: {type_name(value)}")
    return value


def type_name(value: Any) -> str:
    """CEL's name of a value's type."""
    return _TYPE_NAMES.get(type(value), type(value).__name__)


_TYPE_NAMES: Final[Mapping[type, str]] = {
    type(None): "null_type", bool: "bool", Uint: "uint", int: "int", float: "double", str: "string",
    bytes: "bytes", list: "list", dict: "map", DefaultMap: "map", CelQuantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver", Optional: "optional_type", Type: "type",
}  # fmt: skip
TYPES: Final[Mapping[str, Type]] = {
    name: Type(name) for name in _TYPE_NAMES.values() if "." not in name
}
"""By the names under which an expression may compare them."""
_KEYS: Final = (str, int, float)
"""Types of what can be looked up in a map."""
_MISSING: Final = object()


def member(value: Any, key: Any) -> Any:
    """value.key or value[key]."""
    if isinstance(value, dict):
        found = value.get(key, _MISSING) if isinstance(key, _KEYS) else _MISSING
        if found is not _MISSING:
            return found
        if isinstance(value, DefaultMap):
            return {}
        raise CelError(f"no such key: {_shown(key)}")
    if isinstance(value, list):
        return _element(value, key)
    if isinstance(value, Optional):
        return optional_member(value, key)
    raise CelError(f"no such key: {_shown(key)}")


def _element(values: list[Any], index: Any) -> Any:
    if isinstance(index, bool) or not isinstance(index, int | float) or index % 1 != 0:
        # The rest of NaN and of infinity is NaN.
        raise CelError(f"unsupported index type '{type_name(index)}' in list")
    if not 0 <= index < len(values):
        raise CelError(f"index out of bounds: {int(index)}")
    return values[int(index)]


def optional_member(value: Any, key: Any) -> Optional:
    """value.?key or value[?key]."""
    if isinstance(value, Optional):
        if not value.is_present:
            return NONE
        value = value.value
    if isinstance(value, list) and isinstance(key, int) and not 0 <= key < len(value):
        return NONE
    if isinstance(value, list | DefaultMap):
        return Optional(True, member(value, key))
    is_there = isinstance(value, dict) and isinstance(key, _KEYS) and key in value
    return Optional(True, value[key]) if is_there else NONE


def as_optional(value: Any) -> Optional:
    """The same, if it is one."""
    if not isinstance(value, Optional):
        raise NoOverloadError
    return value


def _shown(key: Any) -> str:
    if isinstance(key, _KEYS):
        return str(key).lower() if isinstance(key, bool) else str(key)
    return type_name(key)
