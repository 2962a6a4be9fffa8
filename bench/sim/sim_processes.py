"""The real code of each process on simulated links, on one machine's clock.

Every process is put together by the module that its `__main__` uses for that. A process that dies is
dead with all that it knew.
"""

import asyncio
import signal
import sys
import typing
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from bench.apiserver.http_server import ApiServer
from bench.sim import deadly, door, permit, refusal
from bench.sim.links import AsyncEnd, Links, OwnerEnd, Pause, ScorerEnd
from bench.sim.schedule import MachineClock, Process, SimulatedFailure, Simulation
from bench.sim.virtual_loop import Network, VirtualLoop
from daemon.adapter.api_source import ApiSource
from daemon.adapter.kind_watch import WatchSettings
from daemon.adapter.outbox import MessageSink
from daemon.adapter.process import Adapter
from daemon.leader.elector import Elector
from daemon.owner.owner_assembly import make_state
from daemon.owner.owner_loop import OwnerLoop
from daemon.supervisor.plan import binding_plan
from shared import exit_codes
from shared.collector import Collector
from shared.config import SchedulerConfiguration
from shared.errors import OperationalError
from shared.feature_gates import FeatureGates
from shared.in_hand import InHand
from shared.kube.cluster_access import access_at
from shared.kube.resources import ALL_KINDS, KINDS_BY_PLURAL, custom_kind
from shared.messages.from_scorer import ScorerHello
from shared.messages.to_owner import KindUnavailable
from shared.plugins.in_tree import InTreeRegistry
from shared.runtime_options import LeaderElection, RuntimeOptions
from shared.transport.channels import Channel
from shared.transport.heartbeat import Heartbeat
from shared.transport.lease_gate import LeaseGate
from shared.transport.owner_sockets import OwnerSockets
from shared.transport.scorer_sockets import ScorerSockets
from workers.binder.binder_assembly import BinderLife
from workers.scorer.extended_pods import ExtenderAnswer, Question
from workers.scorer.extender_calls import ExtenderCaller, ExtenderDesk
from workers.scorer.scorer_loop import ScorerLoop

ADDRESS: Final = "http://simulated:1"
MAX_IN_FLIGHT: Final = 8
PLUGINS: Final = (permit.PLUGIN, deadly.PLUGIN, refusal.PLUGIN, door.PLUGIN)
"""Of packages that are not ours, as it were."""


if sys.version_info < (3, 12):
    # It works out anew at each `isinstance` what a protocol asks for. A process asks some hundreds of
    # times when it starts, and a simulation starts thousands of processes.
    for _name in ("_get_protocol_attrs", "_is_callable_members_only"):
        setattr(typing, _name, cache(getattr(typing, _name)))


class NoCollector(Collector):
    """Leaves alone what belongs to all simulated processes together."""

    def __init__(self) -> None:
        """Sets nothing."""

    def settled(self) -> None:
        """Puts nothing aside."""


@dataclass(frozen=True)
class Machine:
    """What the processes of one berth have in common."""

    simulation: Simulation
    network: Network
    links: Links
    clock: MachineClock
    registry: InTreeRegistry
    prefix: str
    """Of the names of its processes."""
    binder_count: int
    election: LeaderElection | None
    gate_path: Path
    gates: FeatureGates = field(default_factory=FeatureGates)
    gang_reservation_s: float = 0.0
    kinds: Collection[str] = tuple(KINDS_BY_PLURAL)
    """Which the API server serves."""
    custom_kinds: tuple[str, ...] = ()
    """Which plugins want to hear of beside."""


class Life(NamedTuple):
    """What a process is started with."""

    name: str
    number: int
    """No other life on this machine has it."""
    config: SchedulerConfiguration
    heartbeat: Heartbeat
    careful: frozenset[int] | None = None

    @property
    def place(self) -> int:
        return int(self.name.partition("-")[2])

    @property
    def in_hand(self) -> InHand | None:
        return None if self.careful is None else InHand(self.heartbeat.beat, self.careful)


class LoopProcess(Process):
    """A process of one thread, which ends in order when told by SIGTERM."""

    def __init__(self, machine: Machine, life: Life) -> None:
        super().__init__(machine.simulation, machine.prefix + life.name, machine.clock)
        self._is_told_to_stop = False

    def receive_signal(self, number: signal.Signals) -> None:
        assert number is signal.SIGTERM, "no other is sent"
        self._is_told_to_stop = True
        self.wake()

    def _run_once(self, run: Callable[[Callable[[], bool]], None]) -> float | None:
        """When there is something to do again; None: it has come to its end."""
        try:
            run(lambda: self._is_told_to_stop)
        except Pause as pause:
            return self.simulation.now_s + pause.timeout_ms / 1000
        except SimulatedFailure:
            raise
        except Exception as error:
            raise _died(self, error) from error
        return None


