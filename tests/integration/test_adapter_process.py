"""The adapter as a process, between the simulated API server and an owner's sockets."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import orjson
import pytest

from shared import exit_codes
from shared.child_plan import ChildPlan
from shared.feature_gates import parse_feature_gates
from shared.kube.api_client import JSON, MERGE_PATCH, ApiClient
from shared.kube.cluster_access import access_at
from shared.kube.pod_record import PodRecord
from shared.kube.resources import ALL_KINDS
from shared.messages.to_owner import (
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    PodChanged,
    PodDeleted,
    StartSync,
    SyncFinished,
)
from shared.runtime_options import RuntimeOptions
from shared.transport.channels import Channel
from shared.transport.heard import Said
from shared.transport.owner_sockets import OwnerSockets
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration


Process = subprocess.Popen[bytes]


@contextlib.contextmanager
def process(module: str, *arguments: str) -> Iterator[Process]:
    command = [sys.executable, "-m", module, *arguments]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


@pytest.fixture
def server_url() -> Iterator[str]:
    with process("bench.apiserver", "--port", "0") as server:
        assert server.stdout is not None
        yield orjson.loads(server.stdout.readline())["address"]


GATES: Final = parse_feature_gates("")
WATCHED: Final = sum(not kind.feature_gate or GATES[kind.feature_gate] for kind in ALL_KINDS)


class Owner:
    """The owner's end: starts a sync and collects what it is told."""

    def __init__(self, runtime_dir: Path, epoch: int) -> None:
        self.sockets = OwnerSockets(runtime_dir)
        self.epoch = epoch
        self.messages: list[AdapterMessage] = []

    def poll_until(self, is_there: Callable[[], bool]) -> None:
        for _ in range(int(HANG_S * 10)):
            if is_there():
                return
            for received in self.sockets.poll(100):
                assert isinstance(received, Said)
                batch = received.message
                assert isinstance(batch, AdapterBatch)
                if isinstance(batch.messages[0], AdapterHello):
                    order = StartSync(self.epoch)
                    assert self.sockets.send(Channel.ADAPTER, received.peer, order)
                elif batch.epoch == self.epoch:
                    self.messages += batch.messages
        raise AssertionError(f"not told in {HANG_S} s; told: {self.messages}")

    def synced(self) -> bool:
        return len([m for m in self.messages if isinstance(m, SyncFinished)]) == WATCHED

    def pods(self) -> dict[str, PodRecord]:
        return {m.pod.name: m.pod for m in self.messages if isinstance(m, PodChanged)}

    def deleted_pods(self) -> set[str]:
        return {m.pod.name for m in self.messages if isinstance(m, PodDeleted)}


@contextlib.contextmanager
def owner_at(runtime_dir: Path, epoch: int) -> Iterator[Owner]:
    owner = Owner(runtime_dir, epoch)
    with owner.sockets:
        yield owner


def change(url: str, *requests: tuple[str, str, object]) -> None:
    """Talk to the API server as anybody would."""

    async def main() -> None:
        client = ApiClient(access_at(url))
        for method, path, body in requests:
            content_type = MERGE_PATCH if method == "PATCH" else JSON
            encoded = orjson.dumps(body) if body else b""
            await client.request(method, path, encoded, content_type)
        await client.close()

    asyncio.run(main())


PODS = "/api/v1/namespaces/default/pods"


def pod(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def binding(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}


def adapter_of(
    runtime_dir: Path, server: str = "", kubeconfig: str = ""
) -> AbstractContextManager[Process]:
    folder = str(runtime_dir)
    plan = ChildPlan(
        options=RuntimeOptions(runtime_dir=folder, server=server, kubeconfig=kubeconfig)
    )
    plan.path.write_bytes(plan.encoded())
    return process("daemon.adapter", str(plan.path))


def test_the_life_of_a_pod_reaches_the_owner(tmp_path: Path, server_url: str) -> None:
    change(server_url, ("POST", PODS, pod("before")))
    with owner_at(tmp_path, 7) as owner, adapter_of(tmp_path, server=server_url) as adapter:
        owner.poll_until(owner.synced)
        assert set(owner.pods()) == {"before"}
        change(server_url, ("POST", PODS, pod("p")))
        owner.poll_until(lambda: "p" in owner.pods())
        change(server_url, ("POST", f"{PODS}/p/binding", binding("p")))
        owner.poll_until(lambda: owner.pods()["p"].node_name == "n1")
        finished = {"status": {"phase": "Succeeded"}}
        change(server_url, ("PATCH", f"{PODS}/p/status", finished))
        owner.poll_until(lambda: "p" in owner.deleted_pods())
        change(server_url, ("DELETE", f"{PODS}/before?gracePeriodSeconds=0", None))
        owner.poll_until(lambda: "before" in owner.deleted_pods())
        adapter.send_signal(signal.SIGTERM)
        assert adapter.wait(HANG_S) == 0


def test_a_new_owner_is_told_everything_again(tmp_path: Path, server_url: str) -> None:
    change(server_url, ("POST", PODS, pod("p")))
    with adapter_of(tmp_path, server=server_url):
        for epoch in (1, 2):
            with owner_at(tmp_path, epoch) as owner:
                owner.poll_until(owner.synced)
                assert set(owner.pods()) == {"p"}


def test_what_cannot_work_ends_with_a_clear_line(tmp_path: Path) -> None:
    with adapter_of(tmp_path, kubeconfig=str(tmp_path / "missing")) as adapter:
        _, errors = adapter.communicate(timeout=HANG_S)
        assert adapter.returncode == exit_codes.FILE_UNUSABLE
        assert b"missing" in errors
        assert b"cannot be read" in errors
        assert b"Traceback" not in errors
