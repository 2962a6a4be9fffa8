"""The table of lines that no seed reaches."""

from pathlib import Path

import pytest

from bench.sim.coverage import functions, lines_of_errors, texts
from bench.sim.unreached import ERRORS, REASONS, UNKNOWN, stale, table, why

ROOT = Path(__file__).parents[4]


def test_a_reason_for_what_is_not_there_any_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REASONS, "Made up", ("daemon/core/state.py:Nobody.*",))
    assert "daemon/core/state.py:Nobody.*" in stale()
    assert "There is no daemon/core/state.py:Nobody.* any more." in table({}, "0..0")


def test_every_reason_is_about_something() -> None:
    assert stale() == []


def test_all_lines_are_told_where_none_was_reached() -> None:
    text = table({}, "0..0")
    every = sum(len(each.lines) for each in functions())
    assert f"of {every} lines" in text
    counts = [
        int(line.rpartition("(")[2].rstrip(")")) for line in text.splitlines() if line[:3] == "## "
    ]
    assert sum(counts) == every
    assert len(counts) == len(REASONS) + len((ERRORS, UNKNOWN))


def test_what_a_protocol_only_declares_is_no_line() -> None:
    names = {each.name for each in functions() if each.file == "shared/framework/plugin_api.py"}
    assert "FilterPlugin.filter" not in names
    assert any(
        each.name == "Checker.forget_all" and why(each, "") == UNKNOWN for each in functions()
    )


def test_a_case_that_there_is_not_is_no_line() -> None:
    handle = next(each for each in functions() if each.name == "AdapterLinks._apply")
    told = [line for line in texts(handle).values() if line.startswith(("case _", "assert_never"))]
    assert told == []


def test_one_line_of_a_function_may_have_a_reason_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = next(each for each in functions() if each.name == "AdapterLinks._apply")
    monkeypatch.setitem(
        REASONS, "Made up", ("daemon/core/adapter_links.py:*._apply:case *Measured*",)
    )
    assert why(handle, "case AdapterMeasured():") == "Made up"
    assert why(handle, "case Heartbeat():") == UNKNOWN


def test_lines_of_errors_are_those_that_raise_log_or_catch() -> None:
    found = lines_of_errors()
    file = "workers/binder/binding_cycle.py"
    lines = (ROOT / file).read_text().splitlines()
    told = {lines[number - 1].strip() for number in found[file]}
    assert any(line.startswith('log.exception("plugin_failed"') for line in told)
    assert "return ALLOWED" not in told
