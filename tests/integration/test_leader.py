"""Leader election with real berths on the simulated API server: at most one of them binds.

Each berth is `berth run` with all its processes. What counts is what the API server saw.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson
import psutil
import pytest

from bench.demo.workload import NAMESPACE, synthetic_workload
from bench.watched.watched_load import create_all
from bench.watched.watched_processes import WatchedProcess, start_api_server
from daemon.commands.show_status import read_status
from daemon.leader.election import Election, Follow, Write
from daemon.leader.lease_object import LeaseObject
from daemon.overview.overview import BerthStatus
from daemon.supervisor.process_list import NotRunningError
from shared.clock import SystemClock
from shared.kube.api_client import MERGE_PATCH, ApiClient
from shared.kube.api_errors import ApiError, ConnectFailed
from shared.kube.cluster_access import access_at
from shared.kube.timestamps import micro_time
from shared.runtime_options import LeaderElection
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  {leaderElect: true, leaseDuration: %s, renewDeadline: %s, retryPeriod: 500ms,
   resourceName: test, resourceNamespace: kube-system}
"""
RUNS_OUT = ("8s", "6s")
"""Lease and deadline, where the test waits until the lease is over: no shorter, lest a busy machine lose
it at another time."""
LASTS = ("300s", "290s")
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Stage:
    """An API server, and berths that come and go."""

    def __init__(
        self, folder: Path, server: WatchedProcess, address: str, lease: tuple[str, str]
    ) -> None:
        self.folder = folder
        self.config = CONFIG % lease
        self.server = server
        self.address = address
        self.client = ApiClient(access_at(address), timeout_s=HANG_S)
        self.lease = LeaseObject(self.client, "kube-system", "test")
        self.pods = synthetic_workload(20, 400).pods
        self.created = 0
        self.berths: dict[str, WatchedProcess] = {}

    def start(self, name: str, *options: str) -> WatchedProcess:
        home = self.folder / name
        home.mkdir()
        config = home / "config.yaml"
        config.write_text(self.config)
        arguments = ["run", "--runtime-dir", f"{home}/run", "--server", self.address]
        arguments += ["--config", str(config), "--as-default-scheduler"]
        arguments += ["--secure-port", "0", *options]
        berth = WatchedProcess("berth", "daemon", arguments, home, speaks=False)
        self.berths[name] = berth
        return berth

    def status(self, name: str) -> BerthStatus | None:
        try:
            return read_status(f"{self.folder / name}/run", sample_s=0.0)
        except NotRunningError:
            return None

    async def until(self, name: str, is_so: Callable[[BerthStatus], bool]) -> BerthStatus:
        """Polls the berth until `is_so` of it; the test's timeout is the limit."""
        while True:
            self.berths[name].check()
            status = await asyncio.to_thread(self.status, name)
            if status is not None and is_so(status):
                return status
            await asyncio.sleep(0.05)

    async def until_leading(self, name: str) -> BerthStatus:
        """Until it has the lease and everything runs."""
        return await self.until(
            name,
            lambda s: s.state == "running" and s.owner is not None and not s.owner.is_standby,
        )

    async def until_ready(self, name: str) -> None:
        await self.until(name, lambda status: status.state == "running")

    async def create_pods(self, count: int) -> None:
        bodies = [pod.body for pod in self.pods[self.created : self.created + count]]
        self.created += count
        await create_all(self.client, PODS_PATH, bodies)

    async def bound(self) -> list[str]:
        items: list[Any] = orjson.loads(await self.client.get(PODS_PATH))["items"]
        return [item["metadata"]["name"] for item in items if item["spec"].get("nodeName")]

    async def until_all_bound(self) -> None:
        count = 0
        while count < self.created:
            await asyncio.sleep(0.05)
            count = len(await self.bound())

    async def holder(self) -> str:
        record = await self.lease.read(HANG_S)
        return "" if record is None else record.holder

    async def told_of_lease(self) -> list[str]:
        """The notes of the events on the lease, the first first."""
        path = "/apis/events.k8s.io/v1/namespaces/kube-system/events"
        events = orjson.loads(await self.client.get(path))["items"]
        of_lease = [event for event in events if event["regarding"]["kind"] == "Lease"]
        assert {event["regarding"]["name"] for event in of_lease} == {"test"}
        return [event["note"] for event in sorted(of_lease, key=lambda one: one["eventTime"])]

    def signal(self, name: str, number: signal.Signals) -> None:
        """To every process of a berth."""
        supervisor = psutil.Process(self.berths[name].pid)
        for process in [supervisor, *supervisor.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                os.kill(process.pid, number)


def epoch_of(status: BerthStatus) -> int:
    """The life of the owner."""
    assert status.owner is not None
    return status.owner.epoch


@contextlib.asynccontextmanager
async def stage_in(folder: Path, lease: tuple[str, str] = LASTS) -> AsyncIterator[Stage]:
    server, address = await start_api_server(folder, 200_000, seed=1)
    stage = Stage(folder, server, address, lease)
    try:
        nodes = synthetic_workload(20, 1).nodes
        await create_all(stage.client, "/api/v1/nodes", nodes)
        yield stage
    finally:
        for berth in stage.berths.values():
            berth.stop()
        await stage.client.close()
        server.stop()


async def with_leader_and_standby(stage: Stage) -> None:
    stage.start("a")
    await stage.until("a", lambda s: s.owner is not None and not s.owner.is_standby)
    stage.start("b")
    await stage.until_ready("a")
    await stage.until_ready("b")
    await stage.create_pods(50)
    await stage.until_all_bound()


async def a_clean_end(folder: Path) -> None:
    async with stage_in(folder) as stage:
        await with_leader_and_standby(stage)
        first = await stage.holder()
        # The standby knows everything and has done nothing.
        standby = await stage.until("b", lambda s: s.owner is not None and s.owner.pod_count == 50)
        assert standby.owner is not None
        assert standby.owner.is_standby
        assert standby.owner.counters.get("scheduled", 0) == 0
        assert standby.owner.counters["foreign_binds"] == 50
        assert sum(standby.owner.foreign_pods_by_node.values()) > 0
        assert await asyncio.to_thread(stage.berths["a"].stop) == 0
        assert await stage.holder() != first, "given up, and perhaps taken already"
        await stage.create_pods(50)
        await stage.until_all_bound()
        record = await stage.lease.read(HANG_S)
        assert record is not None
        assert record.holder not in ("", first)
        assert record.transitions == 1
        told: list[str] = []
        while f"{record.holder} became leader" not in told:  # Events come after what they tell.
            told = await stage.told_of_lease()
        assert told[:2] == [f"{first} became leader", f"{first} stopped leading"]


def test_the_standby_takes_over_when_the_leader_ends(tmp_path: Path) -> None:
    asyncio.run(a_clean_end(tmp_path))


async def a_killed_leader(folder: Path) -> None:
    async with stage_in(folder, RUNS_OUT) as stage:
        await with_leader_and_standby(stage)
        stage.signal("a", signal.SIGKILL)
        await stage.create_pods(50)
        await stage.until_all_bound()
        await stage.until(
            "b", lambda s: s.owner is not None and s.owner.counters.get("scheduled", 0) == 50
        )


def test_the_standby_takes_over_when_the_leader_is_killed(tmp_path: Path) -> None:
    asyncio.run(a_killed_leader(tmp_path))


async def take_lease(stage: Stage) -> Election:
    """As another candidate would, by its rules: the lease has to run out first."""
    clock = SystemClock()
    election = Election("another", LeaderElection(lease_duration_s=60.0, renew_deadline_s=59.0))
    while True:
        election.note_seen(await stage.lease.read(HANG_S), clock.boot_s())
        match election.next_step(clock.boot_s(), micro_time(clock.wall_s())):
            case Write(record):
                await stage.lease.write(record, HANG_S)
                election.note_written(record, clock.boot_s(), clock.boot_s())
                return election
            case Follow():
                await asyncio.sleep(0.05)
            case step:
                raise AssertionError(f"{step} of a lease that exists")


async def a_leader_that_was_stopped(folder: Path) -> None:
    async with stage_in(folder, RUNS_OUT) as stage:
        # One at a time: most of the orders still wait in the binder when it is stopped.
        stage.start("a", "--max-in-flight", "1")
        await stage.until("a", lambda s: s.owner is not None and not s.owner.is_standby)
        await stage.until_ready("a")
        await stage.create_pods(300)
        while not await stage.bound():
            pass
        stage.signal("a", signal.SIGSTOP)
        await stage.create_pods(100)
        another = await take_lease(stage)
        # By now the API server has done what it was sent before.
        bound_before = await stage.bound()
        old = stage.folder / "a" / "run" / "processes.json"
        assert b'"running"' in old.read_bytes()
        stage.signal("a", signal.SIGCONT)
        # It is through with it when a new owner knows every pod, on a node or in its queue.
        assert len(bound_before) < 300

        def stands_by(status: BerthStatus) -> bool:
            owner = status.owner
            if owner is None or not owner.is_standby or not owner.synced:
                return False
            return owner.queue.active + owner.pod_count == 400

        await stage.until("a", stands_by)
        # It may have been stopped between asking whether it may write and the write that it then makes.
        bound_since = set(await stage.bound()).difference(bound_before)
        assert len(bound_since) <= 1, "bound without the lease"
        # And it leads again when the other gives up.
        record = another.release(micro_time(SystemClock().wall_s()))
        assert record is not None
        await stage.lease.read(HANG_S)
        await stage.lease.write(record, HANG_S)
        await stage.until_all_bound()


def test_a_leader_that_was_stopped_past_its_lease_binds_nothing_more(tmp_path: Path) -> None:
    asyncio.run(a_leader_that_was_stopped(tmp_path))


async def a_lost_elector(folder: Path) -> None:
    async with stage_in(folder) as stage:
        stage.start("a")
        status = await stage.until_leading("a")
        first, epoch = await stage.holder(), epoch_of(status)
        pids = {one.name: one.pid for one in status.processes}
        os.kill(pids["leader"], signal.SIGKILL)
        await stage.until(
            "a", lambda s: any(p.name == "leader" and p.restart_count for p in s.processes)
        )
        before = await stage.lease.read(HANG_S)
        now = before
        while now == before:
            await asyncio.sleep(0.05)
            now = await stage.lease.read(HANG_S)
        assert await stage.holder() == first
        await stage.create_pods(50)
        await stage.until_all_bound()
        status = await stage.until("a", lambda s: s.owner is not None)
        assert epoch_of(status) == epoch, "the owner went on leading"


def test_an_elector_that_dies_is_started_again_and_keeps_the_lease(tmp_path: Path) -> None:
    asyncio.run(a_lost_elector(tmp_path))


async def a_silent_server(folder: Path) -> None:
    async with stage_in(folder, RUNS_OUT) as stage:
        stage.start("a")
        epoch = epoch_of(await stage.until_leading("a"))
        server = psutil.Process(stage.server.pid)
        server.suspend()
        try:
            # By its own clock: nobody told it that the lease is over.
            await stage.until(
                "a",
                lambda s: s.owner is not None and s.owner.epoch != epoch and s.owner.is_standby,
            )
        finally:
            server.resume()
        await stage.create_pods(50)
        await stage.until_all_bound()


def test_a_leader_that_cannot_renew_stands_by_until_it_can(tmp_path: Path) -> None:
    asyncio.run(a_silent_server(tmp_path))


async def a_write_without_the_lease(folder: Path) -> None:
    async with stage_in(folder) as stage:
        may_write = False
        client = ApiClient(access_at(stage.address), may_write=lambda: may_write)
        try:
            body = synthetic_workload(1, 1).pods[0].body
            for write in (client.post, client.put, client.patch):
                with pytest.raises(ConnectFailed, match="not sent"):
                    await write(PODS_PATH, body)
            with pytest.raises(ConnectFailed, match="not sent"):
                await client.delete(f"{PODS_PATH}/a")
            assert orjson.loads(await client.get(PODS_PATH))["items"] == []
            may_write = True
            await client.post(PODS_PATH, body)
            assert len(orjson.loads(await client.get(PODS_PATH))["items"]) == 1
        finally:
            await client.close()


def test_a_client_that_may_not_write_sends_nothing_but_reads(tmp_path: Path) -> None:
    asyncio.run(a_write_without_the_lease(tmp_path))


async def a_lease_with_more_in_it(folder: Path) -> None:
    async with stage_in(folder) as stage:
        body = orjson.dumps(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "test", "namespace": "kube-system", "labels": {"a": "b"}},
                "spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "x"},
            }
        )
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        await stage.client.post(path, body)
        record = await stage.lease.read(HANG_S)
        assert record is not None
        assert record.holder == ""
        election = await take_lease(stage)
        lease = orjson.loads(await stage.client.get(f"{path}/test"))
        assert lease["metadata"]["labels"] == {"a": "b"}
        assert lease["spec"]["holderIdentity"] == "another"
        assert not lease["spec"].keys() & {"strategy", "preferredHolder"}
        # Of two that write at once one is refused.
        other = LeaseObject(stage.client, "kube-system", "test")
        await other.read(HANG_S)
        renewal = election.next_step(0.0, micro_time(0.0))
        assert isinstance(renewal, Write)
        await stage.lease.write(renewal.record, HANG_S)
        with pytest.raises(ApiError, match="409"):
            await other.write(renewal.record, HANG_S)


async def a_lease_without_its_time(folder: Path) -> None:
    async with stage_in(folder) as stage:
        election = await take_lease(stage)
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/test"
        await stage.client.patch(path, b'{"spec":{"acquireTime":null}}', MERGE_PATCH)
        election.note_seen(await stage.lease.read(HANG_S), 0.0)
        renewal = election.next_step(0.0, micro_time(1.0))
        assert isinstance(renewal, Write)
        await stage.lease.write(renewal.record, HANG_S)
        lease = orjson.loads(await stage.client.get(path))
        assert lease["spec"]["renewTime"] == micro_time(1.0)
        unreadable = msgspec.structs.replace(renewal.record, acquire_time="")
        with pytest.raises(ApiError, match="parsing time"):
            await stage.lease.write(unreadable, HANG_S)


def test_a_lease_whose_time_of_taking_was_removed_is_renewed(tmp_path: Path) -> None:
    asyncio.run(a_lease_without_its_time(tmp_path))


def test_a_lease_that_others_wrote_is_taken_as_it_is(tmp_path: Path) -> None:
    asyncio.run(a_lease_with_more_in_it(tmp_path))