class OwnerProcess(LoopProcess):
    """One life of the owner."""

    def __init__(self, machine: Machine, life: Life) -> None:
        super().__init__(machine, life)
        self.epoch = int(self.clock.wall_s() * 1e9)
        options = RuntimeOptions(
            binders=machine.binder_count,
            gang_reservation_s=machine.gang_reservation_s,
            custom_kinds=machine.custom_kinds,
        )
        self.state = make_state(
            life.config,
            machine.gates,
            machine.registry,
            options,
            self.epoch,
            self.clock.monotonic_s(),
            life.in_hand,
            is_candidate=machine.election is not None,
        )
        self.sockets = OwnerEnd(machine.links, self)
        gate = None if machine.election is None else LeaseGate(machine.gate_path, self.clock)
        self._loop = OwnerLoop(
            cast("OwnerSockets", self.sockets),
            self.state,
            self.clock,
            gate,
            heartbeat=life.heartbeat,
            collector=NoCollector(),
        )
        self.wake()

    def turn(self) -> float:
        self.sockets.turn.begin()
        again_s = self._run_once(self._loop.run)
        if again_s is not None:
            return again_s
        self.exit_code = exit_codes.LEASE_LOST if self._loop.is_lease_lost else exit_codes.OK
        return 0.0

    def kill(self) -> None:
        if self.is_alive:
            super().kill()
            self.sockets.close()


class SimulatedCaller:
    """What a worker has a thread for (`workers.scorer.extender_calls.ExtenderCaller`): a loop beside
    it, which lives as long."""

    fd = -1

    def __init__(self, machine: Machine, life: Life, wake: Callable[[], None]) -> None:
        self.extenders = life.config.extenders
        name = f"{machine.prefix}{life.name}-extenders"
        self.process = new_process(machine.simulation, name, machine.clock, machine.network)
        self._wake = wake
        self._answers: list[ExtenderAnswer] = []
        access = access_at(ADDRESS)
        self._desk = ExtenderDesk(
            self.extenders, access, self._put, machine.clock, life.heartbeat.write_note
        )

        async def main() -> int:
            await self._desk.run(lambda: None)
            return exit_codes.OK

        self.process.start(main)

    def ask(self, question: Question) -> None:
        self.process.call_soon(self._desk.begin, question)

    def take(self) -> list[ExtenderAnswer]:
        answers, self._answers = self._answers, []
        return answers

    def _put(self, answer: ExtenderAnswer) -> None:
        self._answers.append(answer)
        self._wake()


class ScorerProcess(LoopProcess):
    """One life of a worker."""

    def __init__(self, machine: Machine, life: Life, asks: ExtenderCaller | None = None) -> None:
        """`asks`: in place of one who asks the extenders of the configuration."""
        super().__init__(machine, life)
        self.caller: SimulatedCaller | None = None
        if asks is None and any(each.is_asked_by_scorers for each in life.config.extenders):
            self.caller = SimulatedCaller(machine, life, self.wake)
        instance = f"{self.name}-{life.number}"
        self.sockets = ScorerEnd(machine.links, self, instance)
        self.loop = ScorerLoop(
            cast("ScorerSockets", self.sockets),
            [machine.registry.build(profile) for profile in life.config.profiles],
            self.clock,
            life.heartbeat,
            asks or cast("ExtenderCaller | None", self.caller),
            hello=ScorerHello(life.place, instance),
            seed=self.simulation.seed,
            gates=machine.gates,
        )
        self.wake()

    def turn(self) -> float:
        self.sockets.turn.begin()
        again_s = self._run_once(self.loop.run)
        if again_s is None:
            self.exit_code = exit_codes.OK
        return again_s or 0.0

    def stop_until(self, time_s: float) -> None:
        super().stop_until(time_s)
        if self.caller is not None:
            self.caller.process.stop_until(time_s)

    def start_again(self) -> None:
        super().start_again()
        if self.caller is not None:
            self.caller.process.start_again()

    def kill(self) -> None:
        if self.is_alive:
            super().kill()
            self.sockets.vanish()
            if self.caller is not None:
                self.caller.process.kill()


def _died(process: Process, error: BaseException) -> SimulatedFailure:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, SimulatedFailure):
        return error
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" in {place.tb_frame.f_code.co_qualname}"
    return SimulatedFailure("died", f"{process.name}{where}: {type(error).__name__}: {error}")


