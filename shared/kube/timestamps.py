"""Times as the API writes them."""

from datetime import datetime
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
    except ValueError as error:
        raise _unreadable(text) from error
    if moment.tzinfo is None:
        raise _unreadable(text)
    return int(moment.timestamp())


def _unreadable(text: str) -> ObjectError:
    return ObjectError(f"time {text[:40]!r}", "not a time; write it like 2006-01-02T15:04:05Z")
