"""Times as the API writes them."""

from datetime import UTC, datetime
from typing import Final

from shared.errors import ObjectError

_CYCLE_YEARS: Final = 400
_CYCLE_S: Final = 146_097 * 86_400
"""The Gregorian calendar repeats itself after 400 years of 146,097 days in all."""


def seconds_since_1970(text: str) -> int:
    """RFC 3339 to whole seconds; ObjectError for anything else. Knows the year 0, which the API server
    takes and `datetime` does not."""
    if text.startswith("0000-"):
        return seconds_since_1970(f"{_CYCLE_YEARS:04}{text[4:]}") - _CYCLE_S
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
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
