"""The cluster of the http and cluster modes: an API server, simulated or real, and a whole berth.

This process creates, deletes and follows the pods by a watch of its own; berth is started by its
command. In a real cluster everything is made in namespaces of the workload's own, which must not be
there before, and is removed at the end together with the nodes.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import orjson

from bench.apiserver.resources import Resource
from bench.demo.processes import DemoProcess, start_berth
from bench.perf.book import PodBook
from bench.perf.cluster_api import Prepared, labels_of
from bench.perf.executor import NAMESPACES, PODS
from bench.perf.object_template import JsonObject, Series
from bench.perf.owner_metrics import owner_histogram
from bench.perf.samples import Buckets
from daemon.supervisor.owner_link import OwnerLink
from daemon.supervisor.process_list import NotRunningError, ProcessEntry, entry_of, read_list
from shared.clock import Clock
from shared.errors import OperationalError
from shared.kube.api_client import MERGE_PATCH, ApiClient
from shared.kube.api_errors import AlreadyExists, NotFound
from shared.messages.admin import StatusAnswer, StatusRequest
from shared.transport.admin_client import NoAnswerError
from shared.transport.endpoints import Endpoints

CONNECTIONS: Final = 16
STATUS_TIMEOUT_S: Final = 10.0
NAMESPACE_GONE_S: Final = 120.0
GONE_POLL_S: Final = 0.1


class WatchBrokenError(OperationalError):
    """The watch of the pods ended; what happened meanwhile cannot be known any more."""


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status | str = ""
    message: str = ""


class _Event(msgspec.Struct):
    type: str
    object: _Pod


_decoder: Final = msgspec.json.Decoder(_Event)


class Bodies(NamedTuple):
    """A series with its request bodies."""

    series: Series
    bodies: Sequence[bytes]
    labels: Mapping[str, str]


class Place(NamedTuple):
    """Where the API server is and what runs beside it."""

    client: ApiClient
    server: DemoProcess | None
    """Ours, when it is simulated."""
    folder: Path
    berth_arguments: tuple[str, ...] | None
    """None: no berth is started; another scheduler is measured."""
    is_real: bool
    """Everything that was made is removed at the end."""


class HttpCluster:
    """Talks to an API server; `begin` starts berth and the watch."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self.book = PodBook()
        self._place = place
        self._client = place.client
        self._clock = clock
        self._runtime_dir = place.folder / "run"
        self._owner = OwnerLink(Endpoints(self._runtime_dir))
        self._berth: DemoProcess | None = None
        self._version = ""
        self._made: dict[tuple[Resource, str, str], None] = {}

    async def begin(self) -> None:
        """Starts berth, and takes the version from which on every pod is seen."""
        if self._place.berth_arguments is not None:
            self._berth = await start_berth(self._place.folder, self._place.berth_arguments)
        listed = orjson.loads(await self._client.get("/api/v1/pods?limit=1"))
        self._version = listed["metadata"]["resourceVersion"]

    # The watch ------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Follows all pods until cancelled."""
        while True:
            stream = await self._client.open_stream(
                f"/api/v1/pods?watch=1&resourceVersion={self._version}&timeoutSeconds=3600"
                "&allowWatchBookmarks=true"
            )
            rest = b""
            try:
                while chunks := await stream.chunks():
                    *lines, rest = b"".join((rest, *chunks)).split(b"\n")
                    now_s = self._clock.monotonic_s()
                    for line in lines:
                        if line:
                            self._take(_decoder.decode(line), now_s)
            finally:
                stream.close()

    def _take(self, event: _Event, now_s: float) -> None:
        pod = event.object
        meta = pod.metadata
        if event.type == "ERROR":
            raise WatchBrokenError(f"the watch of pods ended: {pod.message or 'no reason given'}")
        if event.type == "DELETED":
            self.book.deleted(meta.namespace, meta.name)
        elif event.type in ("ADDED", "MODIFIED") and meta.namespace in self.book.namespaces:
            if pod.spec.node_name:
                self.book.bound(meta.namespace, meta.name, pod.spec.node_name, now_s)
            elif isinstance(pod.status, _Status):
                for condition in pod.status.conditions:
                    if condition.type == "PodScheduled" and condition.status == "False":
                        self.book.refused(meta.namespace, meta.name, condition.message)
        self._version = meta.resource_version or self._version

    # Requests -------------------------------------------------------------------------------------

    async def prepare(self, series: Series) -> Prepared:
        labels = labels_of(series.make(0)) if series.names else {}
        return Bodies(series, series.bodies(), labels)

    async def create(self, prepared: Prepared, arrivals_s: Sequence[float] | None = None) -> None:
        assert isinstance(prepared, Bodies), "made by prepare"
        series, bodies, labels = prepared
        path = collection_path(series.resource, series.namespace)
        is_pod = series.resource is PODS
        start_s = self._clock.monotonic_s()
        indices = iter(range(len(bodies)))

        async def create_some() -> None:
            for index in indices:
                if arrivals_s is not None:
                    wait_s = start_s + arrivals_s[index] - self._clock.monotonic_s()
                    if wait_s > 0:
                        await asyncio.sleep(wait_s)
                name = series.names[index]
                if is_pod:
                    now_s = self._clock.monotonic_s()
                    self.book.created(series.namespace, name, now_s, labels)
                await self._post(path, bodies[index], series, name)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(CONNECTIONS, len(bodies))):
                group.create_task(create_some())

    async def _post(self, path: str, body: bytes, series: Series, name: str) -> None:
        try:
            await self._client.post(path, body)
        except AlreadyExists as error:
            raise OperationalError(
                f"{error}; a benchmark makes objects of its own: remove it or use another cluster"
            ) from error
        if self._place.is_real and (series.resource is NAMESPACES or not series.namespace):
            self._made[series.resource, series.namespace, name] = None

    async def update(
        self, resource: Resource, namespace: str, body: JsonObject, subresources: Sequence[str]
    ) -> None:
        path = object_path(resource, namespace, body["metadata"]["name"])
        encoded = orjson.dumps(body)
        tail = "/".join(("", *subresources))
        await self._client.put(f"{path}{tail if subresources else ''}", encoded)
        if not subresources and resource.has_status:
            await self._client.put(f"{path}/status", encoded)

    async def delete(self, resource: Resource, namespace: str, name: str) -> None:
        with contextlib.suppress(NotFound):  # Gone already is what was asked for.
            await self._client.delete(object_path(resource, namespace, name))
        self._made.pop((resource, namespace, name), None)

    # The rest -------------------------------------------------------------------------------------

    async def status(self) -> StatusAnswer | None:
        if self._berth is None:
            return None
        try:
            answer = await self._owner.ask(StatusRequest(), STATUS_TIMEOUT_S)
        except NoAnswerError:
            return None
        return answer if isinstance(answer, StatusAnswer) else None

    async def histogram(self, name: str) -> dict[str, Buckets]:
        return {} if self._berth is None else await owner_histogram(self._owner, name)

    def check(self) -> None:
        for process in (self._berth, self._place.server):
            if process is not None:
                process.check()

    def processes(self) -> list[ProcessEntry]:
        entries = [entry_of("load and watch", os.getpid(), 0, "")]
        if self._place.server is not None:
            entries.append(entry_of("apiserver", self._place.server.pid, 0, ""))
        with contextlib.suppress(NotRunningError):  # Not started, or not ours.
            entries.extend(read_list(self._runtime_dir).processes)
        return entries

    async def close(self) -> None:
        self._owner.close()
        if self._berth is not None:
            await asyncio.to_thread(self._berth.stop)
        try:
            await self._remove_all()
        finally:
            await self._client.close()

    async def _remove_all(self) -> None:
        """Pods at once (no kubelet will end them), then namespaces, then nodes and the like."""
        namespaces = [key for key in self._made if key[0] is NAMESPACES]
        others = [key for key in self._made if key[0] is not NAMESPACES]
        for _, _, name in namespaces:
            await self._client.delete(f"{collection_path(PODS, name)}?gracePeriodSeconds=0")
            await self._release_pods(name)
        for resource, namespace, name in (*namespaces, *others):
            with contextlib.suppress(NotFound):
                await self._client.delete(object_path(resource, namespace, name))
        for resource, _, name in namespaces:
            await self._until_gone(object_path(resource, "", name))
        self._made.clear()

    async def _until_gone(self, path: str) -> None:
        try:
            async with asyncio.timeout(NAMESPACE_GONE_S):
                while await self._is_there(path):  # noqa: ASYNC110 - nothing tells us
                    await asyncio.sleep(GONE_POLL_S)
        except TimeoutError:
            raise OperationalError(
                f"{path} is still there {NAMESPACE_GONE_S:g} s after it was deleted; see what holds it"
            ) from None

    async def _release_pods(self, namespace: str) -> None:
        """Takes away the finalizers that a workload gave its pods: nobody else will."""
        listed = orjson.loads(await self._client.get(collection_path(PODS, namespace)))
        for pod in listed["items"]:
            if pod["metadata"].get("finalizers"):
                path = object_path(PODS, namespace, pod["metadata"]["name"])
                await self._client.patch(path, b'{"metadata":{"finalizers":null}}', MERGE_PATCH)

    async def _is_there(self, path: str) -> bool:
        try:
            await self._client.get(path)
        except NotFound:
            return False
        return True


def collection_path(resource: Resource, namespace: str) -> str:
    """The path where objects of the kind are created."""
    base = f"/apis/{resource.group_version}" if resource.group else f"/api/{resource.version}"
    scope = f"/namespaces/{namespace}" if resource.is_namespaced else ""
    return f"{base}{scope}/{resource.plural}"


def object_path(resource: Resource, namespace: str, name: str) -> str:
    """The path of one object."""
    return f"{collection_path(resource, namespace)}/{name}"
