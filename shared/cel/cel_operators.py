"""CEL's operators that evaluate all of their operands, and conversions of types.

Rules: google/cel-go common/types, v0.26.
"""

import contextlib
import math
import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from shared.cel.cel_values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    CelError,
    CelQuantity,
    NoOverloadError,
    Optional,
    Semver,
    Uint,
)

Function = Callable[..., Any]


def typed(function: Function, *types: type | tuple[type, ...]) -> Function:
    """The function for arguments of these types only; others have no overload."""

    def checked(*values: Any) -> Any:
        for value, kind in zip(values, types, strict=True):
            if not isinstance(value, kind) or (kind is int and type(value) is not int):
                raise NoOverloadError
        return function(*values)

    return checked


def _arithmetic(operation: Function) -> Function:
    """The operation on two numbers of one type, whose result must be one of it."""

    def compute(a: Any, b: Any) -> Any:
        if type(a) is not type(b) or not is_number(a):
            raise NoOverloadError
        return _bounded(a, operation(a, b))

    return compute


def add(a: Any, b: Any) -> Any:
    """The operator +."""
    if type(a) is type(b) and isinstance(a, str | bytes | list):
        return a + b
    return _add_numbers(a, b)


_add_numbers: Final = _arithmetic(operator.add)


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        if b:
            return a / b
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
    if b == 0:
        raise CelError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _modulo(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        raise NoOverloadError
    if b == 0:
        raise CelError("modulus by zero")
    if (a, b) == (INT_MIN, -1):
        raise CelError("integer overflow")
    rest = abs(a) % abs(b)
    return rest if a >= 0 else -rest


def _negate(a: Any) -> Any:
    if not is_number(a) or isinstance(a, Uint):
        raise NoOverloadError
    return _bounded(a, -a)


def _bounded(like: Any, value: Any) -> Any:
    if isinstance(like, float):
        return value
    if isinstance(like, Uint):
        if not 0 <= value <= UINT_MAX:
            raise CelError("unsigned integer overflow")
        return Uint(value)
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def contains(element: Any, container: Any) -> bool:
    """The operator in."""
    if isinstance(container, list):
        return any(equals(element, each) for each in container)
    if isinstance(container, dict):
        return isinstance(element, str | int | float) and element in container
    raise NoOverloadError


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
        return bool(operator.eq(*_alike(a, b)))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_are_equal_inside, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(k in b and _are_equal_inside(v, b[k]) for k, v in a.items())
    if isinstance(a, CelQuantity) and isinstance(b, CelQuantity):
        return a.nanos == b.nanos
    if isinstance(a, Optional) and isinstance(b, Optional):
        return a.is_present == b.is_present and equals(a.value, b.value)
    return type(a) is type(b) and bool(a == b)


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    """A whole number that is compared with a double becomes one."""
    return (float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else (a, b)


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1 by CEL's order; CelError for types that have none. NaN has none with anything."""
    if isinstance(a, float) and math.isnan(a):
        raise CelError("NaN values cannot be ordered")
    if not (is_number(a) and is_number(b)) and not (
        type(a) is type(b) and isinstance(a, str | bool | bytes)
    ):
        raise NoOverloadError
    if b != b:
        raise CelError("NaN values cannot be ordered")
    a, b = _alike(a, b)
    return int(a > b) - int(a < b)


# Conversions ----------------------------------------------------------------------------------------


_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,20})", re.ASCII)
_FLOAT: Final = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|(?P<named>[+-]?inf(inity)?|nan)",
    re.ASCII | re.IGNORECASE,
)
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0x([0-9a-f]+(\.[0-9a-f]*)?|\.[0-9a-f]+)p[+-]?[0-9]+", re.ASCII | re.IGNORECASE
)
_BETWEEN_DIGITS: Final = re.compile(r"(?<=[0-9])_(?=[0-9])", re.ASCII)
_BETWEEN_HEX_DIGITS: Final = re.compile(
    r"(?<=[0-9a-f])_(?=[0-9a-f])|(?<=0x)_(?=[0-9a-f])", re.ASCII | re.IGNORECASE
)
"""An underscore may stand there in a number (underscoreOK in Go's strconv)."""


