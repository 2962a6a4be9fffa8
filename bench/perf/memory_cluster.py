"""The cluster of the decisions mode: watch events go straight to the owner, bindings come straight back.

No API server and no HTTP. This process plays the watch adapter (its own code decodes every JSON
line, splits every pod and batches for the owner) and holds as much of the cluster as is needed to
answer: a binding that the null binder reports becomes the MODIFIED event that an API server would
send. Owner, scorers and null binder are processes of their own, over their real sockets.

The JSON of an object is what the simulated API server's own code makes of it (defaults, status,
validation); it is made once for each series of equal objects and then spliced, because encoding is
the API server's work and not to be measured here. Resource claims are as the controller of claims and
the binder leave them: made for each pod that names a template, allocated when it is bound, gone with it.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, assert_never

import msgspec
import orjson

from bench.apiserver import writes
from bench.apiserver.api_cluster import Cluster, ClusterOptions
from bench.apiserver.served_resources import Resource
from bench.null_binder import Bound, Evicted, Line, Nominated, Refused, Released
from bench.perf.book import PodBook
from bench.perf.cluster_api import Prepared, labels_of
from bench.perf.decision_processes import DecisionProcesses
from bench.perf.executor import CLAIMS, PODS
from bench.perf.object_template import MARK, JsonObject, Series
from bench.perf.perf_claims import POD_MARK, POD_UID_MARK, generated_claim, made_claim, templates_of
from bench.perf.samples import Buckets
from daemon.adapter.kind_feed import KindFeed
from daemon.adapter.outbox import MessageSink
from daemon.supervisor.process_list import ProcessEntry
from shared.clock import Clock
from shared.errors import OperationalError
from shared.kube.binding_work import ClaimWork, consumer_of
from shared.kube.resources import ALL_KINDS, KINDS_BY_PLURAL
from shared.messages.admin import StatusAnswer
from shared.messages.to_binder import ReleaseClaim
from shared.messages.to_owner import AdapterMessage

LINES_PER_TURN: Final = 64
"""Watch lines between two looks at what has come back; some 0.7 ms of decoding."""
_EMPTY_LIST: Final = b'{"items":[],"metadata":{"resourceVersion":"1"}}'
KEPT_MAX: Final = 20_000
"""Objects of one series that are remembered, to be replaced, deleted or listed: some 20 MB. Of a cluster
of a million nodes none is."""
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
    claim_templates: tuple[tuple[str, str], ...]
    """Of its resource claims: by which name the pod knows it, and the template's."""


