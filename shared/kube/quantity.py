"""Kubernetes quantities: "250m", "1.5Gi", "5e-1" to exact integers, and back to canonical text.

Apart from the objects because decoding keeps quantities as text; they become numbers once per
distinct pod template or node. Everything is exact: a quantity is a whole number of 1e-9 units, so
sums are taken before they are rounded, as the API does. Callers may rely on
`value` and `milli_value` rounding up (away from zero), so that whoever asks for a little gets
something, and on both staying within 64 bits.

Rules: staging/src/k8s.io/apimachinery/pkg/api/resource/{quantity,suffix}.go, v1.36.
"""

import enum
import functools
import re
from typing import Final

import msgspec

from shared.errors import ObjectError
from shared.kube.api.meta_v1 import INT64_MAX, Quantity
from shared.limits import QUANTITY_DIGITS_MAX

NANOS_PER_UNIT: Final = 10**9
NANOS_PER_MILLI: Final = 10**6

_TEXT_MAX: Final = QUANTITY_DIGITS_MAX + 32
"""Sign, point, suffix or exponent beside the digits. The patterns take the square of it."""


FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX_WRONG: Final = "unable to parse quantity's suffix"
NUMBER_WRONG: Final = "unable to parse numeric part of quantity"


class QuantityError(ObjectError):
    """A text that is no quantity. `where` is the text itself until a caller knows better; `in_brief`
    are ParseQuantity's own words, empty for what only we refuse."""

    def __init__(self, where: str, problem: str, in_brief: str = "") -> None:
        super().__init__(where, problem)
        self.in_brief = in_brief


class QuantityFormat(enum.Enum):
    """How a quantity was written, which is how it is written back."""

    DECIMAL_SI = "DecimalSI"
    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"


class ExactQuantity(msgspec.Struct, frozen=True, gc=False):
    """A parsed quantity, in units of 1e-9."""

    nanos: int
    format: QuantityFormat
    is_big_negative: bool = False
    """Negative, and not of the short forms that Kubernetes holds in 64 bits. Such amounts are rounded
    towards zero and up by one, in wrapping arithmetic; see `_big_negative_value`."""


_DECIMAL_EXPONENTS: Final = dict(
    zip(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), range(-9, 19, 3), strict=True)
)
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIXES: Final = ("", *_BINARY_EXPONENTS)

# The sign, digits and fraction are all optional; the suffix takes any run of its letters, so that
# "1Kie3" is told apart (unknown suffix) from "1 Gi" (not a quantity at all), as the server does.
_GENERAL: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)",
    re.ASCII,
)
_EXPONENT: Final = re.compile(r"[eE](?P<exponent>[+-]?[0-9]+)", re.ASCII)

# Binary quantities are cut to what a signed 64-bit integer holds.
_BINARY_NANOS_MAX: Final = INT64_MAX * NANOS_PER_UNIT


@functools.lru_cache(maxsize=65536)
def _parse_text(text: str) -> ExactQuantity:
    if len(text) > _TEXT_MAX:
        raise QuantityError(f"quantity {text[:40]!r}...", f"longer than {_TEXT_MAX} characters")
    match = _GENERAL.fullmatch(text) if text else None
    if match is None:
        raise QuantityError(
            f"quantity {text!r}",
            'not a quantity; write it like "250m", "1.5" or "64Mi"',
            FORMAT_WRONG,
        )
    whole, fraction, suffix = match["whole"], match["fraction"] or "", match["suffix"]
    if len(whole) + len(fraction) > QUANTITY_DIGITS_MAX:
        raise QuantityError(f"quantity {text[:40]!r}...", f"more than {QUANTITY_DIGITS_MAX} digits")
    digits = int((whole + fraction) or "0")
    if suffix in _BINARY_EXPONENTS:
        quantity = _binary(digits << _BINARY_EXPONENTS[suffix], len(fraction))
    else:
        exponent, quantity_format = _decimal_suffix(text, suffix)
        quantity = ExactQuantity(_nanos(digits, exponent - len(fraction)), quantity_format)
    if not whole + fraction and not _fits_64_bits(whole, fraction, suffix):
        raise QuantityError(f"quantity {text!r}", "has no digits", NUMBER_WRONG)
    if match["sign"] == "-" and quantity.nanos:
        is_big = not _fits_64_bits(whole.lstrip("0"), fraction, suffix)
        quantity = ExactQuantity(-quantity.nanos, quantity.format, is_big)
    return quantity


def _fits_64_bits(whole: str, fraction: str, suffix: str) -> bool:
    """Whether ParseQuantity keeps the amount as an integer and a scale (its fast path)."""
    whole = whole or "0"
    if suffix in _BINARY_EXPONENTS:
        exponent = _BINARY_EXPONENTS[suffix]
        if fraction or 15 - len(whole) - int(exponent * 0.3) - 1 < 0:
            return False
        return int(whole) << exponent <= INT64_MAX
    exponent, _ = _decimal_suffix(suffix, suffix)
    return len(whole) + len(fraction) <= 18 and exponent - len(fraction) >= -9


