"""The real code of each process, put together as its `__main__` does, on simulated links.

A process that dies is dead with all that it knew; `Berth` plays the supervisor and starts it anew
after a while.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from bench.apiserver.server import ApiServer
from bench.sim.links import AsyncEnd, Links, OwnerEnd, Pause, ScorerEnd
from bench.sim.schedule import EPOCH_WALL_S, Process, SimulatedFailure, Simulation
from bench.sim.virtual_loop import Network, VirtualLoop
from daemon.adapter.api_source import ApiSource
from daemon.adapter.kind_watch import WatchSettings
from daemon.adapter.process import Adapter
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.settings import Settings
from daemon.core.state import SchedulerState
from daemon.owner.loop import OwnerLoop
from shared.collector import Collector
from shared.errors import OperationalError
from shared.framework.profiles import ProfileConfig
from shared.framework.registry import Registry
from shared.kube.cluster_access import access_by_url
from shared.kube.object_codec import decode_object
from shared.transport.adapter_link import AdapterLink
from shared.transport.channels import Channel
from shared.transport.endpoints import Endpoints
from shared.transport.owner_sockets import OwnerSockets
from shared.transport.scorer_sockets import ScorerSockets
from workers.binder.bind_call import DefaultBinder
from workers.binder.binding_cycle import BindingCycle, BindingPlugins, ClaimPreBind, VolumePreBind
from workers.binder.claim_bind import ClaimBinder
from workers.binder.claim_free import ClaimFreer
from workers.binder.claim_lines import ClaimLines
from workers.binder.evictions import Evictor
from workers.binder.fences import FencedClient, Fences
from workers.binder.loop import Binder, Identity
from workers.binder.recorder import Recorder, RecorderSettings
from workers.binder.volume_bind import VolumeBinder
from workers.scorer.loop import ScorerLoop
from workers.scorer.tie_break import BY_SEED

ADDRESS: Final = "http://simulated:1"
RESTART_S_MAX: Final = 1.5
MAX_IN_FLIGHT: Final = 8


class NoCollector(Collector):
    """Leaves alone what belongs to all simulated processes together."""

    def __init__(self) -> None:
        """Sets nothing."""

    def settled(self) -> None:
        """Puts nothing aside."""


class OwnerProcess(Process):
    """One life of the owner."""

    def __init__(self, simulation: Simulation, links: Links, epoch: int, binder_count: int) -> None:
        super().__init__(simulation, "owner")
        built = Registry(entry_points=()).build(ProfileConfig())
        name = built.scheduler_name
        self.frameworks = {name: built.framework}
        plugins = OwnerPlugins(
            queue_sort=built.queue_sort,
            pre_enqueue={name: built.plugins_at["preEnqueue"]},
            reserve={name: built.plugins_at["reserve"]},
            permit={name: built.plugins_at["permit"]},
        )
        settings = Settings(profiles=frozenset([name]), binder_count=binder_count)
        now_s = simulation.now_s
        self.epoch = epoch
        self.state = SchedulerState(epoch, settings, self.frameworks, plugins, now_s)
        self.sockets = OwnerEnd(links, self)
        self.turn_count = 0
        self._loop = OwnerLoop(
            cast("OwnerSockets", self.sockets), self.state, self.clock, collector=NoCollector()
        )
        self.wake()

    def turn(self) -> float:
        self.turn_count += 1
        self.sockets.turn.begin()
        return _run_once(self, self._loop.run)

    def kill(self) -> None:
        if self.is_alive:
            super().kill()
            self.sockets.close()


class ScorerProcess(Process):
    """One life of a worker."""

    def __init__(self, simulation: Simulation, links: Links, index: int, life: int) -> None:
        super().__init__(simulation, f"scorer-{index}")
        self.index = index
        self.turn_count = 0
        built = Registry(entry_points=()).build(ProfileConfig())
        instance = f"scorer-{index}-{life}"
        self.sockets = ScorerEnd(links, self, instance)
        self.loop = ScorerLoop(
            cast("ScorerSockets", self.sockets),
            worker_index=index,
            instance=instance,
            seed=simulation.seed * 1_000_003 + index,
            tie_break=BY_SEED,
            frameworks={built.scheduler_name: built.framework},
            reserves={built.scheduler_name: built.plugins_at["reserve"]},
            decode_object=decode_object,
            clock=self.clock,
        )
        self.wake()

    def turn(self) -> float:
        self.turn_count += 1
        self.sockets.turn.begin()
        return _run_once(self, self.loop.run)

    def kill(self) -> None:
        if self.is_alive:
            super().kill()
            self.sockets.vanish()


def _run_once(process: Process, run: Callable[[Callable[[], bool]], None]) -> float:
    try:
        run(lambda: False)
    except Pause as pause:
        return process.simulation.now_s + pause.timeout_ms / 1000
    except SimulatedFailure:
        raise
    except Exception as error:
        raise _died(process, error) from error
    raise SimulatedFailure("ended", f"{process.name} ended by itself")


def _died(process: Process, error: BaseException) -> SimulatedFailure:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" in {place.tb_frame.f_code.co_qualname}"
    return SimulatedFailure("died", f"{process.name}{where}: {type(error).__name__}: {error}")


class AsyncProcess(VirtualLoop):
    """A process whose main program is a coroutine. One that ends with an `OperationalError` is started
    anew, as its supervisor would; any other end is a finding."""

    def __init__(self, simulation: Simulation, name: str, network: Network) -> None:
        super().__init__(simulation, name, network)
        self.failure: SimulatedFailure | None = None
        self.end: AsyncEnd | None = None

    def start(self, main: Callable[[], Any]) -> None:
        async def run() -> None:
            try:
                await main()
            except (asyncio.CancelledError, SimulatedFailure):
                raise
            except BaseException as error:  # noqa: BLE001 # Judged, and raised in `turn`.
                self._ended(error)

        with self.running():
            self.create_task(run())

    def _ended(self, error: BaseException) -> None:
        leaf = error
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        if isinstance(leaf, OperationalError):
            self.simulation.tell(f"{self.name} ends: {leaf}")
            self.sends_left = -1
        else:
            self.failure = _died(self, leaf)

    def turn(self) -> float:
        again_s = super().turn()
        if self.failure is not None:
            raise self.failure
        return again_s

    def kill(self) -> None:
        if self.is_alive and self.end is not None:
            self.end.vanish()
        super().kill()


def new_process(simulation: Simulation, name: str, network: Network) -> AsyncProcess:
    """A process that has nothing to do yet."""
    return AsyncProcess(simulation, name, network)  # type: ignore[abstract] # It has all that is asked of it.


def start_adapter(
    simulation: Simulation, links: Links, network: Network, life: int
) -> AsyncProcess:
    """One life of the watch adapter."""
    process = new_process(simulation, "adapter", network)
    settings = WatchSettings(use_watch_list=simulation.rng("adapter").random() < 0.5)
    instance = str(life)

    def open_end(_: Endpoints, identity: str) -> Any:
        process.end = AsyncEnd(links, process, Channel.ADAPTER, identity)
        return process.end

    async def main() -> None:
        seed = simulation.seed * 1000 + life
        source = ApiSource(access_by_url(ADDRESS, {}), seed=seed, settings=settings)
        link = AdapterLink(cast("Endpoints", None), instance, open_peer=open_end)
        await Adapter(source, link, instance=instance).run()

    process.start(main)
    return process


def _always() -> bool:
    return True


def start_binder(
    simulation: Simulation, links: Links, network: Network, index: int, life: int
) -> AsyncProcess:
    """One life of a binder (`workers/binder/__main__.py`)."""
    process = new_process(simulation, f"binder-{index}", network)
    clock = process.clock

    async def main() -> None:
        access = access_by_url(ADDRESS, {})
        settings = RecorderSettings()
        fences = Fences()
        bind_api = FencedClient(access, fences, _always, connections_max=MAX_IN_FLIGHT)
        record_api = FencedClient(access, fences, _always, connections_max=settings.writes_max)
        recorder = Recorder(record_api, settings, clock, "simulated", process)
        lines = ClaimLines()
        freer = ClaimFreer(record_api, lines)
        evictor = Evictor(record_api, clock, recorder.pod_preempted, freer=freer, fences=fences)
        binder = DefaultBinder(bind_api, clock=clock)
        pre_binders = (
            VolumePreBind(VolumeBinder(bind_api)),
            ClaimPreBind(
                ClaimBinder(bind_api, recorder.pod_waits_for_devices, lines),
                ClaimFreer(bind_api, lines),
            ),
        )
        cycle = BindingCycle(BindingPlugins((binder,), pre_binders))
        process.end = AsyncEnd(links, process, Channel.BINDERS, f"binder-{index}-{life}")
        identity = Identity(index, f"{life}")
        binder_loop = Binder(
            identity, process.end, cycle, recorder, MAX_IN_FLIGHT, clock, evictor, fences
        )
        await binder_loop.run()

    process.start(main)
    return process


def start_api_server(process: AsyncProcess, server: ApiServer) -> None:
    """Has a server listen on its loop."""

    async def main() -> None:
        await server.start()

    process.start(main)


class Berth:
    """All processes of one berth, and a supervisor that starts anew what died."""

    def __init__(
        self, simulation: Simulation, network: Network, *, scorer_count: int, binder_count: int
    ) -> None:
        self.simulation = simulation
        self.network = network
        self.links = Links(simulation)
        self.processes: dict[str, Process] = {}
        self.deaths_count = 0
        self._binder_count = binder_count
        self._lives = 0
        self._rng = simulation.rng("supervisor")
        names = ["owner", "adapter"]
        names += [f"scorer-{index}" for index in range(scorer_count)]
        names += [f"binder-{index}" for index in range(binder_count)]
        for name in names:
            self._start(name)

    @property
    def owner(self) -> OwnerProcess | None:
        found = self.processes["owner"]
        assert isinstance(found, OwnerProcess)
        return found if found.is_alive else None

    @property
    def scorers(self) -> list[ScorerProcess]:
        """Those that live."""
        found = [each for each in self.processes.values() if isinstance(each, ScorerProcess)]
        return [each for each in found if each.is_alive]

    def kill(self, name: str) -> None:
        """Ends a process; it is back after a while."""
        process = self.processes[name]
        if not process.is_alive:
            return
        process.kill()
        self.deaths_count += 1
        self.simulation.after(self._rng.random() * RESTART_S_MAX, lambda: self._start(name))

    def _start(self, name: str) -> None:
        kind, _, number = name.partition("-")
        self._lives += 1
        simulation, links, life = self.simulation, self.links, self._lives
        process: Process
        match kind:
            case "owner":
                epoch = int((EPOCH_WALL_S + simulation.now_s) * 1e9) + life
                process = OwnerProcess(simulation, links, epoch, self._binder_count)
            case "scorer":
                process = ScorerProcess(simulation, links, int(number), life)
            case "adapter":
                process = start_adapter(simulation, links, self.network, life)
            case _:
                process = start_binder(simulation, links, self.network, int(number), life)
        process.on_death = lambda: self.kill(name)
        self.processes[name] = process
