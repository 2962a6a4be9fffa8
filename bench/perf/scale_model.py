"""What more cores would give: a discrete-event simulation of berth's processes. Pure, with a seed.

Every process is a server that does one job at a time, every job needs a core, and there are so many
cores. Jobs are batches, as in berth: the feeder hands pods to the owner, the owner hands them to the
scorers that have credit, scorers catch up with all placements and evaluate, the owner checks (some are
refused and go back to the head), binders bind, and the feeder tells the owner of the binding. What it
leaves out: memory bandwidth and caches that cores share, and the network.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from bench.perf.scale_costs import StageCosts

BATCH_PODS: Final = 256
WINDOW_PODS: Final = 512
"""As in `daemon/core/dispatch.py`."""
OWNER_PARTS: Final = 3
"""A pod's time in the owner, in equal parts: it comes in, is checked and assumed, is seen bound."""
FEEDER_PARTS: Final = 2


NEAR: Final = 2
BUSY: Final = 0.98
"""From there on, a process is what the others wait for."""
STEPS: Final = sorted({1 << power for power in range(9)} | {3 << power for power in range(7)})


class Shape(NamedTuple):
    """A machine and how berth is spread on it."""

    cores: int
    scorers: int
    binders: int


class Outlook(NamedTuple):
    """What the simulation says of a shape."""

    shape: Shape
    pods_per_s: float
    busy: dict[str, float]
    """Stage -> share of the time that a process of it had something to do or waited for a core, on
    average over its processes."""
    core_use: float
    refused_share: float

    @property
    def binders_wanted(self) -> int:
        """More than there are, if binders are busier than scorers."""
        is_short = self.busy["binder"] > max(0.9, self.busy["scorer"])
        return self.shape.binders + is_short

    @property
    def bottleneck(self) -> str:
        """What would have to be more, or faster."""
        if self.core_use > 0.95:
            return "cores"
        return max(self.busy, key=lambda stage: self.busy[stage])


