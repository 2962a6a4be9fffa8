"""`berth compare`: does a running berth believe what the API server says?

Nodes by name, pods on nodes and pods that wait by uid, as kube-scheduler's own comparer does on
SIGUSR2 (pkg/scheduler/backend/cache/debugger/comparer.go, v1.36.2); also who is on which node, and
what contradicts itself inside the owner. The cluster goes on changing while one looks, and a watch is
always a moment late. So a difference counts only if it was there in each of several looks, each with
a fresh list of the API server and a fresh answer of the owner: a cache that has drifted stays wrong,
one that lags does not.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from daemon.supervisor.process_list import read_list
from shared.child_plan import PLAN_NAME, read_plan
from shared.kube.api.core_v1 import FINISHED_PHASES
from shared.kube.api.core_v1_parts import BriefPod
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import read_answer
from shared.kube.find_access import find_access
from shared.kube.list_pages import list_pages
from shared.messages.admin import CacheAnswer, CacheRequest, CompareRequest, TextAnswer
from shared.runtime_options import RuntimeOptions
from shared.telemetry.log import EventLog, start_logging
from shared.transport.endpoints import Endpoints
from shared.transport.owner_link import OwnerLink

log: Final = EventLog("compare")

LOOKS: Final = 3
PAUSE_S: Final = 1.0
"""Between two looks: longer than a watch lags while the API server is well."""
OWNER_TIMEOUT_S: Final = 60.0
PAGE_SIZE: Final = 2000
LISTED_MAX: Final = 100
"""Differences told one by one; a cache that is wrong as a whole is no better for more."""
NO_CONTRADICTIONS: Final = ["no contradictions"]
"""The owner's answer to a `CompareRequest` when all is well."""


class Shown(NamedTuple):
    """What the API server shows."""

    nodes: frozenset[str]
    placed: dict[str, str]
    """uid -> node, of pods that have not finished."""
    pending: dict[str, str]
    """uid -> schedulerName, of those without a node."""
    keys: dict[str, str]


class CacheComparison(NamedTuple):
    """What a comparison found."""

    differences: list[str]
    """As sentences; empty when all is well."""
    node_count: int
    pod_count: int

    def lines(self) -> list[str]:
        """For people."""
        head = f"compared {self.node_count} nodes and {self.pod_count} pods with the API server: "
        found = len(self.differences)
        listed = self.differences[:LISTED_MAX]
        if found > LISTED_MAX:
            listed = [*listed, f"... and {found - LISTED_MAX} more"]
        return [head + (f"{found} difference(s)" if found else "no differences"), *listed]


def compare(runtime_dir: str) -> CacheComparison:
    """Takes some seconds; NotRunningError if no berth runs there."""
    read_list(Path(runtime_dir))
    options = read_plan(Path(runtime_dir) / PLAN_NAME, RuntimeOptions).options
    access = find_access(server=options.server, kubeconfig=options.kubeconfig)
    return asyncio.run(_compare(ApiClient(access), OwnerLink(Endpoints(Path(runtime_dir)))))


async def _compare(client: ApiClient, owner: OwnerLink) -> CacheComparison:
    try:
        shown, persisting = await _look(client, owner)
        for _ in range(1, LOOKS):
            if not persisting:
                break
            await asyncio.sleep(PAUSE_S)
            shown, found = await _look(client, owner)
            persisting &= found
        pod_count = len(shown.placed) + len(shown.pending)
        return CacheComparison(sorted(persisting), len(shown.nodes), pod_count)
    finally:
        owner.close()
        await client.close()


async def _look(client: ApiClient, owner: OwnerLink) -> tuple[Shown, set[str]]:
    shown = await _list(client)
    held = await owner.ask(CacheRequest(), CacheAnswer, OWNER_TIMEOUT_S)
    found = set(differences(shown, held))
    return shown, found | await _contradictions(owner)


async def _contradictions(owner: OwnerLink) -> set[str]:
    lines = (await owner.ask(CompareRequest(), TextAnswer, OWNER_TIMEOUT_S)).lines
    return set() if lines == NO_CONTRADICTIONS else {f"owner: {line}" for line in lines}


def differences(shown: Shown, held: CacheAnswer) -> Iterable[str]:
    """What the API server shows and berth does not hold so, and the other way round."""
    held_nodes = {node.name for node in held.nodes if not node.is_ghost}
    for name in sorted(shown.nodes - held_nodes):
        yield f"node {name}: missing in the cache"
    for name in sorted(held_nodes - shown.nodes):
        yield f"node {name}: in the cache, not at the API server"
    on_node = {pod.uid: node.name for node in held.nodes for pod in node.pods}
    for uid, name in shown.placed.items():
        believed = on_node.get(uid)
        if believed != name:
            where = f"on {believed}" if believed is not None else "missing"
            yield f"pod {shown.keys[uid]} ({uid}): on {name}, in the cache {where}"
    waiting = {pod.uid for pod in held.pending}
    for node in held.nodes:
        for pod in node.pods:
            # An assumed pod is bound in a moment, or given back: the API server shows it unbound.
            is_expected = pod.uid in shown.placed or (pod.is_assumed and pod.uid in shown.pending)
            if not is_expected:
                yield f"pod {pod.key} ({pod.uid}): in the cache on {node.name}, not at the API server"
    for uid, scheduler in shown.pending.items():
        if scheduler in held.profiles and uid not in waiting and uid not in on_node:
            yield f"pod {shown.keys[uid]} ({uid}): pending, missing in the queue"
    for pod in held.pending:
        if pod.uid not in shown.pending:
            yield f"pod {pod.key} ({pod.uid}): in the queue, not pending at the API server"


def log_findings(comparison: CacheComparison) -> None:
    """As log lines: one for each difference, and one that sums up."""
    start_logging("compare", "info")
    for line in comparison.differences[:LISTED_MAX]:
        log.warning("difference", finding=line)
    log.info(
        "compared",
        nodes=comparison.node_count,
        pods=comparison.pod_count,
        differences=len(comparison.differences),
    )


# What the API server shows ------------------------------------------------------------------------


_decoder: Final = msgspec.json.Decoder(BriefPod)


async def _list(client: ApiClient) -> Shown:
    # Pods first: a pod whose node comes a moment later is no difference, a node may be empty.
    pods = [
        pod
        for pod in await _items(client, "/api/v1/pods")
        if pod.status.phase not in FINISHED_PHASES
    ]
    nodes = await _items(client, "/api/v1/nodes")
    return Shown(
        nodes=frozenset(node.metadata.name for node in nodes),
        placed={pod.metadata.uid: pod.spec.node_name for pod in pods if pod.spec.node_name},
        pending={
            pod.metadata.uid: pod.spec.scheduler_name for pod in pods if not pod.spec.node_name
        },
        keys={pod.metadata.uid: pod.metadata.key for pod in pods},
    )


async def _items(client: ApiClient, path: str) -> list[BriefPod]:
    """Of nodes, too: what is asked of them is the same."""
    pages = list_pages(client, path, PAGE_SIZE, timeout_s=60.0)
    return [read_answer(_decoder, item) async for page in pages for item in page.items or ()]
