"""The virtual clock, the one list of what happens next, and what all simulated processes share.

Nothing here or on top of it reads a clock, a socket or an unseeded generator: a seed replays exactly.
Each party draws from a generator of its own, named after it, so that what is left out of a plan does
not change what the others draw.
"""

from __future__ import annotations

import heapq
import math
import random
import signal
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from bench.sim.deadly import Death
from bench.sim.work import CALLS_MAX, EACH, CallCounter

EPOCH_WALL_S: Final = 1_760_000_000.0
"""What a clock on the wall shows at the beginning."""
EVENTS_MAX: Final = 60_000
"""A seed takes some thousands; more means that something goes round in circles."""
KILLED: Final = -signal.SIGKILL
TURN_S_MEDIAN: Final = 0.000_2
"""How long a process is busy with a turn, about."""


_P = ParamSpec("_P")
_R = TypeVar("_R")


class SimulatedFailure(BaseException):
    """Something that must not be. `kind` names the rule that was broken. No `except Exception` of the
    code that runs may take it for something of its own."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


def outspoken(judge: Callable[_P, _R]) -> Callable[_P, _R]:
    """Whatever fails in a judgement is told, also where the code that is judged takes exceptions for
    something that is wrong with an object."""

    @wraps(judge)
    def judged(*args: _P.args, **named: _P.kwargs) -> _R:
        try:
            return judge(*args, **named)
        except Exception as error:
            told = f"{judge.__qualname__}: {type(error).__name__}: {error}"
            raise SimulatedFailure("judge", told) from error

    return judged


class Simulation:
    """Time, order and chance of one run."""

    def __init__(self, seed: int, *, is_told: bool = False) -> None:
        self.seed = seed
        self.now_s = 1000.0
        self.events_count = 0
        self.story: list[str] | None = [] if is_told else None
        """What happened, as sentences; kept only where somebody wants to read it."""
        self.after_turn: Callable[[Process], None] | None = None
        self._counter = CallCounter() if seed % EACH == 0 else None
        self._order = 0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []

    def turn_of(self, process: Process) -> float:
        """Lets a process take its turn, which may be no longer than turns may be."""
        try:
            if self._counter is None:
                return process.turn()
            again_s, count = self._counter.counted(process.turn)
        except Death:
            process.exit_code = KILLED
            return math.inf
        if count > CALLS_MAX:
            raise SimulatedFailure(
                "long turn", f"{process.name} called {count} functions in one turn"
            )
        return again_s

    def rng(self, name: str) -> random.Random:
        """A generator of its own for each party."""
        return random.Random(f"{self.seed}/{name}")

    def tell(self, what: object) -> None:
        """Adds to the story, where there is one, what `str` makes of this."""
        if self.story is not None:
            self.story.append(f"{self.now_s - 1000.0:9.4f} s  {what}")

    def at(self, time_s: float, act: Callable[[], None]) -> None:
        """Has something happen at a time; what is due at the same time happens in order of calls."""
        self._order += 1
        due_s = max(self.now_s, time_s)
        heapq.heappush(self._heap, (due_s, self._order, act))

    def after(self, delay_s: float, act: Callable[[], None]) -> None:
        self.at(self.now_s + delay_s, act)

    def run_until(self, time_s: float, is_over: Callable[[], bool] | None = None) -> None:
        """Plays everything up to a time, or until `is_over` (asked after each event) says so."""
        heap = self._heap
        while heap and heap[0][0] <= time_s:
            self.now_s, _, act = heapq.heappop(heap)
            act()
            self.events_count += 1
            if self.events_count > EVENTS_MAX:
                raise SimulatedFailure("no rest", f"{EVENTS_MAX} events and no end")
            if is_over is not None and is_over():
                return
        self.now_s = max(self.now_s, time_s)


class Latency:
    """How long one way takes, each time: mostly about as long as last time, sometimes far longer.

    How fast a way is at all is drawn once, so that over many seeds each party is the slow one."""

    def __init__(self, rng: random.Random, median_s: float) -> None:
        self._rng = rng
        self._median_s: float = median_s * 10.0 ** rng.uniform(-1.0, 1.5)

    def draw_s(self) -> float:
        chance = self._rng.random()
        if chance > 0.995:
            return self._median_s * 100 * self._rng.random()
        if chance > 0.95:
            return self._median_s * 10 * self._rng.random()
        return self._median_s * (0.5 + chance)


class MachineClock:
    """The clocks of a machine (`shared.clock.SystemClock`); the wall's may be set. While the machine
    sleeps the monotonic one stands still, and only that."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.wall_offset_s = 0.0
        self.slept_s = 0.0
        """Before it woke last."""
        self._asleep_since_s: float | None = None

    @property
    def is_asleep(self) -> bool:
        return self._asleep_since_s is not None

    def fall_asleep(self) -> None:
        self._asleep_since_s = self._simulation.now_s

    def wake(self) -> None:
        if self._asleep_since_s is not None:
            self.slept_s += self._simulation.now_s - self._asleep_since_s
            self._asleep_since_s = None

    def monotonic_s(self) -> float:
        now_s = self._simulation.now_s if self._asleep_since_s is None else self._asleep_since_s
        return now_s - self.slept_s

    def boot_s(self) -> float:
        return self._simulation.now_s

    def wall_s(self) -> float:
        return EPOCH_WALL_S + self._simulation.now_s + self.wall_offset_s


