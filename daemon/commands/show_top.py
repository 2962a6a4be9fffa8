"""`berth top`: what the live page shows, on a terminal, again and again until told to stop.

Plain text, and of a terminal's language three words only: take another screen, go home, wipe. What comes
from the cluster is escaped before.
"""

import asyncio
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

from daemon.commands.text_table import table
from daemon.core.fit_reasons import reason_of
from daemon.overview.node_map import NodeMap, Total, ZoneMap
from daemon.overview.overview import Looks, Overview
from daemon.overview.pending import bytes_text, called
from daemon.supervisor.process_list import ProcessUse, read_list
from shared import shown
from shared.clock import SystemClock
from shared.messages.admin import RecentDecision
from shared.transport.owner_link import OwnerLink

OWNER_TIMEOUT_S: Final = 5.0
ONCE_S: Final = 1.0
"""Between the two looks of `--once`, whose rates are of that time."""
WIDTH_MIN: Final = 60
ZONES_SHOWN: Final = 8
_OTHER_SCREEN, _OLD_SCREEN, _ANEW, _WIPE_REST = "\x1b[?1049h", "\x1b[?1049l", "\x1b[H", "\x1b[J"
_WIPE_LINE: Final = "\x1b[K"
_STEPS: Final = " ▁▂▃▄▅▆▇█"


def _looks(runtime_dir: Path) -> Iterator[Overview]:
    """NotRunningError if none runs there."""
    read_list(runtime_dir)
    looks, owner = Looks(runtime_dir, SystemClock()), OwnerLink(runtime_dir)
    while True:
        yield asyncio.run(looks.overview(owner, OWNER_TIMEOUT_S))


def look_once(runtime_dir: str) -> list[str]:
    """One screen, as high as it gets."""
    looks = _looks(Path(runtime_dir))
    next(looks)
    threading.Event().wait(ONCE_S)
    return top_lines(next(looks), shutil.get_terminal_size((100, 24)).columns)


def watch_on(runtime_dir: str, stream: TextIO = sys.stdout) -> None:
    """Until Ctrl-C, or the berth ends (NotRunningError)."""
    stream.write(_OTHER_SCREEN)
    try:
        for overview in _looks(Path(runtime_dir)):
            size = shutil.get_terminal_size((100, 24))
            lines = top_lines(overview, size.columns)[: size.lines - 1]
            told = "".join(f"{line}{_WIPE_LINE}\n" for line in lines)
            stream.write(f"{_ANEW}{told}{_WIPE_REST}")
            stream.flush()
            threading.Event().wait(overview.next_in_s)
    except KeyboardInterrupt:
        pass  # How one leaves.
    finally:
        stream.write(_OLD_SCREEN)
        stream.flush()


def top_lines(overview: Overview, width: int) -> list[str]:
    """What matters most comes first: a screen may be low."""
    width = max(width, WIDTH_MIN)
    parts = [
        _head(overview),
        _processes(overview.processes),
        _pending(overview),
        _nodes(overview.nodes, width),
        _gangs(overview),
        _decisions(overview.decisions),
    ]
    lines = [line for part in parts if part for line in (*part, "")]
    return [shown.one_line(line)[:width].rstrip() for line in lines[:-1]]


def _head(overview: Overview) -> list[str]:
    queue, rates = overview.queue, overview.rates
    lead = {None: "", True: ", leads", False: ", stands by"}[overview.leading]
    age_s = overview.api_word_age_s
    word = "not heard yet" if age_s is None else f"heard {age_s:.1f} s ago"
    fast = ", ".join(f"{rate:,.0f} {name}/s" for name, rate in rates.items()) or "-"
    return [
        f"berth {overview.version}: {overview.state}{lead}; API server {word}",
        f"{overview.nodes.node_count:,} nodes, {overview.pod_count:,} pods on them,"
        f" generation {overview.generation:,}",
        f"rates  {fast}",
        f"queue  {queue.active:,} active, {queue.backoff:,} backing off,"
        f" {queue.unschedulable:,} unschedulable, {queue.gated:,} gated,"
        f" {queue.in_flight:,} being scheduled, {overview.binds_in_flight:,} bindings under way",
        *(f"! {problem}" for problem in overview.problems),
    ]


def _processes(processes: Sequence[ProcessUse]) -> list[str]:
    def row(one: ProcessUse) -> tuple[str, ...]:
        if not one.is_alive:
            return (one.name, "down", "-", "-", "-", f"{one.restart_count}")
        lag = "" if one.lag is None else f"{one.lag:,}"
        memory = bytes_text(one.rss_bytes), bytes_text(one.rss_peak_bytes)
        return (one.name, f"{one.cpu_percent:.0f}", *memory, lag, f"{one.restart_count}")

    return table(("PROCESS", "CPU %", "MEMORY", "PEAK", "LAG", "RESTARTS"), map(row, processes))


def _pending(overview: Overview) -> list[str]:
    rows = [
        (f"{one.pod_count:,}", f"{one.text}: {one.detail}" if one.detail else one.text, one.example)
        for one in overview.pending
    ]
    return table(("PENDING", "REASON", "FOR EXAMPLE"), rows, left={1, 2}) if rows else []


def _nodes(nodes: NodeMap, width: int) -> list[str]:
    if not nodes.node_count:
        return []
    largest = sorted(nodes.zones, key=lambda zone: -zone.node_count)[:ZONES_SHOWN]
    zones = sorted(largest, key=lambda zone: zone.zone)
    fullest = max(range(len(nodes.resources)), key=lambda one: _share(nodes.totals[one]))
    names = [called(name) for name in nodes.resources]
    head = ("ZONE", "NODES", *(f"{name} %" for name in names), f"{names[fullest]} by node")
    rows = [
        (
            zone.zone or "-",
            f"{zone.node_count:,}",
            *(f"{_share(total):.0f}" for total in zone.totals),
            "",
        )
        for zone in zones
    ]
    lines = table(head, rows, left={0, len(head) - 1})
    room = width - lines[0].index(head[-1])
    strips = [_strip(zone, fullest, room) for zone in zones]
    return [
        lines[0],
        *(f"{line:{width - room}}{strip}" for line, strip in zip(lines[1:], strips, strict=True)),
    ]


def _share(total: Total) -> float:
    return 100 * total.requested / total.allocatable if total.allocatable else 0.0


def _strip(zone: ZoneMap, resource: int, room: int) -> str:
    """The nodes in order of name, as many to a column as it takes."""
    shares = zone.shares[resource]
    each = -(-len(shares) // max(room, 1)) or 1
    means = (shares[at : at + each] for at in range(0, len(shares), each))
    return "".join(_step(sum(max(0, one) for one in few) / len(few)) for few in means)


def _step(percent: float) -> str:
    return _STEPS[min(len(_STEPS) - 1, round(percent / 100 * (len(_STEPS) - 1)))]


def _gangs(overview: Overview) -> list[str]:
    rows = [
        (one.group, f"{one.pending_count}", f"{one.placed_count}", f"{one.wanted_count}")
        for one in overview.gangs
    ]
    return table(("GANG", "PENDING", "PLACED", "WANTED TOGETHER"), rows) if rows else []


def _decisions(decisions: Iterable[RecentDecision]) -> list[str]:
    rows = [
        (f"{one.ago_s:.0f} s", one.pod, one.node or reason_of(one.message)) for one in decisions
    ]
    return table(("AGO", "POD", "GOES TO, OR WHY NOWHERE"), rows, left={1, 2}) if rows else []
