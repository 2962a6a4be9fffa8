"""Times of the API, the odd ones included."""

import pytest

from shared.errors import ObjectError
from shared.kube.timestamps import seconds_since_1970

DAY_S = 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:00Z", 1_767_225_600),
        ("2026-01-01T02:00:00.75+02:00", 1_767_225_600),
        ("0001-01-01T00:00:00Z", -719_162 * DAY_S),
        ("0001-01-01T00:00:00+23:00", -719_162 * DAY_S - 23 * 3600),
        ("9999-12-31T23:59:59-23:00", 253_402_300_799 + 23 * 3600),
        ("0000-01-01T00:00:00Z", -719_528 * DAY_S),
        ("0000-02-29T00:00:00Z", (-719_528 + 59) * DAY_S),
        ("0000-12-31T00:00:00Z", -719_163 * DAY_S),
        ("-0001-12-31T00:00:00Z", -719_529 * DAY_S),
        ("10000-01-01T11:59:59Z", 253_402_300_799 + 12 * 3600),
        ("10000-02-29T00:00:00Z", 253_402_300_800 + 59 * DAY_S),
    ],
)
def test_a_time_is_known_to_the_second(text: str, seconds: int) -> None:
    assert seconds_since_1970(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-01-01",
        "2026-13-01T00:00:00Z",
        "0000-",
        "10000-",
        "10000-13-01T00:00:00Z",
        "9" * 5000,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ObjectError, match="not a time"):
        seconds_since_1970(text)
