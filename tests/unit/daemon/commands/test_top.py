"""`berth top`: a screen of text."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from daemon.commands import show_top
from daemon.commands.show_top import top_lines, watch_on
from daemon.overview.node_map import Total
from daemon.overview.overview import PERIOD_S, Looks, Overview
from shared.clock import SystemClock
from shared.messages.admin import RecentDecision
from tests.support.builders import make_node, make_pod
from tests.support.subjects import subject_with
from tests.support.watched_cluster import TrialOwner, WatchedSource

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def overview(tmp_path: Path) -> Overview:
    nodes = [make_node(f"n{n}", cpu="4", labels={ZONE: f"z{n % 2}"}) for n in range(4)]
    pods = [make_pod("full", cpu="4"), make_pod("half", cpu="2"), make_pod("big", cpu="9")]
    source = WatchedSource(subject_with(nodes, pods).trial(decides=True), tmp_path)
    look = Looks(tmp_path, SystemClock()).overview(TrialOwner(source.ask), 1.0)
    return replace(asyncio.run(look), next_in_s=PERIOD_S)


def test_a_screen_has_what_the_page_has(overview: Overview) -> None:
    text = "\n".join(top_lines(overview, 120))
    assert "4 nodes, 2 pods on them" in text
    assert "1 unschedulable" in text
    assert "scorer-0" in text
    assert "CPU short: 9 cores each" in text
    assert "default/full" in text


def test_zones_have_their_shares_and_a_column_for_each_node(overview: Overview) -> None:
    lines = top_lines(overview, 100)
    (first,) = (line for line in lines if line.startswith("z0"))
    (second,) = (line for line in lines if line.startswith("z1"))
    used = sorted(line.split()[1:3] for line in (first, second))
    assert used == [["2", "0"], ["2", "75"]]
    assert "█" in f"{first}{second}"


def test_more_nodes_than_columns_share_one(overview: Overview) -> None:
    (zone, *_) = overview.nodes.zones
    many = replace(zone, shares=[[100] * 900, *zone.shares[1:]])
    nodes = replace(overview.nodes, zones=[many], totals=[Total(9, 10), *overview.nodes.totals[1:]])
    lines = top_lines(replace(overview, nodes=nodes), 80)
    assert max(map(len, lines)) <= 80
    assert sum(line.count("█") for line in lines) in range(20, 60)


def test_nothing_from_the_cluster_is_obeyed_by_the_terminal(overview: Overview) -> None:
    evil = RecentDecision(0.0, "default/\x1b[2J", "", "\x1b]0;title\x07")
    text = "\n".join(top_lines(replace(overview, decisions=[evil]), 200))
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_a_screen_is_left_as_it_was_found(
    overview: Overview, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_look(_: Path) -> Iterator[Overview]:
        yield replace(overview, next_in_s=0.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(show_top, "_looks", one_look)
    stream = io.StringIO()
    watch_on("", stream)
    told = stream.getvalue()
    assert told.startswith("\x1b[?1049h\x1b[H")
    assert told.endswith("\x1b[?1049l")
