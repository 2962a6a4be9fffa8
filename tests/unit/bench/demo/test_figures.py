"""The figures, the table and the report."""

import io
import re
from html.parser import HTMLParser

import msgspec
import pytest

from bench.demo.__main__ import beside
from bench.demo.demo_figures import (
    Figures,
    ProcessFigures,
    ResourceFigures,
    amount,
    job_figures,
    percentile,
    reason_figures,
    table,
)
from bench.demo.demo_run import Outcome
from bench.demo.pod_book import PodBook
from bench.demo.progress import Moment, Progress, line
from bench.demo.report import report_html
from bench.demo.workload import GPU_RESOURCE as GPU
from daemon.overview.pending import PendingReason

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
    reasons=[PendingReason("unschedulable", "CPU short", 1, "4 cores each", "default/p")],
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
    node_shares={"cpu": {"n1": 0.5, "n2": 0.5}},
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
        "1  CPU short: 4 cores each (as default/p)",
        "workers 1",
        "50.0 %",
        "50.000",
        "no node is overcommitted",
    ):
        assert told in text


def test_messages_that_differ_in_numbers_are_one_line_with_what_the_pods_ask_for() -> None:
    pods = [
        {
            "metadata": {"name": f"p{gpus}", "namespace": "default", "uid": f"u{gpus}"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {GPU: f"{gpus}"}}}]},
        }
        for gpus in (1, 2, 8)
    ]
    messages = {
        f"p{gpus}": f"0/9 nodes are available: {gpus} Insufficient {GPU}, 1 Insufficient memory."
        for gpus in (2, 8)
    }
    (found,) = reason_figures(messages, pods)
    assert (found.text, found.detail, found.pod_count) == ("GPU short", "2 to 8 GPUs each", 2)


def test_problems_are_told_loudly() -> None:
    bad = msgspec.structs.replace(FIGURES, problems=["node n is overcommitted"])
    assert "1 PROBLEMS" in table(bad)
    assert "node n is overcommitted" in table(bad)
    assert "<p class='bad'>" in report_html(msgspec.structs.replace(OUTCOME, figures=bad))


def plots(page: str) -> list[str]:
    return re.findall(r'<svg viewBox="0 0 (\d+ \d+)" role="img"', page)


def test_the_report_is_whole_html_with_plots_of_one_size_and_escaped_text() -> None:
    page = report_html(OUTCOME)
    assert plots(page) == ["560 260"] * 6 + ["1152 12"]
    assert "a &lt;small&gt; cluster" in page
    assert "2 Insufficient cpu" in page
    HTMLParser().feed(page)
    # Nothing is fetched from anywhere, and nothing runs.
    assert not re.search(r"<(?:script|img)\b|url\(|style=", page)
    assert "script-src &#x27;none&#x27;" in page


def test_a_report_of_a_run_in_which_nothing_was_bound_is_made_too() -> None:
    empty = msgspec.structs.replace(
        OUTCOME, bound_at_s=[], latencies_s=[], node_shares={}, cpu_history=[]
    )
    assert len(plots(report_html(empty))) == 6


def test_jobs_are_told_without_and_with_gangs_side_by_side() -> None:
    """Of the first job both pods have a node, of the second one of two: that GPU is held for nothing."""
    book = PodBook()
    book.created_s |= {"a0": 1.0, "a1": 2.0, "b0": 1.0, "b1": 3.0}
    book.bound_s |= {"a0": 2.5, "a1": 2.25, "b0": 4.0}
    jobs = {"a": ["a0", "a1"], "b": ["b0", "b1"]}
    alone = job_figures("pod by pod", jobs, book, ResourceFigures(3.0, 4.0))
    assert (alone.whole_count, alone.stranded_pod_count) == (1, 1)
    assert alone.waiting_ms["p100"] == 500.0
    assert (alone.gpus_percent, alone.gpus_useful_percent) == (75.0, 50.0)
    del book.bound_s["b0"]
    gangs = job_figures("as gangs", jobs, book, ResourceFigures(2.0, 4.0))
    before, after = (
        msgspec.structs.replace(OUTCOME, figures=msgspec.structs.replace(FIGURES, jobs=[each]))
        for each in (alone, gangs)
    )
    both = beside(before, after)
    for told in (table(both.figures), report_html(both)):
        assert told.index("pod by pod") < told.index("as gangs")
        assert "75.00 %" in told
        assert "1 of 2" in told
    assert "Gangs" not in report_html(OUTCOME)


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
