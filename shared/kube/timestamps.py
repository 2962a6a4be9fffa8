"""Times as the API writes them."""

import re
from datetime import MAXYEAR, UTC, datetime
from typing import Final

from shared.errors import ObjectError

_CYCLE_YEARS: Final = 400
_CYCLE_S: Final = 146_097 * 86_400
"""The Gregorian calendar repeats itself after 400 years of 146,097 days in all."""


_ODD_YEAR: Final = re.compile(r"(-?\d{3,5})-")


def seconds_since_1970(text: str) -> int:
    """RFC 3339 to whole seconds; ObjectError for anything else. Knows years that the API server writes,
    for it takes 0 to 9999 at any place on Earth and writes UTC, and that `datetime` does not."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        odd = _ODD_YEAR.match(text)
        cycles, year = divmod(int(odd[1]), _CYCLE_YEARS) if odd else (0, 0)
        if odd is not None and not 1 <= int(odd[1]) <= MAXYEAR:
            known = seconds_since_1970(f"{_CYCLE_YEARS + year:04}{text[odd.end(1) :]}")
            return known + (cycles - 1) * _CYCLE_S
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ObjectError(f"time {text[:40]!r}", "not a time; write it like 2006-01-02T15:04:05Z")
    return int(moment.timestamp())


def second_time(wall_s: float) -> str:
    """As the API's Time."""
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


def micro_time(wall_s: float) -> str:
    """As the API's MicroTime."""
    moment = datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="microseconds")
    return moment.removesuffix("+00:00") + "Z"
