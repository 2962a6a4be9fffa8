"""Workloads of `berth bench` on a berth whose processes are simulated: one thread, virtual time.

The code is that of the real modes: in `decisions` the cluster in memory, the watch adapter, owner,
scorer and null binder; in `http` the simulated API server, the whole berth and the load over its HTTP.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from bench.apiserver.cluster import DEFAULT_TOLERATIONS_PLUGIN, PRIORITY_PLUGIN, ClusterOptions
from bench.apiserver.server import ApiServer, ServerOptions
from bench.null_binder import BEAT_MS, NullBinder
from bench.perf.config_file import Plan
from bench.perf.decision_processes import CountedLink, DecisionProcesses
from bench.perf.executor import Executor
from bench.perf.http_cluster import HttpCluster, Place
from bench.perf.memory_cluster import FeederSource, MemoryCluster
from bench.perf.samples import Buckets
from bench.sim.links import AsyncEnd, Links
from bench.sim.processes import (
    ADDRESS,
    AsyncProcess,
    Berth,
    OwnerProcess,
    ScorerProcess,
    new_process,
    start_api_server,
)
from bench.sim.schedule import EPOCH_WALL_S, Process, Simulation
from bench.sim.virtual_loop import Network
from daemon.adapter.process import Adapter
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import access_by_url
from shared.messages.admin import StatusAnswer
from shared.transport.adapter_link import AdapterLink
from shared.transport.channels import Channel
from shared.transport.endpoints import Endpoints

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
        self.link: CountedLink | None = None

    async def until_taken_in(self, message_count: int) -> None:
        assert self.link is not None, "there is an adapter"
        await self.link.until_sent(message_count)
        counters = self.owner.state.counters
        while counters["adapter_batches"] < self.link.batch_count:  # noqa: ASYNC110 # Nothing tells us.
            await asyncio.sleep(0.001)  # Of virtual time.

    async def status(self) -> StatusAnswer | None:
        return None

    async def histogram(self, name: str) -> dict[str, Buckets]:
        del name
        return {}


def _decisions(plan: Plan, simulation: Simulation) -> Played:
    network, links = Network(simulation), Links(simulation)
    owner = OwnerProcess(simulation, links, 1, 1)
    processes = _SimulatedProcesses(owner)
    scorer = ScorerProcess(simulation, links, 0, 1)
    feeder = new_process(simulation, "feeder", network)
    source = FeederSource()
    cluster = MemoryCluster(source, processes, feeder.clock)

    def write(data: bytes) -> None:
        feeder.call_soon(cluster.take_output, data)

    binder = _start_null_binder(simulation, links, network, write)

    def open_end(_: Endpoints, identity: str) -> Any:
        return AsyncEnd(links, feeder, Channel.ADAPTER, identity)

    async def beside() -> None:
        link = AdapterLink(cast("Endpoints", None), "feeder", open_peer=open_end)
        processes.link = CountedLink(link)
        await Adapter(source, processes.link, instance="feeder").run()

    with _ended_after([feeder, binder, scorer, owner]):
        return _run(plan, simulation, feeder, cluster, beside, source.synced.wait)


def _start_null_binder(
    simulation: Simulation, links: Links, network: Network, write: Callable[[bytes], None]
) -> AsyncProcess:
    process = new_process(simulation, "binder-0", network)
    binder = NullBinder(0, "null", write, process.clock)

    async def main() -> None:
        end = AsyncEnd(links, process, Channel.BINDERS, "binder-0")
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
    process = new_process(simulation, "apiserver", network)
    start_api_server(process, server)
    simulation.run_until(simulation.now_s + 0.1)  # It has begun to listen.
    berth = Berth(simulation, network, scorer_count=1, binder_count=1)
    load = new_process(simulation, "load", network)
    client = ApiClient(access_by_url(ADDRESS, {}), timeout_s=120.0)
    cluster = HttpCluster(Place(client, None, Path(), None, False), load.clock)
    with _ended_after([load, *berth.processes.values(), process]):
        return _run(plan, simulation, load, cluster, cluster.follow, cluster.begin)


@contextlib.contextmanager
def _ended_after(processes: Sequence[Process]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.on_death = None
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

    async def work(tasks: asyncio.TaskGroup) -> None:
        nonlocal is_over
        if isinstance(cluster, HttpCluster):
            await ready()
            tasks.create_task(beside())
        else:
            tasks.create_task(beside())
            await ready()
        await executor.run()
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
    assert is_over, f"{plan.name}: not finished after {LIMIT_S:g} s; {executor.told()}"
    return Played(executor, cluster, simulation.now_s - start_s)
