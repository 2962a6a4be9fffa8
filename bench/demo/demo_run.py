"""What happens in a demo, in order.

Start the simulated API server, create the nodes, start a whole berth as one would on a cluster, create
the pods, watch until every pod is bound or said to be unschedulable and the owner's queue is idle;
then judge the cluster by the API server's own objects and put the figures together. Whatever goes
wrong on the way ends the run with the reason; nothing is retried in silence.
"""

import asyncio
import shutil
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from bench.demo.cluster_check import PROBLEMS_SHOWN_MAX, CheckResult, check_cluster
from bench.demo.demo_figures import (
    Figures,
    job_figures,
    latency_ms,
    process_figures,
    reason_figures,
    resource_figures,
)
from bench.demo.pod_book import PodBook
from bench.demo.progress import Moment, Progress
from bench.demo.workload import GPU_RESOURCE, NAMESPACE, Workload
from bench.watched.berth_options import BerthOptions
from bench.watched.machine import commit, this_machine
from bench.watched.owner_status import owner_status
from bench.watched.pod_events import PodEvent
from bench.watched.pod_watch import PodWatch, WatchBrokenError
from bench.watched.run_folder import run_folder
from bench.watched.server_pace import PaceOptions
from bench.watched.watched_listing import NODES_PATH, PODS_PATH, all_items
from bench.watched.watched_load import create_all
from bench.watched.watched_processes import (
    ProcessFailedError,
    UseMeter,
    WatchedProcess,
    processes_of_run,
    start_api_server,
    start_berth,
)
from daemon.commands.installation import DISTRIBUTION
from daemon.overview.pending import PendingReason
from shared.clock import Clock, SystemClock
from shared.errors import OperationalError
from shared.kube.cluster_access import access_at
from shared.kube.http_stream import StreamClient
from shared.messages.admin import StatusAnswer
from shared.transport.owner_link import OwnerLink

SAMPLE_S: Final = 0.25
RATE_WINDOW: Final = 8
"""Samples over which rates are shown: two seconds."""
IDLE_SAMPLES: Final = 4
"""So many samples without any change count as the end: one second in which nothing moves."""
GANGS_IDLE_SAMPLES: Final = 48
"""A gang that has no place is tried again after 10 s at most: these are 12 s without a binding."""
GROUPS_PATH: Final = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"
GATES: Final = "GenericWorkload=true,GangScheduling=true"
CHANGES_PER_POD: Final = 8
"""Versions that the server keeps per pod. A pod is created, bound, and may get some conditions."""


class DemoOptions(BerthOptions, frozen=True, kw_only=True):
    """What a demo is asked for."""

    pace: PaceOptions = PaceOptions()
    """How slow the server is."""
    rate_per_s: float = 0.0
    """Of creations; 0: as fast as the server takes them."""
    timeout_s: float = 900.0
    """For the whole run; when it is over, the run has failed."""


class DemoFailedError(OperationalError):
    """The run did not come to its end."""


class Outcome(msgspec.Struct, frozen=True):
    """A finished run: the figures, and what the plots are made of."""

    figures: Figures
    created_at_s: list[float]
    """Since the first creation, sorted."""
    bound_at_s: list[float]
    """Since the first creation, sorted."""
    latencies_s: list[float]
    node_shares: dict[str, dict[str, float]]
    cpu_history: list[tuple[float, dict[str, float]]]
    """(seconds since the first creation, process -> CPU seconds)."""


def run_demo(workload: Workload, options: DemoOptions, progress: Progress) -> Outcome:
    """Runs it all; raises OperationalError with the reason when it fails."""
    with run_folder("demo", DemoFailedError) as folder:
        outcome = asyncio.run(_run(workload, options, progress, folder))
    shutil.rmtree(folder)
    return outcome


async def _run(
    workload: Workload, options: DemoOptions, progress: Progress, folder: Path
) -> Outcome:
    history = CHANGES_PER_POD * len(workload.pods) + 2 * len(workload.nodes) + 10_000
    progress.show(Moment(phase="starting the simulated API server", now_s=0.0))
    server, address = await start_api_server(
        folder, history, options.seed, options.pace.arguments()
    )
    try:
        run = _Run(workload, options, progress, folder, server, address)
        try:
            async with asyncio.timeout(options.timeout_s):
                return await run.run()
        except TimeoutError:
            raise DemoFailedError(
                f"not finished after {options.timeout_s:g} s (--timeout-s): {run.state()}"
            ) from None
        finally:
            await run.close()
    finally:
        server.stop()


