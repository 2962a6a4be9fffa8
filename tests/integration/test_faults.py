"""Every kind of process is killed (SIGKILL) in the middle of a run; every pod is bound exactly once.

The judge is the API server: its watch tells each binding that ever happened, its objects at the end
tell whether a node is overcommitted.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Self

import psutil
import pytest

from bench.demo.cluster_check import check_cluster
from bench.demo.demo_run import pod_watcher
from bench.demo.pod_book import PodBook
from bench.demo.workload import NAMESPACE, Workload, synthetic_workload
from bench.watched.watched_listing import NODES_PATH, PODS_PATH, all_items
from bench.watched.watched_load import create_all
from bench.watched.watched_processes import WatchedProcess, start_api_server, start_berth
from daemon.supervisor.process_list import ProcessEntry, read_list
from shared.clock import SystemClock
from shared.kube.cluster_access import access_at
from shared.kube.http_stream import StreamClient
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

ROLES = ("scorer-0", "binder-0", "adapter", "owner")
POD_COUNT = 1600
RATE_PER_S = 500.0


class Run:
    """An API server, a berth, and the watch of a test."""

    def __init__(self, folder: Path, workload: Workload) -> None:
        self.folder = folder
        self.workload = workload
        self.book = PodBook()
        self.clock = SystemClock()

    async def __aenter__(self) -> Self:
        self.server, self.address = await start_api_server(self.folder, 200_000, seed=1)
        self.client = StreamClient(access_at(self.address), timeout_s=HANG_S)
        await create_all(self.client, NODES_PATH, self.workload.nodes)
        self.berth = await self.start_berth()
        self.watcher = pod_watcher(self.client, self.book, self.clock)
        await self.watcher.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.berth.stop()
        await self.client.close()
        self.server.stop()

    async def start_berth(self) -> WatchedProcess:
        return await start_berth(
            self.folder, ["--server", self.address, "--workers", "1", "--binders", "1"]
        )

    async def create_pods(self) -> None:
        names = [pod.name for pod in self.workload.pods]
        await create_all(
            self.client,
            f"/api/v1/namespaces/{NAMESPACE}/pods",
            [pod.body for pod in self.workload.pods],
            on_sent=lambda i: self.book.created(names[i], self.clock.monotonic_s()),
            rate_per_s=RATE_PER_S,
        )

    async def until_bound(self, count: int) -> None:
        """Polls what the watch has seen; the test's timeout is the limit."""
        while len(self.book.bound_s) < count:
            self.server.check()
            await asyncio.sleep(0.02)

    def child(self, name: str) -> ProcessEntry:
        listed = {entry.name: entry for entry in read_list(self.folder / "run").processes}
        return listed[name]

    async def assert_all_is_well(self) -> None:
        twice = {name: nodes for name, nodes in self.book.placements.items() if len(nodes) != 1}
        assert not twice, f"bound more than once: {twice}"
        check = check_cluster(
            await all_items(self.client, NODES_PATH), await all_items(self.client, PODS_PATH)
        )
        assert check.problems == []
        assert check.bound_count == len(self.workload.pods)


async def kill_each_role_once(run: Run) -> None:
    for number, name in enumerate(ROLES, 1):
        await run.until_bound(POD_COUNT * number // (len(ROLES) + 2))
        os.kill(run.child(name).pid, signal.SIGKILL)


async def a_run_with_kills(folder: Path) -> dict[str, int]:
    async with Run(folder, synthetic_workload(60, POD_COUNT)) as run:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(run.watcher.run())
            tasks.create_task(run.create_pods())
            await kill_each_role_once(run)
            await run.until_bound(POD_COUNT)
            watching.cancel()
        await run.assert_all_is_well()
        return {name: run.child(name).restart_count for name in ROLES}


def test_each_kind_of_process_dies_once_and_every_pod_is_bound_exactly_once(tmp_path: Path) -> None:
    restarts = asyncio.run(a_run_with_kills(tmp_path))
    assert all(count >= 1 for count in restarts.values()), restarts


async def a_run_whose_supervisor_dies(folder: Path) -> None:
    async with Run(folder, synthetic_workload(60, POD_COUNT)) as run:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(run.watcher.run())
            tasks.create_task(run.create_pods())
            await run.until_bound(POD_COUNT // 3)
            children = [psutil.Process(e.pid) for e in read_list(folder / "run").processes]
            os.kill(run.berth.pid, signal.SIGKILL)
            # The children notice by their lifeline and end by themselves.
            _, alive = await asyncio.to_thread(psutil.wait_procs, children, HANG_S)
            assert not alive
            run.berth.stop()
            run.berth = await run.start_berth()
            await run.until_bound(POD_COUNT)
            watching.cancel()
        await run.assert_all_is_well()


def test_the_supervisor_dies_and_the_next_berth_goes_on_where_it_was(tmp_path: Path) -> None:
    asyncio.run(a_run_whose_supervisor_dies(tmp_path))
