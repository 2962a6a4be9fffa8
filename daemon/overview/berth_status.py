"""How a berth is at one moment: its processes from the supervisor's list and the kernel, queues and
counters from the owner. Rates and shares of a core are those between two looks, not averages since the
start."""

from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from daemon.supervisor.children import LEADER
from daemon.supervisor.process_list import ProcessUse, measure, read_list
from shared.clock import SystemClock
from shared.kube.connection_problems import Problem, concerns_text
from shared.messages.admin import UNKNOWN_STATUS, StatusAnswer

RATES: Final = ("scheduled", "bound", "unschedulable")
"""The owner's counters that are also shown per second."""
STALE_S: Final = 60.0
"""A look before that was longer ago says nothing of how fast things go now."""


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


class Looks:
    """Looks at the berth of a runtime directory, again and again."""

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


def problem_text(problem: Problem, now_s: float) -> str:
    """For people. `now_s` is wall time."""
    times = f"{problem.times} times, " if problem.times > 1 else ""
    over = ", over since" if problem.is_over else ""
    remedy = f"; {problem.remedy}" if problem.remedy else ""
    concerns = concerns_text(problem)
    age_s = max(0.0, now_s - problem.last_s)
    return f"{concerns}: {problem.error} ({times}last {age_s:.0f} s ago{over}){remedy}"
