"""One benchmark from beginning to end: so many runs of a workload, each in fresh processes.

A run sets its cluster up (`memory_cluster`, or `http_cluster` over a simulated or a real API server),
waits until the owner has synced and scorers and binders are ready, lets the executor work, and takes
the figures. Whatever goes wrong ends the benchmark with the reason and leaves the logs.
"""

import asyncio
import gc
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from bench.perf.cluster_api import ClusterApi
from bench.perf.config_file import Plan
from bench.perf.decision_processes import DecisionOptions, DecisionProcesses
from bench.perf.executor import Executor, Interval, WorkloadFailedError
from bench.perf.http_cluster import HttpCluster, Place
from bench.perf.memory_cluster import FeederSource, MemoryCluster
from bench.perf.result import (
    FORMAT,
    MIB,
    Measurement,
    ProcessUse,
    Result,
    Run,
    perf_data,
    summary_of,
    threshold_problems,
)
from bench.watched.machine import commit, this_machine
from bench.watched.run_folder import run_folder
from bench.watched.server_pace import PaceOptions
from bench.watched.watched_processes import ProcessFailedError, UseMeter, start_api_server
from shared.clock import Clock, SystemClock
from shared.errors import OperationalError
from shared.kube.cluster_access import access_at
from shared.kube.find_access import find_access
from shared.kube.http_stream import StreamClient
from shared.kube.timestamps import second_time

Mode = Literal["decisions", "http", "cluster"]
MODES: Final[tuple[Mode, ...]] = ("decisions", "http", "cluster")
CHECK_S: Final = 0.5
READY_TIMEOUT_S: Final = 300.0
HISTORY: Final = 2_000_000
"""Changes that the simulated server keeps: a benchmark's watches must not fall out of it."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `berth bench run` is asked for."""

    mode: Mode = "decisions"
    runs: int = 1
    workers: int = 1
    binders: int = 1
    seed: int = 0
    timeout_s: float = 900.0
    """For each run."""
    scheduler_config: str = ""
    kubeconfig: str = ""
    external_scheduler: bool = False
    """cluster: start no berth; measure the scheduler that is there."""
    profile_dir: str = ""
    write_latency_ms: float = 0.0
    writes_per_s: float = 0.0
    """Of the simulated server; 0: as it can."""

    @property
    def pace(self) -> PaceOptions:
        """How slow the simulated server is."""
        return PaceOptions(write_latency_ms=self.write_latency_ms, writes_per_s=self.writes_per_s)


def run_benchmark(plan: Plan, options: RunOptions, told: Callable[[str], None]) -> Result:
    """All runs; raises OperationalError with the reason when one fails."""
    clock = SystemClock()
    started = second_time(clock.wall_s())
    runs = []
    for number in range(1, options.runs + 1):
        run = _judged(plan, _run_once(plan, options, clock))
        runs.append(run)
        told(_line(number, options.runs, run))
    return Result(
        format=FORMAT,
        config=f"{plan.topic}/{plan.file.name}",
        workload=plan.name,
        topic=plan.topic,
        mode=options.mode,
        parameters=plan.workload.params,
        threshold=plan.threshold,
        options=msgspec.to_builtins(options),
        notes=list(plan.notes),
        started=started,
        commit=commit(),
        machine=this_machine(),
        median=summary_of(runs),
        runs=runs,
        perfdata=perf_data(plan.name, runs[-1]),
    )


def _judged(plan: Plan, run: Run) -> Run:
    """With the threshold among its problems, if it is not reached."""
    items = perf_data(plan.name, run)["dataItems"]
    missed = threshold_problems(items, plan.threshold, plan.threshold_metric)
    return msgspec.structs.replace(run, problems=[*run.problems, *missed])


