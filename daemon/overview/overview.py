"""All that the live page and `berth top` show, asked for in small questions.

The owner sums up a page of nodes or pods a turn, and sends neither all pods nor their texts. Who asks
looks at most so often that looking takes a small share of the time.
"""

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from daemon.overview.berth_status import BerthStatus, Looks, problem_text
from daemon.overview.node_map import NodeMap, node_map
from daemon.overview.pending import PendingReason, put_together
from daemon.supervisor.process_list import ProcessUse
from shared.clock import SystemClock
from shared.messages.admin import (
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

GANGS_MAX: Final = 30
LOOKING_SHARE_MAX: Final = 0.05
"""Of the time; a look that takes long is followed by a long pause."""
PERIOD_S: Final = 2.0
"""Between two looks, at the least."""


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


class Overviews:
    """Looks again and again; belongs to one driver."""

    def __init__(self, runtime_dir: Path, clock: SystemClock) -> None:
        self._clock = clock
        self._looks = Looks(runtime_dir, clock)

    async def look(self, owner: OwnerLink, timeout_s: float) -> Overview:
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
        status = self._looks.take(answer, problem)
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
