"""CEL's functions, as the environment of Kubernetes' device selectors offers them.

Each takes Python values (see `cel_values`), the target of a method first, and raises `CelError` with
cel-go's text. What cannot occur in a device selector is not here: durations, timestamps and
authorisation; an expression that uses it does not compile and says so.

Rules: google/cel-go ext/{strings,sets}.go, staging/src/k8s.io/apiserver/pkg/cel/library/{lists,
quantity,regex,semverlib}.go, v1.36.
"""

import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import re2

from shared.cel.cel_values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    CelError,
    CelQuantity,
    NoOverloadError,
    Optional,
    Semver,
    Type,
    Uint,
    checked_int,
    compare,
    equals,
    is_equal,
    is_number,
    normalized_semver,
    parse_semver,
    type_name,
)
from shared.kube import quantity as quantities
from shared.kube.quantity import NANOS_PER_UNIT, ExactQuantity, QuantityError
from shared.limits import CEL_PATTERNS_MAX

Function = Callable[..., Any]


def _typed(function: Function, *types: type | tuple[type, ...]) -> Function:
    """The function for arguments of these types only; others have no overload."""

    def checked(*values: Any) -> Any:
        for value, kind in zip(values, types, strict=True):
            if not isinstance(value, kind) or (kind is int and type(value) is not int):
                raise NoOverloadError
        return function(*values)

    return checked


# Operators ------------------------------------------------------------------------------------------


def _arithmetic(operation: Function) -> Function:
    """The operation on two numbers of one type, whose result must be one of it."""

    def compute(a: Any, b: Any) -> Any:
        if type(a) is not type(b) or not is_number(a):
            raise NoOverloadError
        return _bounded(a, operation(a, b))

    return compute


def _add(a: Any, b: Any) -> Any:
    if type(a) is type(b) and isinstance(a, str | bytes | list):
        return a + b
    return _add_numbers(a, b)


_add_numbers: Final = _arithmetic(operator.add)


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return _divide_floats(a, b)
    if b == 0:
        raise CelError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _divide_floats(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)


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
    return checked_int(value)


def _not(a: Any) -> bool:
    if not isinstance(a, bool):
        raise NoOverloadError
    return not a


def _contains(element: Any, container: Any) -> bool:
    if isinstance(container, list):
        return any(equals(element, each) for each in container)
    if isinstance(container, dict):
        return isinstance(element, str | int | float) and element in container
    raise NoOverloadError


# Conversions ----------------------------------------------------------------------------------------


_INTEGER: Final = re.compile(r"[+-]?0*([0-9]{1,20})", re.ASCII)
_FLOAT: Final = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|(?P<named>[+-]?inf(inity)?|nan)",
    re.ASCII | re.IGNORECASE,
)


def _to_int(value: Any) -> int:
    if isinstance(value, float):
        return checked_int(int(value)) if math.isfinite(value) else checked_int(INT_MAX + 1)
    if isinstance(value, int) and not isinstance(value, bool):
        return checked_int(int(value))
    if not isinstance(value, str):
        raise NoOverloadError
    if _INTEGER.fullmatch(value) is None or not INT_MIN <= int(value) <= INT_MAX:
        raise CelError("type conversion error from 'string' to 'int'")
    return int(value)


def _to_uint(value: Any) -> Uint:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise NoOverloadError
    if isinstance(value, str):
        if _INTEGER.fullmatch(value) is None or value[0] in "+-" or int(value) > UINT_MAX:
            raise CelError("type conversion error from 'string' to 'uint'")
        return Uint(value)
    if not 0 <= value <= UINT_MAX:  # Nor is NaN.
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _to_double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise NoOverloadError
    if not isinstance(value, str):
        return float(value)
    found = _FLOAT.fullmatch(value)
    number = math.nan if found is None else float(value)
    if found is None or (math.isinf(number) and not found["named"]):
        raise CelError("type conversion error from 'string' to 'double'")
    return number


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


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise NoOverloadError


def _size(value: Any) -> int:
    if not isinstance(value, str | bytes | list | dict):
        raise NoOverloadError
    return len(value)


