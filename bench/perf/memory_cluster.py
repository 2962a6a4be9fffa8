"""The cluster of the decisions mode: watch events go straight to the owner, bindings come straight back.

No API server and no HTTP. This process plays the watch adapter (its own code decodes every JSON
line, splits every pod and batches for the owner) and holds as much of the cluster as is needed to
answer: a binding that the null binder reports becomes the MODIFIED event that an API server would
send. Owner, scorers and null binder are processes of their own, over their real sockets.

The JSON of an object is what the simulated API server's own code makes of it (defaults, status,
validation); it is made once for each series of equal objects and then spliced, because encoding is
the API server's work and not to be measured here.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

import msgspec
import orjson

from bench.apiserver import writes
from bench.apiserver.cluster import Cluster, ClusterOptions
from bench.apiserver.resources import Resource
from bench.null_binder import Bound, Evicted, Line, Nominated, Refused, Released
from bench.perf.book import PodBook
from bench.perf.cluster_api import Prepared, labels_of
from bench.perf.decision_processes import DecisionProcesses
from bench.perf.executor import NAMESPACES, PODS
from bench.perf.object_template import MARK, JsonObject, Series, named
from bench.perf.samples import Buckets
from daemon.adapter.event_source import MessageSink
from daemon.adapter.kind_feed import KindFeed
from daemon.supervisor.process_list import ProcessEntry
from shared.clock import Clock
from shared.errors import OperationalError
from shared.kube.resources import ALL_KINDS, KINDS_BY_PLURAL, NODES
from shared.messages.admin import StatusAnswer
from shared.messages.to_owner import AdapterMessage

LINES_PER_TURN: Final = 64
"""Watch lines between two looks at what has come back; some 0.7 ms of decoding."""
_EMPTY_LIST: Final = b'{"items":[],"metadata":{"resourceVersion":"1"}}'
_UID: Final = "@@berth-uid@@"
_lines: Final = msgspec.json.Decoder(Line)


class ClusterBrokenError(OperationalError):
    """Something happened that the cluster in memory does not play."""


class Shape(NamedTuple):
    """What pods of one series share, as pieces of JSON text."""

    metadata: bytes
    """Its members after resourceVersion, with the mark where the name stands again."""
    spec: bytes
    """Its members without nodeName."""
    status: JsonObject
    pending: bytes
    bound: bytes
    """The status with PodScheduled true."""
    labels: Mapping[str, str]
    grace_s: int
    has_finalizers: bool


class MemoryPod:
    """A pod of the cluster."""

    __slots__ = (
        "conditions",
        "deleting",
        "name",
        "namespace",
        "node",
        "nominated",
        "shape",
        "status",
        "uid",
    )

    def __init__(self, namespace: str, name: str, uid: str, shape: Shape) -> None:
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.shape = shape
        self.node = ""
        self.status = shape.pending
        self.deleting = b""
        self.conditions: list[dict[str, Any]] | None = None
        """Its own, once it was refused."""
        self.nominated = ""

    def line(self, event: bytes, version: int) -> bytes:
        """The watch line."""
        node = b'"nodeName":"%b",' % self.node.encode() if self.node else b""
        return (
            b'{"type":"%b","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%b",'
            b'"namespace":"%b","uid":"%b","resourceVersion":"%d",%b%b},"spec":{%b%b},"status":%b}}'
        ) % (
            event,
            self.name.encode(),
            self.namespace.encode(),
            self.uid.encode(),
            version,
            self.deleting,
            self.shape.metadata,
            node,
            self.shape.spec,
            self.status,
        )


class PreparedPods(NamedTuple):
    """Pods that are ready to be told."""

    series: Series
    pods: Sequence[MemoryPod]


class PreparedObjects(NamedTuple):
    """Other objects, each as the JSON text of the object."""

    series: Series
    objects: Sequence[bytes]


class FeederSource:
    """The adapter's event source: an empty cluster first, then what is fed."""

    def __init__(self) -> None:
        self._feeds: dict[str, KindFeed] = {}
        self._sink: MessageSink | None = None
        self.synced = asyncio.Event()
        self.message_count = 0
        """What the owner was told, or will be."""

    async def run(self, sink: MessageSink) -> None:
        if self._sink is not None:
            raise ClusterBrokenError("the owner has started again in the middle of the run")
        self._sink = sink
        for kind in ALL_KINDS:
            feed = self._feeds[kind.plural] = KindFeed(kind, self._put)
            feed.list_started()
            feed.page(_EMPTY_LIST)
            feed.list_finished()
        self.synced.set()
        await asyncio.Event().wait()

    def _put(self, message: AdapterMessage, size_bytes: int) -> None:
        assert self._sink is not None, "feeds are made for a sink"
        self.message_count += 1
        self._sink.put(message, size_bytes)

    def feed(self, plural: str, line: bytes) -> None:
        """One watch line; decoded here and now."""
        self._feeds[plural].line(line)

    async def room(self) -> None:
        assert self._sink is not None, "fed after synced"
        await self._sink.room()


