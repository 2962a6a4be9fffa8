"""All that the live page and `berth top` show, asked for in small questions.

The owner sums up a page of nodes or pods a turn, and sends neither all pods nor their texts. Who asks
looks at most so often that looking takes a small share of the time.
"""

from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from daemon.overview.berth_status import BerthStatus, Looks
from daemon.overview.node_map import NodeMap, node_map
from daemon.overview.pending import PendingReason, put_together
from daemon.supervisor.process_list import ProcessUse
from shared.clock import SystemClock
from shared.kube.connection_problems import problem_text
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


class Answers(msgspec.Struct, frozen=True):
    """What the owner said."""

    status: StatusAnswer
    nodes: list[NodeLoads]
    pending: list[PendingGroups]


async def answers_of(owner: OwnerLink, timeout_s: float) -> Answers:
    """One look at the owner; NoAnswerError if a question is not answered in that time."""
    status = await owner.ask(StatusRequest(), StatusAnswer, timeout_s)
    nodes = await owner.ask_pages(NodeLoadsRequest, NodeLoads, timeout_s)
    return Answers(
        status, nodes, await owner.ask_pages(PendingGroupsRequest, PendingGroups, timeout_s)
    )


class Overview(msgspec.Struct, frozen=True):
    """How a berth and its cluster are."""

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
        begun_s, problem, answers = self._clock.monotonic_s(), "", None
        try:
            answers = await answers_of(owner, timeout_s)
        except NoAnswerError as error:
            problem = str(error)
        return self.made(answers, problem, self._clock.monotonic_s() - begun_s)

    def made(self, answers: Answers | None, problem: str, took_s: float = 0.0) -> Overview:
        """`answers`: None where the owner gave none, with the `problem`; `took_s`: from the first
        question to the last answer. NotRunningError if no berth runs there."""
        status = self._looks.take(None if answers is None else answers.status, problem)
        known, found = status.known, answers
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
            pending=put_together([g for p in found.pending for g in p.groups] if found else []),
            nodes=node_map(found.nodes) if found else NodeMap([], 0, 1, [], []),
            gangs=_gangs([g for page in found.pending for g in page.gangs] if found else []),
            decisions=found.pending[0].recent if found else [],
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


def _gangs(found: list[GangProgress]) -> list[GangProgress]:
    by_group: dict[str, GangProgress] = {}
    for one in found:
        before = by_group.get(one.group)
        pending_count = one.pending_count + (0 if before is None else before.pending_count)
        by_group[one.group] = msgspec.structs.replace(one, pending_count=pending_count)
    ordered = sorted(by_group.values(), key=lambda gang: (-gang.pending_count, gang.group))
    return ordered[:GANGS_MAX]
