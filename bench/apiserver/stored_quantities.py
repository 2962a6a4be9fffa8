"""Resource quantities, read exactly, for validation and QoS.

Apart from the scheduler's own reader on purpose: the server must not share the code of what is
tested against it. Grammar of staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go (v1.36).
"""

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

_QUANTITY: Final = re.compile(
    r"^([+-]?(?:\d+(?:\.\d*)?|\.\d+))((?:[KMGTPE]i)|[numkMGTPE]|[eE][+-]?\d+)?$"
)
_SCALES: Final = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
BAD_QUANTITY: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Decimal | None:
    """Return the value, or None where the text is no quantity."""
    match = _QUANTITY.match(text)
    if match is None:
        return None
    number, suffix = match.group(1), match.group(2) or ""
    if suffix in _SCALES:
        return Decimal(number) * _SCALES[suffix]
    try:
        return Decimal(number).scaleb(int(suffix[1:]))
    except InvalidOperation:  # An exponent beyond what Decimal can hold.
        return None


def quantity_of(value: object) -> Decimal | None:
    """Return the value of a quantity in JSON, which may also be a bare number."""
    if isinstance(value, str):
        return parse_quantity(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(str(value))
    return None