@dataclass(slots=True, eq=False)
class MemoryPod:
    """A pod of the cluster."""

    namespace: str
    name: str
    uid: str
    shape: Shape
    status: bytes
    node: str = ""
    deleting: bytes = b""
    conditions: list[dict[str, Any]] | None = None
    """Its own, once it was refused."""
    nominated: str = ""
    claims: list[str] = field(default_factory=list)
    """Names of the resource claims that it uses, and of those that were made for it."""
    claims_told: bytes = b""
    """Members of its status that say which they are."""

    def line(self, event: bytes, version: int) -> bytes:
        """The watch line."""
        node = b'"nodeName":"%b",' % self.node.encode() if self.node else b""
        status = self.status
        if self.claims_told:
            status = b"{%b}" % b",".join(filter(None, (self.claims_told, status[1:-1])))
        return (
            b'{"type":"%b","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%b",'
            b'"namespace":"%b","uid":"%b","resourceVersion":"%d",%b%b},"spec":{%b%b},'
            b'"status":%b}}'
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
            status,
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
        self._uid = 0
        self._pods: dict[str, MemoryPod] = {}
        self._uids: dict[tuple[str, str], str] = {}
        self._others: dict[tuple[str, str, str], bytes] = {}
        """(plural, namespace, name) of other objects -> JSON."""
        self._pieces: dict[tuple[str, str, str], bytes] = {}
        """(namespace, template, name in the pod) -> JSON of a resource claim with marks in it."""
        self._rest = b""
        disabled = frozenset({"Priority", "NamespaceLifecycle"})
        options = ClusterOptions(disabled_admission=disabled, history_limit=1)
        self._server = Cluster(options, now_s=clock.wall_s())
        """Its code is used, and its counter of versions; it remembers no object."""

    # Creating -------------------------------------------------------------------------------------

    async def prepare(self, series: Series) -> Prepared:
        if series.resource is PODS:
            return PreparedPods(series, list(self._make_pods(series)))
        return PreparedObjects(series, list(self._make_objects(series)))

    def _stored(self, series: Series, index: int) -> JsonObject:
        """What the API server makes of the object."""
        now_s = self._clock.wall_s()
        body = series.body(index)
        answer = writes.create(self._server, series.resource, series.namespace, body, now_s)
        name = series.names[index]
        if series.writes_status:
            answer = writes.replace(
                self._server, series.resource, series.namespace, name, "status", body, now_s
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
                shape = _shape(self._stored(series, index))
            self._uid += 1
            yield MemoryPod(series.namespace, name, _uid(self._uid), shape, shape.pending)

    def _make_objects(self, series: Series) -> Iterator[bytes]:
        if not series.is_uniform:
            for index in range(len(series.names)):
                yield orjson.dumps(self._stored(series, index))
            return
        stored = self._stored(series._replace(names=[MARK]), 0)
        stored["metadata"]["uid"] = _UID
        pieces = orjson.dumps(stored)
        for name in series.names:
            self._uid += 1
            filled = pieces.replace(MARK.encode(), name.encode())
            yield filled.replace(_UID.encode(), _uid(self._uid).encode())

    async def create(
        self, prepared: Sequence[Prepared], arrivals_s: Sequence[float] | None = None
    ) -> None:
        start_s = self._clock.monotonic_s()
        for index in range(len(prepared[-1].series.names)):
            if arrivals_s is not None:
                wait_s = start_s + arrivals_s[index] - self._clock.monotonic_s()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
            elif index % (LINES_PER_TURN // len(prepared)) == 0:
                await self._source.room()
                await asyncio.sleep(0)
            for each in prepared:
                self._tell_new(each, index)

    def _tell_new(self, prepared: Prepared, index: int) -> None:
        series = prepared.series
        if isinstance(prepared, PreparedPods):
            self._tell_new_pod(prepared.pods[index])
            return
        assert isinstance(prepared, PreparedObjects), "made by prepare"
        body = prepared.objects[index]
        if len(series.names) <= KEPT_MAX:
            self._others[series.resource.plural, series.namespace, series.names[index]] = body
        self._tell_object(series.resource, b"ADDED", body)

    def _tell_new_pod(self, pod: MemoryPod) -> None:
        self._pods[pod.uid] = pod
        self._uids[pod.namespace, pod.name] = pod.uid
        labels, now_s = pod.shape.labels, self._clock.monotonic_s()
        self.book.created(pod.namespace, pod.name, now_s, labels)
        for condition in pod.shape.status.get("conditions") or ():
            if condition["type"] == "PodScheduled":
                self.book.refused(pod.namespace, pod.name, condition.get("message", ""))
        self._tell_pod(pod, b"ADDED")
        if pod.shape.claim_templates:
            self._make_claims(pod)
            self._tell_pod(pod, b"MODIFIED")

    async def until_taken_in(self) -> None:
        await self._processes.until_taken_in(self._source.message_count)

    def _tell_pod(self, pod: MemoryPod, event: bytes) -> None:
        self._source.feed("pods", pod.line(event, self._next_version()))

    def _next_version(self) -> int:
        self._server.store.version += 1
        return self._server.store.version

    def _tell_object(self, resource: Resource, event: bytes, body: bytes) -> None:
        if resource.plural not in KINDS_BY_PLURAL:
            return  # Nobody watches it.
        head = b'{"type":"%b","object":' % event
        self._source.feed(resource.plural, head + body + b"}")

    # Changing and deleting ------------------------------------------------------------------------

    async def update(
        self, resource: Resource, namespace: str, body: JsonObject, subresources: Sequence[str]
    ) -> None:
        self._replace(resource, namespace, body, "/".join(subresources))

    async def put_status(self, resource: Resource, namespace: str, body: JsonObject) -> None:
        if resource.has_status:
            self._replace(resource, namespace, body, "status")

    def _replace(
        self, resource: Resource, namespace: str, body: JsonObject, subresource: str
    ) -> None:
        """As the API server would."""
        name = body["metadata"]["name"]
        pod = self._pods.get(self._uids.get((namespace, name), "")) if resource is PODS else None
        held = self._others.get((resource.plural, namespace, name))
        if pod is not None:
            old = orjson.loads(pod.line(b"", 1))["object"]
        elif held is not None:
            old = orjson.loads(held)
        else:
            raise ClusterBrokenError(f"there is no {resource.kind} {namespace}/{name} to update")
        del old["kind"], old["apiVersion"]
        store, table = self._server.store, self._server.store.table(resource)
        store.put(table, old, None)
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": ""}}
        try:
            answer = writes.replace(
                *(self._server, resource, namespace, name, subresource),
                *(orjson.dumps(body), self._clock.wall_s()),
            )
        finally:
            stored = table.get(namespace, name)
            assert stored is not None, "an update leaves it there"
            store.remove(table, stored)
        if pod is None:
            written = self._others[resource.plural, namespace, name] = answer.body.strip()
            self._tell_object(resource, b"MODIFIED", written)
            return
        new = orjson.loads(answer.body)
        pod.shape, pod.status = _shape(new), orjson.dumps(new.get("status") or {})
        pod.conditions = None
        self._tell_pod(pod, b"MODIFIED")

    async def listed(self, resource: Resource) -> list[JsonObject]:
        return [
            orjson.loads(body)
            for (plural, _, _), body in self._others.items()
            if plural == resource.plural
        ]

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, at_once: bool = False
    ) -> None:
        if resource is not PODS:
            self._delete_other(resource, namespace, name)
            return
        pod = self._pods.get(self._uids.get((namespace, name), ""))
        if pod is not None:
            self._delete(pod, at_once=at_once)

    def _delete_other(self, resource: Resource, namespace: str, name: str) -> None:
        body = self._others.pop((resource.plural, namespace, name), None)
        if body is None:
            raise ClusterBrokenError(f"delete: there is no {resource.kind} {namespace}/{name}")
        self._tell_object(resource, b"DELETED", body)

    def _delete(self, pod: MemoryPod, *, at_once: bool = False) -> None:
        self.book.deleted(pod.namespace, pod.name)
        grace_s = pod.shape.grace_s if pod.node and not at_once else 0
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
        for name in pod.claims:
            self._free_claim(pod.namespace, name, pod.uid)

    # Resource claims ------------------------------------------------------------------------------

    def _make_claims(self, pod: MemoryPod) -> None:
        """Those of the pod's templates."""
        statuses = []
        for claim_name, template_name in pod.shape.claim_templates:
            pieces = self._claim_pieces(pod.namespace, template_name, claim_name)
            name = f"{pod.name}-{claim_name}"
            self._uid += 1
            for mark, value in (
                (MARK, name),
                (_UID, _uid(self._uid)),
                (POD_MARK, pod.name),
                (POD_UID_MARK, pod.uid),
            ):
                pieces = pieces.replace(mark.encode(), value.encode())
            self._others[CLAIMS.plural, pod.namespace, name] = pieces
            self._tell_object(CLAIMS, b"ADDED", pieces)
            pod.claims.append(name)
            statuses.append({"name": claim_name, "resourceClaimName": name})
        pod.claims_told = b'"resourceClaimStatuses":' + orjson.dumps(statuses)

    def _claim_pieces(self, namespace: str, template_name: str, claim_name: str) -> bytes:
        key = (namespace, template_name, claim_name)
        pieces = self._pieces.get(key)
        if pieces is None:
            template = self._others.get(("resourceclaimtemplates", namespace, template_name))
            if template is None:
                raise ClusterBrokenError(f"there is no claim template {namespace}/{template_name}")
            body = generated_claim(orjson.loads(template), claim_name, POD_MARK, POD_UID_MARK)
            stored = self._stored(Series(CLAIMS, namespace, [MARK], lambda _: body, True), 0)
            stored["metadata"]["uid"] = _UID
            pieces = self._pieces[key] = orjson.dumps(stored)
        return pieces

    def _write_claim(self, pod: MemoryPod, work: ClaimWork) -> None:
        """As a binder does before it binds the pod."""
        key = (CLAIMS.plural, work.namespace, work.name)
        if work.generated is not None:
            body = made_claim(work, pod.name, pod.uid)
            series = Series(CLAIMS, work.namespace, [work.name], lambda _: body, False)
            self._others[key] = orjson.dumps(self._stored(series, 0))
            self._tell_object(CLAIMS, b"ADDED", self._others[key])
            told = {
                "resourceClaimName": work.name,
                "requestMappings": msgspec.to_builtins(work.generated.mappings),
            }
            pod.claims_told = b'"extendedResourceClaimStatus":' + orjson.dumps(told)
        claim = orjson.loads(self._others[key])
        status = claim.setdefault("status", {})
        status.setdefault("allocation", msgspec.to_builtins(work.allocation))
        user = msgspec.to_builtins(consumer_of(work, pod.name, pod.uid))
        status["reservedFor"] = [*status.get("reservedFor", ()), user]
        if work.name not in pod.claims:
            pod.claims.append(work.name)
        self._tell_claim(key, claim)

    def _free_claim(self, namespace: str, name: str, pod_uid: str) -> None:
        """As the controller of claims and the collector of garbage do for a pod that is gone."""
        key = (CLAIMS.plural, namespace, name)
        claim = orjson.loads(self._others[key])
        owners = claim["metadata"].get("ownerReferences") or ()
        if any(owner["uid"] == pod_uid for owner in owners):
            self._delete_other(CLAIMS, namespace, name)
            return
        status = claim.get("status") or {}
        users = [user for user in status.get("reservedFor") or () if user["uid"] != pod_uid]
        claim["status"] = {**status, "reservedFor": users} if users else {}
        self._tell_claim(key, claim)

    def _tell_claim(self, key: tuple[str, str, str], claim: JsonObject) -> None:
        claim["metadata"]["resourceVersion"] = f"{self._next_version()}"
        self._others[key] = orjson.dumps(claim)
        self._tell_object(CLAIMS, b"MODIFIED", self._others[key])

    # What comes back ------------------------------------------------------------------------------

    def take_output(self, data: bytes) -> None:
        """What a null binder has written."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(_lines.decode(line))

    def _take(self, line: Line) -> None:
        if isinstance(line, Released):
            self._release(line.claim)
            return
        pod = self._pods.get(line.uid)
        if pod is None:
            return  # Deleted while it was on its way; a server would have answered 404.
        match line:
            case Bound():
                for work in line.claims:
                    self._write_claim(pod, work)
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

    def _release(self, claim: ReleaseClaim) -> None:
        if (CLAIMS.plural, claim.namespace, claim.name) in self._others:
            self._free_claim(claim.namespace, claim.name, claim.user_uid)

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
        claim_templates=templates_of(spec),
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
