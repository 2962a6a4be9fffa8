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
from shared.telemetry.log import EventLog, start_logging
from shared.transport.owner_link import OwnerLink

log: Final = EventLog("compare")

LOOKS: Final = 3
PAUSE_S: Final = 1.0
OWNER_TIMEOUT_S: Final = 60.0
PAGE_SIZE: Final = 2000
LISTED_MAX: Final = 100
"""Differences told one by one; a cache that is wrong as a whole is no better for more."""
NO_CONTRADICTIONS: Final = ["no contradictions"]
"""The owner's answer to a `CompareRequest` when all is well."""


class Shown(NamedTuple):
    nodes: frozenset[str]
    pods: dict[str, BriefPod]
    """By uid, those that have not finished."""


class CacheComparison(NamedTuple):
    differences: list[str]
    """As sentences; empty when all is well."""
    node_count: int
    pod_count: int

    def lines(self) -> list[str]:
        head = f"compared {self.node_count} nodes and {self.pod_count} pods with the API server: "
        found = len(self.differences)
        listed = self.differences[:LISTED_MAX]
        if found > LISTED_MAX:
            listed = [*listed, f"... and {found - LISTED_MAX} more"]
        return [head + (f"{found} difference(s)" if found else "no differences"), *listed]


def compare(runtime_dir: str) -> CacheComparison:
    """Takes some seconds; NotRunningError if no berth runs there."""
    read_list(Path(runtime_dir))
    options = read_plan(Path(runtime_dir) / PLAN_NAME).options
    access = find_access(server=options.server, kubeconfig=options.kubeconfig)
    return asyncio.run(_compare(ApiClient(access), OwnerLink(Path(runtime_dir))))


async def _compare(client: ApiClient, owner: OwnerLink) -> CacheComparison:
    try:
        shown, persisting = await _look(client, owner)
        for _ in range(1, LOOKS):
            if not persisting:
                break
            await asyncio.sleep(PAUSE_S)
            shown, found = await _look(client, owner)
            persisting &= found
        return CacheComparison(sorted(persisting), len(shown.nodes), len(shown.pods))
    finally:
        await client.close()


async def _look(client: ApiClient, owner: OwnerLink) -> tuple[Shown, set[str]]:
    shown = await _list(client)
    held = await owner.ask(CacheRequest(), CacheAnswer, OWNER_TIMEOUT_S)
    lines = (await owner.ask(CompareRequest(), TextAnswer, OWNER_TIMEOUT_S)).lines
    contradictions = {f"owner: {line}" for line in lines if lines != NO_CONTRADICTIONS}
    return shown, {*differences(shown, held), *contradictions}


def differences(shown: Shown, held: CacheAnswer) -> Iterable[str]:
    """What the API server shows and berth does not hold so, and the other way round."""
    held_nodes = {node.name for node in held.nodes if not node.is_ghost}
    for name in sorted(shown.nodes - held_nodes):
        yield f"node {name}: missing in the cache"
    for name in sorted(held_nodes - shown.nodes):
        yield f"node {name}: in the cache, not at the API server"
    on_node = {pod.uid: node.name for node in held.nodes for pod in node.pods}
    waiting = {pod.uid for pod in held.pending}
    for uid, seen in shown.pods.items():
        what = f"pod {seen.metadata.key} ({uid})"
        name, believed = seen.spec.node_name, on_node.get(uid)
        if name and believed != name:
            where = f"on {believed}" if believed is not None else "missing"
            yield f"{what}: on {name}, in the cache {where}"
        is_ours = seen.spec.scheduler_name in held.profiles
        if not name and is_ours and uid not in waiting and believed is None:
            yield f"{what}: pending, missing in the queue"
    for node in held.nodes:
        for pod in node.pods:
            pair = shown.pods.get(pod.uid)
            # An assumed pod is bound in a moment, or given back: the API server shows it unbound.
            if pair is None or not (pair.spec.node_name or pod.is_assumed):
                yield f"pod {pod.key} ({pod.uid}): in the cache on {node.name}, not at the API server"
    for pod in held.pending:
        pair = shown.pods.get(pod.uid)
        if pair is None or pair.spec.node_name:
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


_decoder: Final = msgspec.json.Decoder(BriefPod)


async def _list(client: ApiClient) -> Shown:
    # Pods first: a pod whose node comes a moment later is no difference, a node may be empty.
    pods = {
        pod.metadata.uid: pod
        for pod in await _items(client, "/api/v1/pods")
        if pod.status.phase not in FINISHED_PHASES
    }
    nodes = await _items(client, "/api/v1/nodes")
    return Shown(frozenset(node.metadata.name for node in nodes), pods)


async def _items(client: ApiClient, path: str) -> list[BriefPod]:
    """Of nodes, too: what is asked of them is the same."""
    pages = list_pages(client, path, PAGE_SIZE, timeout_s=60.0)
    return [read_answer(_decoder, item) async for page in pages for item in page.items or ()]
