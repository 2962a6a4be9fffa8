"""What happens in a soak, in order.

A simulated API server (TLS, token) with nodes, a whole berth as one would run it on a cluster; then,
for as long as asked, pods that come and go, nodes that change and, if wanted, processes that are
killed and a server that fails (a fault plan). All the while a ledger judges every binding, and every
`check_every_s` the cache is compared with the API server. At the end the traffic stops, every pod that
can be bound has to be, and the server's objects are judged once more by the demo's check.
"""

import asyncio
import os
import platform
import secrets
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from bench.demo.cluster_check import check_cluster
from bench.demo.workload import NAMESPACE
from bench.soak.disturbance import CHILDREN, ENDPOINTS, LEADER, Disturbance
from bench.soak.ledger import Ledger
from bench.soak.memory import MemoryMeter
from bench.soak.node_churn import NodeChurn
from bench.soak.patient import send
from bench.soak.provisioner import Provisioner, disk_problems
from bench.soak.soak_figures import SoakFigures, latency_ms, leaks
from bench.soak.soak_pods import (
    MAIN,
    TIGHT,
    budget_body,
    node_body,
    priority_class_bodies,
    storage_class_body,
    tight_node_count,
)
from bench.soak.traffic import PODS, Traffic
from bench.soak.witness import Witness
from bench.watched.berth_options import BerthOptions
from bench.watched.owner_status import owner_status
from bench.watched.run_folder import run_folder
from bench.watched.watched_listing import NODES_PATH, PODS_PATH, all_items
from bench.watched.watched_load import create_all
from bench.watched.watched_processes import (
    UseMeter,
    WatchedProcess,
    core_count,
    launch_berth,
    processes_of_run,
    start_api_server,
    start_berth,
)
from daemon.commands.compare_caches import CacheComparison, compare
from shared.clock import Clock, SystemClock
from shared.errors import OperationalError
from shared.kube.http_stream import StreamClient
from shared.kube.kubeconfig import load_kubeconfig
from shared.transport.owner_link import OwnerLink

MEMORY_PERIOD_S: Final = 2.0
HISTORY: Final = 50_000
EVENT_TTL_S: Final = 60
BEHIND_S: Final = 120.0
"""So long berth may be behind what happens while its processes are killed and stopped: a pod for which
there is room and that has no node was lost, a difference to the API server that is still there is
drift. Also in work: as many pods must have been bound as come in that time, for on a machine that has
other things to do time passes and nothing is done. A process comes back within some seconds (20 on such
a machine), but it may be killed again, and so may the one that makes up for it."""
QUIET_S: Final = 300.0
"""When nothing comes any more and no pod was bound for so long, none will be; nor does a difference to
the API server that lasts so long go away."""
POLL_S: Final = 0.2
NOT_BERTH: Final = frozenset({"apiserver", "load and watch"})
PRIORITY_CLASSES_PATH: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
STORAGE_CLASSES_PATH: Final = "/apis/storage.k8s.io/v1/storageclasses"
BUDGETS_PATH: Final = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"


class SoakOptions(BerthOptions, frozen=True, kw_only=True):
    """What a soak is asked for."""

    minutes: float = 10.0
    rate_per_s: float = 500.0
    nodes: int = 1000
    life_s: float = 10.0
    """Mean life of a pod from its binding."""
    node_changes_per_s: float = 1.0
    check_every_s: float = 30.0
    warm_up_s: float | None = None
    """Before memory is judged; None: a fifth of the time, two minutes at most."""
    kill_every_s: float = 0.0
    """Kills one of berth's processes so often; 0: nobody is killed."""
    stop_every_s: float = 0.0
    """Stops one of them for some seconds so often; 0: nobody is stopped."""
    starve_every_s: float = 0.0
    """Keeps the cores busy for some seconds so often; 0: never."""
    kill: tuple[str, ...] = CHILDREN
    faults: str = ""
    log_level: str = "warning"

    @property
    def is_disturbed(self) -> bool:
        return bool(self.kill_every_s or self.stop_every_s or self.starve_every_s or self.faults)

    @property
    def duration_s(self) -> float:
        return self.minutes * 60

    @property
    def warm_s(self) -> float:
        return min(120.0, self.duration_s / 5) if self.warm_up_s is None else self.warm_up_s


