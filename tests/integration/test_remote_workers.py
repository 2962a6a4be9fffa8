"""Scoring workers that reach the owner over tcp with keys: real processes, all of them killed."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.demo.workload import NAMESPACE, Workload, synthetic_workload
from bench.watched.watched_load import create_all
from bench.watched.watched_processes import WatchedProcess, start_berth
from daemon.supervisor.process_list import read_list
from shared.transport.remote import write_keys
from tests.integration.test_faults import Run
from tests.support.free_ports import free_port_pair
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

POD_COUNT = 600


class Worker:
    """`berth worker` as an operator would start it."""

    def __init__(self, name: str, arguments: list[str], folder: Path) -> None:
        self._log = folder / f"{name}.log"
        command = [sys.executable, "-m", "daemon", "worker", *arguments]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def check(self) -> None:
        assert self.process.poll() is None, self.log()

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, HANG_S)

    async def stop(self) -> int:
        self.process.terminate()
        return await self.ended()


class RemoteRun(Run):
    """A berth without a worker of its own; `workers` are on "other hosts"."""

    def __init__(self, folder: Path, workload: Workload) -> None:
        super().__init__(folder, workload)
        self.address = ""
        self.entrance = f"tcp://127.0.0.1:{free_port_pair()}"
        self.workers: list[Worker] = []
        for name in ("owner", "known", "stranger"):
            write_keys(folder, name)
        (folder / "allowed").write_text((folder / "known.pub").read_text())

    def start_worker(
        self,
        name: str,
        *,
        key: str = "known",
        server_key: str = "owner",
        extra: tuple[str, ...] = (),
    ) -> Worker:
        options = ["--connect", self.entrance, *extra]
        options += ["--server-key", str(self.folder / f"{server_key}.pub")]
        options += ["--key", str(self.folder / f"{key}.key")]
        worker = Worker(name, options, self.folder)
        self.workers.append(worker)
        return worker

    async def start_berth(self) -> WatchedProcess:
        self.start_worker("worker-0")  # It waits for its owner; berth is ready when it has come.
        files = ["--workers-key-file", str(self.folder / "owner.key")]
        files += ["--workers-allowed-file", str(self.folder / "allowed")]
        return await start_berth(
            self.folder,
            [
                "--server",
                self.address,
                "--workers",
                "0",
                "--workers-address",
                self.entrance,
                *files,
            ],
        )

    async def bind_next(self, start: int, stop: int) -> None:
        """Creates these pods and waits until they are bound."""
        pods = self.workload.pods[start:stop]
        await create_all(
            self.client,
            f"/api/v1/namespaces/{NAMESPACE}/pods",
            [pod.body for pod in pods],
            on_sent=lambda i: self.book.created(pods[i].name, self.clock.monotonic_s()),
        )
        await self.until_bound(stop)

    async def __aexit__(self, *details: object) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                await worker.stop()
        await super().__aexit__(*details)


async def a_run_with_kills(folder: Path) -> int:
    async with RemoteRun(folder, synthetic_workload(60, POD_COUNT)) as run:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(run.watcher.run())
            await run.bind_next(0, 200)
            os.kill(run.child("owner").pid, signal.SIGKILL)
            await run.bind_next(200, 400)
            os.kill(run.workers[0].process.pid, signal.SIGKILL)
            second = run.start_worker("worker-1")
            await run.bind_next(400, POD_COUNT)
            watching.cancel()
        await run.assert_all_is_well()
        assert run.child("owner").restart_count >= 1
        assert not any(e.name.startswith("scorer") for e in read_list(folder / "run").processes)
        # berth leaves; its worker stays for the next one, and ends when it is told to itself.
        run.berth.stop()
        second.check()
        return await second.stop()


def test_a_remote_worker_places_pods_through_the_death_of_the_owner_and_its_own(
    tmp_path: Path,
) -> None:
    assert asyncio.run(a_run_with_kills(tmp_path)) == 0


async def a_run_with_strangers(folder: Path) -> None:
    async with RemoteRun(folder, synthetic_workload(5, 10)) as run:
        stranger = run.start_worker("stranger", key="stranger")
        assert await stranger.ended() == 1
        assert "does not allow this worker's key" in stranger.log()
        assert "append its .pub file to --workers-allowed-file" in stranger.log()

        # Added while berth runs, it is let in; but it has to decide by the same configuration.
        with (folder / "allowed").open("a") as allowed:
            allowed.write((folder / "stranger.pub").read_text())
        (folder / "other.yaml").write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "percentageOfNodesToScore: 50\n"
        )
        other = run.start_worker(
            "other", key="stranger", extra=("--config", str(folder / "other.yaml"))
        )
        assert await other.ended() == 1
        assert "configuration or feature gates differ from the owner's" in other.log()
        run.berth.check()


def test_wrong_keys_and_other_configurations_are_refused_with_the_remedy(tmp_path: Path) -> None:
    asyncio.run(a_run_with_strangers(tmp_path))


async def a_run_with_the_key_of_another_owner(folder: Path) -> None:
    async with RemoteRun(folder, synthetic_workload(5, 10)) as run:
        mistaken = run.start_worker("mistaken", server_key="known")
        while "is not the berth whose key --server-key is" not in mistaken.log():
            mistaken.check()
            await asyncio.sleep(0.1)


def test_an_owner_that_cannot_prove_to_be_the_one_is_not_worked_for(tmp_path: Path) -> None:
    asyncio.run(a_run_with_the_key_of_another_owner(tmp_path))
