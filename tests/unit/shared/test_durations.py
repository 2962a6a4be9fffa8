"""Durations are read and told as Go does."""

import pytest

from shared.durations import duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("15s", 15),
        ("1m30s", 90),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("5.s", 5),
        ("500ms", 0.5),
        ("1us1µs1μs", 3e-6),
        ("7ns", 7e-9),
        ("-1m", -60),
        ("+1m", 60),
        ("1s1h", 3601),
    ],
)
def test_what_go_reads(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "10", "s", "1x", "1.2.3s", ".s", "1m 30s", "1 s", "--1s", "00", "9999999h"]
)
def test_what_go_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="write it like"):
        parse_duration(text)


def test_thousands_of_digits_are_read_once() -> None:
    """Whichever way they are divided among whole numbers and fractions: it would be hours."""
    for text in ("1" * 100_000, "1" * 50_000 + "." + "1" * 50_000, "1" * 100_000 + "x"):
        with pytest.raises(ValueError, match="write it like"):
            parse_duration(text)


@pytest.mark.parametrize(
    ("span_s", "text"),
    [(0.2, "200ms"), (1.5, "1.5s"), (60, "1m0s"), (90, "1m30s"), (900, "15m0s"), (3661, "1h1m1s")],
)
def test_times_are_told_as_go_tells_them(span_s: float, text: str) -> None:
    assert duration_text(span_s) == text
