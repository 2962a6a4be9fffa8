"""All that the live page and `berth top` show, asked for in small questions.

The owner sums up a page of nodes or pods a turn, and sends neither all pods nor their texts. Who asks
looks at most so often that looking takes a small share of the time.
"""

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from daemon.overview.berth_status import BerthStatus, Looks
from daemon.overview.node_map import NodeMap, node_map
from daemon.overview.pending import PendingReason, put_together
from daemon.supervisor.process_list import ProcessUse
from shared.clock import SystemClock
from shared.kube.connection_problems import problem_text
from shared.messages.admin import (
    AdminRequest,
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


Page = TypeVar("Page", NodeLoads, PendingGroups)


async def answers_of(owner: OwnerLink, timeout_s: float) -> Answers:
    """One look at the owner; NoAnswerError if a question is not answered in that time."""
    status = await owner.ask(StatusRequest(), StatusAnswer, timeout_s)

    async def pages(request: Callable[[int], AdminRequest], kind: type[Page]) -> list[Page]:
        found = [await owner.ask(request(0), kind, timeout_s)]
        while found[-1].next_start >= 0:
            found.append(await owner.ask(request(found[-1].next_start), kind, timeout_s))
        return found

    nodes = await pages(NodeLoadsRequest, NodeLoads)
    return Answers(status, nodes, await pages(PendingGroupsRequest, PendingGroups))


class ProcessRow(msgspec.Struct, frozen=True):
    name: str
    is_alive: bool
    running_s: float
    cpu_percent: float
    cpu_s: float
    rss_bytes: int
    rss_peak_bytes: int
    restart_count: int
    last_exit: str
    lag: int | None
    """Of a scorer: generations that its copy is behind."""


class DecisionShown(msgspec.Struct, frozen=True):
    ago_s: float
    pod: str
    node: str
    message: str


class Gang(msgspec.Struct, frozen=True):
    group: str
    pending_count: int
    placed_count: int
    wanted_count: int


class Overview(msgspec.Struct, frozen=True):
    """How a berth and its cluster are."""

    version: str
    state: str
    problems: list[str]
    leading: bool | None
    is_synced: bool
    epoch: int
    generation: int
    api_word_age_s: float | None
    rates: dict[str, float]
    counters: dict[str, int]
    queue: dict[str, int]
    pod_count: int
    binds_in_flight: int
    processes: list[ProcessRow]
    pending: list[PendingReason]
    nodes: NodeMap
    gangs: list[Gang]
    decisions: list[DecisionShown]
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
        owner, found = status.owner, answers
        return Overview(
            version=metadata.version("berth-scheduler"),
            state=status.state,
            problems=_problems(status),
            leading=status.leading,
            is_synced=owner is not None and owner.synced,
            epoch=0 if owner is None else owner.epoch,
            generation=0 if owner is None else owner.generation,
            api_word_age_s=_word_age_s(status),
            rates=status.rates,
            counters={} if owner is None else owner.counters,
            queue=queue_lengths(owner),
            pod_count=0 if owner is None else owner.pod_count,
            binds_in_flight=0 if owner is None else owner.binds_in_flight,
            processes=[_row(status, one) for one in status.processes],
            pending=put_together([g for p in found.pending for g in p.groups] if found else []),
            nodes=node_map(found.nodes) if found else NodeMap([], 0, 1, [], []),
            gangs=_gangs([g for page in found.pending for g in page.gangs] if found else []),
            decisions=_decisions(found.pending[0].recent, status.at_s) if found else [],
            next_in_s=pause_s(took_s),
        )


def pause_s(took_s: float) -> float:
    """Until the next look, after one that took so long."""
    return max(PERIOD_S, took_s / LOOKING_SHARE_MAX)


def queue_lengths(owner: StatusAnswer | None) -> dict[str, int]:
    """By place."""
    lengths = QueueLengths(0, 0, 0, 0, 0) if owner is None else owner.queue
    return msgspec.structs.asdict(lengths)


def _problems(status: BerthStatus) -> list[str]:
    owner = status.owner
    told = [f"the owner gives no answer: {status.owner_problem}"] if owner is None else []
    if owner is not None and owner.awaited_kinds:
        told.append(f"waiting for the list of {', '.join(owner.awaited_kinds)}")
    if owner is not None and owner.last_error:
        told.append(f"last error: {owner.last_error}")
    return told + [
        f"{one.name}: {problem_text(problem, status.wall_s)}"
        for one in status.processes
        for problem in one.problems
        if not problem.is_over
    ]


def _word_age_s(status: BerthStatus) -> float | None:
    heard_s = {} if status.owner is None else status.owner.api_heard_s
    return max(0.0, status.at_s - max(heard_s.values())) if heard_s else None


def _row(status: BerthStatus, one: ProcessUse) -> ProcessRow:
    role, _, number = one.name.rpartition("-")
    lags = {} if status.owner is None else status.owner.scorer_lags
    return ProcessRow(
        name=one.name,
        is_alive=one.is_alive,
        running_s=one.running_s,
        cpu_percent=status.cpu_percent[one.name],
        cpu_s=one.cpu_s,
        rss_bytes=one.rss_bytes,
        rss_peak_bytes=one.rss_peak_bytes,
        restart_count=one.restart_count,
        last_exit=one.last_exit,
        lag=lags.get(int(number)) if role == "scorer" else None,
    )


def _gangs(found: list[GangProgress]) -> list[Gang]:
    by_key: dict[str, Gang] = {}
    for one in found:
        before = by_key.get(one.key)
        pending_count = one.pending_count + (0 if before is None else before.pending_count)
        by_key[one.key] = Gang(one.key, pending_count, one.placed_count, one.wanted_count)
    ordered = sorted(by_key.values(), key=lambda gang: (-gang.pending_count, gang.group))
    return ordered[:GANGS_MAX]


def _decisions(recent: list[RecentDecision], now_s: float) -> list[DecisionShown]:
    return [
        DecisionShown(max(0.0, now_s - one.begun_s), one.pod, one.node, one.message)
        for one in reversed(recent)
    ]
