"""Workloads of `berth bench` on a berth whose processes are simulated: one thread, virtual time.

The code is that of the real modes: in `decisions` the cluster in memory, the watch adapter, owner,
scorer and null binder; in `http` the simulated API server, the whole berth and the load over its HTTP.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bench.apiserver.api_cluster import DEFAULT_TOLERATIONS_PLUGIN, PRIORITY_PLUGIN, ClusterOptions
from bench.apiserver.http_server import ApiServer, ServerOptions
from bench.null_binder import BEAT_MS, NullBinder
from bench.perf.config_file import Plan
from bench.perf.decision_processes import CountedPeer, DecisionProcesses
from bench.perf.executor import Executor
from bench.perf.http_cluster import HttpCluster, Place
from bench.perf.memory_cluster import FeederSource, MemoryCluster
from bench.perf.samples import Buckets
from bench.sim.berth import Berth
from bench.sim.links import AsyncEnd, Links
from bench.sim.schedule import EPOCH_WALL_S, MachineClock, Process, Simulation
from bench.sim.sim_plan import PLAIN
from bench.sim.sim_processes import (
    ADDRESS,
    AsyncProcess,
    Life,
    Machine,
    OwnerProcess,
    ScorerProcess,
    new_process,
    start_api_server,
)
from bench.sim.virtual_loop import Network
from daemon.adapter.process import Adapter
from daemon.core.owner_counts import Count
from shared.config import parse_configuration
from shared.kube.cluster_access import access_at
from shared.kube.http_stream import StreamClient
from shared.messages.admin import StatusAnswer
from shared.plugins.in_tree import InTreeRegistry
from shared.transport.channels import Channel
from shared.transport.heartbeat import Heartbeat

Mode = Literal["decisions", "http"]
LIMIT_S: Final = 3_000.0
"""Of virtual time: after five minutes pods are tried again whether or not anything happened."""
CHUNK_S: Final = 5.0


class Played(NamedTuple):
    """What came of it."""

    executor: Executor
    cluster: MemoryCluster | HttpCluster
    virtual_s: float
    """How long it took by the virtual clock."""


def play(plan: Plan, mode: Mode, seed: int = 1) -> Played:
    """Runs a workload to its end; raises where it does not come to one."""
    logger = logging.getLogger("berth")
    logger.propagate, logger.level = False, logging.CRITICAL + 1
    try:
        return (_decisions if mode == "decisions" else _http)(plan, Simulation(seed))
    finally:
        logger.propagate, logger.level = True, logging.NOTSET


class _SimulatedProcesses(DecisionProcesses):
    """Says of the simulated processes what the cluster in memory asks."""

    def __init__(self, owner: OwnerProcess) -> None:
        self.owner = owner
        self.peer: CountedPeer | None = None

    async def until_taken_in(self, message_count: int) -> None:
        assert self.peer is not None, "there is an adapter"
        await self.peer.until_sent(message_count)
        counters = self.owner.state.counters
        while counters[Count.ADAPTER_BATCHES] < self.peer.batch_count:  # noqa: ASYNC110 # Nothing tells us.
            await asyncio.sleep(0.001)  # Of virtual time.

    async def status(self) -> StatusAnswer | None:
        return None

    async def histogram(self, name: str) -> dict[str, Buckets]:
        del name
        return {}


def _configuration(plan: Plan) -> str:
    """With the workload's own profiles, if it has some, and without leader election."""
    path = plan.case.scheduler_config_path
    own = plan.path(path).read_bytes() if path else PLAIN.encode()
    document = {**msgspec.yaml.decode(own), "leaderElection": {"leaderElect": False}}
    return msgspec.json.encode(document).decode()


