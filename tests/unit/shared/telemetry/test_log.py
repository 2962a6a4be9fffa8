"""What log lines look like."""

import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from shared.telemetry.log import EventLog, start_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_is_left_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("berth")
    before = (list(root.handlers), root.level, ours.level, sys.excepthook)
    yield
    root.handlers[:], root.level, level, sys.excepthook = before
    ours.setLevel(level)
    logging.captureWarnings(capture=False)


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_the_five_keys_and_the_fields() -> None:
    stream = io.StringIO()
    start_logging("owner", stream=stream)
    EventLog("cache").info("node_added", node="n-1", generation=7)
    (line,) = lines_of(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "process": "owner",
        "logger": "cache",
        "event": "node_added",
        "node": "n-1",
        "generation": 7,
    }


def test_a_field_never_hides_a_key_that_collectors_rely_on() -> None:
    stream = io.StringIO()
    start_logging("owner", stream=stream)
    EventLog("x").info("e", process="other")
    assert lines_of(stream)[0]["process"] == "owner"
    assert lines_of(stream)[0]["field_process"] == "other"


def test_a_field_of_any_type_can_be_written() -> None:
    stream = io.StringIO()
    start_logging("owner", stream=stream)
    EventLog("x").info("e", error=ValueError("no"), keys={1: 2})
    assert lines_of(stream)[0]["error"] == "no"
    assert lines_of(stream)[0]["keys"] == {"1": 2}


def test_people_get_text_with_quotes_where_needed() -> None:
    stream = Terminal()
    start_logging("owner", stream=stream)
    EventLog("x").warning("slow", why="two words", took_s=0.123456789, empty="")
    text = stream.getvalue()
    assert 'slow why="two words" took_s=0.123457 empty=""' in text
    assert "warning" in text


def test_a_level_that_is_off_writes_nothing() -> None:
    stream = io.StringIO()
    start_logging("owner", "warning", stream)
    log = EventLog("x")
    log.info("e")
    assert not log.is_on(logging.INFO)
    assert stream.getvalue() == ""


def test_exceptions_bring_their_traceback_in_the_same_line() -> None:
    stream = io.StringIO()
    start_logging("owner", stream=stream)
    try:
        int("broken")
    except ValueError:
        EventLog("x").exception("failed", pod="p")
    (line,) = lines_of(stream)
    assert "ValueError: invalid literal" in line["traceback"]
    assert line["pod"] == "p"


def test_what_nobody_caught_and_warnings_come_out_as_lines_too() -> None:
    stream = io.StringIO()
    start_logging("owner", stream=stream)
    error = ValueError("broken")
    sys.excepthook(ValueError, error, None)
    logging.getLogger("berth.plain").info("plain %d", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    events = [line["event"] for line in lines_of(stream)]
    assert events[:2] == ["uncaught_exception", "plain 3"]
    assert "DeprecationWarning: old" in events[2]
