"""Durations as Go writes and reads them: configuration files, flags, messages.

Rules: `time.ParseDuration` and `time.Duration.String` of Go's standard library.
"""

import re
from typing import Final

_UNIT_S: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,  # The micro sign, and the Greek letter that looks like it.
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
# Digits go to one place only: thousands of them without a unit would be divided in all ways.
_PART: Final = re.compile(rf"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)({'|'.join(_UNIT_S)})")
_WHOLE: Final = re.compile(rf"([-+]?)(0|(?:{_PART.pattern})+)")
_MAX_S: Final = (2**63 - 1) * 1e-9


def parse_duration(text: str) -> float:
    """Seconds of a duration such as 15s, 1m30s or 300ms; ValueError, with the remedy, if it is none."""
    whole = _WHOLE.fullmatch(text)
    parts = _PART.findall(text) if whole is not None else ()
    total_s = sum(float(n) * _UNIT_S[unit] for n, unit in parts)
    if whole is None or total_s > _MAX_S:
        raise ValueError(f"{text!r} is not a duration; write it like 15s, 1m30s or 300ms")
    return -total_s if whole[1] == "-" else total_s


def duration_text(span_s: float) -> str:
    """As Go prints a time.Duration: "1m30s", "2.5s", "300ms"."""
    if span_s < 1:
        return "0s" if span_s <= 0 else f"{span_s * 1000:.6g}ms"
    minutes, seconds = divmod(span_s, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{seconds:.9g}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text