def _decisions(plan: Plan, simulation: Simulation) -> Played:
    network, links = Network(simulation), Links(simulation)
    clock, config = MachineClock(simulation), parse_configuration(_configuration(plan), "workload")
    machine = Machine(
        simulation, network, links, clock, InTreeRegistry(entry_points=()), "", 1, None, Path()
    )
    owner = OwnerProcess(machine, Life("owner-0", 1, config, Heartbeat()))
    processes = _SimulatedProcesses(owner)
    scorer = ScorerProcess(machine, Life("scorer-0", 2, config, Heartbeat()))
    feeder = new_process(simulation, "feeder", clock, network)
    source = FeederSource()
    cluster = MemoryCluster(source, processes, feeder.clock)

    def write(data: bytes) -> None:
        feeder.call_soon(cluster.take_output, data)

    binder = _start_null_binder(machine, write)

    async def beside() -> None:
        end: Any = AsyncEnd(links, feeder, Channel.ADAPTER, "adapter-feeder")
        processes.peer = CountedPeer(end)
        await Adapter(source, processes.peer).run()

    with _ended_after([feeder, binder, scorer, owner]):
        return _run(plan, simulation, feeder, cluster, beside, source.synced.wait)


def _start_null_binder(machine: Machine, write: Callable[[bytes], None]) -> AsyncProcess:
    process = new_process(machine.simulation, "binder-0", machine.clock, machine.network)
    binder = NullBinder(0, "null", write, process.clock)

    async def main() -> None:
        end = AsyncEnd(machine.links, process, Channel.BINDERS, "binder-0")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_beat(binder, end))
            while True:
                for answer in binder.answers(await end.recv()):
                    end.send_nowait(answer)

    process.start(main)
    return process


async def _beat(binder: NullBinder, end: AsyncEnd) -> None:
    while True:
        await asyncio.sleep(BEAT_MS / 1000)  # Of virtual time.
        for answer in binder.beats():
            end.send_nowait(answer)


def _http(plan: Plan, simulation: Simulation) -> Played:
    network = Network(simulation)
    off = frozenset([DEFAULT_TOLERATIONS_PLUGIN, PRIORITY_PLUGIN])
    options = ServerOptions(cluster=ClusterOptions(disabled_admission=off))
    server = ApiServer(options, now_s=lambda: EPOCH_WALL_S + simulation.now_s)
    clock = MachineClock(simulation)
    process = new_process(simulation, "apiserver", clock, network)
    start_api_server(process, server)
    simulation.run_until(simulation.now_s + 0.1)  # It has begun to listen.
    with TemporaryDirectory(prefix="berth-perf-") as folder:
        berth = Berth(
            simulation,
            network,
            number=0,
            scorer_count=1,
            binder_count=1,
            configurations=[_configuration(plan)],
            runtime_dir=Path(folder),
        )
        load = new_process(simulation, "load", clock, network)
        client = StreamClient(access_at(ADDRESS), timeout_s=120.0)
        cluster = HttpCluster(Place(client, None, Path(), None, False), load.clock)

        def is_ready() -> bool:
            owner = berth.owner
            return bool(berth.scorers) and owner is not None and owner.state.is_synced

        async def ready() -> None:
            await cluster.begin()
            while not is_ready():  # noqa: ASYNC110 # Nothing tells us.
                await asyncio.sleep(0.05)  # Of virtual time.

        with _ended_after([load, process]), contextlib.closing(berth):
            return _run(plan, simulation, load, cluster, cluster.follow, ready)


@contextlib.contextmanager
def _ended_after(processes: Sequence[Process]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _run(
    plan: Plan,
    simulation: Simulation,
    process: AsyncProcess,
    cluster: MemoryCluster | HttpCluster,
    beside: Callable[[], Coroutine[Any, Any, None]],
    ready: Callable[[], Awaitable[object]],
) -> Played:
    executor = Executor(plan, cluster, process.clock)
    is_over = False
    failed: list[BaseException] = []

    async def work(tasks: asyncio.TaskGroup) -> None:
        nonlocal is_over
        if isinstance(cluster, HttpCluster):
            await ready()
            tasks.create_task(beside())
        else:
            tasks.create_task(beside())
            await ready()
        try:
            await executor.run()
        except BaseException as error:  # noqa: BLE001 # Raised below, whatever it is.
            failed.append(error)
        is_over = True

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            await work(tasks)
            await asyncio.Event().wait()

    start_s = simulation.now_s
    process.start(main)
    while not is_over and simulation.now_s < start_s + LIMIT_S:
        simulation.events_count = 0
        simulation.run_until(simulation.now_s + CHUNK_S, lambda: is_over)
    if failed:
        raise failed[0]
    assert is_over, f"{plan.name}: not finished after {LIMIT_S:g} s; {executor.told()}"
    return Played(executor, cluster, simulation.now_s - start_s)
