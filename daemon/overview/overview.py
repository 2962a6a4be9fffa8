"""How a berth is at one moment: its processes from the supervisor's list and the kernel, all else from
the owner. `BerthStatus` is what one small question tells, `Overview` all that the live page and `berth
top` show; rates and shares of a core are those between two looks, not averages since the start.

The owner sums up a page of nodes or pods a turn, and sends neither all pods nor their texts. Who asks
looks at most so often that looking takes a small share of the time.
"""

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from daemon.overview.node_map import NodeMap, node_map
from daemon.overview.pending import PendingReason, put_together
from daemon.supervisor.children import LEADER
from daemon.supervisor.process_list import ProcessUse, measure, read_list
from shared.clock import SystemClock
from shared.kube.connection_problems import Problem, concerns_text
from shared.messages.admin import (
    UNKNOWN_STATUS,
    GangProgress,
    NodeLoads,
    NodeLoadsRequest,
    PendingGroups,
    PendingGroupsRequest,
    QueueLengths,
    RecentDecision,
    StatusAnswer,
    StatusRequest,
)
from shared.transport.owner_link import NoAnswerError, OwnerLink

RATES: Final = ("scheduled", "bound", "unschedulable")
"""The owner's counters that are also shown per second."""
STALE_S: Final = 60.0
"""A look before that was longer ago says nothing of how fast things go now."""
GANGS_MAX: Final = 30
LOOKING_SHARE_MAX: Final = 0.05
"""Of the time; a look that takes long is followed by a long pause."""
PERIOD_S: Final = 2.0
"""Between two looks, at the least."""


class BerthStatus(msgspec.Struct, frozen=True):
    state: str
    processes: list[ProcessUse]
    owner: StatusAnswer | None
    """None: the owner does not answer; `owner_problem` says why."""
    owner_problem: str
    rates: dict[str, float]
    """Counter -> its growth per second since the look before."""
    at_s: float
    """By the machine's monotonic clock, as the owner's moments are."""
    wall_s: float

    @property
    def known(self) -> StatusAnswer:
        """What the owner said, as far as it said anything."""
        return self.owner or UNKNOWN_STATUS

    @property
    def api_word_ages_s(self) -> dict[str, float]:
        """Kind -> since the API server last said anything about it."""
        return {kind: max(0.0, self.at_s - at_s) for kind, at_s in self.known.api_heard_s.items()}

    @property
    def leading(self) -> bool | None:
        """None: there is no leader election."""
        if self.owner is None or not any(one.name == LEADER for one in self.processes):
            return None
        return not self.owner.is_standby


class Overview(msgspec.Struct, frozen=True):
    version: str
    state: str
    problems: list[str]
    leading: bool | None
    generation: int
    api_word_age_s: float | None
    rates: dict[str, float]
    counters: dict[str, int]
    queue: QueueLengths
    pod_count: int
    binds_in_flight: int
    processes: list[ProcessUse]
    pending: list[PendingReason]
    nodes: NodeMap
    gangs: list[GangProgress]
    decisions: list[RecentDecision]
    """The newest first."""
    next_in_s: float
    """A look before that shows nothing new."""