class _Process:
    """One of berth's processes: a queue of jobs."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.jobs: deque[tuple[Callable[[], float], Callable[[], None]]] = deque()
        self.is_at_work = False
        self.busy_us = 0.0
        self.started_us = 0.0


class Simulation:
    """One run of so many pods."""

    def __init__(self, shape: Shape, costs: StageCosts, pod_count: int, seed: int) -> None:
        self._shape, self._costs, self._pod_count = shape, costs, pod_count
        self._random = random.Random(seed)
        self._now_us = 0.0
        self._ends: list[tuple[float, int, _Process, Callable[[], None]]] = []
        self._number = 0
        self._waiting: deque[_Process] = deque()
        self._cores_free = shape.cores
        self._core_us = 0.0
        self._feeder, self._owner = _Process("feeder"), _Process("owner")
        self._scorers = [_Process("scorer") for _ in range(shape.scorers)]
        self._binders = [_Process("binder") for _ in range(shape.binders)]
        self._out = [0] * shape.scorers
        self._followed = [0] * shape.scorers
        self._others = _Process("others")
        self._backlog = self._placed = self._bound = self._refused = 0

    def run(self) -> Outlook:
        """Until every pod is bound."""
        costs = self._costs
        for start in range(0, self._pod_count, BATCH_PODS):
            count = min(BATCH_PODS, self._pod_count - start)
            cost_us = costs.feeder_us * count / FEEDER_PARTS
            self._give(self._feeder, partial(float, cost_us), partial(self._came_in, count))
        while self._ends:
            self._now_us, _, process, then = heapq.heappop(self._ends)
            self._cores_free += 1
            process.is_at_work = False
            process.busy_us += self._now_us - process.started_us
            then()
            if process.jobs:
                self._ask_for_core(process)
            self._fill_cores()
        assert self._bound == self._pod_count, "pods are neither bound nor anywhere"
        return self._outlook()

    def _outlook(self) -> Outlook:
        busy: dict[str, list[float]] = {}
        for process in (self._feeder, self._owner, *self._scorers, *self._binders):
            busy.setdefault(process.stage, []).append(process.busy_us / self._now_us)
        return Outlook(
            self._shape,
            self._pod_count / self._now_us * 1e6,
            {stage: sum(shares) / len(shares) for stage, shares in busy.items()},
            self._core_us / self._now_us / self._shape.cores,
            self._refused / (self._refused + self._pod_count),
        )

    def _give(
        self, process: _Process, cost_us: Callable[[], float], then: Callable[[], None]
    ) -> None:
        """What a job costs is known when it starts: a scorer catches up then."""
        process.jobs.append((cost_us, then))
        if len(process.jobs) == 1 and not process.is_at_work:
            self._ask_for_core(process)
            self._fill_cores()

    def _ask_for_core(self, process: _Process) -> None:
        process.is_at_work = True
        process.started_us = self._now_us
        self._waiting.append(process)

    def _fill_cores(self) -> None:
        while self._waiting and self._cores_free:
            process = self._waiting.popleft()
            self._cores_free -= 1
            cost_us, then = process.jobs.popleft()
            spent_us = cost_us()
            self._core_us += spent_us
            self._number += 1
            heapq.heappush(self._ends, (self._now_us + spent_us, self._number, process, then))

    def _came_in(self, count: int) -> None:
        def ingested() -> None:
            self._backlog += count
            self._hand_out()

        self._owner_does(count, ingested)

    def _owner_does(self, count: int, then: Callable[[], None], extra_us: float = 0.0) -> None:
        cost_us = self._costs.owner_us * count / OWNER_PARTS + extra_us
        self._give(self._owner, lambda: cost_us, then)

    def _hand_out(self) -> None:
        """A fair share for each, so that none waits while another has all."""
        while self._backlog:
            index = min(range(len(self._out)), key=lambda i: self._out[i])
            count = min(BATCH_PODS, WINDOW_PODS - self._out[index], self._backlog)
            if count <= 0:
                return
            if len(self._out) > 1:
                count = min(count, max(1, self._backlog // len(self._out)))
            self._backlog -= count
            self._out[index] += count
            self._give(
                self._scorers[index],
                partial(self._evaluation_us, index, count),
                partial(self._proposed, index, count),
            )

    def _evaluation_us(self, index: int, count: int) -> float:
        behind = self._placed - self._followed[index]
        self._followed[index] = self._placed
        return self._costs.scorer_us * count + self._costs.scorer_delta_us * behind

    def _proposed(self, index: int, count: int) -> None:
        others_out = sum(self._out) - self._out[index]
        share = min(0.9, self._costs.refused_per_thousand_others * others_out / 1000)
        refused = sum(self._random.random() < share for _ in range(count)) if share else 0
        accepted = count - refused

        def checked() -> None:
            self._out[index] -= count
            self._placed += accepted
            self._refused += refused
            self._backlog += refused
            if accepted:
                self._order(accepted)
            self._hand_out()

        told_us = self._costs.owner_delta_us * accepted * self._shape.scorers
        self._owner_does(count, checked, told_us)

    def _order(self, count: int) -> None:
        binder = min(self._binders, key=lambda each: len(each.jobs) + each.is_at_work)
        costs = self._costs

        def bound() -> None:
            if costs.others_us:
                self._give(self._others, lambda: costs.others_us * count, lambda: None)
            feeder_us = costs.feeder_us * count / FEEDER_PARTS
            self._give(self._feeder, lambda: feeder_us, lambda: self._owner_does(count, seen))

        def seen() -> None:
            self._bound += count

        self._give(binder, lambda: costs.binder_us * count, bound)


def outlook(shape: Shape, costs: StageCosts, pod_count: int, seed: int) -> Outlook:
    """One simulated run."""
    return Simulation(shape, costs, pod_count, seed).run()


def best_shape(cores: int, costs: StageCosts, pod_count: int, seed: int) -> Outlook:
    """Starts with one process of each and adds to the stage that is the bottleneck, while that helps and
    while there are cores (owner and feeder have one each)."""
    shape = Shape(cores, 1, 1)
    best = outlook(shape, costs, pod_count, seed)
    current = best
    for _ in range(2 * len(STEPS)):
        scorers, binders = shape.scorers, shape.binders
        if binders < current.binders_wanted:
            binders = _next(binders)
        else:
            scorers = _next(scorers)
        if scorers + binders + 2 > max(cores, 4):
            # What is left over: fewer than the next step.
            scorers = max(shape.scorers, cores - 2 - binders)
        if Shape(cores, scorers, binders) == shape:
            break
        shape = Shape(cores, scorers, binders)
        current = outlook(shape, costs, pod_count, seed)
        if current.pods_per_s > 1.01 * best.pods_per_s:
            best = current
        elif current.pods_per_s < 0.9 * best.pods_per_s or current.busy["owner"] > BUSY:
            break
    # The steps are coarse: more than enough scorers only cost the owner, which tells each of them.
    _, scorers, binders = best.shape
    for count in range(max(1, scorers - NEAR), scorers + NEAR + 1):
        if count != scorers and count + binders + 2 <= max(cores, 4):
            near = outlook(Shape(cores, count, binders), costs, pod_count, seed)
            best = max(best, near, key=lambda one: one.pods_per_s)
    return best


def _next(count: int) -> int:
    return next(step for step in STEPS if step > count)