def _line(number: int, count: int, run: Run) -> str:
    rates = run.measurements[-1].throughput_pods_per_s if run.measurements else None
    if rates is None:
        return f"run {number}/{count}: nothing was measured"
    return (
        f"run {number}/{count}: {rates.overall:,.0f} pods/s overall, {rates.average:,.0f} average of"
        f" {rates.sample_count} samples of {rates.sample_interval_s:g} s"
    )


def _run_once(plan: Plan, options: RunOptions, clock: Clock) -> Run:
    with run_folder("bench", WorkloadFailedError) as folder:
        modes: dict[Mode, Callable[[], Awaitable[Run]]] = {
            "decisions": lambda: _run_decisions(plan, options, clock, folder),
            "http": lambda: _run_http(plan, options, clock, folder),
            "cluster": lambda: _run_cluster(plan, options, clock, folder),
        }

        async def run() -> Run:
            return await modes[options.mode]()

        finished = asyncio.run(run())
    shutil.rmtree(folder)
    gc.collect()
    return finished


async def _run_decisions(plan: Plan, options: RunOptions, clock: Clock, folder: Path) -> Run:
    source = FeederSource()
    processes = DecisionProcesses(
        folder,
        DecisionOptions(
            options.workers,
            options.binders,
            options.seed,
            _scheduler_config(plan, options),
            plan.feature_gates,
            options.profile_dir,
        ),
        lambda data: cluster.take_output(data),
    )
    cluster = MemoryCluster(source, processes, clock)
    processes.start()

    async def ready() -> None:
        await source.synced.wait()
        await _until_ready(cluster, options)

    return await _execute(plan, options, clock, cluster, processes.play_adapter(source), ready())


async def _run_http(plan: Plan, options: RunOptions, clock: Clock, folder: Path) -> Run:
    # Templates state priorities by number, which only a server without this plugin takes; upstream
    # runs its own without it too (test/integration/scheduler_perf/util.go mustSetupCluster).
    without_priority = ("--disable-admission-plugins", "Priority")
    more = (*without_priority, *options.pace.arguments())
    server, address = await start_api_server(folder, HISTORY, options.seed, more)
    try:
        client = StreamClient(access_at(address), timeout_s=120.0)
        arguments = (*_berth_arguments(plan, options), "--server", address)
        cluster = HttpCluster(Place(client, server, folder, arguments, False), clock)
        return await _run_with_api(plan, options, clock, cluster)
    finally:
        server.stop()


async def _run_cluster(plan: Plan, options: RunOptions, clock: Clock, folder: Path) -> Run:
    access = find_access(kubeconfig=options.kubeconfig)
    client = StreamClient(access, timeout_s=120.0)
    arguments = None
    if not options.external_scheduler:
        server = ("--kubeconfig", options.kubeconfig) if options.kubeconfig else ()
        arguments = (*_berth_arguments(plan, options), *server)
    cluster = HttpCluster(Place(client, None, folder, arguments, True), clock)
    return await _run_with_api(plan, options, clock, cluster)


async def _run_with_api(plan: Plan, options: RunOptions, clock: Clock, cluster: HttpCluster) -> Run:
    try:
        await cluster.begin()
    except BaseException:
        await cluster.close()
        raise

    async def ready() -> None:
        if not options.external_scheduler:
            await _until_ready(cluster, options)

    return await _execute(plan, options, clock, cluster, cluster.follow(), ready())


def _scheduler_config(plan: Plan, options: RunOptions) -> str:
    """The workload's own, where no other is asked for."""
    own = plan.case.scheduler_config_path
    return options.scheduler_config or (str(plan.path(own)) if own else "")


def _berth_arguments(plan: Plan, options: RunOptions) -> tuple[str, ...]:
    path = _scheduler_config(plan, options)
    config = ("--config", path) if path else ()
    return (
        *("--feature-gates", plan.feature_gates),
        *("--workers", f"{options.workers}", "--binders", f"{options.binders}"),
        *("--seed", f"{options.seed}"),
        *config,
    )