class AsyncProcess(VirtualLoop):
    """A process whose main program is a coroutine. One that ends with an `OperationalError` has failed
    as it may; any other exception is a finding."""

    def __init__(
        self, simulation: Simulation, name: str, clock: MachineClock, network: Network
    ) -> None:
        super().__init__(simulation, name, clock, network)
        self.failure: SimulatedFailure | None = None
        self.ends: list[AsyncEnd] = []
        self.binder: BinderLife | None = None
        """Whose life it is, of a binder."""

    def start(self, main: Callable[[], Any]) -> None:
        """`main` returns the exit code."""

        async def run() -> None:
            try:
                self.exit_code = await main()
            except (asyncio.CancelledError, SimulatedFailure):
                raise
            except BaseException as error:  # noqa: BLE001 # Judged, and raised in `turn`.
                self._failed(error)

        with self.running():
            self.create_task(run())

    def _failed(self, error: BaseException) -> None:
        leaf = error
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        if isinstance(leaf, OperationalError):
            self.simulation.tell(f"{self.name} ends: {leaf}")
            self.exit_code = exit_codes.FAILED
        else:
            self.failure = _died(self, leaf)

    def turn(self) -> float:
        again_s = super().turn()
        if self.failure is not None:
            raise self.failure
        return again_s

    def kill(self) -> None:
        if self.is_alive:
            for end in self.ends:
                end.vanish()
        super().kill()

    def open_end(self, links: Links, channel: Channel, identity: str) -> Any:
        """A connection to the owner."""
        end = AsyncEnd(links, self, channel, identity)
        self.ends.append(end)
        return end


def new_process(
    simulation: Simulation, name: str, clock: MachineClock, network: Network
) -> AsyncProcess:
    """A process that has nothing to do yet."""
    return AsyncProcess(simulation, name, clock, network)  # type: ignore[abstract] # It has all that is asked of it.


def _new(machine: Machine, life: Life) -> AsyncProcess:
    process = new_process(
        machine.simulation, machine.prefix + life.name, machine.clock, machine.network
    )
    with process.running():
        life.heartbeat.keep(process)
    return process


class SourceOfSome:
    """Watches a server that does not serve some kinds, as if it had asked for them."""

    def __init__(self, missing: Sequence[str], source: ApiSource) -> None:
        self._missing = missing
        self._source = source

    async def run(self, sink: MessageSink) -> None:
        for plural in self._missing:
            sink.put(KindUnavailable(plural, "not served"), len(plural))
        await self._source.run(sink)


def start_adapter(machine: Machine, life: Life) -> AsyncProcess:
    """One life of the watch adapter."""
    process, simulation = _new(machine, life), machine.simulation
    settings = WatchSettings(use_watch_list=simulation.rng("adapter").random() < 0.5)
    instance = f"{machine.prefix}{life.number}"
    wanted = [
        kind for kind in ALL_KINDS if not kind.feature_gate or machine.gates[kind.feature_gate]
    ]
    kinds = [kind for kind in wanted if kind.plural in machine.kinds]
    kinds += map(custom_kind, machine.custom_kinds)
    missing = [kind.plural for kind in wanted if kind.plural not in machine.kinds]

    async def main() -> int:
        source = ApiSource(
            access_at(ADDRESS),
            seed=simulation.seed * 1000 + life.number,
            settings=settings,
            kinds=kinds,
            in_hand=life.in_hand,
        )
        peer = process.open_end(machine.links, Channel.ADAPTER, f"adapter-{instance}")
        task = process.create_task(Adapter(SourceOfSome(missing, source), peer).run())
        process.add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            return exit_codes.OK
        return exit_codes.OK

    process.start(main)
    return process


def start_binder(machine: Machine, life: Life) -> AsyncProcess:
    """One life of a binder."""
    process, clock = _new(machine, life), machine.clock

    async def main() -> int:
        gate = None if machine.election is None else LeaseGate(machine.gate_path, clock)
        built = [machine.registry.build(profile) for profile in life.config.profiles]
        name = f"{process.name}-{life.number}"
        binder = BinderLife(
            life.place,
            process.open_end(machine.links, Channel.BINDERS, name),
            access_at(ADDRESS),
            clock,
            "simulated",
            binding_plan(life.config, built),
            machine.binder_count,
            MAX_IN_FLIGHT,
            gate,
            entry_points=PLUGINS,
        )
        process.binder = binder
        process.add_signal_handler(signal.SIGTERM, binder.drain)
        await binder.run()
        return exit_codes.OK

    process.start(main)
    return process


def start_leader(machine: Machine, life: Life, identity: str) -> AsyncProcess:
    """One life of the process that stands for the lease."""
    process, election = _new(machine, life), machine.election
    assert election is not None, "without an election nobody stands"

    async def main() -> int:
        candidate = Elector(
            access_at(ADDRESS),
            election,
            identity,
            LeaseGate(machine.gate_path, machine.clock),
            machine.clock,
            machine.simulation.rng(f"{process.name} {life.number}"),
        )
        process.add_signal_handler(signal.SIGTERM, candidate.stop, exit_codes.OK)
        return await candidate.run()

    process.start(main)
    return process


def start_api_server(process: AsyncProcess, server: ApiServer) -> None:
    """Has a server listen on its loop."""

    async def main() -> int:
        await server.start()
        return await cast("asyncio.Future[int]", process.create_future())

    process.start(main)
