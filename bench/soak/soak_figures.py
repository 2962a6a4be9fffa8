"""The figures of a soak: what `--json` writes, and the table that the terminal shows. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

from bench.demo.demo_figures import PERCENTILES, percentile
from bench.soak.memory import GROWTH_MAX, MemoryFigures
from daemon.commands.text_table import table as columns

PROBLEMS_SHOWN_MAX: Final = 30


class SoakFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A whole soak."""

    settings: dict[str, str]
    seconds: float
    """In which pods were created."""
    created_count: int
    bound_count: int
    bound_by_kind: dict[str, int]
    latency_ms: dict[str, float]
    """Creation sent to binding seen: p50, p90, p99, p100."""
    node_changes: int
    kills: dict[str, int]
    """Process -> how often it was killed or stopped."""
    restarts: dict[str, int]
    comparisons: int
    """Of cache and queue with the API server, while all of it went on."""
    cpu_ms_per_pod: dict[str, float]
    """Process -> CPU time by the number of pods bound."""
    memory: list[MemoryFigures]
    owner_counters: dict[str, int]
    """Of the owner's last life."""
    problems: list[str]
    """Drift, lost pods, leaks, overcommitted nodes. Empty: all is well."""


def latency_ms(latencies_s: Sequence[float]) -> dict[str, float]:
    """The usual percentiles."""
    ordered = sorted(latencies_s)
    return {f"p{percent}": percentile(ordered, percent) * 1000 for percent in PERCENTILES}


def leaks(memory: Sequence[MemoryFigures]) -> list[str]:
    """What has grown, as sentences."""
    return [
        f"{one.process} (pid {one.pid}) has grown by {one.growth:.1%}: from"
        f" {one.first_half_mib:.1f} to {one.second_half_mib:.1f} MiB,"
        f" {one.slope_mib_per_hour:.1f} MiB an hour"
        for one in memory
        if one.has_grown
    ]


def table(figures: SoakFigures) -> str:
    """The figures as text."""
    latency = ", ".join(f"{name} {ms:,.0f} ms" for name, ms in figures.latency_ms.items())
    rate = figures.bound_count / figures.seconds if figures.seconds else 0.0
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in figures.bound_by_kind.items())
    kills = ", ".join(f"{name} {count}" for name, count in figures.kills.items())
    settings = ", ".join(f"{name} {told}" for name, told in figures.settings.items())
    return "\n".join(
        [
            f"berth soak: {settings}",
            "",
            f"pods         {figures.created_count:,} created, {figures.bound_count:,} bound in"
            f" {figures.seconds:,.0f} s: {rate:,.0f} pods/s",
            f"by kind      {kinds}",
            f"latency      creation to bound: {latency.replace('p100', 'max')}",
            f"nodes        {figures.node_changes:,} changes",
            f"disturbed    {kills or 'nobody'}",
            f"comparisons  {figures.comparisons}",
            "",
            *_processes(figures),
            "",
            *_verdict(figures),
        ]
    )


def _processes(figures: SoakFigures) -> list[str]:
    head = ("PROCESS", "CPU ms/pod", "1ST MiB", "2ND MiB", "GROWTH", "MiB/h", "PSS MiB", "JUDGED")
    rows = [
        (
            one.process,
            f"{figures.cpu_ms_per_pod.get(one.process, 0.0):.3f}",
            f"{one.first_half_mib:.1f}",
            f"{one.second_half_mib:.1f}",
            f"{one.growth:+.1%}",
            f"{one.slope_mib_per_hour:+.1f}",
            f"{one.pss_mib:.1f}",
            "yes" if one.is_judged else "no",
        )
        for one in figures.memory
    ]
    told = (
        "memory: the most own memory (USS) of each half of the time after the warm-up;"
        f" more than {GROWTH_MAX:.0%} of growth is a leak"
    )
    return [*columns(head, rows), told]


def _verdict(figures: SoakFigures) -> list[str]:
    if figures.problems:
        shown = [f"  {problem}" for problem in figures.problems[:PROBLEMS_SHOWN_MAX]]
        return [f"check: {len(figures.problems)} PROBLEMS", *shown]
    is_judged = any(one.is_judged for one in figures.memory)
    memory = "no leak" if is_judged else "leaks not looked for in so short a time"
    return [
        f"check: no drift, {memory}, no pod lost or bound twice, no node ever overcommitted"
        " (from the API server's own objects)"
    ]