class MemoryCluster:
    """Plays API server and watch adapter for owner, scorers and null binder."""

    def __init__(self, source: FeederSource, processes: DecisionProcesses, clock: Clock) -> None:
        self.book = PodBook()
        self._source = source
        self._processes = processes
        self._clock = clock
        self._version = 1
        self._uid = 0
        self._pods: dict[str, MemoryPod] = {}
        self._uids: dict[tuple[str, str], str] = {}
        self._others: dict[tuple[str, str, str], bytes] = {}
        self._rest = b""
        disabled = frozenset({"Priority", "NamespaceLifecycle"})
        options = ClusterOptions(disabled_admission=disabled, history_limit=1)
        self._server = Cluster(options, now_s=clock.wall_s())

    # Creating -------------------------------------------------------------------------------------

    async def prepare(self, series: Series) -> Prepared:
        if series.resource is PODS:
            return PreparedPods(series, list(self._make_pods(series)))
        return PreparedObjects(series, list(self._make_objects(series)))

    def _stored(self, series: Series, index: int, name: str) -> JsonObject:
        """What the API server makes of the object."""
        body = named(series.make(index), name, series.name_labels)
        now_s = self._clock.wall_s()
        answer = writes.create(
            self._server, series.resource, series.namespace, orjson.dumps(body), now_s
        )
        table = self._server.store.table(series.resource)
        stored = table.get(series.namespace, name)
        assert stored is not None, "just created"
        # Only its code is wanted, not its memory of the object.
        self._server.store.remove(table, stored)
        made: JsonObject = orjson.loads(answer.body)
        return made

    def _make_pods(self, series: Series) -> Iterator[MemoryPod]:
        shape = None
        for index, name in enumerate(series.names):
            if shape is None or not series.is_uniform:
                shape = _shape(self._stored(series, index, name))
            self._uid += 1
            yield MemoryPod(series.namespace, name, _uid(self._uid), shape)

    def _make_objects(self, series: Series) -> Iterator[bytes]:
        if not series.is_uniform:
            for index, name in enumerate(series.names):
                yield orjson.dumps(self._stored(series, index, name))
            return
        stand_in = "berth-stand-in-for-the-name"
        stored = self._stored(series, 0, stand_in)
        stored["metadata"]["uid"] = _UID
        pieces = orjson.dumps(stored).replace(stand_in.encode(), MARK.encode())
        for name in series.names:
            self._uid += 1
            filled = pieces.replace(MARK.encode(), name.encode())
            yield filled.replace(_UID.encode(), _uid(self._uid).encode())

    async def create(self, prepared: Prepared, arrivals_s: Sequence[float] | None = None) -> None:
        start_s = self._clock.monotonic_s()
        for index in range(len(prepared.series.names)):
            if arrivals_s is not None:
                wait_s = start_s + arrivals_s[index] - self._clock.monotonic_s()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
            elif index % LINES_PER_TURN == 0:
                await self._source.room()
                await asyncio.sleep(0)
            self._tell_new(prepared, index)

    def _tell_new(self, prepared: Prepared, index: int) -> None:
        series = prepared.series
        if isinstance(prepared, PreparedPods):
            pod = prepared.pods[index]
            self._pods[pod.uid] = pod
            self._uids[pod.namespace, pod.name] = pod.uid
            labels, now_s = pod.shape.labels, self._clock.monotonic_s()
            self.book.created(pod.namespace, pod.name, now_s, labels)
            for condition in pod.shape.status.get("conditions") or ():
                if condition["type"] == "PodScheduled":
                    self.book.refused(pod.namespace, pod.name, condition.get("message", ""))
            self._tell_pod(pod, b"ADDED")
            return
        assert isinstance(prepared, PreparedObjects), "made by prepare"
        body = prepared.objects[index]
        if series.resource is not NAMESPACES and len(series.names) < LINES_PER_TURN:
            # Only what is made one by one is ever deleted or replaced.
            self._others[series.resource.plural, series.namespace, series.names[index]] = body
        self._tell_object(series.resource, b"ADDED", body)

    async def until_taken_in(self) -> None:
        await self._processes.until_taken_in(self._source.message_count)

    def _tell_pod(self, pod: MemoryPod, event: bytes) -> None:
        self._version += 1
        self._source.feed("pods", pod.line(event, self._version))

    def _tell_object(self, resource: Resource, event: bytes, body: bytes) -> None:
        if resource.plural not in KINDS_BY_PLURAL:
            return  # Nobody watches it.
        self._version += 1
        head = b'{"type":"%b","object":' % event
        self._source.feed(resource.plural, head + body + b"}")

    # Changing and deleting ------------------------------------------------------------------------

    async def update(
        self, resource: Resource, namespace: str, body: JsonObject, subresources: Sequence[str]
    ) -> None:
        if resource is PODS or subresources:
            raise ClusterBrokenError("updateAny of pods or subresources: use --mode http")
        name = body["metadata"]["name"]
        series = Series(resource, namespace, [name], lambda _: body, False)
        (made,) = self._make_objects(series)
        key = (resource.plural, namespace, name)
        if key not in self._others and resource.plural != NODES.plural:
            raise ClusterBrokenError(f"updateAny: there is no {resource.kind} {namespace}/{name}")
        self._others[key] = made
        self._tell_object(resource, b"MODIFIED", made)

    async def delete(self, resource: Resource, namespace: str, name: str) -> None:
        if resource is not PODS:
            body = self._others.pop((resource.plural, namespace, name), None)
            if body is None:
                raise ClusterBrokenError(f"delete: there is no {resource.kind} {namespace}/{name}")
            self._tell_object(resource, b"DELETED", body)
            return
        pod = self._pods.get(self._uids.get((namespace, name), ""))
        if pod is None:
            return
        self._delete(pod)

    def _delete(self, pod: MemoryPod) -> None:
        self.book.deleted(pod.namespace, pod.name)
        grace_s = pod.shape.grace_s if pod.node else 0
        if grace_s or pod.shape.has_finalizers:
            # There is no kubelet and nobody takes finalizers away: it stays so, as upstream.
            stamp = self._server.timestamp(self._clock.wall_s() + grace_s)
            pod.deleting = b'"deletionTimestamp":"%b","deletionGracePeriodSeconds":%d,' % (
                stamp.encode(),
                grace_s,
            )
            self._tell_pod(pod, b"MODIFIED")
            return
        del self._pods[pod.uid]
        del self._uids[pod.namespace, pod.name]
        self._tell_pod(pod, b"DELETED")

    # What comes back ------------------------------------------------------------------------------

    def take_output(self, data: bytes) -> None:
        """What a null binder has written."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(_lines.decode(line))

    def _take(self, line: Line) -> None:
        if isinstance(line, Released):
            return  # Nobody waits for the claims of this cluster: allocations are not played either.
        pod = self._pods.get(line.uid)
        if pod is None:
            return  # Deleted while it was on its way; a server would have answered 404.
        match line:
            case Bound():
                self.book.bound(pod.namespace, pod.name, line.node, line.ordered_s)
                pod.node = line.node
                pod.status = pod.shape.bound
            case Refused():
                self.book.refused(pod.namespace, pod.name, line.message)
                pod.conditions = [_condition("False", line.reason, line.message)]
                pod.status = _pending_status(pod)
            case Nominated():
                if pod.node:
                    return  # A server keeps it, and nobody reads it any more.
                pod.nominated = line.node
                pod.status = _pending_status(pod)
            case Evicted():
                self._delete(pod)
                return
            case _:
                assert_never(line)
        self._tell_pod(pod, b"MODIFIED")

    # The rest -------------------------------------------------------------------------------------

    async def status(self) -> StatusAnswer | None:
        return await self._processes.status()

    async def histogram(self, name: str) -> dict[str, Buckets]:
        return await self._processes.histogram(name)

    def check(self) -> None:
        self._processes.check()

    def processes(self) -> list[ProcessEntry]:
        return self._processes.entries()

    async def close(self) -> None:
        await self._processes.stop()


def _uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _shape(stored: JsonObject) -> Shape:
    metadata: JsonObject = stored["metadata"]
    spec: JsonObject = stored["spec"]
    status: JsonObject = stored["status"]
    own = {"name", "namespace", "uid", "resourceVersion"}
    rest = {key: value for key, value in metadata.items() if key not in own}
    return Shape(
        metadata=orjson.dumps(rest)[1:-1],
        spec=orjson.dumps({k: v for k, v in spec.items() if k != "nodeName"})[1:-1],
        status=status,
        pending=orjson.dumps(status),
        bound=orjson.dumps({**status, "conditions": [_condition("True", "", "")]}),
        labels=labels_of(stored),
        grace_s=int(spec.get("terminationGracePeriodSeconds", 30)),
        has_finalizers=bool(metadata.get("finalizers")),
    )


def _pending_status(pod: MemoryPod) -> bytes:
    """Of a pod without a node that was looked at."""
    status = dict(pod.shape.status)
    if pod.conditions is not None:
        status["conditions"] = pod.conditions
    if pod.nominated:
        status["nominatedNodeName"] = pod.nominated
    return orjson.dumps(status)


def _condition(status: str, reason: str, message: str) -> dict[str, Any]:
    told = {"reason": reason, "message": message} if reason else {}
    return {"type": "PodScheduled", "status": status, "lastProbeTime": None, **told}