class _Run:
    """One run, with an API server that is there."""

    def __init__(
        self,
        workload: Workload,
        options: DemoOptions,
        progress: Progress,
        folder: Path,
        server: WatchedProcess,
        address: str,
    ) -> None:
        self._workload = workload
        self._options = options
        self._progress = progress
        self._folder = folder
        self._server = server
        self._address = address
        self._clock: Clock = SystemClock()
        self._book = PodBook()
        self._client = StreamClient(access_at(address), timeout_s=60.0)
        runtime_dir = folder / "run"
        processes = partial(processes_of_run, server.pid, runtime_dir)
        self._meter = UseMeter(processes, self._clock)
        self._owner = OwnerLink(runtime_dir)
        self._berth: WatchedProcess | None = None
        self._bound_history: deque[tuple[float, int]] = deque(maxlen=RATE_WINDOW)
        self._created_done_s = 0.0
        self._status: StatusAnswer | None = None

    async def run(self) -> Outcome:
        """From the first node to the figures."""
        nodes, pods = self._workload.nodes, self._workload.pods
        self._show(f"creating {len(nodes):,} nodes")
        await create_all(self._client, NODES_PATH, nodes)
        self._show("starting berth")
        arguments = ["--server", self._address, *self._options.arguments()]
        if self._workload.groups:
            arguments += ["--feature-gates", GATES]
            await create_all(self._client, GROUPS_PATH, self._workload.groups)
        self._berth = await start_berth(self._folder, arguments)
        watcher = pod_watcher(self._client, self._book, self._clock)
        await watcher.start()
        self._meter.begin()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watcher.run())
            tasks.create_task(self._create_pods())
            await self._wait_until_settled()
            watching.cancel()
        self._show("checking the cluster")
        listed = await all_items(self._client, PODS_PATH)
        check = check_cluster(await all_items(self._client, NODES_PATH), listed)
        self._stop_berth()
        return self._outcome(check, len(pods), reason_figures(self._book.unschedulable, listed))

    async def close(self) -> None:
        """Stops what this run has started."""
        await self._client.close()
        if self._berth is not None:
            self._berth.stop()

    def state(self) -> str:
        """How far it has come, for the message of a failure."""
        book = self._book
        return (
            f"{len(book.created_s):,} of {len(self._workload.pods):,} pods created,"
            f" {len(book.bound_s):,} bound, {len(book.unschedulable):,} unschedulable,"
            f" {book.pending_count:,} pending; owner: {self._status}"
        )

    async def _create_pods(self) -> None:
        names = [pod.name for pod in self._workload.pods]
        bodies = [pod.body for pod in self._workload.pods]
        await create_all(
            self._client,
            f"/api/v1/namespaces/{NAMESPACE}/pods",
            bodies,
            on_sent=lambda index: self._book.created(names[index], self._clock.monotonic_s()),
            rate_per_s=self._options.rate_per_s,
        )
        self._created_done_s = self._clock.monotonic_s()

    # Waiting --------------------------------------------------------------------------------------

    async def _wait_until_settled(self) -> None:
        """Until nothing is pending and, for a while, nothing changes any more."""
        still_count = 0
        seen: tuple[int, dict[str, int]] | None = None
        while still_count < (GANGS_IDLE_SAMPLES if self._workload.groups else IDLE_SAMPLES):
            await asyncio.sleep(SAMPLE_S)
            assert self._berth is not None, "started before"
            self._berth.check()
            self._server.check()
            self._meter.sample()
            self._status = await owner_status(self._owner)
            self._show("scheduling")
            now = self._what_moves()
            still_count = still_count + 1 if self._is_settled() and now == seen else 0
            seen = now

    def _what_moves(self) -> tuple[int, dict[str, int]]:
        """Where there are gangs, bindings alone: one without a place is tried again and again."""
        if self._workload.groups:
            return len(self._book.bound_s), {}
        return self._book.change_count, self._status.counters if self._status else {}

    def _is_settled(self) -> bool:
        book, status = self._book, self._status
        if len(book.created_s) < len(self._workload.pods) or not self._created_done_s:
            return False
        if book.pending_count or status is None:
            return False
        queue = status.queue
        if self._workload.groups:
            return not status.binds_in_flight
        return not (queue.active or queue.backoff or queue.in_flight or status.binds_in_flight)

    def _show(self, phase: str) -> None:
        now_s = self._clock.monotonic_s()
        bound_count = len(self._book.bound_s)
        self._bound_history.append((now_s, bound_count))
        before_s, before_count = self._bound_history[0]
        between_s = max(now_s - before_s, 1e-3)
        self._progress.show(
            Moment(
                phase=phase,
                now_s=now_s,
                created_count=len(self._book.created_s),
                pod_count=len(self._workload.pods) if self._book.created_s else 0,
                bound_count=bound_count,
                pending_count=self._book.pending_count,
                unschedulable_count=len(self._book.unschedulable),
                bound_per_s=(bound_count - before_count) / between_s,
                cpu_percent=_cpu_percent(self._meter.history[-RATE_WINDOW:]),
            )
        )

    # The end --------------------------------------------------------------------------------------

    def _stop_berth(self) -> None:
        assert self._berth is not None, "started before"
        code = self._berth.stop()
        if code != 0:
            raise ProcessFailedError(
                f"berth ended with {code} when it was told to stop; {self._berth.log_tail()}"
            )

    def _outcome(self, check: CheckResult, pod_count: int, reasons: list[PendingReason]) -> Outcome:
        book = self._book
        first_s = min(book.created_s.values(), default=0.0)
        last_s = max(book.bound_s.values(), default=first_s)
        schedule_s = last_s - first_s
        bound_count = len(book.bound_s)
        resources, jobs = resource_figures(check), self._workload.jobs
        title = "as gangs" if self._workload.groups else "pod by pod"
        figures = Figures(
            workload=f"{self._workload.title}. {self._workload.note}",
            node_count=len(self._workload.nodes),
            pod_count=pod_count,
            bound_count=bound_count,
            unschedulable_count=len(book.unschedulable),
            create_s=self._created_done_s - first_s,
            schedule_s=schedule_s,
            pods_per_s=bound_count / schedule_s if schedule_s > 0 else 0.0,
            latency_ms=latency_ms(book),
            unschedulable=dict(book.messages().most_common()),
            reasons=reasons,
            resources=resources,
            jobs=[job_figures(title, jobs, book, resources[GPU_RESOURCE])] if jobs else [],
            processes=process_figures(
                self._meter.cpu_s(), self._meter.rss_peak_bytes, self._meter.restarts, pod_count
            ),
            owner_counters=self._status.counters if self._status else {},
            problems=_problems(check, book),
            settings=self._settings(),
        )
        return Outcome(
            figures=figures,
            created_at_s=sorted(at - first_s for at in book.created_s.values()),
            bound_at_s=sorted(at - first_s for at in book.bound_s.values()),
            latencies_s=book.latencies_s(),
            node_shares=check.node_shares,
            cpu_history=[(at_s - first_s, used) for at_s, used in self._meter.history],
        )

    def _settings(self) -> dict[str, str]:
        options, machine = self._options, this_machine()
        return {
            "berth": f"{metadata.version(DISTRIBUTION)} ({commit()})",
            "date": f"{datetime.fromtimestamp(self._clock.wall_s(), UTC):%Y-%m-%d %H:%M} UTC",
            "machine": f"{machine.cores} x {machine.cpu}, {machine.memory_gib:g} GiB",
            "kernel": machine.kernel,
            "python": machine.python,
            "workers": f"{options.workers}",
            "binders": f"{options.binders}",
            "seed": f"{options.seed}",
            "rate": f"{options.rate_per_s:g}/s" if options.rate_per_s else "as fast as possible",
        }