class Process:
    """One life of a process: it takes turns, and between them it may be stopped or killed.

    `turn` does what there is to do now and returns when there will be something to do again, infinite
    if only a message can bring that about."""

    def __init__(self, simulation: Simulation, name: str, clock: MachineClock) -> None:
        self.simulation = simulation
        self.name = name
        self.role = name.rpartition("/")[2]
        """Its name among those of its berth."""
        self.is_alive = True
        self.sends_left = math.inf
        """After so many messages it dies, in the middle of a turn if need be."""
        self.exit_code: int | None = None
        """Set at the end of a turn that was its last."""
        self.on_end: Callable[[int], None] | None = None
        """Told of its end, and how."""
        self.clock = clock
        self._busy = Latency(simulation.rng(f"{name} busy"), TURN_S_MEDIAN)
        self._free_at_s = 0.0
        self._turn_at_s = math.inf

    def turn(self) -> float:
        raise NotImplementedError

    def wake(self, at_s: float = 0.0) -> None:
        """Has a turn take place, not before `at_s`."""
        if self._turn_at_s <= self.simulation.now_s:
            return
        at_s = max(at_s, self._free_at_s, self.simulation.now_s)
        if self.is_alive and at_s < self._turn_at_s:
            self._turn_at_s = at_s
            self.simulation.at(at_s, self._take_turn)

    def stop_until(self, time_s: float) -> None:
        """As SIGSTOP does: no turn until then, and what comes meanwhile waits."""
        self._free_at_s = max(self._free_at_s, time_s)
        if self._turn_at_s < time_s:
            self._turn_at_s = math.inf
            self.wake()

    def start_again(self) -> None:
        """As SIGCONT does."""
        self._free_at_s = min(self._free_at_s, self.simulation.now_s)
        self.wake()

    def may_send(self) -> bool:
        """Asked before each message: False once the process is dead, or dies with this one."""
        if not self.is_alive:
            return False
        self.sends_left -= 1
        return self.sends_left >= 0

    def receive_signal(self, number: signal.Signals) -> None:
        """Any that a process may do something about."""
        raise NotImplementedError

    def kill(self) -> None:
        """The end, without a last word."""
        self.is_alive = False

    def end(self, exit_code: int) -> None:
        """The end, of which whoever started it is told."""
        if self.is_alive:
            self.kill()
            if self.on_end is not None:
                self.on_end(exit_code)

    def _take_turn(self) -> None:
        now_s = self.simulation.now_s
        if not self.is_alive or self._turn_at_s > now_s:
            return  # It was put off.
        self._turn_at_s = math.inf
        again_s = self.simulation.turn_of(self)
        if self.sends_left < 0:
            self.exit_code = KILLED
        if self.exit_code is not None:
            self.end(self.exit_code)
        if self.simulation.after_turn is not None:
            self.simulation.after_turn(self)
        if self.exit_code is not None:
            return
        self._free_at_s = max(self._free_at_s, now_s + self._busy.draw_s())
        if again_s < math.inf:
            self.wake(again_s)
