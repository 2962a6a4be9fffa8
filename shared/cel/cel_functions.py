"""CEL's functions, as the environment of Kubernetes' device selectors offers them.

Each takes Python values (see `cel_values`), the target of a method first, and raises `CelError` with
cel-go's text. What cannot occur in a device selector is not here: durations, timestamps and
authorisation; an expression that uses it does not compile and says so.

Rules: google/cel-go ext/{strings,sets,lists}.go and cel/library.go, staging/src/k8s.io/apiserver/pkg/
cel/library/{lists,quantity,regex,semverlib}.go, v1.36.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from shared.cel.cel_operators import OPERATORS, add, compare, contains, equals, is_number, typed
from shared.cel.cel_regex import find, find_all, matches
from shared.cel.cel_semver import normalized_semver, parse_semver
from shared.cel.cel_values import (
    INT_MAX,
    NONE,
    CelError,
    CelQuantity,
    NoOverloadError,
    Optional,
    Semver,
    Type,
    type_name,
)
from shared.kube import quantity as quantities
from shared.kube.quantity import NANOS_PER_UNIT, ExactQuantity, QuantityError
from shared.shown import GO_ESCAPES

_size: Final = typed(len, (str, bytes, list, dict))


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
_ESCAPED: Final = str.maketrans(GO_ESCAPES)


# Lists and sets -------------------------------------------------------------------------------------


def _sum(values: list[Any]) -> Any:
    if not all(map(is_number, values)):
        raise NoOverloadError
    return functools.reduce(add, values) if values else 0


def _extreme(values: list[Any], sign: int, name: str) -> Any:
    if not values:
        raise CelError(f"{name} called on empty list")
    return functools.reduce(lambda a, b: b if compare(b, a) * sign > 0 else a, values)


def _place_in(target: Any, wanted: Any, *, is_last: bool) -> int:
    """indexOf and lastIndexOf, of lists as of texts."""
    if isinstance(target, str) and isinstance(wanted, str):
        return _last_index_of(target, wanted) if is_last else _index_of(target, wanted)
    if not isinstance(target, list):
        raise NoOverloadError
    places = (i for i, value in enumerate(target) if equals(value, wanted))
    return max(places, default=-1) if is_last else next(places, -1)


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    problem = ""
    if start < 0 or end < 0:
        problem = "negative indexes not supported"
    elif start > end:
        problem = "start index must be less than or equal to end index"
    elif len(values) < end:
        problem = f"list is length {len(values)}"
    if problem:
        raise CelError(f"cannot slice({start}, {end}), {problem}")
    return values[start:end]


def _set_contains(values: list[Any], wanted: list[Any]) -> bool:
    return all(contains(each, values) for each in wanted)


# Quantities and versions ------------------------------------------------------------------------------


def _quantity(text: str) -> CelQuantity:
    try:
        return CelQuantity(quantities.parse(text), quantities.kept_exponent(text))
    except QuantityError as error:
        raise CelError(error.in_brief or f"error parsing quantity: {error}") from error


def _is_readable(read: Callable[..., Any], *values: Any) -> bool:
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
    """As AsApproximateFloat64 has it: two numbers that are rounded, multiplied."""
    power = value.exponent + 9
    amount = value.nanos // 10**power if power >= 0 else value.nanos * 10**-power
    try:
        base = float(amount)
    except OverflowError:
        base = math.inf if amount > 0 else -math.inf
    return base * float(f"1e{value.exponent}") if value.exponent else base


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
    counting = [each.exponent for each in (a, b) if each.nanos] or [a.exponent]
    return CelQuantity(ExactQuantity(a.nanos + sign * b.nanos, a.exact.format), min(counting))


# Optionals ------------------------------------------------------------------------------------------


def _value(a: Optional) -> Any:
    if not a.is_present:
        raise CelError("optional.none() dereference")
    return a.value


def _unwrap(values: list[Any]) -> list[Any]:
    for each in values:
        if not isinstance(each, Optional):
            raise CelError("value is not optional")
    return [each.value for each in values if each.is_present]


_METHODS: Final[Mapping[tuple[str, int], Callable[..., Any]]] = {
    ("contains", 1): typed(lambda t, p: p in t, str, str),
    ("startsWith", 1): typed(str.startswith, str, str),
    ("endsWith", 1): typed(str.endswith, str, str),
    ("matches", 1): typed(matches, str, str),
    ("find", 1): typed(find, str, str),
    ("findAll", 1): typed(find_all, str, str),
    ("findAll", 2): typed(find_all, str, str, int),
    ("size", 0): _size,
    ("charAt", 1): typed(_char_at, str, int),
    ("indexOf", 1): functools.partial(_place_in, is_last=False),
    ("indexOf", 2): typed(_index_of, str, str, int),
    ("lastIndexOf", 1): functools.partial(_place_in, is_last=True),
    ("lastIndexOf", 2): typed(_last_index_of, str, str, int),
    ("lowerAscii", 0): typed(lambda t: t.translate(_LOWER), str),
    ("upperAscii", 0): typed(lambda t: t.translate(_UPPER), str),
    ("replace", 2): typed(str.replace, str, str, str),
    ("replace", 3): typed(
        lambda t, a, b, limit: t.replace(a, b, max(limit, -1)), str, str, str, int
    ),
    ("split", 1): typed(_split, str, str),
    ("split", 2): typed(_split, str, str, int),
    ("substring", 1): typed(_substring, str, int),
    ("substring", 2): typed(_substring, str, int, int),
    ("trim", 0): typed(lambda t: t.strip(_WHITE), str),
    ("reverse", 0): typed(lambda v: v[::-1], list),
    ("slice", 2): typed(_slice, list, int, int),
    ("first", 0): typed(lambda v: Optional(True, v[0]) if v else NONE, list),
    ("last", 0): typed(lambda v: Optional(True, v[-1]) if v else NONE, list),
    ("unwrapOpt", 0): typed(_unwrap, list),
    ("join", 0): typed(_join, list),
    ("join", 1): typed(_join, list, str),
    ("isSorted", 0): typed(
        lambda v: all(compare(a, b) <= 0 for a, b in itertools.pairwise(v)), list
    ),
    ("sum", 0): typed(_sum, list),
    ("min", 0): typed(lambda v: _extreme(v, -1, "min"), list),
    ("max", 0): typed(lambda v: _extreme(v, 1, "max"), list),
    ("isGreaterThan", 1): lambda a, b: _order(a, b) > 0,
    ("isLessThan", 1): lambda a, b: _order(a, b) < 0,
    ("compareTo", 1): _order,
    ("isInteger", 0): typed(lambda q: q.is_integer, CelQuantity),
    ("asInteger", 0): typed(_as_integer, CelQuantity),
    ("asApproximateFloat", 0): typed(_as_approximate_float, CelQuantity),
    ("add", 1): typed(functools.partial(_shifted, sign=1), CelQuantity, object),
    ("sub", 1): typed(functools.partial(_shifted, sign=-1), CelQuantity, object),
    ("major", 0): typed(lambda v: _int64(v.major), Semver),
    ("minor", 0): typed(lambda v: _int64(v.minor), Semver),
    ("patch", 0): typed(lambda v: _int64(v.patch), Semver),
    ("hasValue", 0): typed(lambda o: o.is_present, Optional),
    ("value", 0): typed(_value, Optional),
}
_GLOBALS: Final[Mapping[tuple[str, int], Callable[..., Any]]] = {
    **OPERATORS,
    ("size", 1): _size,
    ("dyn", 1): lambda value: value,
    ("type", 1): lambda value: Type(type_name(value)),
    ("matches", 2): typed(matches, str, str),
    ("quantity", 1): typed(_quantity, str),
    ("isQuantity", 1): typed(functools.partial(_is_readable, _quantity), str),
    ("sign", 1): typed(lambda q: (q.nanos > 0) - (q.nanos < 0), CelQuantity),
    ("semver", 1): typed(_semver, str),
    ("semver", 2): typed(_semver, str, bool),
    ("isSemver", 1): typed(functools.partial(_is_readable, _semver), str),
    ("isSemver", 2): typed(functools.partial(_is_readable, _semver), str, bool),
    ("sets.contains", 2): typed(_set_contains, list, list),
    ("sets.intersects", 2): typed(lambda a, b: any(contains(each, b) for each in a), list, list),
    ("sets.equivalent", 2): typed(
        lambda a, b: _set_contains(a, b) and _set_contains(b, a), list, list
    ),
    ("strings.quote", 1): typed(lambda t: f'"{t.translate(_ESCAPED)}"', str),
    ("optional.unwrap", 1): typed(_unwrap, list),
    ("optional.of", 1): lambda value: Optional(True, value),
    ("optional.none", 0): lambda: NONE,
    ("optional.ofNonZeroValue", 1): lambda value: Optional(True, value) if value else NONE,
}


FUNCTIONS: Final[Mapping[tuple[str, bool, int], Callable[..., Any]]] = {
    **{(name, True, count): function for (name, count), function in _METHODS.items()},
    **{(name, False, count): function for (name, count), function in _GLOBALS.items()},
}
"""Name, whether it is called as a method, and count of arguments without the target -> function."""
NAMESPACES: Final = frozenset({"sets", "optional", "strings", "cel"})
"""Names before a dot that belong to a function's name."""

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
