"""Plots and tables of pages that stay: round numbers, one size, nothing but text from outside."""

import re
from xml.etree import ElementTree as ET

import pytest

from daemon.overview.documents import Cell, folded, headline, page, section, table
from daemon.overview.plots import CELLS_MAX, POINTS_MAX, Line, heat_map, line_plot, share_bar

EVIL = "<script>alert(1)</script>"


def texts(figure: str) -> list[str]:
    root = ET.fromstring(figure)
    return [node.text or "" for node in root.iter("text")]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (8152, ["0", "2000", "4000", "6000", "8000", "10k"]),
        (0.9, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (60, ["0", "20", "40", "60"]),
        (0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_axes_begin_at_nothing_and_end_at_a_round_number(most: float, ticks: list[str]) -> None:
    told = texts(line_plot("t", [Line("a", [0, 1], [0, most])], "x", "y"))
    assert told[: len(ticks)] == ticks


def test_a_line_lies_where_its_numbers_say() -> None:
    drawn = line_plot("t", [Line("a", [0, 10], [0, 100])], "x", "y")
    (points,) = re.findall(r'points="([^"]+)"', drawn)
    assert points == "52.0,222.0 538.0,28.0", "from the lower left to the upper right"


def test_more_points_than_can_be_told_apart_are_left_out_but_the_last() -> None:
    many = Line("a", range(10_000), range(10_000))
    (points,) = re.findall(r'points="([^"]+)"', line_plot("t", [many], "x", "y"))
    pairs = points.split()
    assert len(pairs) <= POINTS_MAX + 1
    assert pairs[-1].startswith("538.0,"), "10,000 is where the axis ends"


def test_nothing_to_draw_is_an_empty_frame() -> None:
    for drawn in (
        line_plot("t", [], "x", "y"),
        line_plot("t", [Line("a", [], [])], "x", "y"),
        heat_map("t", {}),
    ):
        ET.fromstring(drawn)
        assert "polyline" not in drawn


def test_a_heat_map_has_a_cell_for_each_node_or_a_bounded_number() -> None:
    few = heat_map("CPU", {"n2": 1.0, "n1": 0.0})
    assert re.findall(r"<title>(.*?)</title>", few) == ["n1: 0%", "n2: 100%"]
    assert re.findall(r'rect class="(h\d+)"', few) == ["h0", "h10"]
    assert "2 nodes, 1 of them at 90 % or more" in few
    many = heat_map("CPU", {f"n{number}": 0.5 for number in range(3 * CELLS_MAX)})
    assert many.count("<rect") == CELLS_MAX


def test_whatever_is_told_is_text() -> None:
    whole = page(
        EVIL,
        EVIL,
        [
            headline([(EVIL, EVIL, EVIL)]),
            section(EVIL, table((EVIL,), [(EVIL,), (Cell(EVIL, kind="text"),)])),
            folded(EVIL, ""),
            heat_map(EVIL, {EVIL: 0.5}),
            line_plot(EVIL, [Line(EVIL, [0, 1], [0, 1]), Line(EVIL, [0], [1])], EVIL, EVIL),
        ],
        EVIL,
    )
    assert "<script" not in whole
    assert whole.count("&lt;script&gt;alert(1)") > 12


def test_a_share_is_between_nothing_and_all() -> None:
    assert 'width="100.0"' in share_bar(250.0)
    assert 'width="0.0"' in share_bar(-1.0)


def test_a_section_without_anything_is_left_out() -> None:
    assert section("empty", "") == ""