class Looks:
    """Looks at the berth of a runtime directory, again and again; belongs to one driver."""

    def __init__(self, runtime_dir: Path, clock: SystemClock) -> None:
        self._runtime_dir = runtime_dir
        self._clock = clock
        self._before: BerthStatus | None = None

    def take(self, owner: StatusAnswer | None, owner_problem: str = "") -> BerthStatus:
        """`owner`: what it has just answered. NotRunningError if no berth runs there."""
        listed = read_list(self._runtime_dir)
        now_s, wall_s = self._clock.monotonic_s(), self._clock.wall_s()
        before = self._before
        if before is not None and now_s - before.at_s > STALE_S:
            before = None
        between_s = max(now_s - (before.at_s if before else 0.0), 1e-3)
        rates: dict[str, float] = {}
        if owner is not None and before is not None and before.owner is not None:
            old, new = before.owner.counters, owner.counters
            rates = {one: max(0, new.get(one, 0) - old.get(one, 0)) / between_s for one in RATES}
        used_s = {one.name: one.cpu_s for one in before.processes} if before else {}
        lags = {
            f"scorer-{index}": lag for index, lag in (owner or UNKNOWN_STATUS).scorer_lags.items()
        }
        processes = []
        for use in (measure(entry, wall_s) for entry in listed.processes):
            since_s = max(0.0, use.cpu_s - used_s.get(use.name, use.cpu_s))
            percent = since_s / between_s * 100
            processes.append(replace(use, cpu_percent=percent, lag=lags.get(use.name)))
        self._before = BerthStatus(
            listed.state, processes, owner, owner_problem, rates, now_s, wall_s
        )
        return self._before

    async def overview(self, owner: OwnerLink, timeout_s: float) -> Overview:
        """Asks the owner, and says so where it gives no answer in that time. NotRunningError if no berth
        runs there."""
        begun_s, problem = self._clock.monotonic_s(), ""
        answer, nodes, pending = None, list[NodeLoads](), list[PendingGroups]()
        try:
            answer = await owner.ask(StatusRequest(), StatusAnswer, timeout_s)
            nodes = await owner.ask_pages(NodeLoadsRequest, NodeLoads, timeout_s)
            pending = await owner.ask_pages(PendingGroupsRequest, PendingGroups, timeout_s)
        except NoAnswerError as error:
            answer, nodes, problem = None, [], str(error)
        took_s = self._clock.monotonic_s() - begun_s
        status = self.take(answer, problem)
        known = status.known
        return Overview(
            version=metadata.version("berth-scheduler"),
            state=status.state,
            problems=_problems(status),
            leading=status.leading,
            generation=known.generation,
            api_word_age_s=min(status.api_word_ages_s.values(), default=None),
            rates=status.rates,
            counters=known.counters,
            queue=known.queue,
            pod_count=known.pod_count,
            binds_in_flight=known.binds_in_flight,
            processes=status.processes,
            pending=put_together(group for page in pending for group in page.groups),
            nodes=node_map(nodes),
            gangs=_gangs(gang for page in pending for gang in page.gangs),
            decisions=pending[0].recent if pending else [],
            next_in_s=pause_s(took_s),
        )


def problem_text(problem: Problem, now_s: float) -> str:
    """For people. `now_s` is wall time."""
    times = f"{problem.times} times, " if problem.times > 1 else ""
    over = ", over since" if problem.is_over else ""
    remedy = f"; {problem.remedy}" if problem.remedy else ""
    concerns = concerns_text(problem)
    age_s = max(0.0, now_s - problem.last_s)
    return f"{concerns}: {problem.error} ({times}last {age_s:.0f} s ago{over}){remedy}"


def pause_s(took_s: float) -> float:
    """Until the next look, after one that took so long."""
    return max(PERIOD_S, took_s / LOOKING_SHARE_MAX)


def _problems(status: BerthStatus) -> list[str]:
    known, told = status.known, []
    if status.owner is None:
        told.append(f"the owner gives no answer: {status.owner_problem}")
    if known.awaited_kinds:
        told.append(f"waiting for the list of {', '.join(known.awaited_kinds)}")
    if known.last_error:
        told.append(f"last error: {known.last_error}")
    return told + [
        f"{one.name}: {problem_text(problem, status.wall_s)}"
        for one in status.processes
        for problem in one.problems
        if not problem.is_over
    ]


def _gangs(found: Iterable[GangProgress]) -> list[GangProgress]:
    by_group: dict[str, GangProgress] = {}
    for one in found:
        before = by_group.get(one.group)
        pending_count = one.pending_count + (0 if before is None else before.pending_count)
        by_group[one.group] = msgspec.structs.replace(one, pending_count=pending_count)
    ordered = sorted(by_group.values(), key=lambda gang: (-gang.pending_count, gang.group))
    return ordered[:GANGS_MAX]
