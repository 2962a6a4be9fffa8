"""Plots as SVG, all of one size and with the page's colours: light or dark as the page is.

Made by hand, so that a report needs no library, and equal figures make equal files.
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final, NamedTuple

WIDTH: Final = 560
HEIGHT: Final = 260
LEFT, RIGHT, TOP, BOTTOM = 52, 22, 28, 38
POINTS_MAX: Final = 400
"""Of a line: more cannot be told apart."""
COLOURS: Final = 6
"""Of the page; further lines begin anew."""
TICKS: Final = 5
CELL: Final = 12
CELLS_A_LINE: Final = 96
CELLS_MAX: Final = 2_400
HEAT_STEPS: Final = 10


class Line(NamedTuple):
    """Points from left to right."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]


def line_plot(title: str, lines: Sequence[Line], x_label: str, y_label: str) -> str:
    """Lines over a common ground that begins at 0."""
    lines = [_thinned(line) for line in lines]
    axes = _Axes(
        max((x for line in lines for x in line.xs), default=0.0),
        max((y for line in lines for y in line.ys), default=0.0),
    )
    drawn = [
        f'<polyline class="line s{_colour(index)}" points="{axes.points(line)}"/>'
        for index, line in enumerate(lines)
        if len(line.xs) > 1
    ]
    keys = [line.name for line in lines] if len(lines) > 1 else []
    named = "".join(
        f'<span class="key s{_colour(index)}">{escape(name)}</span>'
        for index, name in enumerate(keys)
    )
    told = escape(f"{title}: {', '.join(keys)}" if keys else title)
    inner = "".join([*axes.frame(x_label, y_label), *drawn])
    return (
        f"<figure><figcaption><b>{escape(title)}</b> {named}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{told}">{inner}</svg></figure>'
    )


def heat_map(title: str, shares: Mapping[str, float]) -> str:
    """A cell for each name, in order; the nearer its share is to 1, the more it stands out."""
    named = sorted(shares.items())
    each = ceil(len(named) / CELLS_MAX) or 1
    cells = [named[at : at + each] for at in range(0, len(named), each)]
    drawn = []
    for index, cell in enumerate(cells):
        share = sum(one for _, one in cell) / len(cell)
        step = min(HEAT_STEPS, max(0, round(share * HEAT_STEPS)))
        x, y = index % CELLS_A_LINE * CELL, index // CELLS_A_LINE * CELL
        more = f" and {len(cell) - 1} more" if len(cell) > 1 else ""
        drawn.append(
            f'<rect class="h{step}" x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}">'
            f"<title>{escape(cell[0][0])}{more}: {share:.0%}</title></rect>"
        )
    height = max(1, ceil(len(cells) / CELLS_A_LINE)) * CELL
    full = sum(share >= 0.9 for share in shares.values())
    told = f"{title}: {len(named)} nodes, {full} of them at 90 % or more"
    return (
        f'<figure class="wide"><figcaption><b>{escape(title)}</b></figcaption>'
        f'<svg viewBox="0 0 {CELLS_A_LINE * CELL} {height}" role="img" aria-label="{escape(told)}">'
        f"{''.join(drawn)}</svg></figure>"
    )


def share_bar(percent: float) -> str:
    """A bar for a cell of a table."""
    width = min(100.0, max(0.0, percent))
    return (
        '<svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="none" width="100" height="6"/><rect class="bar s1" width="{width:.1f}"'
        ' height="6"/></svg>'
    )


class _Axes:
    """From numbers to places; both axes begin at 0 and end at a round number."""

    def __init__(self, x_most: float, y_most: float) -> None:
        self._x_most = _ceiling(x_most)
        self._y_most = _ceiling(y_most)

    def x(self, number: float) -> float:
        return LEFT + number / self._x_most * (WIDTH - LEFT - RIGHT)

    def y(self, number: float) -> float:
        return HEIGHT - BOTTOM - number / self._y_most * (HEIGHT - TOP - BOTTOM)

    def points(self, line: Line) -> str:
        pairs = zip(line.xs, line.ys, strict=True)
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in pairs)

    def frame(self, x_label: str, y_label: str) -> list[str]:
        drawn = []
        for tick in _ticks(self._y_most):
            y = self.y(tick)
            drawn.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
            drawn.append(_text(LEFT - 6, y + 4, _number(tick), "end"))
        drawn += [
            _text(self.x(tick), HEIGHT - BOTTOM + 16, _number(tick), "middle")
            for tick in _ticks(self._x_most)
        ]
        drawn.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, x_label, "middle"))
        drawn.append(_text(4, 12, y_label, "start"))
        return drawn


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _colour(index: int) -> int:
    return index % COLOURS + 1


def _thinned(line: Line) -> Line:
    step = max(1, ceil(len(line.xs) / POINTS_MAX))
    kept = sorted({*range(0, len(line.xs), step), *([len(line.xs) - 1] if line.xs else [])})
    return Line(line.name, [line.xs[at] for at in kept], [line.ys[at] for at in kept])


def _step(most: float) -> float:
    """A round number that lies about `TICKS` times in `most`."""
    rough = most / TICKS
    size: float = 10.0 ** floor(log10(rough))
    return next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * 0.999)


def _ceiling(most: float) -> float:
    if most <= 0:
        return 1.0
    step = _step(most)
    return ceil(most / step - 1e-9) * step


def _ticks(most: float) -> list[float]:
    step = _step(most)
    return [index * step for index in range(round(most / step) + 1)]


def _number(number: float) -> str:
    if number >= 10_000:
        return f"{number / 1000:g}k"
    return f"{number:g}"
