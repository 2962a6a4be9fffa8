"""One seed from beginning to end.

Three acts: the plan is played while everything may go wrong; everything works again, and berth comes
to rest; all objects are deleted, and nothing may be left of them.
"""

import gc
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final, NamedTuple

from bench.sim.berth import Berth
from bench.sim.judge import Judge
from bench.sim.schedule import Process, SimulatedFailure, Simulation
from bench.sim.sim_plan import Plan, make_plan
from bench.sim.virtual_loop import Network
from bench.sim.world import World
from daemon.core import bindings
from shared.limits import ORDERS_PER_BINDER_MAX

SMALL_ORDERS_MAX: Final = 2
CALM_S: Final = 12.0
"""Back-off is 10 s at most: what has been at rest for so long stays so."""
EMPTY_CALM_S: Final = 32.0
"""Where nothing is left, nothing is tried again but to watch, after half a minute at most."""
REST_S_MAX: Final = 240.0
"""Since the last pod was bound: pods may have to go one by one, each after another back-off, as those do
that come into the way of a group elsewhere than where it is nominated. Parked pods are tried again after
300 s whether or not anything happened, and must not owe their node to that."""

GARBAGE_MAX: Final = 200_000
"""So many objects come between two looks at the youngest: a seed makes millions, and leaves cycles only
where a process has died."""


class Failed(NamedTuple):
    """Which rule was broken, and how."""

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


class Outcome(NamedTuple):
    """What became of a seed."""

    seed: int
    failure: Failed | None
    digest: str
    """Of every message between the processes."""
    events_count: int
    bound_count: int
    assumptions_count: int
    story: list[str]


class _LogToStory(logging.Handler):
    """What the processes log is part of the story."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "berth_fields", {})
        told = " ".join(f"{key}={value}" for key, value in fields.items())
        self._simulation.tell(f"    log {record.name}: {record.getMessage()} {told}")


def play(plan: Plan, *, is_told: bool = False) -> Outcome:
    """Plays a plan; the same plan always in the same way."""
    simulation = Simulation(plan.seed, is_told=is_told)
    logger = logging.getLogger("berth")
    handler = _LogToStory(simulation)
    logger.addHandler(handler)
    logger.propagate, logger.level = False, logging.INFO if is_told else logging.CRITICAL + 1
    network = Network(simulation)
    world = World(simulation, network)
    simulation.run_until(simulation.now_s + 0.1)  # The server has begun to listen.
    failure = None
    judges: list[Judge] = []
    runtime_dir = Path(mkdtemp(prefix="berth-sim-"))
    orders_max = ORDERS_PER_BINDER_MAX
    try:
        if plan.seed % 2:  # So that orders have to wait for their turn.
            setattr(bindings, "ORDERS_PER_BINDER_MAX", SMALL_ORDERS_MAX)  # noqa: B010 # It is Final.
        for action in plan.actions:
            if action.at_s <= 0.0:
                world.carry_out(action)
        for number in range(plan.berth_count):
            berth = Berth(
                simulation,
                network,
                number=number,
                scorer_count=plan.scorer_count,
                binder_count=plan.binder_count,
                configurations=plan.configurations,
                runtime_dir=runtime_dir,
                feature_gates=plan.feature_gates,
                kinds=plan.kinds,
                gang_reservation_s=plan.gang_reservation_s,
            )
            world.berths.append(berth)
            judges.append(Judge(world, berth))

        def look(process: Process) -> None:
            for judge in judges:
                judge.look(process)

        simulation.after_turn = look
        _play_acts(plan, simulation, world, judges)
    except SimulatedFailure as found:
        failure = Failed(found.kind, found.detail)
        simulation.tell(f"FAILED: {found}")
    finally:
        simulation.after_turn = None
        setattr(bindings, "ORDERS_PER_BINDER_MAX", orders_max)  # noqa: B010 # It is Final.
        world.close()
        rmtree(runtime_dir)
        logger.removeHandler(handler)
        logger.propagate, logger.level = True, logging.NOTSET
    return Outcome(
        seed=plan.seed,
        failure=failure,
        digest=" ".join(berth.links.digest() for berth in world.berths),
        events_count=simulation.events_count,
        bound_count=max((judge.bound_count for judge in judges), default=0),
        assumptions_count=sum(judge.assumptions_count for judge in judges),
        story=simulation.story or [],
    )


def play_seed(seed: int) -> Outcome:
    """Plays the plan of a seed, without its story."""
    return play(make_plan(seed))


def collect_seldom() -> None:
    """At the beginning of a process that plays many seeds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_MAX, 10, 10)


def _play_acts(plan: Plan, simulation: Simulation, world: World, judges: Sequence[Judge]) -> None:
    for action in plan.actions:
        if action.at_s > 0.0:
            simulation.at(simulation.now_s + action.at_s, lambda each=action: world.carry_out(each))  # type: ignore[misc] # The loop's variable, kept.
    simulation.run_until(simulation.now_s + plan.last_s + 0.5)
    world.heal()
    _rest(simulation, world, judges, CALM_S).at_rest.conclude()
    world.delete_everything()
    _rest(simulation, world, judges, EMPTY_CALM_S)
    for judge in judges:
        judge.check_nothing_is_kept()


def _rest(simulation: Simulation, world: World, judges: Sequence[Judge], calm_s: float) -> Judge:
    """Until nothing has moved for a while; the judge of the berth that leads then."""
    until_s, bound_count = simulation.now_s + REST_S_MAX, 0
    calm_since_s = math.inf
    leading: list[Judge] = []
    while simulation.now_s < until_s and simulation.now_s < calm_since_s + calm_s:
        simulation.run_until(simulation.now_s + 0.5)
        world.collect_orphans()
        if (count := sum(judge.bound_count for judge in judges)) > bound_count:
            until_s, bound_count = simulation.now_s + REST_S_MAX, count
        leading = [judge for judge in judges if judge.leads]
        if len(leading) != 1 or not all(judge.at_rest.is_reached() for judge in judges):
            calm_since_s = math.inf
        elif calm_since_s == math.inf:
            calm_since_s = simulation.now_s
    if len(leading) != 1:
        raise SimulatedFailure("no rest", f"{len(leading)} berths lead")
    return leading[0]
