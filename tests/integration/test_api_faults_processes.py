"""A whole berth on a simulated cluster over TLS with a token, by the kubeconfig that the server writes.

These are the commands of README's section on real clusters, on a server that refuses, breaks off, loses
answers and forgets its history while pods are bound. Every pod ends up bound, on a node that has
room.
"""

import asyncio
from pathlib import Path

import orjson
import pytest

from bench.demo.cluster_check import check_cluster
from bench.watched.watched_listing import NODES_PATH, PODS_PATH, all_items
from bench.watched.watched_processes import WatchedProcess, start_berth
from shared.kube.api_client import ApiClient
from shared.kube.kubeconfig import load_kubeconfig
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

NODE_COUNT = 40
POD_COUNT = 400

FAULTS = """
faults:
# Begin with a server that is not ready yet.
- {at: request, do: refuse, code: 503, path: /api/v1/nodes, times: 1}
- {at: request, do: refuse, code: 429, retry_after_s: 1, path: /api/v1/pods, times: 1}
# A kind that the role does not cover, and one that is switched off.
- {at: request, do: refuse, code: 403, path: /apis/storage.k8s.io/v1/csistoragecapacities, times: 0}
- {at: request, do: refuse, code: 404, path: /apis/resource.k8s.io/v1/resourceslices, times: 0}
# Bindings: throttled, failed, reset before, lost after they were done, bound by nobody.
- {at: request, do: refuse, code: 429, path: "*/binding", skip: 20, times: 20}
- {at: request, do: refuse, code: 500, path: "*/binding", skip: 50, times: 10}
- {at: request, do: reset, path: "*/binding", skip: 80, times: 5}
- {at: answer, do: disconnect, path: "*/binding", skip: 100, times: 10}
- {at: answer, do: cut, path: "*/binding", skip: 100, times: 5}
- {at: request, do: refuse, code: 409, path: "*/binding", skip: 100, times: 5}
- {at: answer, do: delay, delay_s: 0.05, path: "*/binding", skip: 100, times: 5}
# The watch of pods: doubled, stale, ended, cut off, reset, expired.
- {at: watch, do: repeat, path: /api/v1/pods, skip: 10, times: 30}
- {at: watch, do: repeat, back: 20, path: /api/v1/pods, skip: 10, times: 30}
- {at: watch, do: end, path: /api/v1/pods, skip: 30, times: 2}
- {at: watch, do: cut, path: /api/v1/pods, skip: 40, times: 2}
- {at: watch, do: reset, path: /api/v1/pods, skip: 50, times: 1}
- {at: watch, do: expire, path: /api/v1/pods, skip: 60, times: 1}
# Events are hard to get rid of; nothing may wait for them.
- {at: request, do: refuse, code: 500, path: "*/events", times: 10}
"""


class Cluster:
    """The server, and berth, by the same kubeconfig."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"

    async def __aenter__(self) -> "Cluster":
        (self.folder / "faults.yaml").write_text(FAULTS)
        options = [
            *("--tls", "--token", "secret"),
            *("--write-kubeconfig", str(self.kubeconfig)),
            *("--nodes", f"{NODE_COUNT}", "--pods", f"{POD_COUNT}"),
            *("--faults", str(self.folder / "faults.yaml")),
        ]
        self.server = WatchedProcess(
            "apiserver", "bench.apiserver", options, self.folder, speaks=True
        )
        await self.server.first_line()
        self.client = ApiClient(load_kubeconfig([self.kubeconfig]), timeout_s=HANG_S)
        self.berth: WatchedProcess | None = None
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.berth is not None:
            self.berth.stop()
        await self.client.close()
        self.server.stop()

    async def unbound_count(self) -> int:
        path = f"{PODS_PATH}?fieldSelector=spec.nodeName%3D"
        return len(orjson.loads(await self.client.get(path))["items"])


async def _run(folder: Path) -> None:
    async with Cluster(folder) as cluster:
        options = ["--kubeconfig", str(cluster.kubeconfig), "--annotate-decisions"]
        cluster.berth = await start_berth(folder, options)
        while await cluster.unbound_count():
            cluster.berth.check()
            cluster.server.check()
            await asyncio.sleep(0.05)
        nodes = await all_items(cluster.client, NODES_PATH)
        pods = await all_items(cluster.client, PODS_PATH)
        check = check_cluster(nodes, pods)
        assert check.problems == []
        assert check.bound_count == POD_COUNT
        for pod in pods:
            decision = orjson.loads(pod["metadata"]["annotations"]["berth.dev/decision"])
            assert decision["profile"] == "default-scheduler"
            assert decision["nodes"] == NODE_COUNT
            assert decision["attempts"] >= 1


def test_every_pod_is_bound_over_tls_whatever_the_server_does(tmp_path: Path) -> None:
    asyncio.run(_run(tmp_path))
