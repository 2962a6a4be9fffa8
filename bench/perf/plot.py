"""Results as bar charts in SVG: throughput, and CPU time of a pod by process. Pure; no library."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from bench.perf.result import Result

WIDTH: Final = 960
LABEL_WIDTH: Final = 420
BAR_WIDTH: Final = WIDTH - LABEL_WIDTH - 110
ROW: Final = 26
BAR: Final = 16
COLOURS: Final = ("#4878a8", "#e1812c", "#3a923a", "#c03d3e", "#9372b2", "#845b53", "#7f7f7f")


def plot_svg(results: Sequence[Result]) -> str:
    """One row for each result, in order, in each of two charts; colours are the same in all plots."""
    rates = [result.median.throughput_pods_per_s.get("overall", 0.0) for result in results]
    costs = [result.median.cpu_s_per_1000_pods for result in results]
    stages = list(dict.fromkeys(_stage(name) for cost in costs for name in cost))
    height = 2 * (ROW * len(results) + 70) + 20 * len(stages) + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        *_title(24, "pods/s, median of the runs"),
    ]
    top = 40
    most = max(rates, default=0.0) or 1.0
    for index, (result, rate) in enumerate(zip(results, rates, strict=True)):
        y = top + index * ROW
        lines += _label(y, result)
        lines += _bar(y, 0.0, rate / most, COLOURS[0])
        lines += _figure(y, rate / most, f"{rate:,.0f}")
    top += ROW * len(results) + 50
    lines += _title(top - 16, "CPU ms of a pod, by process")
    most = max((sum(cost.values()) for cost in costs), default=0.0) or 1.0
    for index, (result, cost) in enumerate(zip(results, costs, strict=True)):
        y = top + index * ROW
        lines += _label(y, result)
        start = 0.0
        for name, cpu_ms in cost.items():
            colour = COLOURS[stages.index(_stage(name)) % len(COLOURS)]
            lines += _bar(y, start / most, cpu_ms / most, colour, f"{name} {cpu_ms:.3f} ms")
            start += cpu_ms
        lines += _figure(y, start / most, f"{start:.3f}")
    top += ROW * len(results) + 20
    for index, stage in enumerate(stages):
        colour = COLOURS[index % len(COLOURS)]
        y = top + 20 * index
        lines.append(f'<rect x="{LABEL_WIDTH}" y="{y}" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{LABEL_WIDTH + 18}" y="{y + 11}">{escape(stage)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _stage(name: str) -> str:
    """scorer-0 and scorer-1 are both scorers."""
    head, _, tail = name.rpartition("-")
    return head if tail.isdecimal() else name


def _title(y: int, text: str) -> Iterator[str]:
    yield f'<text x="{LABEL_WIDTH}" y="{y}" font-weight="bold">{escape(text)}</text>'


def _label(y: int, result: Result) -> Iterator[str]:
    workers = result.options.get("workers", "?")
    text = f"{result.workload}, {result.mode}, {workers} scorer(s)"
    yield f'<text x="{LABEL_WIDTH - 8}" y="{y + 13}" text-anchor="end">{escape(text)}</text>'


def _bar(y: int, start: float, share: float, colour: str, told: str = "") -> Iterator[str]:
    x, width = LABEL_WIDTH + start * BAR_WIDTH, share * BAR_WIDTH
    title = f"<title>{escape(told)}</title>" if told else ""
    yield (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}">{title}</rect>'
    )


def _figure(y: int, share: float, text: str) -> Iterator[str]:
    yield f'<text x="{LABEL_WIDTH + share * BAR_WIDTH + 6:.1f}" y="{y + 13}">{text}</text>'