def kept_exponent(quantity: Quantity) -> int:
    """A quantity, which it must be, is kept as an integer times this power of ten; of one below 0
    AsInt64 has no answer, whatever it amounts to. What is no short form is kept in units of 1e-9."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    match = _GENERAL.fullmatch(text)
    assert match is not None, "parsed before"
    fraction, suffix = match["fraction"] or "", match["suffix"]
    if not _fits_64_bits(match["whole"].lstrip("0"), fraction, suffix):
        return -9
    return 0 if suffix in _BINARY_EXPONENTS else _decimal_suffix(text, suffix)[0] - len(fraction)


def _decimal_suffix(text: str, suffix: str) -> tuple[int, QuantityFormat]:
    if suffix in _DECIMAL_EXPONENTS:
        return _DECIMAL_EXPONENTS[suffix], QuantityFormat.DECIMAL_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise QuantityError(f"quantity {text!r}", f"unknown suffix {suffix!r}", SUFFIX_WRONG)
    digits = match["exponent"].lstrip("+-").lstrip("0")
    if len(digits) > 9 or int(digits or "0") > QUANTITY_DIGITS_MAX:
        raise QuantityError(f"quantity {text!r}", f"exponent beyond {QUANTITY_DIGITS_MAX}")
    return int(match["exponent"]), QuantityFormat.DECIMAL_EXPONENT


def _nanos(digits: int, exponent: int) -> int:
    """digits * 10^exponent in 1e-9 units; anything below one unit is rounded up to it."""
    shift = exponent + 9
    return digits * int(10**shift) if shift >= 0 else -(-digits // int(10**-shift))


def _binary(shifted: int, fraction_length: int) -> ExactQuantity:
    nanos = min(_nanos(shifted, -fraction_length), _BINARY_NANOS_MAX)
    if 0 < nanos < NANOS_PER_UNIT:
        return ExactQuantity(nanos, QuantityFormat.DECIMAL_SI)
    return ExactQuantity(nanos, QuantityFormat.BINARY_SI)


def _in_units(amount: int, unit_nanos: int) -> int:
    """Rounded up away from zero, cut to 64 bits."""
    rounded = -(-amount // unit_nanos) if amount > 0 else amount // unit_nanos
    return max(-INT64_MAX - 1, min(rounded, INT64_MAX))


def parse(quantity: Quantity) -> ExactQuantity:
    """The exact value of a quantity as JSON states it; raises `QuantityError`."""
    return _parse_text(quantity if isinstance(quantity, str) else repr(quantity))


def nanos(quantity: Quantity) -> int:
    """The exact value in units of 1e-9: what sums are taken over."""
    return parse(quantity).nanos


def value_of_nanos(amount: int) -> int:
    """Whole units, rounded up away from zero, cut to 64 bits."""
    return _in_units(amount, NANOS_PER_UNIT)


def milli_value_of_nanos(amount: int) -> int:
    """Thousandths, rounded up away from zero, cut to 64 bits."""
    return _in_units(amount, NANOS_PER_MILLI)


def value(quantity: Quantity) -> int:
    """Whole units (bytes, counts), rounded up away from zero, cut to 64 bits."""
    return _value_in(NANOS_PER_UNIT, parse(quantity))


def milli_value(quantity: Quantity) -> int:
    """Thousandths (milli-CPU), rounded up away from zero, cut to 64 bits."""
    return _value_in(NANOS_PER_MILLI, parse(quantity))


def _value_in(unit_nanos: int, parsed: ExactQuantity) -> int:
    if parsed.is_big_negative:
        return _big_negative_value(parsed.nanos, unit_nanos)
    return _in_units(parsed.nanos, unit_nanos)


def _big_negative_value(amount: int, divisor: int) -> int:
    """What Kubernetes makes of a negative amount that it holds as a big decimal.

    Its division takes the low 64 bits, cuts towards zero and adds one where something was cut off
    (`scaledValue` in scale_int.go). Requests and allocatables are never negative, so this only shows
    where somebody writes such an amount by hand; equal to Kubernetes is then the best answer.
    """
    wrapped = (amount + (1 << 63)) % (1 << 64) - (1 << 63)
    quotient = abs(wrapped) // divisor * (1 if wrapped > 0 else -1)
    return quotient + (abs(wrapped) % divisor != 0)


def canonical(quantity: ExactQuantity) -> str:
    """The text that the API server writes back for this quantity."""
    if quantity.nanos == 0:
        return "0"
    units, rest = divmod(quantity.nanos, NANOS_PER_UNIT)
    if quantity.format is QuantityFormat.BINARY_SI and rest == 0 and abs(units) >= 1024:
        power = 0
        while units % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
            units //= 1024
            power += 1
        return f"{units}{_BINARY_SUFFIXES[power]}"
    mantissa, exponent = quantity.nanos, -9
    while mantissa % 1000 == 0:
        mantissa //= 1000
        exponent += 3
    if quantity.format is QuantityFormat.DECIMAL_EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    # From 1e21 on there is no suffix left, and the server drops it ("1" for 1e21). A cluster that
    # states such amounts has other problems; the text is kept the same so that it can be compared.
    return f"{mantissa}{_DECIMAL_SUFFIXES.get(exponent, '')}"
