"""The benchmark's cluster mode where a real API server does more than the simulated one."""

import asyncio
from pathlib import Path

import pytest

from bench.perf.executor import NAMESPACES
from bench.perf.http_cluster import HttpCluster, Place
from bench.perf.object_template import Series
from shared.clock import SystemClock
from shared.kube.cluster_access import access_at
from shared.kube.http_stream import StreamClient
from tests.support.scripted_server import Reply, Request, ScriptedServer
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

ACCOUNT = "/api/v1/namespaces/{}/serviceaccounts/default"
WORKLOADS = Series(NAMESPACES, "", ["ns"], lambda _: {"metadata": {}}, True)


async def asked_while_creating(folder: Path, answers: dict[str, list[int]]) -> list[str]:
    """Makes a namespace on a server that gives these answers, in order, the last one again and again;
    the paths that were asked for."""

    async def handler(request: Request, reply: Reply) -> None:
        waiting = answers.get(request.path, [201])
        await reply.json(waiting.pop(0) if len(waiting) > 1 else waiting[0], {})

    async with ScriptedServer(handler) as server, asyncio.timeout(HANG_S):
        client = StreamClient(access_at(server.url))
        cluster = HttpCluster(Place(client, None, folder, None, True), SystemClock())
        await cluster.create([await cluster.prepare(WORKLOADS)])
        await client.close()
        return [request.path for request in server.requests]


def test_a_namespace_is_ready_when_it_has_its_service_account(tmp_path: Path) -> None:
    default, own = ACCOUNT.format("default"), ACCOUNT.format("ns")
    answers = {default: [200], own: [404, 404, 200]}
    asked = asyncio.run(asked_while_creating(tmp_path, answers))
    assert asked == ["/api/v1/namespaces", default, own, own, own]


def test_nobody_waits_for_service_accounts_where_there_are_none(tmp_path: Path) -> None:
    default = ACCOUNT.format("default")
    asked = asyncio.run(asked_while_creating(tmp_path, {default: [404]}))
    assert asked == ["/api/v1/namespaces", default]