class SoakFailedError(OperationalError):
    """The soak did not come to its end."""


def run_soak(options: SoakOptions, tell: Callable[[str], None]) -> SoakFigures:
    """Runs it all. Logs are kept where something went wrong, and the place is told."""
    with run_folder("soak", SoakFailedError) as folder:
        figures = asyncio.run(_run(options, folder, tell))
    if figures.problems:
        tell(f"all logs are in {folder}")
    else:
        shutil.rmtree(folder)
    return figures


async def _run(options: SoakOptions, folder: Path, tell: Callable[[str], None]) -> SoakFigures:
    kubeconfig = folder / "kubeconfig"
    more = [
        *("--tls", "--token", secrets.token_hex(16), "--write-kubeconfig", f"{kubeconfig}"),
        *("--event-ttl-s", f"{EVENT_TTL_S}", "--kubelet-delay-s", "0.3"),
        *(("--faults", options.faults) if options.faults else ()),
    ]
    server, _ = await start_api_server(folder, HISTORY, options.seed, more)
    client = StreamClient(load_kubeconfig([kubeconfig], os.environ), timeout_s=60.0)
    try:
        names = await _create_cluster(client, options)
        tell("starting berth")
        arguments = ["--kubeconfig", f"{kubeconfig}", *options.arguments(), *_for_all(options.kill)]
        service = await _Service.started(folder, arguments)
        try:
            soak = _Soak(options, folder, tell, client, server, service, names)
            return await soak.run()
        finally:
            service.berth.stop()
    finally:
        await client.close()
        server.stop()


async def _create_cluster(client: StreamClient, options: SoakOptions) -> list[str]:
    """The nodes of the main pool."""
    await create_all(client, PRIORITY_CLASSES_PATH, priority_class_bodies())
    await create_all(client, STORAGE_CLASSES_PATH, [storage_class_body()])
    await create_all(client, BUDGETS_PATH, [budget_body()])
    names = [f"soak-node-{number:07d}" for number in range(options.nodes)]
    await create_all(client, NODES_PATH, [node_body(name, i, MAIN) for i, name in enumerate(names)])
    tight = [
        node_body(f"soak-tight-{number}", number, TIGHT)
        for number in range(tight_node_count(options.rate_per_s, options.life_s))
    ]
    await create_all(client, NODES_PATH, tight)
    return names


class _Service:
    """Keeps a berth running, as a service manager would."""

    def __init__(self, folder: Path, arguments: list[str], berth: WatchedProcess) -> None:
        self._folder = folder
        self._arguments = arguments
        self.berth = berth

    @classmethod
    async def started(cls, folder: Path, arguments: list[str]) -> Self:
        return cls(folder, arguments, await start_berth(folder, arguments))

    async def run(self) -> None:
        """Until cancelled. Started anew is only what was killed: whatever else ends it is a fault."""
        while True:
            await asyncio.sleep(POLL_S)
            if self.berth.is_killed:
                self.berth.stop()
                self.berth = launch_berth(self._folder, self._arguments)

    def check(self) -> None:
        if not self.berth.is_killed:
            self.berth.check()


class Moment(NamedTuple):
    """By the clock, and by what was done."""

    now_s: float
    bound_count: int


