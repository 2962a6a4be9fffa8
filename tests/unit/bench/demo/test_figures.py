"""The figures, the table and the report."""

import io
import re
from html.parser import HTMLParser

import msgspec
import pytest

from bench.demo.demo_figures import (
    Figures,
    ProcessFigures,
    ResourceFigures,
    amount,
    percentile,
    table,
)
from bench.demo.demo_run import Outcome
from bench.demo.progress import Moment, Progress, line
from bench.demo.report import report_html

FIGURES = Figures(
    workload="a <small> cluster",
    node_count=2,
    pod_count=5,
    bound_count=4,
    unschedulable_count=1,
    create_s=0.5,
    schedule_s=2.0,
    pods_per_s=2.0,
    latency_ms={"p50": 10.0, "p90": 20.0, "p99": 30.0, "p100": 40.0},
    unschedulable={"0/2 nodes are available: 2 Insufficient cpu.": 1},
    resources={"cpu": ResourceFigures(4.0, 8.0), "memory": ResourceFigures(2.0**30, 2.0**31)},
    processes=[ProcessFigures("owner", 0.25, 50.0, 64.0, 1)],
    owner_counters={"scheduled": 4},
    problems=[],
    settings={"workers": "1"},
)

OUTCOME = Outcome(
    figures=FIGURES,
    created_at_s=[0.0, 0.1, 0.2, 0.3, 0.5],
    bound_at_s=[0.5, 1.0, 1.5, 2.0],
    latencies_s=[0.01, 0.02, 0.03, 0.04],
    node_shares={"cpu": [0.5, 0.5]},
    cpu_history=[(0.0, {"owner": 0.0}), (1.0, {"owner": 0.2}), (2.0, {"owner": 0.25})],
)


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1.0), (50, 2.0), (75, 3.0), (76, 4.0), (100, 4.0)]
)
def test_percentiles_are_by_nearest_rank(percent: float, expected: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == expected


def test_without_values_a_percentile_is_zero() -> None:
    assert percentile([], 99) == 0.0


def test_the_table_tells_rate_latency_reasons_allocation_and_cpu() -> None:
    text = table(FIGURES)
    for told in (
        "2 pods/s",
        "p50 10 ms, p90 20 ms, p99 30 ms, max 40 ms",
        "1  0/2 nodes are available: 2 Insufficient cpu.",
        "50.0 %",
        "50.000",
        "no node is overcommitted",
    ):
        assert told in text


def test_only_the_most_frequent_messages_are_told_and_the_rest_is_counted() -> None:
    many = {f"message {number:02d}": number for number in range(1, 14)}
    text = table(msgspec.structs.replace(FIGURES, unschedulable=many))
    assert "13  message 13" in text
    assert "message 03" not in text
    assert "6  with 3 other messages" in text


def test_problems_are_told_loudly() -> None:
    bad = msgspec.structs.replace(FIGURES, problems=["node n is overcommitted"])
    assert "1 PROBLEMS" in table(bad)
    assert "node n is overcommitted" in table(bad)
    assert "class='bad'" in report_html(msgspec.structs.replace(OUTCOME, figures=bad))


def test_the_report_is_whole_html_with_five_plots_and_escaped_text() -> None:
    page = report_html(OUTCOME)
    assert page.count("<svg") == 5
    assert "a &lt;small&gt; cluster" in page
    assert "2 Insufficient cpu" in page
    HTMLParser().feed(page)
    # Nothing is fetched from anywhere.
    assert not re.search(r"<(?:script|link|img)\b", page)


def test_a_report_of_a_run_in_which_nothing_was_bound_is_made_too() -> None:
    empty = msgspec.structs.replace(
        OUTCOME, bound_at_s=[], latencies_s=[], node_shares={}, cpu_history=[]
    )
    assert report_html(empty).count("<svg") == 5


def test_amounts_are_told_in_units_for_people() -> None:
    assert amount("cpu", 1234.5) == "1,234.5 cores"
    assert amount("memory", 3 * 2.0**30) == "3 GiB"
    assert amount("nvidia.com/gpu", 7.0) == "7"


MOMENT = Moment(
    phase="scheduling",
    now_s=0.0,
    created_count=5,
    pod_count=5,
    bound_count=3,
    pending_count=1,
    unschedulable_count=1,
    bound_per_s=12.3,
    cpu_percent={"owner": 45.6},
)


def test_without_a_terminal_a_line_comes_every_two_seconds_and_with_each_phase() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        for now_s in (0.0, 0.5, 1.9, 2.0, 3.0):
            progress.show(msgspec.structs.replace(MOMENT, now_s=now_s))
        progress.show(Moment(phase="checking", now_s=3.1))
    lines = stream.getvalue().splitlines()
    assert lines == [line(MOMENT), line(MOMENT), "checking"]
    assert "scheduled 3/5 pending 1 unschedulable 1 rate 12/s cpu owner=46%" in lines[0]


def test_on_a_terminal_the_table_is_drawn_and_taken_down() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with Progress(stream) as progress:
        progress.show(MOMENT)
    assert "CPU owner" in stream.getvalue()
    assert "46 %" in stream.getvalue()
