"""The cluster of the http and cluster modes: an API server, simulated or real, and a whole berth.

This process creates, deletes and follows the pods by a watch of its own; berth is started by its
command. In a real cluster everything is made in namespaces of the workload's own, which must not be
there before, and is removed at the end together with the nodes. Beside the simulated one, what a
controller would do about resource claims is done here.

A real API server does more than ours with what is created: a new node is tainted as not ready until a
controller has looked at it (TaintNodesByCondition), and pods are refused until their namespace has its
service account (ServiceAccount). Both are seen to before the pods come.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from bench.apiserver.served_resources import Resource
from bench.perf.book import PodBook
from bench.perf.claim_controller import ClaimController
from bench.perf.cluster_api import Prepared, labels_of
from bench.perf.executor import NAMESPACES, NODES, PODS
from bench.perf.object_template import JsonObject, Series
from bench.perf.owner_metrics import owner_histogram
from bench.perf.samples import Buckets
from bench.watched.owner_status import owner_status
from bench.watched.pod_events import PodEvent
from bench.watched.pod_watch import PodWatch
from bench.watched.watched_processes import WatchedProcess, processes_of_run, start_berth
from daemon.supervisor.process_list import ProcessEntry
from shared.clock import Clock
from shared.errors import OperationalError
from shared.kube.api_client import MERGE_PATCH
from shared.kube.api_errors import AlreadyExists, NotFound, ServerError, TooManyRequests
from shared.kube.http_stream import StreamClient
from shared.messages.admin import StatusAnswer
from shared.transport.owner_link import OwnerLink

CONNECTIONS: Final = 16
NAMESPACE_GONE_S: Final = 120.0
GONE_POLL_S: Final = 0.1
ACCOUNT_MADE_S: Final = 120.0
ACCOUNT_POLL_S: Final = 0.05
NOT_READY: Final = "node.kubernetes.io/not-ready"


class Bodies(NamedTuple):
    """A series with its request bodies."""

    series: Series
    bodies: Sequence[bytes]
    labels: Sequence[Mapping[str, str]]
    """Of each; of all together where they are alike."""


class Place(NamedTuple):
    """Where the API server is and what runs beside it."""

    client: StreamClient
    server: WatchedProcess | None
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
        self._owner = OwnerLink(self._runtime_dir)
        self._berth: WatchedProcess | None = None
        self._watch = PodWatch(self._client, clock, self._take)
        self._controller = ClaimController(self._client)
        self._made: dict[tuple[Resource, str, str], None] = {}

    async def begin(self) -> None:
        """Starts berth, and takes the version from which on every pod is seen."""
        if self._place.berth_arguments is not None:
            self._berth = await start_berth(self._place.folder, self._place.berth_arguments)
        await self._watch.start()

    # The watch ------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Follows all pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch.run())
            if not self._place.is_real:
                tasks.create_task(self._controller.run())

    def _take(self, event: PodEvent, now_s: float) -> None:
        if not self._place.is_real:
            self._controller.take(event)
        pod = event.object
        namespace, name = pod.metadata.namespace, pod.metadata.name
        if event.type == "DELETED":
            self.book.deleted(namespace, name)
        elif namespace in self.book.namespaces:
            if pod.spec.node_name:
                self.book.bound(namespace, name, pod.spec.node_name, now_s)
            elif (refusal := pod.unscheduled()) is not None:
                self.book.refused(namespace, name, refusal.message)

    # Requests -------------------------------------------------------------------------------------

    async def prepare(self, series: Series) -> Prepared:
        alike = 1 if series.is_uniform else len(series.names)
        labels = [labels_of(series.make(i)) for i in range(min(alike, len(series.names)))]
        return Bodies(series, series.bodies(), labels)

    async def create(
        self, prepared: Sequence[Prepared], arrivals_s: Sequence[float] | None = None
    ) -> None:
        start_s = self._clock.monotonic_s()
        count = len(prepared[-1].series.names)
        indices = iter(range(count))

        async def create_some() -> None:
            for index in indices:
                if arrivals_s is not None:
                    wait_s = start_s + arrivals_s[index] - self._clock.monotonic_s()
                    if wait_s > 0:
                        await asyncio.sleep(wait_s)
                for each in prepared:
                    assert isinstance(each, Bodies), "made by prepare"
                    await self._create_one(each, index)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(CONNECTIONS, count)):
                group.create_task(create_some())

    async def _create_one(self, prepared: Bodies, index: int) -> None:
        series, bodies, labels = prepared
        path, name = collection_path(series.resource, series.namespace), series.names[index]
        if series.resource is PODS:
            now_s = self._clock.monotonic_s()
            self.book.created(series.namespace, name, now_s, labels[index % len(labels)])
        await self._post(path, bodies[index], series, name)
        if series.writes_status:
            await self._client.put(f"{path}/{name}/status", bodies[index])

    async def _post(self, path: str, body: bytes, series: Series, name: str) -> None:
        try:
            made = await self._post_until_taken(path, body)
        except AlreadyExists as error:
            raise OperationalError(
                f"{error}; a benchmark makes objects of its own: remove it or use another cluster"
            ) from error
        if not self._place.is_real:
            return
        if not series.namespace:
            self._made[series.resource, series.namespace, name] = None
        if series.resource is NODES:
            await self._make_ready(name, made)
        elif series.resource is NAMESPACES:
            await self._until_account(name)

    async def _post_until_taken(self, path: str, body: bytes) -> bytes:
        """Again for as long as the server says when to come back: it has too much to do, or the
        service account of a new namespace is not complete yet."""
        while True:
            try:
                return await self._client.post(path, body)
            except (ServerError, TooManyRequests) as error:
                if error.retry_after_s is None:
                    raise
                await asyncio.sleep(error.retry_after_s)

    async def _make_ready(self, name: str, made: bytes) -> None:
        """Takes away the taint that admission gives a node; its own taints stay."""
        taints = orjson.loads(made)["spec"].get("taints") or []
        kept = [taint for taint in taints if taint["key"] != NOT_READY]
        if kept != taints:
            body = orjson.dumps({"spec": {"taints": kept or None}})
            await self._client.patch(object_path(NODES, "", name), body, MERGE_PATCH)

    async def _until_account(self, namespace: str) -> None:
        """Until pods may be made there; at once where nobody makes service accounts."""
        path = "/api/v1/namespaces/{}/serviceaccounts/default"
        if not await self._is_there(path.format("default")):
            return
        try:
            async with asyncio.timeout(ACCOUNT_MADE_S):
                while not await self._is_there(path.format(namespace)):  # noqa: ASYNC110 - nothing tells us
                    await asyncio.sleep(ACCOUNT_POLL_S)
        except TimeoutError:
            raise OperationalError(
                f"namespace {namespace} has no service account after {ACCOUNT_MADE_S:g} s; see whether"
                " the cluster's kube-controller-manager runs"
            ) from None

    async def until_taken_in(self) -> None:
        """As upstream: what the API server has created is created, and watches are to keep up."""

    async def update(
        self, resource: Resource, namespace: str, body: JsonObject, subresources: Sequence[str]
    ) -> None:
        path = object_path(resource, namespace, body["metadata"]["name"])
        await self._client.put("/".join((path, *subresources)), orjson.dumps(body))

    async def put_status(self, resource: Resource, namespace: str, body: JsonObject) -> None:
        if resource.has_status:
            path = object_path(resource, namespace, body["metadata"]["name"])
            await self._client.put(f"{path}/status", orjson.dumps(body))

    async def listed(self, resource: Resource) -> list[JsonObject]:
        answer = orjson.loads(await self._client.get(collection_path(resource, "")))
        head = {"apiVersion": resource.group_version, "kind": resource.kind}
        return [{**head, **item} for item in answer["items"]]

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, at_once: bool = False
    ) -> None:
        query = "?gracePeriodSeconds=0" if at_once else ""
        with contextlib.suppress(NotFound):  # Gone already is what was asked for.
            await self._client.delete(object_path(resource, namespace, name) + query)
        self._made.pop((resource, namespace, name), None)

    # The rest -------------------------------------------------------------------------------------

    async def status(self) -> StatusAnswer | None:
        if self._berth is None:
            return None
        return await owner_status(self._owner)

    async def histogram(self, name: str) -> dict[str, Buckets]:
        return {} if self._berth is None else await owner_histogram(self._owner, name)

    def check(self) -> None:
        for process in (self._berth, self._place.server):
            if process is not None:
                process.check()

    def processes(self) -> list[ProcessEntry]:
        server = self._place.server
        return processes_of_run(None if server is None else server.pid, self._runtime_dir)

    async def close(self) -> None:
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
            await self._delete_pods(name)
            await self._release_pods(name)
        for resource, namespace, name in (*namespaces, *others):
            with contextlib.suppress(NotFound):
                await self._client.delete(object_path(resource, namespace, name))
        for resource, _, name in namespaces:
            await self._until_gone(object_path(resource, "", name))
        self._made.clear()

    async def _delete_pods(self, namespace: str) -> None:
        """Again while the server gives up in the middle: so many take longer than a request may."""
        path = f"{collection_path(PODS, namespace)}?gracePeriodSeconds=0"
        while True:
            try:
                await self._client.delete(path)
            except ServerError as error:
                if error.http_status != HTTPStatus.GATEWAY_TIMEOUT:
                    raise
            else:
                return

    async def _until_gone(self, path: str) -> None:
        try:
            async with asyncio.timeout(NAMESPACE_GONE_S):
                while await self._is_there(path):  # noqa: ASYNC110 - nothing tells us
                    await asyncio.sleep(GONE_POLL_S)
        except TimeoutError:
            raise OperationalError(
                f"{path} is still there {NAMESPACE_GONE_S:g} s after it was deleted; does"
                " kube-controller-manager run? If so, its status says what holds it"
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