def _read(text: str) -> int | None:
    """Python refuses to read more than 4,300 digits, leading zeros included."""
    found = _INTEGER.fullmatch(text)
    return None if found is None else int(found[1] + found[2])


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        number = _read(value)
        if number is None or not INT_MIN <= number <= INT_MAX:
            raise CelError("type conversion error from 'string' to 'int'")
        return number
    if not is_number(value):
        raise NoOverloadError
    if isinstance(value, float) and not INT_MIN < value < INT_MAX:  # Nor is NaN.
        raise CelError("integer overflow")
    return int(_bounded(0, int(value)))


def _to_uint(value: Any) -> Uint:
    if isinstance(value, str):
        number = _read(value)
        if number is None or value[0] in "+-" or number > UINT_MAX:
            raise CelError("type conversion error from 'string' to 'uint'")
        return Uint(number)
    if not is_number(value):
        raise NoOverloadError
    if not 0 <= value <= UINT_MAX:  # Nor is NaN.
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _to_double(value: Any) -> float:
    if is_number(value):
        return float(value)
    if not isinstance(value, str):
        raise NoOverloadError
    hexadecimal = _BETWEEN_HEX_DIGITS.sub("", value)
    if _HEX_FLOAT.fullmatch(hexadecimal):
        with contextlib.suppress(OverflowError):
            return float.fromhex(hexadecimal)
    value = _BETWEEN_DIGITS.sub("", value)
    found = _FLOAT.fullmatch(value)
    if found is not None and (found["named"] or math.isfinite(float(value))):
        return float(value)
    raise CelError("type conversion error from 'string' to 'double'")


def _to_string(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(int(value))
        case float():
            return _shown_float(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError as error:
                raise CelError("invalid UTF-8 in bytes, cannot convert to string") from error
        case _:
            raise NoOverloadError


def _shown_float(value: float) -> str:
    """As Go's %g: the fewest digits that mean the number, with an exponent below 1e-4 and from 1e6."""
    if not math.isfinite(value):
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    number = Decimal(repr(value)).normalize()
    if not value or -4 <= number.adjusted() < 6:
        return f"{number:f}"
    digits, exponent = f"{number:e}".split("e")
    return f"{digits}e{exponent[0]}{exponent[1:]:0>2}"


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise NoOverloadError
    if value in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise CelError("type conversion error from 'string' to 'bool'")


def contains_constant(element: Any, constants: Any) -> bool:
    """`in` with a list of plain constants, which cel-go looks up by hash; some types have none."""
    unhashable = {Semver: "cel.Semver", bytes: "types.Bytes"}.get(type(element))
    if unhashable:
        raise CelError(f"internal error: runtime error: hash of unhashable type {unhashable}")
    return contains(element, constants)


OPERATORS: Final[Mapping[tuple[str, int], Function]] = {
    ("_+_", 2): add,
    ("_-_", 2): _arithmetic(operator.sub),
    ("_*_", 2): _arithmetic(operator.mul),
    ("_/_", 2): _arithmetic(_divide),
    ("_%_", 2): _arithmetic(_modulo),
    ("-_", 1): _negate,
    ("!_", 1): typed(operator.not_, bool),
    ("_==_", 2): is_equal,
    ("_!=_", 2): lambda a, b: not equals(a, b),
    ("_<_", 2): lambda a, b: compare(a, b) < 0,
    ("_<=_", 2): lambda a, b: compare(a, b) <= 0,
    ("_>_", 2): lambda a, b: compare(a, b) > 0,
    ("_>=_", 2): lambda a, b: compare(a, b) >= 0,
    ("@in", 2): contains,
    ("int", 1): _to_int,
    ("uint", 1): _to_uint,
    ("double", 1): _to_double,
    ("string", 1): _to_string,
    ("bool", 1): _to_bool,
    ("bytes", 1): typed(lambda v: v.encode() if isinstance(v, str) else v, (str, bytes)),
}
"""By name and count of operands."""
