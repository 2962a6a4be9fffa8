"""CEL's values in Python, an error among them, and their members.

CEL type -> Python type: bool, int, double -> bool, int, float; uint -> `Uint`; string, bytes, null ->
str, bytes, None; list -> list; map -> dict; and the types of this module. A runtime error is the
exception `CelError`, whose text is cel-go's.

Rules: google/cel-go common/types; staging/src/k8s.io/apiserver/pkg/cel/{quantity,semver}.go, v1.36.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shared.errors import OperationalError
from shared.kube.quantity import NANOS_PER_UNIT, ExactQuantity
from shared.limits import CEL_ERROR_LETTERS_MAX

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


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
    exponent: int = 0
    """It is kept as an integer times this power of ten."""

    @property
    def nanos(self) -> int:
        return self.exact.nanos

    @property
    def is_integer(self) -> bool:
        """Whether it is a whole number within 64 bits, and kept as one."""
        units, rest = divmod(self.exact.nanos, NANOS_PER_UNIT)
        return self.exponent >= 0 and rest == 0 and INT_MIN <= units <= INT_MAX


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


DEVICE: Final = "device"
"""The variable that a selector is about."""
DEVICE_FIELDS: Final = frozenset({"driver", "attributes", "capacity", "allowMultipleAllocations"})
"""Of kubernetes.DRADevice, which it holds: a map like any other at run time."""


class NoOverloadError(CelError):
    """Arguments of types that a function does not take. Who calls it tells its name."""

    def __init__(self) -> None:
        super().__init__("no such overload")


def key_of(value: Any) -> Any:
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


def member(value: Any, key: Any) -> Any:
    """value.key or value[key]."""
    if isinstance(value, dict):
        if isinstance(key, _KEYS) and key in value:
            return value[key]
        if isinstance(value, DefaultMap):
            return {}
    elif isinstance(value, list):
        return _element(value, key)
    elif isinstance(value, Optional):
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
    is_index = isinstance(key, int | float) and key % 1 == 0
    if isinstance(value, list) and is_index and not 0 <= key < len(value):
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
