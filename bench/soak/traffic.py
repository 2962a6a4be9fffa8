"""Pods come at a steady rate and leave after their life, so that the cluster is full of turnover and
yet always of one size.

Most are deleted at once, some finish first (Succeeded), some are deleted with a period of grace.
"""

import asyncio
import heapq
import random
from typing import Final

import orjson

from bench.demo.workload import NAMESPACE
from bench.soak.ledger import Ledger
from bench.soak.patient import send
from bench.soak.soak_pods import KINDS, PodMaker, claim_body, kind_of
from shared.clock import Clock
from shared.kube.api_client import MERGE_PATCH, ApiClient

CREATORS: Final = 16
REAPERS: Final = 32
CATCH_UP_S_MAX: Final = 0.5
"""Creations that a slow moment held up are made up for at most so far, or they would come as a burst."""
OVERDUE_S_MAX: Final = 1.0
"""When ends are so late no pods are created: the cluster must not grow because the server is slow."""
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS: Final = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
GATED_S_MAX: Final = 2.0
FINISHED_SHARE: Final = 0.1
GRACE_SHARE: Final = 0.05
FINISHED_LIFE_S: Final = 1.0
"""How long a finished pod stays to be looked at."""
REAPER_PERIOD_S: Final = 0.05
_SUCCEEDED: Final = orjson.dumps({"status": {"phase": "Succeeded"}})
_NO_GATES: Final = b'{"spec":{"schedulingGates":[]}}'
_AT_ONCE: Final = b'{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}'


class Traffic:
    """Creates pods, and ends them."""

    def __init__(
        self,
        client: ApiClient,
        ledger: Ledger,
        clock: Clock,
        *,
        rate_per_s: float,
        life_s: float,
        seed: int,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._clock = clock
        self._rate_per_s = rate_per_s
        self._life_s = life_s
        self._maker = PodMaker(seed)
        self._random = random.Random(f"lives/{seed}")
        self._ends: list[tuple[float, str, bool]] = []
        """(when, pod, whether it has finished): a heap."""
        self._due_s = 0.0
        """When the next pod is to be created."""
        self.is_stopped = False
        """No more pods come or go."""

    def bound(self, name: str, now_s: float) -> None:
        """The pod's life begins."""
        if kind_of(name).must_bind:
            heapq.heappush(self._ends, (now_s + self._life_of(name), name, False))

    def end_now(self, name: str) -> None:
        """The pod has to go: so does its node."""
        heapq.heappush(self._ends, (self._clock.monotonic_s(), name, True))

    async def run(self) -> None:
        """Until `is_stopped`, and until everything sent is answered."""
        async with asyncio.TaskGroup() as group:
            self._due_s = self._clock.monotonic_s()
            for _ in range(CREATORS):
                group.create_task(self._create(group))
            for _ in range(REAPERS):
                group.create_task(self._reap())

    async def _create(self, group: asyncio.TaskGroup) -> None:
        while not self.is_stopped:
            now_s = self._clock.monotonic_s()
            if self._ends and self._ends[0][0] < now_s - OVERDUE_S_MAX:
                await asyncio.sleep(REAPER_PERIOD_S)
                continue
            due_s = max(self._due_s, now_s - CATCH_UP_S_MAX)
            self._due_s = due_s + 1 / self._rate_per_s
            name, body = self._maker.next()
            self._ledger.created(name, _cpu_milli(body), now_s)
            if due_s > now_s:
                await asyncio.sleep(due_s - now_s)
                self._ledger.pods[name].created_s = self._clock.monotonic_s()
            if kind_of(name) is KINDS["volume"]:
                await send(self._client, "POST", CLAIMS, claim_body(name))
            await send(self._client, "POST", PODS, body)
            if not kind_of(name).must_bind:
                # It may never have a node; its life begins now.
                ends_s = self._clock.monotonic_s() + self._life_of(name)
                heapq.heappush(self._ends, (ends_s, name, False))
            elif kind_of(name) is KINDS["gated"]:
                group.create_task(self._open_gate(name))

    async def _open_gate(self, name: str) -> None:
        await asyncio.sleep(self._random.uniform(0, GATED_S_MAX))
        self._ledger.pods[name].created_s = self._clock.monotonic_s()
        await send(self._client, "PATCH", f"{PODS}/{name}", _NO_GATES, MERGE_PATCH)

    async def _reap(self) -> None:
        while not self.is_stopped:
            now_s = self._clock.monotonic_s()
            if not self._ends or self._ends[0][0] > now_s:
                await asyncio.sleep(REAPER_PERIOD_S)
                continue
            _, name, is_finished = heapq.heappop(self._ends)
            if name in self._ledger.pods:
                await self._end(name, now_s, is_finished=is_finished)

    async def _end(self, name: str, now_s: float, *, is_finished: bool) -> None:
        path = f"{PODS}/{name}"
        way = 1.0 if is_finished else self._random.random()
        is_bound = bool(self._ledger.pods[name].node)
        if is_bound and way < FINISHED_SHARE:
            await send(self._client, "PATCH", f"{path}/status", _SUCCEEDED, MERGE_PATCH)
            heapq.heappush(self._ends, (now_s + FINISHED_LIFE_S, name, True))
        elif way < FINISHED_SHARE + GRACE_SHARE:
            await send(self._client, "DELETE", path)
        else:
            await send(self._client, "DELETE", path, _AT_ONCE)

    def _life_of(self, name: str) -> float:
        return self._life_s * kind_of(name).lives * self._random.uniform(0.5, 1.5)


def _cpu_milli(body: bytes) -> int:
    (container,) = orjson.loads(body)["spec"]["containers"]
    return int(container["resources"]["requests"]["cpu"].removesuffix("m"))
