"""The report of a run: one HTML file with the figures and the plots, to be opened from anywhere.

Made once at the end, when nothing is measured any more.
"""

from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Final

from bench.demo.demo_figures import (
    JOB_HEADINGS,
    SHOWN_RESOURCES,
    Figures,
    amount,
    job_row,
    percentile,
    verdict,
)
from bench.demo.demo_run import Outcome
from daemon.overview.documents import Cell, folded, headline, page, section, table
from daemon.overview.pending import called
from daemon.overview.plots import Line, heat_map, line_plot, share_bar


def report_html(outcome: Outcome) -> str:
    """The whole page."""
    figures = outcome.figures
    plots = (_over_time, _pending, _rate, _latency, _cpu, _node_shares)
    parts = [
        _headline(figures),
        _verdict(figures),
        section("Gangs", _jobs(figures)) if figures.jobs else "",
        section("Unschedulable pods", _reasons(figures)) if figures.unschedulable_count else "",
        section("The run", "<div class='plots'>", *(plot(outcome) for plot in plots), "</div>"),
        section("Nodes, in order of name", "<div class='plots'>", *_nodes(outcome), "</div>"),
        section("Allocation", _allocation(figures)),
        section("Processes", _processes(figures)),
        section("More", _more(figures)),
    ]
    settings = "; ".join(f"{name} {told}" for name, told in figures.settings.items())
    return page("berth demo", figures.workload, parts, settings)


def _headline(figures: Figures) -> str:
    p99 = f"99 of 100 within {figures.latency_ms['p99']:,.0f} ms"
    return headline(
        (
            ("Bound", f"{figures.bound_count:,}", f"of {figures.pod_count:,} pods"),
            ("Pods per second", f"{figures.pods_per_s:,.0f}", "first creation to last binding"),
            ("Median latency", f"{figures.latency_ms['p50']:,.0f} ms", f"to bound; {p99}"),
            ("Unschedulable", f"{figures.unschedulable_count:,}", "pods that fit nowhere"),
            ("Nodes", f"{figures.node_count:,}", "in the cluster"),
        )
    )


def _verdict(figures: Figures) -> str:
    kind = "bad" if figures.problems else "good"
    problems = table(("Problem",), [(problem,) for problem in figures.problems])
    told = f"<p class='{kind}'>{escape(verdict(figures))}</p>"
    return f"{told}{problems}" if figures.problems else told


def _reasons(figures: Figures) -> str:
    most = max((one.pod_count for one in figures.reasons), default=1)
    rows = [
        (
            Cell(f"{one.text}: {one.detail}" if one.detail else one.text),
            Cell(html=share_bar(100 * one.pod_count / most), kind="share"),
            Cell(one.example, kind="text"),
            f"{one.pod_count:,}",
        )
        for one in figures.reasons
    ]
    messages = [(message, f"{count:,}") for message, count in figures.unschedulable.items()]
    told = f"all {len(messages)} messages" if len(messages) > 1 else "the message"
    whole = folded(f"In kube-scheduler's words: {told}", table(("Message", "Pods"), messages))
    return table(("Reason", "", "For example", "Pods"), rows, left=3) + whole


def _jobs(figures: Figures) -> str:
    return table(JOB_HEADINGS, [job_row(one) for one in figures.jobs])


def _allocation(figures: Figures) -> str:
    rows = [
        (
            called(name),
            Cell(html=share_bar(one.percent), kind="share"),
            f"{one.percent:.1f} %",
            amount(name, one.requested),
            amount(name, one.allocatable),
        )
        for name, one in figures.resources.items()
    ]
    return table(("Resource", "", "Share", "Requested", "Allocatable"), rows)


def _processes(figures: Figures) -> str:
    rows = [
        (
            one.name,
            f"{one.cpu_ms_per_pod:.3f}",
            f"{one.cpu_s:.2f}",
            f"{one.rss_peak_mib:.0f}",
            f"{one.restart_count}",
        )
        for one in figures.processes
    ]
    return table(("Process", "CPU ms a pod", "CPU s", "Peak MiB", "Restarts"), rows)


def _more(figures: Figures) -> str:
    counters = [(name, f"{count:,}") for name, count in sorted(figures.owner_counters.items())]
    settings = list(figures.settings.items())
    return folded("The owner's counters", table(("Counter", "Count"), counters)) + folded(
        "Settings and machine", table(("Setting", "Value"), settings, left=2)
    )


# Plots --------------------------------------------------------------------------------------------

SECONDS: Final = "seconds since the first creation"
SLICES: Final = 40
"""Of the time, where something is told per second."""


def _over_time(outcome: Outcome) -> str:
    lines = [
        Line(name, moments, range(1, len(moments) + 1))
        for name, moments in (("created", outcome.created_at_s), ("bound", outcome.bound_at_s))
    ]
    return line_plot("Created and bound", lines, SECONDS, "pods")


def _pending(outcome: Outcome) -> str:
    changes = sorted(
        [(at, 1) for at in outcome.created_at_s] + [(at, -1) for at in outcome.bound_at_s]
    )
    xs, ys, waiting = [0.0], [0], 0
    for at_s, by in changes:
        waiting += by
        xs.append(at_s)
        ys.append(waiting)
    return line_plot("Without a node", [Line("pending", xs, ys)], SECONDS, "pods")


def _rate(outcome: Outcome) -> str:
    moments = outcome.bound_at_s
    wide_s = max(moments, default=0.0) / SLICES or 1.0
    counts = Counter(int(at_s / wide_s) for at_s in moments)
    times = [(index + 0.5) * wide_s for index in range(SLICES)]
    rates = [counts[index] / wide_s for index in range(SLICES)]
    return line_plot("Bindings per second", [Line("bound", times, rates)], SECONDS, "pods/s")


def _latency(outcome: Outcome) -> str:
    percents = range(101)
    within_ms = [1000 * percentile(outcome.latencies_s, percent) for percent in percents]
    lines = [Line("bound", within_ms, percents)]
    return line_plot("From creation to bound within", lines, "milliseconds", "percent of the bound")


def _cpu(outcome: Outcome) -> str:
    history = outcome.cpu_history[:: len(outcome.cpu_history) // SLICES + 1]
    pairs = list(pairwise(history))
    names = list(history[-1][1]) if history else []
    times = [at_s for _, (at_s, _) in pairs]
    lines = [
        Line(
            name,
            times,
            [
                (after.get(name, 0.0) - before.get(name, 0.0)) / max(to_s - from_s, 1e-3)
                for (from_s, before), (to_s, after) in pairs
            ],
        )
        for name in names
    ]
    return line_plot("CPU by process", lines, SECONDS, "cores")


def _node_shares(outcome: Outcome) -> str:
    names = [name for name in _shown(outcome) if name != "pods"]
    lines = []
    for name in names:
        shares = sorted(outcome.node_shares[name].values(), reverse=True)
        places = [100 * (index + 1) / len(shares) for index in range(len(shares))]
        lines.append(Line(called(name), places, [100 * share for share in shares]))
    return line_plot("Nodes, fullest first", lines, "percent of the nodes", "percent in use")


def _nodes(outcome: Outcome) -> list[str]:
    return [heat_map(called(name), outcome.node_shares[name]) for name in _shown(outcome)]


def _shown(outcome: Outcome) -> Sequence[str]:
    return [name for name in SHOWN_RESOURCES if name in outcome.node_shares]
