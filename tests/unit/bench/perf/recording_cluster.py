"""A cluster that binds every pod at once and writes down what was asked of it."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from bench.apiserver.served_resources import Resource
from bench.perf.book import PodBook
from bench.perf.cluster_api import Prepared
from bench.perf.executor import PODS
from bench.perf.object_template import JsonObject, Series
from bench.perf.samples import Buckets
from daemon.supervisor.process_list import ProcessEntry
from shared.clock import Clock
from shared.messages.admin import StatusAnswer


class PreparedSeries(NamedTuple):
    series: Series


class RecordingCluster:
    """Satisfies `ClusterApi`. Gated pods are refused, all others bound to one node."""

    def __init__(self, clock: Clock) -> None:
        self.book = PodBook()
        self.created: list[tuple[str, str, str]] = []
        self.deleted: list[tuple[str, str, str]] = []
        self.updated: list[JsonObject] = []
        self.statuses: list[tuple[str, str, str]] = []
        self.bodies: dict[str, JsonObject] = {}
        self.arrivals_s: Sequence[float] | None = None
        self.taken_in_at: list[int] = []
        """How many objects there were at each wait for them to be taken in."""
        self.looks = 0
        """At the owner's histogram."""
        self._clock = clock

    async def prepare(self, series: Series) -> Prepared:
        return PreparedSeries(series)

    async def create(
        self, prepared: Sequence[Prepared], arrivals_s: Sequence[float] | None = None
    ) -> None:
        self.arrivals_s = arrivals_s
        for index in range(len(prepared[-1].series.names)):
            for series in (each.series for each in prepared):
                name, body = series.names[index], orjson.loads(series.body(index))
                self.bodies[name] = body
                self.created.append((series.resource.plural, series.namespace, name))
                if series.resource is PODS:
                    self._schedule(series.namespace, name, body)
                await asyncio.sleep(0)

    def _schedule(self, namespace: str, name: str, body: JsonObject) -> None:
        labels = body["metadata"].get("labels")
        self.book.created(namespace, name, self._clock.monotonic_s(), labels)
        if body["spec"].get("schedulingGates"):
            self.book.refused(namespace, name, "gated")
        else:
            self.book.bound(namespace, name, "node", self._clock.monotonic_s())

    async def until_taken_in(self) -> None:
        self.taken_in_at.append(len(self.created))

    async def update(
        self, resource: Resource, namespace: str, body: JsonObject, subresources: Sequence[str]
    ) -> None:
        del resource, namespace, subresources
        self.updated.append(body)

    async def put_status(self, resource: Resource, namespace: str, body: JsonObject) -> None:
        self.statuses.append((resource.plural, namespace, body["metadata"]["name"]))

    async def listed(self, resource: Resource) -> list[JsonObject]:
        names = [name for plural, _, name in self.created if plural == resource.plural]
        return [self.bodies[name] for name in names]

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, at_once: bool = False
    ) -> None:
        del at_once
        self.deleted.append((resource.plural, namespace, name))
        if resource is PODS:
            self.book.deleted(namespace, name)

    async def histogram(self, name: str) -> dict[str, Buckets]:
        """Of an owner that has had one attempt of 0.5 s more at each look."""
        self.looks += 1
        return {"scheduled": Buckets((1.0, 2.0), [self.looks, 0, 0], 0.5 * self.looks)}

    async def status(self) -> StatusAnswer | None:
        return None

    def check(self) -> None:
        pass

    def processes(self) -> list[ProcessEntry]:
        return []

    async def close(self) -> None:
        pass
