"""`berth status` and `berth dump`: what a running berth is made of and what it holds.

The processes come from the supervisor's list and the kernel, the queues and rates from the owner. An
owner that does not answer is shown as such; the processes are shown all the same. Rates and CPU
shares are of the second in which `berth status` looks twice, not averages since the start.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from daemon.commands.text_table import table
from daemon.core.owner_counts import Count
from daemon.overview.overview import BerthStatus, Looks, problem_text
from daemon.supervisor.process_list import ProcessUse, read_list
from shared.clock import SystemClock
from shared.messages.admin import (
    CompareRequest,
    DumpRequest,
    StatusAnswer,
    StatusRequest,
    TextAnswer,
)
from shared.transport.owner_link import NoAnswerError, OwnerLink

OWNER_TIMEOUT_S: Final = 5.0
SAMPLE_S: Final = 1.0

DUMP_TIMEOUT_S: Final = 60.0


def read_status(runtime_dir: str, sample_s: float = SAMPLE_S) -> BerthStatus:
    """Takes `sample_s`; NotRunningError if no berth runs there."""
    looks = Looks(Path(runtime_dir), SystemClock())
    read_list(Path(runtime_dir))
    looks.take(*_ask(runtime_dir))
    threading.Event().wait(sample_s)
    return looks.take(*_ask(runtime_dir))


def _ask(runtime_dir: str) -> tuple[StatusAnswer | None, str]:
    """The owner's answer, or why there is none."""
    try:
        owner = OwnerLink(Path(runtime_dir))
        return owner.ask_now(StatusRequest(), StatusAnswer, OWNER_TIMEOUT_S), ""
    except NoAnswerError as error:
        return None, str(error)


def ask_for_text(runtime_dir: str, *, is_compare: bool) -> list[str]:
    """The owner's dump, or its contradictions; NotRunningError if no berth runs there."""
    read_list(Path(runtime_dir))
    question = CompareRequest() if is_compare else DumpRequest()
    return OwnerLink(Path(runtime_dir)).ask_now(question, TextAnswer, DUMP_TIMEOUT_S).lines


def status_for_programs(status: BerthStatus) -> dict[str, object]:
    """What is told as JSON."""
    return {
        "state": status.state,
        "processes": status.processes,
        "cpu_percent": {one.name: one.cpu_percent for one in status.processes},
        "rates": status.rates,
        "owner": None if status.owner is None else msgspec.structs.asdict(status.owner),
        "owner_problem": status.owner_problem,
        "api_word_ages_s": status.api_word_ages_s,
    }


def status_lines(status: BerthStatus) -> list[str]:
    """Tables for people."""
    owner = status.owner
    lines = [f"state       {status.state}"]
    if owner is None:
        lines.append(f"owner       no answer: {status.owner_problem}")
    else:
        lines += _owner_lines(owner, status)
    lines += [
        f"problem     {one.name}: {problem_text(problem, status.wall_s)}"
        for one in status.processes
        for problem in one.problems
    ]
    rows = (_process_row(one) for one in status.processes)
    lines += ["", *table(_PROCESS_HEAD, rows)]
    if owner is not None and owner.counters:
        lines += ["", "since the owner's start:", *_counter_lines(owner.counters)]
    return lines


def _owner_lines(owner: StatusAnswer, status: BerthStatus) -> list[str]:
    queue, lines = owner.queue, []
    if status.leading:
        lines.append("leading     yes: this berth holds the lease")
    elif owner.is_standby and status.leading is None:
        lines.append("leading     no: it only observes")
    elif owner.is_standby:
        lines.append("leading     no: it does not hold the lease; the cache is kept up to date")
    lines += [
        f"cluster     {owner.node_count} nodes, {owner.pod_count} pods"
        f" ({owner.assumed_pod_count} assumed), {'listed' if owner.synced else 'being listed'},"
        f" epoch {owner.epoch}, generation {owner.generation}",
        f"queue       {queue.active} active, {queue.backoff} backing off,"
        f" {queue.unschedulable} unschedulable, {queue.gated} gated,"
        f" {queue.in_flight} being scheduled",
        f"pool        {owner.scorers_ready} scorers and {owner.binders_ready} binders ready,"
        f" {owner.binds_in_flight} bindings in flight",
        "rates       " + ", ".join(f"{rate:.0f} {name}/s" for name, rate in status.rates.items()),
        f"API server  {_words(status.api_word_ages_s)}",
    ]
    if owner.awaited_kinds:
        lines.append(f"waiting     for the list of {', '.join(owner.awaited_kinds)}")
    lines += [f"not listed  {kind}: {why}" for kind, why in owner.unavailable_kinds.items()]
    if owner.last_error:
        lines.append(f"last error  {owner.last_error}")
    if owner.foreign_pods_by_node:
        others = (f"{node} {count}" for node, count in owner.foreign_pods_by_node.items())
        told = "pods that others bound while they waited here: "
        lines.append(f"foreign     {told}{', '.join(others)}")
    return lines


def _words(ages_s: dict[str, float]) -> str:
    """How old the newest word of the API server is, and of which kind the oldest."""
    if not ages_s:
        return "not heard yet"
    oldest = max(ages_s, key=lambda kind: ages_s[kind])
    return f"newest word {min(ages_s.values()):.1f} s ago; of {oldest} {ages_s[oldest]:.0f} s ago"


def _counter_lines(counters: dict[str, int]) -> list[str]:
    sentences = {count.key: count.metric.sentence for count in Count}
    return [
        f"{count:12,}  {name:19} {sentences.get(name, '')}".rstrip()
        for name, count in sorted(counters.items())
    ]


_PROCESS_HEAD: Final = ("PROCESS", "PID", "UP", "CPU s", "CPU %", "RSS MiB", "PEAK MiB", "RESTARTS")


def _process_row(one: ProcessUse) -> Sequence[str]:
    restarts = f"{one.restart_count}" + (f" ({one.last_exit})" if one.last_exit else "")
    if not one.is_alive:
        return (one.name, "-", "down", "-", "-", "-", "-", restarts)
    return (
        one.name,
        f"{one.pid}",
        f"{one.running_s:.0f} s",
        f"{one.cpu_s:.1f}",
        f"{one.cpu_percent:.0f}",
        f"{one.rss_bytes / 2**20:.0f}",
        f"{one.rss_peak_bytes / 2**20:.0f}",
        restarts,
    )
