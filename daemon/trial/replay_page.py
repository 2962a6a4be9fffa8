"""Two configurations' days side by side, as a page."""

from typing import Final

import msgspec

from daemon.overview.documents import Cell, folded, headline, page, section, table
from daemon.overview.pending import PendingReason
from daemon.overview.plots import Line, heat_map, line_plot, share_bar
from daemon.trial.rerun import DayDetail, DayOutcome

MOVED_AT_ONCE: Final = 10
MOVED_SHOWN: Final = 500
"""On the page; `-o json` has all of them."""


class Moved(msgspec.Struct, frozen=True):
    """A pod that the two place differently; an empty name: nowhere."""

    pod: str
    now: str
    other: str


class Comparison(msgspec.Struct, frozen=True):
    seconds: float
    now: DayOutcome
    other: DayOutcome
    now_detail: DayDetail
    other_detail: DayDetail
    placed_elsewhere: int
    placed_now_only: int
    placed_other_only: int
    moved: list[Moved]
    """All that go elsewhere, or nowhere."""


def comparison_html(found: Comparison, recording: str) -> str:
    """The whole page."""
    now, other = found.now, found.other
    told = f"{found.seconds:,.0f} s of {recording}, decided twice"
    parts = [
        headline(
            (
                ("Placed elsewhere", f"{found.placed_elsewhere:,}", f"of {now.came:,} pods"),
                _changed("Never placed", now.never_placed, other.never_placed),
                _changed("Mean wait", now.mean_wait_s, other.mean_wait_s, " s"),
                _changed("Nodes in use", now.nodes_in_use, other.nodes_in_use),
                _changed(
                    "Stranded CPU",
                    100 * now.stranded_cpu_share,
                    100 * other.stranded_cpu_share,
                    " %",
                ),
            )
        ),
        section("The two", table(("", "As it is", "The other"), both_rows(found))),
        section(
            "The day",
            "<div class='plots'>",
            _waits(found),
            _fullness(found),
            heat_map("CPU by node, as it is", found.now_detail.cpu_shares),
            heat_map("CPU by node, the other", found.other_detail.cpu_shares),
            "</div>",
        ),
        section("Pending at the end", _pending(found)),
        section("Placed differently", _moved(found.moved)),
    ]
    return page("berth replay", told, parts, "Times in seconds. Shares are 0 to 1.")


def _changed(name: str, now: float, other: float, unit: str = "") -> tuple[str, str, str]:
    return (name, f"{other:,.6g}{unit}", f"instead of {now:,.6g}{unit}")


def both_rows(found: Comparison) -> list[tuple[str, str, str]]:
    """Name, as it is, with the other."""
    rows = [
        (_words(name), f"{getattr(found.now, name):,}", f"{getattr(found.other, name):,}")
        for name in DayOutcome.__struct_fields__
    ]
    cost = f"{found.now_detail.cpu_ms_a_pod:,}", f"{found.other_detail.cpu_ms_a_pod:,}"
    return [*rows, ("CPU ms to decide a pod", *cost)]


def _words(name: str) -> str:
    return name.replace("_", " ").replace("cpu", "CPU").removesuffix(" s")


def _waits(found: Comparison) -> str:
    percents = range(101)
    lines = [
        Line("as it is", found.now_detail.waits_s, percents),
        Line("the other", found.other_detail.waits_s, percents),
    ]
    return line_plot("Waited no longer than", lines, "seconds", "percent of the placed")


def _fullness(found: Comparison) -> str:
    lines = []
    for name, detail in (("as it is", found.now_detail), ("the other", found.other_detail)):
        shares = sorted(detail.cpu_shares.values(), reverse=True)
        places = [100 * (index + 1) / len(shares) for index in range(len(shares))]
        lines.append(Line(name, places, [100 * share for share in shares]))
    return line_plot("Nodes, fullest first", lines, "percent of the nodes", "percent of CPU")


def _pending(found: Comparison) -> str:
    both: dict[str, list[PendingReason | None]] = {}
    for index, detail in enumerate((found.now_detail, found.other_detail)):
        for one in detail.pending:
            both.setdefault(one.text, [None, None])[index] = one
    counts = {text: [one.pod_count if one else 0 for one in pair] for text, pair in both.items()}
    most = max((count for pair in counts.values() for count in pair), default=1)
    rows = [
        (
            text,
            Cell(html=share_bar(100 * pair[0] / most), kind="share"),
            f"{pair[0]:,}",
            Cell(html=share_bar(100 * pair[1] / most), kind="share"),
            f"{pair[1]:,}",
        )
        for text, pair in counts.items()
    ]
    return table(("Reason", "", "As it is", "", "The other"), rows)


def _moved(moved: list[Moved]) -> str:
    rows = [(one.pod, one.now or "nowhere", one.other or "nowhere") for one in moved[:MOVED_SHOWN]]
    head = ("Pod", "As it is", "The other")
    first, rest = rows[:MOVED_AT_ONCE], rows[MOVED_AT_ONCE:]
    if not rest:
        return table(head, first, left=3)
    more = len(moved) - MOVED_AT_ONCE
    told = f"{len(rest):,} more of {more:,}" if len(rest) < more else f"{more:,} more"
    return table(head, first, left=3) + folded(told, table(head, rest, left=3))