async def _until_ready(cluster: ClusterApi, options: RunOptions) -> None:
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            while True:
                cluster.check()
                status = await cluster.status()
                if (
                    status is not None
                    and status.synced
                    and status.scorers_ready >= options.workers
                    and status.binders_ready >= options.binders
                ):
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise ProcessFailedError(
            f"owner, scorers and binders were not ready after {READY_TIMEOUT_S:g} s"
        ) from None


async def _execute(
    plan: Plan,
    options: RunOptions,
    clock: Clock,
    cluster: ClusterApi,
    beside: Awaitable[None],
    ready: Awaitable[None],
) -> Run:
    """Runs the workload; `beside` is what goes on all the time, until cancelled."""
    meter = UseMeter(cluster.processes, clock)
    cpu_s: dict[str, float] = {}
    """Of each process while something was measured."""

    def on_measuring(begins: bool) -> None:
        if begins:
            # A collection of the setup's objects must not fall into the measurement (as upstream).
            gc.collect()
            meter.begin()
            return
        meter.sample()
        for name, used_s in meter.cpu_s().items():
            cpu_s[name] = cpu_s.get(name, 0.0) + used_s

    executor = Executor(plan, cluster, clock, on_measuring=on_measuring)

    async def work() -> Run:
        await ready
        gc.collect()
        gc.freeze()
        start_s = clock.monotonic_s()
        await executor.run()
        meter.sample()
        status = await cluster.status()
        counters = status.counters if status is not None else {}
        processes = _use(cpu_s, meter.rss_peak_bytes, executor.intervals)
        whole_s = clock.monotonic_s() - start_s
        return _finished(executor, cluster, processes, counters, whole_s)

    async def watch_processes() -> None:
        while True:
            cluster.check()
            await asyncio.sleep(CHECK_S)

    async def keep_going() -> None:
        await beside

    done: Run | None = None
    try:
        async with asyncio.timeout(options.timeout_s), asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(keep_going()), tasks.create_task(watch_processes())]
            done = await tasks.create_task(work())
            for task in others:
                task.cancel()
    except TimeoutError:
        status = await cluster.status()
        raise WorkloadFailedError(
            f"{plan.name}: not finished after {options.timeout_s:g} s (--timeout-s):"
            f" {executor.told()}; owner: {status}"
        ) from None
    finally:
        gc.unfreeze()
        try:
            await cluster.close()
        except OperationalError as error:
            if done is None:
                raise
            done.problems.append(f"left behind: {error}")  # What was measured holds.
    return done


def _use(
    cpu_s: dict[str, float], rss_peak_bytes: dict[str, int], intervals: Sequence[Interval]
) -> dict[str, ProcessUse]:
    pod_count = max(1, sum(one.pod_count for one in intervals))
    return {
        name: ProcessUse(
            cpu_s=used_s,
            cpu_s_per_1000_pods=used_s * 1000 / pod_count,
            rss_peak_mib=rss_peak_bytes.get(name, 0) / MIB,
        )
        for name, used_s in cpu_s.items()
    }


def _finished(
    executor: Executor,
    cluster: ClusterApi,
    processes: dict[str, ProcessUse],
    counters: dict[str, int],
    whole_s: float,
) -> Run:
    measurements = [
        Measurement(
            name=one.name,
            namespaces=list(one.namespaces),
            pod_count=one.pod_count,
            duration_s=one.end_s - one.start_s,
            throughput_pods_per_s=one.rates,
            end_to_end_latency_ms=one.latency_ms,
            attempt_latency_ms=one.attempt_ms,
            attempts_by_result_ms=dict(one.attempts_by_result_ms),
        )
        for one in executor.intervals
    ]
    return Run(
        measurements=measurements,
        processes=processes,
        owner_counters=counters,
        whole_s=whole_s,
        problems=[f"bound twice: {one}" for one in cluster.book.double_binds],
    )
