"""Nodes come and go, are cordoned, tainted and given labels that nobody had before.

Only nodes of the main pool change, few at a time, so there is room for every pod that must be bound.
Most are drained before they are deleted, as an administrator would, some vanish as a machine that is
reclaimed; a pod that was being bound meanwhile is deleted as the garbage collector of pods would.
"""

import asyncio
import random
from typing import Any, Final

import orjson

from bench.soak.ledger import Ledger
from bench.soak.patient import send
from bench.soak.soak_pods import MAIN, ROUND_LABEL, node_body
from bench.soak.traffic import Traffic
from bench.watched.watched_listing import NODES_PATH
from shared.clock import Clock
from shared.kube.api_client import MERGE_PATCH, ApiClient

CLOSED_SHARE_MAX: Final = 0.1
DRAIN_S: Final = 2.0
"""From the cordon to the deletion: bindings under way arrive."""
TAINT: Final = {"key": "soak/maintenance", "value": "now", "effect": "NoSchedule"}
ACTIONS: Final = {"replace": 0.2, "vanish": 0.1, "cordon": 0.2, "taint": 0.2, "label": 0.3}


class NodeChurn:
    """Changes nodes at a steady rate."""

    def __init__(
        self,
        client: ApiClient,
        ledger: Ledger,
        traffic: Traffic,
        clock: Clock,
        *,
        nodes: list[str],
        rate_per_s: float,
        seed: int,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._traffic = traffic
        self._clock = clock
        self._open = nodes
        self._closed: list[str] = []
        """Cordoned or tainted, the oldest first."""
        self._closed_max = max(1, int(len(nodes) * CLOSED_SHARE_MAX))
        self._count = len(nodes)
        self._rate_per_s = rate_per_s
        self._random = random.Random(f"nodes/{seed}")
        self._gone: set[str] = set()
        """Drained and deleted; their names are never used again."""
        self.change_count = 0
        self.is_stopped = False

    async def run(self) -> None:
        """Until `is_stopped`; then every node is open."""
        names, shares = list(ACTIONS), list(ACTIONS.values())
        async with asyncio.TaskGroup() as group:
            while not self.is_stopped:
                await asyncio.sleep(1 / self._rate_per_s)
                if len(self._open) < 2:
                    continue
                (action,) = self._random.choices(names, shares)
                if action == "label":
                    await self._label(self._random.choice(self._open))
                elif action in ("replace", "vanish"):
                    drain_s = DRAIN_S if action == "replace" else 0.0
                    group.create_task(self._replace(self._take(), drain_s))
                else:
                    await self._close(self._take(), action)
                if len(self._closed) > self._closed_max:
                    await self._reopen(self._closed.pop(0))
                self.change_count += 1
        while self._closed:
            await self._reopen(self._closed.pop(0))

    def bound(self, pod: str, node: str) -> None:
        """A pod on a node that is gone is nobody's."""
        if node in self._gone:
            self._traffic.end_now(pod)

    def _take(self) -> str:
        return self._open.pop(self._random.randrange(len(self._open)))

    async def _label(self, node: str) -> None:
        labels = {
            ROUND_LABEL: f"round-{self.change_count % 10}",
            "soak/changed": f"{self.change_count}",
        }
        await self._patch(node, {"metadata": {"labels": labels}})

    async def _close(self, node: str, action: str) -> None:
        spec: dict[str, Any] = (
            {"unschedulable": True} if action == "cordon" else {"taints": [TAINT]}
        )
        await self._patch(node, {"spec": spec})
        self._ledger.closed_s[node] = self._clock.monotonic_s()
        self._closed.append(node)

    async def _reopen(self, node: str) -> None:
        # First: from the moment at which the server opens it pods may come.
        del self._ledger.closed_s[node]
        await self._patch(node, {"spec": {"unschedulable": None, "taints": None}})
        self._open.append(node)

    async def _replace(self, node: str, drain_s: float) -> None:
        if drain_s:
            await self._patch(node, {"spec": {"unschedulable": True}})
        self._ledger.closed_s[node] = self._clock.monotonic_s()
        await asyncio.sleep(drain_s)
        self._gone.add(node)
        for pod in list(self._ledger.on_node.get(node, ())):
            self._traffic.end_now(pod)
        await send(self._client, "DELETE", f"{NODES_PATH}/{node}")
        fresh = f"soak-node-{self._count:07d}"
        self._count += 1
        await send(self._client, "POST", NODES_PATH, node_body(fresh, self._count, MAIN))
        self._open.append(fresh)

    async def _patch(self, node: str, change: dict[str, Any]) -> None:
        await send(self._client, "PATCH", f"{NODES_PATH}/{node}", orjson.dumps(change), MERGE_PATCH)
