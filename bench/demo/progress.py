"""What a person sees while the demo runs: a live table on a terminal, a line now and then elsewhere."""

import sys
from typing import Final, Self, TextIO

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

LINE_PERIOD_S: Final = 2.0
"""Between two lines where there is no terminal."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """How things stand."""

    phase: str
    now_s: float
    created_count: int = 0
    pod_count: int = 0
    bound_count: int = 0
    pending_count: int = 0
    unschedulable_count: int = 0
    bound_per_s: float = 0.0
    """Over the last moments."""
    cpu_percent: dict[str, float] = {}
    """Process -> share of one core over the last moments."""


class Progress:
    """Shows moments. A context manager: the live table is taken down at the end."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._is_live = stream.isatty()
        self._console = Console(file=stream)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._last_line_s = float("-inf")
        self._last_phase = ""

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            self._live.stop()

    def show(self, moment: Moment) -> None:
        """Shows how things stand now."""
        if self._is_live:
            self._live.update(_table(moment), refresh=True)
            return
        is_due = moment.now_s - self._last_line_s >= LINE_PERIOD_S
        if is_due or moment.phase != self._last_phase:
            self._last_line_s, self._last_phase = moment.now_s, moment.phase
            print(line(moment), file=self._stream, flush=True)


def line(moment: Moment) -> str:
    """A moment as one line."""
    if not moment.pod_count:
        return moment.phase
    cpu = " ".join(f"{name}={share:.0f}%" for name, share in moment.cpu_percent.items())
    return (
        f"{moment.phase}: scheduled {moment.bound_count:,}/{moment.pod_count:,}"
        f" pending {moment.pending_count:,} unschedulable {moment.unschedulable_count:,}"
        f" rate {moment.bound_per_s:,.0f}/s cpu {cpu}"
    )


def _table(moment: Moment) -> Table:
    table = Table(title=f"berth demo: {moment.phase}", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rows = [
        ("created", f"{moment.created_count:,} of {moment.pod_count:,}"),
        ("scheduled", f"{moment.bound_count:,}"),
        ("pending", f"{moment.pending_count:,}"),
        ("unschedulable", f"{moment.unschedulable_count:,}"),
        ("rate", f"{moment.bound_per_s:,.0f} pods/s"),
    ]
    for name, told in rows:
        table.add_row(name, told)
    if moment.cpu_percent:
        table.add_section()
    for name, share in moment.cpu_percent.items():
        table.add_row(f"CPU {name}", f"{share:.0f} %")
    return table
