"""Each kind of process is killed once while pods are being scheduled; nothing is lost or done twice.

A whole berth on the simulated API server, started and measured with the demo's own parts.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from bench.demo.cluster_check import check_cluster
from bench.demo.load import create_all
from bench.demo.pod_book import PodBook, WatchEvent
from bench.demo.processes import start_api_server, start_berth
from bench.demo.watcher import PODS_PATH, PodWatcher
from bench.demo.workload import NAMESPACE, synthetic_workload
from daemon.supervisor.process_list import read_list
from shared.clock import SystemClock
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import access_by_url

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

NODE_COUNT: Final = 40
POD_COUNT: Final = 1200
LATE_COUNT: Final = 50
"""Pods that are created only after the last kill."""
KILLS: Final = {"owner": 100, "adapter": 300, "scorer-0": 500, "binder-0": 700}
"""Process -> number of bindings seen at which it is killed."""
WAIT_S: Final = 60.0


class Milestones(PodBook):
    """A book that wakes up those who wait for a number of bindings."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def observed(self, event: WatchEvent, now_s: float) -> None:
        super().observed(event, now_s)
        self._changed.set()

    async def wait_for_bound(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.bound_s) < count:
                self._changed.clear()
                await self._changed.wait()


class Scene:
    """A running berth, its API server, and what the watch saw."""

    def __init__(self, client: ApiClient, runtime_dir: Path) -> None:
        self.client = client
        self.runtime_dir = runtime_dir
        self.book = Milestones()
        self._clock = SystemClock()
        self.watcher = PodWatcher(client, self.book, self._clock)

    async def create_pods(self, first: int, count: int) -> None:
        pods = synthetic_workload(0, POD_COUNT + LATE_COUNT).pods[first : first + count]
        await create_all(
            self.client,
            f"/api/v1/namespaces/{NAMESPACE}/pods",
            [pod.body for pod in pods],
            on_sent=lambda i: self.book.created(pods[i].name, self._clock.monotonic_s()),
        )

    async def items(self, path: str) -> list[Any]:
        listed = orjson.loads(await self.client.get(path))
        items: list[Any] = listed["items"]
        return items

    def kill(self, name: str) -> None:
        os.kill(next(p.pid for p in self.processes() if p.name == name), signal.SIGKILL)

    def processes(self) -> list[Any]:
        return read_list(self.runtime_dir).processes


@asynccontextmanager
async def scene(folder: Path, *options: str) -> AsyncIterator[Scene]:
    server, address = await start_api_server(folder, history=100_000, seed=1)
    client = ApiClient(access_by_url(address))
    try:
        await create_all(client, "/api/v1/nodes", synthetic_workload(NODE_COUNT, 0).nodes)
        berth = await start_berth(folder, ["--server", address, *options])
        try:
            one = Scene(client, folder / "run")
            await one.watcher.start()
            watching = asyncio.create_task(one.watcher.run())
            yield one
            watching.cancel()
        finally:
            print(berth.log_path.read_text()[-20_000:])
            code = berth.stop()
        assert code == 0
    finally:
        await client.close()
        server.stop()


async def kill_each() -> None:
    # A short path: socket names are limited to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        async with scene(Path(folder), "--seed", "1") as berth:
            creating = asyncio.create_task(berth.create_pods(0, POD_COUNT))
            for name, bound_count in KILLS.items():
                await berth.book.wait_for_bound(bound_count)
                berth.kill(name)
            await creating
            await berth.book.wait_for_bound(POD_COUNT)
            # And life goes on: pods that come now are scheduled by the new processes.
            await berth.create_pods(POD_COUNT, LATE_COUNT)
            await berth.book.wait_for_bound(POD_COUNT + LATE_COUNT)
            result = check_cluster(await berth.items("/api/v1/nodes"), await berth.items(PODS_PATH))
            assert result.problems == []
            assert result.bound_count == POD_COUNT + LATE_COUNT
            assert berth.book.bound_twice() == {}
            restarts = {p.name: p.restart_count for p in berth.processes()}
            assert restarts == {"supervisor": 0, **dict.fromkeys(KILLS, 1)}


def test_every_pod_is_bound_exactly_once_whoever_dies() -> None:
    asyncio.run(kill_each())
