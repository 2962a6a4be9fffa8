"""The report of a run: one HTML file with the figures and the plots, to be opened from anywhere.

Plots are inline SVG, so the file needs nothing beside it. Made once at the end, when nothing is
measured any more.
"""

import html
import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import matplotlib as mpl
import matplotlib.pyplot as plt

from bench.demo.demo_figures import SHOWN_RESOURCES, Figures, amount, percentile, verdict
from bench.demo.demo_run import Outcome

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2430; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .9rem .2rem 0; text-align: right; }
td:first-child, th:first-child { text-align: left; } th { border-bottom: 1px solid #b8c0cc; }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1.2rem 0; }
.numbers b { display: block; font-size: 1.7rem; } .ok { color: #14663a; } .bad { color: #a41623; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(27rem, 1fr)); gap: 1rem; }
svg { width: 100%; height: auto; } .note { color: #5a6472; }
"""

_BLUE, _ORANGE, _GREEN = "#2b6cb0", "#c05621", "#2f855a"


def report_html(outcome: Outcome) -> str:
    """The whole page."""
    figures = outcome.figures
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>berth demo</title>",
        f"<style>{_STYLE}</style><h1>berth demo</h1><p>{html.escape(figures.workload)}</p>",
        _headline(figures),
        _verdict(figures),
        "<div class='plots'>",
        *(_plot(draw, outcome) for draw in (_over_time, _latency, _allocation, _nodes, _cpu)),
        "</div>",
        _tables(figures),
        "</html>",
    ]
    return "\n".join(parts)


def _headline(figures: Figures) -> str:
    numbers = (
        (f"{figures.bound_count:,}", f"of {figures.pod_count:,} pods bound"),
        (f"{figures.pods_per_s:,.0f}", "pods/s, first creation to last binding"),
        (f"{figures.latency_ms['p50']:,.0f} ms", "median from creation to bound"),
        (f"{figures.latency_ms['p99']:,.0f} ms", "99th percentile"),
        (f"{figures.unschedulable_count:,}", "unschedulable"),
    )
    cells = "".join(f"<div><b>{number}</b>{told}</div>" for number, told in numbers)
    return f"<div class='numbers'>{cells}</div>"


def _verdict(figures: Figures) -> str:
    kind = "bad" if figures.problems else "ok"
    problems = "".join(f"<li>{html.escape(problem)}</li>" for problem in figures.problems)
    told = f"<p class='{kind}'>{html.escape(verdict(figures))}</p>"
    return f"{told}<ul>{problems}</ul>" if problems else told


def _tables(figures: Figures) -> str:
    messages = [(message, f"{count:,}") for message, count in figures.unschedulable.items()]
    resources = [
        (name, amount(name, one.requested), amount(name, one.allocatable), f"{one.percent:.1f} %")
        for name, one in figures.resources.items()
    ]
    processes = [
        (
            one.name,
            f"{one.cpu_ms_per_pod:.3f}",
            f"{one.cpu_s:.2f}",
            f"{one.rss_peak_mib:.0f}",
            f"{one.restart_count}",
        )
        for one in figures.processes
    ]
    counters = [(name, f"{count:,}") for name, count in sorted(figures.owner_counters.items())]
    process_head = ("process", "CPU ms per pod", "CPU s", "peak MiB", "restarts")
    return "\n".join(
        (
            _table("Unschedulable pods", ("message", "pods"), messages),
            _table("Allocation", ("resource", "requested", "allocatable", "share"), resources),
            _table("Processes", process_head, processes),
            _table("The owner's counters", ("counter", "count"), counters),
            _table("Settings", ("setting", "value"), list(figures.settings.items())),
        )
    )


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heading = f"<h2>{html.escape(title)}</h2>"
    if not rows:
        return f"{heading}<p class='note'>None.</p>"
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"{heading}<table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


# Plots --------------------------------------------------------------------------------------------


def _plot(draw: Callable[[Any, Outcome], None], outcome: Outcome) -> str:
    """One plot as SVG."""
    with mpl.rc_context(
        {"svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}
    ):
        figure, axes = plt.subplots(figsize=(5.4, 3.2), layout="constrained")
        try:
            draw(axes, outcome)
            drawn = io.StringIO()
            # Without the date, the same figures make the same file.
            figure.savefig(drawn, format="svg", metadata={"Date": None})
        finally:
            plt.close(figure)
    svg = drawn.getvalue()
    return svg[svg.index("<svg") :]


def _over_time(axes: Any, outcome: Outcome) -> None:
    for moments, name, colour in (
        (outcome.created_at_s, "created", _ORANGE),
        (outcome.bound_at_s, "bound", _BLUE),
    ):
        axes.plot(*_thinned(moments), label=name, color=colour)
    axes.set(title="Pods over time", xlabel="seconds since the first creation", ylabel="pods")
    axes.legend()


def _thinned(moments: Sequence[float]) -> tuple[list[float], list[int]]:
    """Counts at so many moments as a plot can show."""
    step = max(1, len(moments) // 500)
    indices = [*range(0, len(moments), step)]
    if moments and indices[-1] != len(moments) - 1:
        indices.append(len(moments) - 1)
    return [moments[i] for i in indices], [i + 1 for i in indices]


def _latency(axes: Any, outcome: Outcome) -> None:
    latencies_ms = [1000 * one for one in outcome.latencies_s]
    if latencies_ms:
        axes.hist(latencies_ms, bins=60, color=_BLUE)
    for percent, colour in ((50, _GREEN), (99, _ORANGE)):
        at_ms = percentile(latencies_ms, percent)
        axes.axvline(at_ms, color=colour, label=f"p{percent} {at_ms:,.0f} ms")
    axes.set(title="From creation to bound", xlabel="milliseconds", ylabel="pods")
    axes.legend()


def _allocation(axes: Any, outcome: Outcome) -> None:
    resources = outcome.figures.resources
    names = [name for name in SHOWN_RESOURCES if name in resources]
    bars = axes.barh(names, [resources[name].percent for name in names], color=_BLUE)
    axes.bar_label(bars, fmt="%.1f %%", padding=3)
    axes.set(title="Allocated share of the cluster", xlabel="percent", xlim=(0, 115))
    axes.invert_yaxis()


def _nodes(axes: Any, outcome: Outcome) -> None:
    names = [name for name in SHOWN_RESOURCES if name in outcome.node_shares and name != "pods"]
    bins = [i / 20 for i in range(21)]
    for name in names:
        axes.hist(outcome.node_shares[name], bins=bins, histtype="step", label=name, linewidth=1.6)
    axes.set(title="Nodes by their share in use", xlabel="share", ylabel="nodes", xlim=(0, 1))
    if names:
        axes.legend()


def _cpu(axes: Any, outcome: Outcome) -> None:
    history = outcome.cpu_history
    pairs = list(pairwise(history))
    names = list(history[-1][1]) if history else []
    times = [at_s for _, (at_s, _) in pairs]
    for name in names:
        shares = [
            (after.get(name, 0.0) - before.get(name, 0.0)) / max(to_s - from_s, 1e-3)
            for (from_s, before), (to_s, after) in pairs
        ]
        axes.plot(times, shares, label=name, linewidth=1.2)
    axes.set(title="CPU per process", xlabel="seconds since the first creation", ylabel="cores")
    if names:
        axes.legend(fontsize=7)