# Strings --------------------------------------------------------------------------------------------


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise CelError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if part == "":
        return start
    if start < 0:
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, end: int | None = None) -> int:
    last = len(text) if end is None else end
    if part == "":
        return last
    if last < 0:
        raise CelError(f"index out of range: {end}")
    if end is not None and end >= len(text):
        return -1
    return text.rfind(part, 0, last + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = max(start, len(text))
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise CelError(f"index out of range: {index}")
    return text[start:end]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if separator == "":
        parts = list(text)
        if 0 < limit < len(parts):
            parts = [*parts[: limit - 1], "".join(parts[limit - 1 :])]
        return parts
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _join(parts: list[Any], separator: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise NoOverloadError
    return separator.join(parts)


_WHITE: Final = (
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


# Regular expressions ----------------------------------------------------------------------------------

STEPS_KEPT: Final = 50_000
"""A text of 64 characters, which is the longest attribute, and a program of 780 instructions: the states
are kept, take 4 bytes an instruction, and the next search costs a ns for each character."""
STEPS_OF_A_UNIT: Final = 10
_NO_GO: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\(?P<letter>.)|.", re.DOTALL)
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False


@functools.lru_cache(maxsize=CEL_PATTERNS_MAX)
def _regex(pattern: str) -> Any:
    """RE2 is linear in the text; Python's own `re` would let `(a+)+$` stop the scheduler for minutes.
    Bytes, because indices of characters would have to be counted out for each match."""
    if any(token["letter"] == "C" for token in _NO_GO.finditer(pattern)):
        # A byte, perhaps in the middle of a character; Go's RE2 does not have it.
        raise CelError("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        return re2.compile(pattern.encode(), _OPTIONS)
    except re2.error as error:
        (told,) = error.args
        text = told.decode(errors="replace") if isinstance(told, bytes) else told
        raise CelError(f"error parsing regexp: {text}") from error


def regex_work(text: Any, pattern: Any, *_: Any) -> int:
    """What a search may take beyond what Kubernetes' estimator counts, in units of it: where RE2 cannot
    keep the states that it comes to, it needs up to 60 ns for each character and instruction."""
    if not isinstance(text, str) or not isinstance(pattern, str):
        return 0
    steps: int = len(text) * _regex(pattern).programsize
    return max(0, steps - STEPS_KEPT) // STEPS_OF_A_UNIT


def _matches(text: str, pattern: str) -> bool:
    return _regex(pattern).search(text.encode()) is not None


def _find(text: str, pattern: str) -> str:
    return next(iter(_found(text, pattern)), "")


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return list(itertools.islice(_found(text, pattern), limit if limit >= 0 else None))


def _found(text: str, pattern: str) -> Iterator[str]:
    """Matches from left to right that do not overlap. One of nothing does not count where the one
    before it ends (FindAll in Go's regexp)."""
    regex, content = _regex(pattern), text.encode()
    at, last_end = 0, -1
    while at <= len(content):
        match = regex.search(content, at)
        if match is None:
            return
        start, end = match.span()
        if end > start or start != last_end:
            yield content[start:end].decode()
        last_end = end
        at = end if end > start else end + _character_bytes(content, end)


def _character_bytes(content: bytes, at: int) -> int:
    return (
        1
        if at >= len(content)
        else 1 + (content[at] >= 0xC0) + (content[at] >= 0xE0) + (content[at] >= 0xF0)
    )


# Lists and sets -------------------------------------------------------------------------------------


def _is_sorted(values: list[Any]) -> bool:
    return all(compare(a, b) <= 0 for a, b in itertools.pairwise(values))


def _sum(values: list[Any]) -> Any:
    if not all(map(is_number, values)):
        raise NoOverloadError
    return functools.reduce(_add, values) if values else 0


def _extreme(values: list[Any], sign: int, name: str) -> Any:
    if not values:
        raise CelError(f"{name} called on empty list")
    best = values[0]
    for value in values[1:]:
        if compare(value, best) * sign > 0:
            best = value
    return best


def _place_in(target: Any, wanted: Any, *, is_last: bool) -> int:
    """indexOf and lastIndexOf, of lists as of texts."""
    if isinstance(target, str) and isinstance(wanted, str):
        return _last_index_of(target, wanted) if is_last else _index_of(target, wanted)
    if not isinstance(target, list):
        raise NoOverloadError
    places = (i for i, value in enumerate(target) if equals(value, wanted))
    return max(places, default=-1) if is_last else next(places, -1)


def _set_contains(values: list[Any], wanted: list[Any]) -> bool:
    return all(_contains(each, values) for each in wanted)


def _set_intersects(a: list[Any], b: list[Any]) -> bool:
    return any(_contains(each, b) for each in a)


def _set_equivalent(a: list[Any], b: list[Any]) -> bool:
    return _set_contains(a, b) and _set_contains(b, a)


# Quantities and versions ------------------------------------------------------------------------------


def _quantity(text: str) -> CelQuantity:
    try:
        return CelQuantity(quantities.parse(text), quantities.is_kept_whole(text))
    except QuantityError as error:
        raise CelError(error.in_brief or f"error parsing quantity: {error}") from error


def _is_readable(read: Function, *values: Any) -> bool:
    """isQuantity and isSemver."""
    try:
        read(*values)
    except CelError:
        return False
    return True


def _as_integer(value: CelQuantity) -> int:
    if not value.is_integer:
        raise CelError("cannot convert value to integer")
    return value.nanos // NANOS_PER_UNIT


def _as_approximate_float(value: CelQuantity) -> float:
    try:
        return value.nanos / NANOS_PER_UNIT
    except OverflowError:
        return math.inf if value.nanos > 0 else -math.inf


def _semver(text: str, is_normalized: bool = False) -> Semver:  # As CEL has it.
    return parse_semver(normalized_semver(text) if is_normalized else text)


def _int64(number: int) -> int:
    """As Go converts an uint64: it wraps around."""
    return number - 2**64 if number > INT_MAX else number


def _order(a: Any, b: Any) -> int:
    """compareTo, of quantities as of versions."""
    if isinstance(a, CelQuantity) and isinstance(b, CelQuantity):
        return (a.nanos > b.nanos) - (a.nanos < b.nanos)
    if isinstance(a, Semver) and isinstance(b, Semver):
        return (a.order() > b.order()) - (a.order() < b.order())
    raise NoOverloadError


def _shifted(a: CelQuantity, b: Any, sign: int) -> CelQuantity:
    if isinstance(b, int) and not isinstance(b, bool):
        b = CelQuantity(ExactQuantity(b * NANOS_PER_UNIT, a.exact.format))
    elif not isinstance(b, CelQuantity):
        raise NoOverloadError
    # The places of what is nothing do not count.
    counting = [each.is_kept_whole for each in (a, b) if each.nanos] or [a.is_kept_whole]
    return CelQuantity(ExactQuantity(a.nanos + sign * b.nanos, a.exact.format), all(counting))


# Optionals ------------------------------------------------------------------------------------------


def _value(a: Optional) -> Any:
    if not a.is_present:
        raise CelError("optional.none() dereference")
    return a.value


_HAVE_ZERO: Final = (type(None), bool, int, float, str, bytes, list, dict)


def _of_non_zero(value: Any) -> Optional:
    is_zero = not value and isinstance(value, _HAVE_ZERO)
    return NONE if is_zero else Optional(True, value)


_METHODS: Final[Mapping[tuple[str, int], Function]] = {
    ("contains", 1): _typed(lambda t, p: p in t, str, str),
    ("startsWith", 1): _typed(str.startswith, str, str),
    ("endsWith", 1): _typed(str.endswith, str, str),
    ("matches", 1): _typed(_matches, str, str),
    ("find", 1): _typed(_find, str, str),
    ("findAll", 1): _typed(_find_all, str, str),
    ("findAll", 2): _typed(_find_all, str, str, int),
    ("size", 0): _size,
    ("charAt", 1): _typed(_char_at, str, int),
    ("indexOf", 1): functools.partial(_place_in, is_last=False),
    ("indexOf", 2): _typed(_index_of, str, str, int),
    ("lastIndexOf", 1): functools.partial(_place_in, is_last=True),
    ("lastIndexOf", 2): _typed(_last_index_of, str, str, int),
    ("lowerAscii", 0): _typed(lambda t: t.translate(_LOWER), str),
    ("upperAscii", 0): _typed(lambda t: t.translate(_UPPER), str),
    ("replace", 2): _typed(str.replace, str, str, str),
    ("replace", 3): _typed(
        lambda t, a, b, limit: t.replace(a, b, max(limit, -1)), str, str, str, int
    ),
    ("split", 1): _typed(_split, str, str),
    ("split", 2): _typed(_split, str, str, int),
    ("substring", 1): _typed(_substring, str, int),
    ("substring", 2): _typed(_substring, str, int, int),
    ("trim", 0): _typed(lambda t: t.strip(_WHITE), str),
    ("reverse", 0): _typed(lambda t: t[::-1], str),
    ("join", 0): _typed(_join, list),
    ("join", 1): _typed(_join, list, str),
    ("isSorted", 0): _typed(_is_sorted, list),
    ("sum", 0): _typed(_sum, list),
    ("min", 0): _typed(lambda v: _extreme(v, -1, "min"), list),
    ("max", 0): _typed(lambda v: _extreme(v, 1, "max"), list),
    ("isGreaterThan", 1): lambda a, b: _order(a, b) > 0,
    ("isLessThan", 1): lambda a, b: _order(a, b) < 0,
    ("compareTo", 1): _order,
    ("isInteger", 0): _typed(lambda q: q.is_integer, CelQuantity),
    ("asInteger", 0): _typed(_as_integer, CelQuantity),
    ("asApproximateFloat", 0): _typed(_as_approximate_float, CelQuantity),
    ("add", 1): lambda a, b: _typed(_shifted, CelQuantity, object, int)(a, b, 1),
    ("sub", 1): lambda a, b: _typed(_shifted, CelQuantity, object, int)(a, b, -1),
    ("major", 0): _typed(lambda v: _int64(v.major), Semver),
    ("minor", 0): _typed(lambda v: _int64(v.minor), Semver),
    ("patch", 0): _typed(lambda v: _int64(v.patch), Semver),
    ("hasValue", 0): _typed(lambda o: o.is_present, Optional),
    ("value", 0): _typed(_value, Optional),
}
_GLOBALS: Final[Mapping[tuple[str, int], Function]] = {
    ("_+_", 2): _add,
    ("_-_", 2): _arithmetic(operator.sub),
    ("_*_", 2): _arithmetic(operator.mul),
    ("_/_", 2): _arithmetic(_divide),
    ("_%_", 2): _arithmetic(_modulo),
    ("-_", 1): _negate,
    ("!_", 1): _not,
    ("_==_", 2): is_equal,
    ("_!=_", 2): lambda a, b: not equals(a, b),
    ("_<_", 2): lambda a, b: compare(a, b) < 0,
    ("_<=_", 2): lambda a, b: compare(a, b) <= 0,
    ("_>_", 2): lambda a, b: compare(a, b) > 0,
    ("_>=_", 2): lambda a, b: compare(a, b) >= 0,
    ("@in", 2): _contains,
    ("size", 1): _size,
    ("int", 1): _to_int,
    ("uint", 1): _to_uint,
    ("double", 1): _to_double,
    ("string", 1): _to_string,
    ("bool", 1): _to_bool,
    ("bytes", 1): _to_bytes,
    ("dyn", 1): lambda value: value,
    ("type", 1): lambda value: Type(type_name(value)),
    ("matches", 2): _typed(_matches, str, str),
    ("quantity", 1): _typed(_quantity, str),
    ("isQuantity", 1): _typed(functools.partial(_is_readable, _quantity), str),
    ("sign", 1): _typed(lambda q: (q.nanos > 0) - (q.nanos < 0), CelQuantity),
    ("semver", 1): _typed(_semver, str),
    ("semver", 2): _typed(_semver, str, bool),
    ("isSemver", 1): _typed(functools.partial(_is_readable, _semver), str),
    ("isSemver", 2): _typed(functools.partial(_is_readable, _semver), str, bool),
    ("sets.contains", 2): _typed(_set_contains, list, list),
    ("sets.intersects", 2): _typed(_set_intersects, list, list),
    ("sets.equivalent", 2): _typed(_set_equivalent, list, list),
    ("optional.of", 1): lambda value: Optional(True, value),
    ("optional.none", 0): lambda: NONE,
    ("optional.ofNonZeroValue", 1): _of_non_zero,
}


def contains_constant(element: Any, constants: Any) -> bool:
    """`in` with a list of plain constants, which cel-go looks up by hash; a version has none."""
    if isinstance(element, Semver):
        raise CelError("internal error: runtime error: hash of unhashable type cel.Semver")
    return _contains(element, constants)


REGEX_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})
FUNCTIONS: Final[Mapping[tuple[str, bool, int], Function]] = {
    **{(name, True, count): function for (name, count), function in _METHODS.items()},
    **{(name, False, count): function for (name, count), function in _GLOBALS.items()},
}
"""Name, whether it is called as a method, and count of arguments without the target -> function."""
NAMESPACES: Final = frozenset({"sets", "optional", "cel"})
"""Names before a dot that belong to a function's name."""