def pod_watcher(client: StreamClient, book: PodBook, clock: Clock) -> PodWatch:
    """A watch that keeps the book up to date, once it is started and runs. It must see every change, so
    a gap in the history (410 Gone) ends the run instead of being bridged by a new list."""

    def take(event: PodEvent, now_s: float) -> None:
        if event.type == "DELETED":
            raise WatchBrokenError(f"pod {event.object.metadata.name} was deleted; nobody may")
        book.observed(event, now_s)

    return PodWatch(client, clock, take)


def _problems(check: CheckResult, book: PodBook) -> list[str]:
    problems = list(check.problems)
    for name, nodes in book.bound_twice().items():
        problems.append(f"pod {name} was bound more than once: {' then '.join(nodes)}")
    if check.bound_count != len(book.bound_s):
        problems.append(
            f"{check.bound_count} pods are bound, but the watch saw {len(book.bound_s)} bindings"
        )
    for name, message in list(book.other_reasons.items())[:PROBLEMS_SHOWN_MAX]:
        problems.append(f"pod {name} ended neither bound nor unschedulable: {message}")
    if len(problems) > PROBLEMS_SHOWN_MAX:
        rest = len(problems) - PROBLEMS_SHOWN_MAX
        problems = [*problems[:PROBLEMS_SHOWN_MAX], f"and {rest} more"]
    return problems


def _cpu_percent(history: Sequence[tuple[float, dict[str, float]]]) -> dict[str, float]:
    """Share of one core of each process between the first and the last of these samples."""
    if len(history) < 2:
        return {}
    (from_s, before), (to_s, after) = history[0], history[-1]
    between_s = max(to_s - from_s, 1e-3)
    return {
        name: max(0.0, used - before.get(name, 0.0)) / between_s * 100
        for name, used in after.items()
    }
