"""What log lines look like."""

import io
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.limits import LINES_BURST, LINES_PER_S
from shared.telemetry.log import BurstFilter, EventLog, start_logging


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


def test_a_line_to_the_journal_begins_with_its_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    with path.open("w") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        start_logging("owner", "debug", stream)
        log = EventLog("core")
        for write in (log.debug, log.info, log.warning, log.error):
            write("said")
    lines = path.read_text().splitlines()
    assert [line[:3] for line in lines] == ["<7>", "<6>", "<4>", "<3>"]
    assert all(json.loads(line[3:])["event"] == "said" for line in lines)


def test_a_stream_that_is_not_the_journal_has_no_priorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "redirected"
    monkeypatch.setenv("JOURNAL_STREAM", "1:1")
    with path.open("w") as stream:
        start_logging("owner", "info", stream)
        EventLog("core").info("said")
    assert path.read_text().startswith("{")


def record(event: str, at_s: float = 0.0) -> logging.LogRecord:
    made = logging.LogRecord("berth.x", logging.WARNING, __file__, 1, event, (), None)
    made.created = at_s
    return made


def test_of_an_event_that_never_stops_only_some_lines_are_written() -> None:
    limit = BurstFilter((i / 1000 for i in range(10_001)).__next__)
    passed = sum(bool(limit.filter(record("binding_failed"))) for _ in range(10_000))
    assert passed == LINES_BURST + 9.999 * LINES_PER_S // 1
    assert limit.filter(record("another")), "each event for itself"


def test_the_next_line_says_how_many_were_left_out() -> None:
    moments = [*[0.0] * (LINES_BURST + 7), 60.0, 61.0]
    limit, last = BurstFilter(iter(moments).__next__), record("e")
    passed = sum(bool(limit.filter(record("e"))) for _ in range(LINES_BURST + 7))
    assert passed == LINES_BURST
    assert limit.filter(last)
    assert last.berth_fields == {"left_out_before": 7}  # type: ignore[attr-defined]  # our own field
    after = record("e")
    assert limit.filter(after)
    assert not hasattr(after, "berth_fields")


def test_a_wall_clock_that_is_set_back_silences_nothing() -> None:
    limit = BurstFilter((i / LINES_PER_S for i in range(LINES_BURST)).__next__)
    times_of_day = (*range(7200, 7200 + LINES_BURST // 2), *range(LINES_BURST // 2))
    assert all(limit.filter(record("e", float(at_s))) for at_s in times_of_day)


def test_at_level_debug_nothing_is_left_out() -> None:
    stream = io.StringIO()
    start_logging("owner", "debug", stream)
    for _ in range(LINES_BURST + 50):
        EventLog("x").info("e")
    assert len(lines_of(stream)) == LINES_BURST + 50