class _Soak:
    """One soak, with an API server and a berth that are there."""

    def __init__(
        self,
        options: SoakOptions,
        folder: Path,
        tell: Callable[[str], None],
        client: StreamClient,
        server: WatchedProcess,
        service: _Service,
        nodes: list[str],
    ) -> None:
        self._options = options
        self._runtime_dir = folder / "run"
        self._tell = tell
        self._client = client
        self._server = server
        self._service = service
        self._clock: Clock = SystemClock()
        self._ledger = Ledger(BEHIND_S) if options.is_disturbed else Ledger()
        self._memory = MemoryMeter()
        self._processes = partial(processes_of_run, server.pid, self._runtime_dir)
        self._meter = UseMeter(self._processes, self._clock)
        self._traffic = Traffic(
            client, self._ledger, self._clock,
            rate_per_s=options.rate_per_s, life_s=options.life_s, seed=options.seed,
        )  # fmt: skip
        self._churn = NodeChurn(
            client, self._ledger, self._traffic, self._clock,
            nodes=nodes, rate_per_s=options.node_changes_per_s, seed=options.seed,
        )  # fmt: skip
        self._witness = Witness(client, self._ledger, self._on_bound, self._clock)
        self._provisioner = Provisioner(client, self._ledger)
        self._disturbance = Disturbance(
            self._runtime_dir, self._clock, tell,
            kill_every_s=options.kill_every_s, stop_every_s=options.stop_every_s,
            starve_every_s=options.starve_every_s, whom=options.kill, seed=options.seed,
        )  # fmt: skip
        self._problems: list[str] = []
        self._comparison_count = 0
        self._differs_since: dict[str, Moment] = {}
        """What the last comparison found, and since when they all have."""
        self._seen_bound_count = 0
        self._bound_while_behind = round(BEHIND_S * options.rate_per_s)

    async def run(self) -> SoakFigures:
        """From the first pod to the figures."""
        self._meter.begin()
        start_s = self._clock.monotonic_s()
        watching = self._witness.run(), self._sample_memory(), self._provisioner.run()
        async with self._background(*watching, self._service.run()):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._traffic.run())
                churning = group.create_task(self._churn.run())
                # The last round sees what came of the last one.
                calm_s = start_s + self._options.duration_s - self._options.check_every_s
                group.create_task(self._disturbance.run(calm_s))
                await self._check_in_rounds(start_s + self._options.duration_s)
                # Nodes first: pods that are on one that goes are ended by the traffic.
                self._churn.is_stopped = True
                await churning
                self._traffic.is_stopped = True
            seconds = self._clock.monotonic_s() - start_s
            await self._settle()
        await self._judge_at_the_end()
        counters = await self._owner_counters()
        self._meter.sample()
        berth = self._service.berth
        if berth.stop() != 0:
            self._problems.append(f"berth did not stop in order; {berth.log_tail()}")
        return self._figures(seconds, counters)

    def _on_bound(self, pod: str, node: str) -> None:
        self._traffic.bound(pod, self._clock.monotonic_s())
        self._churn.bound(pod, node)

    @asynccontextmanager
    async def _background(self, *work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
            yield
            for task in tasks:
                task.cancel()

    async def _sample_memory(self) -> None:
        while True:
            self._memory.sample(self._processes(), self._clock.monotonic_s())
            await asyncio.sleep(MEMORY_PERIOD_S)

    # Rounds ---------------------------------------------------------------------------------------

    async def _check_in_rounds(self, end_s: float) -> None:
        while (now_s := self._clock.monotonic_s()) < end_s:
            await asyncio.sleep(min(self._options.check_every_s, end_s - now_s))
            self._service.check()
            self._server.check()
            self._meter.sample()
            await self._compare()
            self._look_for_drift()
            self._look_for_lost()
            self._tell_round(self._clock.monotonic_s() - now_s)

    async def _compare(self) -> None:
        """What differs now. Where processes are killed or stopped the owner may not answer or know
        little; the next rounds ask again."""
        try:
            found: CacheComparison = await asyncio.to_thread(compare, f"{self._runtime_dir}")
        except OperationalError as error:
            if not self._options.is_disturbed:
                self._problems.append(f"the comparison failed: {error}")
            return
        self._comparison_count += 1
        now = Moment(self._clock.monotonic_s(), self._ledger.bound_count)
        self._differs_since = {one: self._differs_since.get(one, now) for one in found.differences}

    def _look_for_drift(self) -> None:
        until = self._long_ago()
        self._problems += [
            f"drift: {one}"
            for one, since in self._differs_since.items()
            if since.now_s <= until.now_s and since.bound_count <= until.bound_count
        ]

    def _look_for_lost(self) -> None:
        lost = self._ledger.lost(self._long_ago().now_s, self._bound_while_behind)
        self._problems += [f"lost: pod {name} has no node after {BEHIND_S:g} s" for name in lost]

    def _long_ago(self) -> "Moment":
        """Berth has had time and work enough since."""
        bound_count = self._ledger.bound_count - self._bound_while_behind
        return Moment(self._clock.monotonic_s() - BEHIND_S, bound_count)

    def _tell_round(self, seconds: float) -> None:
        bound = self._ledger.bound_count - self._seen_bound_count
        self._seen_bound_count = self._ledger.bound_count
        memory = " ".join(f"{name}={mib:.1f}" for name, mib in self._memory.latest_mib().items())
        self._tell(
            f"bound {self._ledger.bound_count:,} ({bound / seconds:,.0f}/s)"
            f" alive {len(self._ledger.pods):,} pending {self._ledger.pending_count():,}"
            f" problems {len(self._problems) + self._ledger.problem_count} MiB {memory}"
        )

    # The end --------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Until every pod for which there is room has a node, or is lost."""
        self._tell("no more pods; waiting for those that are pending")
        started_s = bound_s = self._clock.monotonic_s()
        bound_count = self._ledger.bound_count
        while lost := self._ledger.lost(started_s + 1):
            await asyncio.sleep(POLL_S)
            now_s = self._clock.monotonic_s()
            if self._ledger.bound_count != bound_count:
                bound_count, bound_s = self._ledger.bound_count, now_s
            elif now_s - bound_s > QUIET_S:
                break
        self._problems += [f"lost: pod {name} is never bound" for name in lost]

    async def _compare_in_the_end(self) -> None:
        """Until there is no difference any more, or for long: nothing changes now."""
        before_count, started_s = self._comparison_count, self._clock.monotonic_s()
        while self._clock.monotonic_s() - started_s < QUIET_S:
            await self._compare()
            if self._comparison_count > before_count and not self._differs_since:
                return
        self._problems += [f"drift: {one}" for one in self._differs_since]
        if self._comparison_count == before_count:
            self._problems.append("at the end no comparison succeeds")

    async def _judge_at_the_end(self) -> None:
        nodes = await all_items(self._client, NODES_PATH)
        names = {node["metadata"]["name"] for node in nodes}
        pods = []
        for pod in await all_items(self._client, PODS_PATH):
            node = pod["spec"].get("nodeName", "")
            if node and node not in names:
                # Its binding and the deletion of its node crossed; the garbage collector's business.
                await send(self._client, "DELETE", f"{PODS}/{pod['metadata']['name']}")
            else:
                pods.append(pod)
        self._problems += check_cluster(nodes, pods).problems
        self._problems += await disk_problems(self._client, nodes, pods)
        await self._compare_in_the_end()

    async def _owner_counters(self) -> dict[str, int]:
        status = await owner_status(OwnerLink(self._runtime_dir))
        if status is None:
            self._problems.append("the owner does not answer at the end")
            return {}
        return status.counters

    def _figures(self, seconds: float, counters: dict[str, int]) -> SoakFigures:
        options, ledger = self._options, self._ledger
        memory = self._memory.figures(options.warm_s, NOT_BERTH)
        bound = max(1, ledger.bound_count)
        unique = list(dict.fromkeys(self._problems))
        return SoakFigures(
            settings={
                "minutes": f"{options.minutes:g}",
                "rate": f"{options.rate_per_s:g}/s",
                "nodes": f"{options.nodes}",
                "life": f"{options.life_s:g} s",
                "workers": f"{options.workers}",
                "binders": f"{options.binders}",
                "seed": f"{options.seed}",
                "faults": options.faults or "none",
                "cores": f"{core_count()}",
                "python": platform.python_version(),
            },
            seconds=seconds,
            created_count=ledger.created_count,
            bound_count=ledger.bound_count,
            bound_by_kind=dict(ledger.by_kind.most_common()),
            latency_ms=latency_ms(ledger.latencies_s),
            node_changes=self._churn.change_count,
            kills=dict(self._disturbance.done),
            restarts=dict(self._meter.restarts),
            comparisons=self._comparison_count,
            cpu_ms_per_pod={
                name: used_s * 1000 / bound for name, used_s in self._meter.cpu_s().items()
            },
            memory=memory,
            owner_counters=counters,
            problems=[*unique, *ledger.problems, *leaks(memory)],
        )


def _for_all(kill: tuple[str, ...]) -> list[str]:
    """What has those run that a berth can do without, so that they can be killed."""
    arguments: list[str] = []
    if LEADER in kill:
        arguments += ["--leader-elect", "true"]
    if ENDPOINTS in kill:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        arguments += ["--bind-address", "127.0.0.1", "--secure-port", f"{port}"]
    return arguments
