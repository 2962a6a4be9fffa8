"""The cache: nodes, the pods on them, assumed pods, and the sums per node as columns.

The operations are kube-scheduler's (pkg/scheduler/backend/cache/cache.go, v1.36.2). The difference is
where the sums live: in a `NodeTable`, so that filters and scores are array arithmetic and a snapshot
is a copy of rows. A node's row exists as long as the node or a pod on it does; a row without a Node
object is a ghost, which no snapshot shows (`present` is False).

When the API server's word contradicts what is held here (a pod on another node than assumed, an
update of a pod never added), the server is right: the cache is repaired, and the disagreement is
kept for the caller to count and log. Only our own mistakes raise.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from daemon.core.node_columns import NodeShapes, ShapedNode, write_node_columns
from daemon.core.node_tree import NodeTree
from daemon.core.pod_classes import PodClass, PodClasses
from daemon.core.pod_lifecycle import Cause, PodPhase, Story, next_phase
from shared.columns.journal import Changes, Journal
from shared.columns.nominations import Nomination
from shared.columns.pods import PodTable, name_hash, start_time_s
from shared.columns.schema import Rows
from shared.columns.table import NodeTable, PortTuple
from shared.columns.usage import add_usage, add_usages
from shared.errors import ObjectError
from shared.framework.cluster_view import ClusterView, ObjectStore
from shared.kube.objects import Node
from shared.kube.pod_record import PodRecord

NEVER: Final = float("inf")
RUN_LENGTH_MIN: Final = 4
"""Fewer pods than that are assumed faster one by one than by a dozen operations on arrays."""
LINES_LOOKED_AT: Final = 64
"""With so many resources and label keys it is time to see how many nodes have; clusters have about
thirty."""
DICTIONARY_WASTE_MAX: Final = 4096
"""A set of 50 image names takes about 4 kB: at most some 16 MB are kept for nothing."""


class CachedPod(msgspec.Struct, eq=False, gc=False):
    """A pod that counts on a node. Nothing that it holds leads back to it, so no collector has to
    look through all of them."""

    record: PodRecord
    pod_class: PodClass
    node_name: str
    phase: PodPhase = PodPhase.INITIAL
    row: int = -1
    """Of the pod table."""
    attached_at: int = 0
    """Generation at which it took that row."""
    is_binding_finished: bool = False
    is_evicted: bool = False
    """Ordered to go by preemption; the API server may not have heard yet."""
    deadline_s: float = NEVER


_NO_PORTS: Final[frozenset[PortTuple]] = frozenset()
_NO_CLAIMS: Final[Mapping[str, int]] = {}


class NodeInfo(msgspec.Struct, eq=False, gc=False):
    """What the cache holds of one node beside its row of the table. Small, as there may be a million;
    the collector need not look through them, for the reason that `CachedPod` gives."""

    name: str
    row: int
    node: Node | None = None
    """What scheduling reads of it. None for a ghost: pods are on it, but the API server shows no such
    node."""
    pods: dict[str, CachedPod] = {}
    """By uid."""
    ports: frozenset[PortTuple] = _NO_PORTS
    """Host ports in use. A set as in kube-scheduler (HostPortInfo): where two pods of a node came
    to share a port, the first to leave frees it."""
    pvc_refs: Mapping[str, int] = _NO_CLAIMS
    """`namespace/claim` -> pods on this node that use it."""


class NodeUpdate(NamedTuple):
    """A node before and after, as far as scheduling reads it; `old` is None for one that is new."""

    old: Node | None
    new: Node


class Disagreement(NamedTuple):
    """The API server said something that the cache did not expect; the cache was repaired."""

    kind: str
    subject: str
    detail: str


class Cache:
    """Nodes and pods as the scheduler must see them at this moment. One writer, no locks."""

    def __init__(self, assumed_pod_ttl_s: float = 0.0) -> None:
        self.nodes = NodeTable()
        self.objects = ObjectStore()
        self.pod_table = PodTable()
        self.classes = PodClasses(self.nodes)
        self.view = ClusterView(self.nodes, self.objects, self.pod_table, self.classes.infos)
        self.journal = Journal()
        self.generation = 0
        self.disagreements: list[Disagreement] = []
        """For the caller to take, log and count."""
        self.new_image_sizes: dict[str, int] = {}
        """Since somebody last took them."""
        self.nomination_news: dict[str, Nomination] = {}
        """By uid, the same; written by `daemon.core.nominations`."""
        self._ttl_s = assumed_pod_ttl_s if assumed_pod_ttl_s > 0 else NEVER
        self._node_infos: dict[str, NodeInfo] = {}
        self._pods: dict[str, CachedPod] = {}
        self._assumed: dict[str, CachedPod] = {}
        """Invariant: a subset of `_pods`."""
        self._expiring: deque[CachedPod] = deque()
        """Pods whose binding was accepted, in the order in which their time is over, among them such as
        were confirmed meanwhile."""
        self._object_bodies: dict[tuple[str, str], msgspec.Raw] = {}
        self._value_look = DICTIONARY_WASTE_MAX
        """With so many label values it is time to see how many are in use."""
        self._line_look = LINES_LOOKED_AT
        """The same with resources and label keys together."""
        self.is_recounted = False
        """Classes in use have another usage than copies know; reset by whoever tells them."""
        self._free_rows: list[int] = []
        self._free_pod_rows: list[int] = []
        self._tree = NodeTree(self.nodes)
        self._shapes = NodeShapes()
        self._image_nodes: Counter[str] = Counter()
        self._story = Story()

    # Assumed pods ----------------------------------------------------

    def assume_pod(self, record: PodRecord, node_name: str, pod_class: PodClass) -> None:
        """Counts a pod on a node before the API server knows. The pod must not be in the cache."""
        pod = self._new_pod(record, pod_class, node_name, Cause.ASSUME)
        self.classes.retain(pod_class)
        self._assumed[record.uid] = pod
        self._attach(pod)

    def assume_pods(
        self, records: list[PodRecord], rows: list[int], pod_class: PodClass
    ) -> list[str]:
        """The same as `assume_pod` for each, of pods of one class on rows of which no two are equal.
        Returns the names of the nodes."""
        usage = pod_class.usage
        node_names = [self.nodes.name_of(row) for row in rows]
        if len(records) < RUN_LENGTH_MIN or usage.ports or pod_class.claim_keys:
            for record, node_name in zip(records, node_names, strict=True):
                self.assume_pod(record, node_name, pod_class)
            return node_names
        count = len(records)
        pod_rows = self._take_pod_rows(count)
        generation = self.generation
        for index, (record, node_name) in enumerate(zip(records, node_names, strict=True)):
            pod = self._new_pod(record, pod_class, node_name, Cause.ASSUME)
            pod.row = pod_rows[index]
            pod.attached_at = generation + index + 1
            self._assumed[record.uid] = pod
            self._node_infos[node_name].pods[record.uid] = pod
        self.classes.retain(pod_class, count)
        node_rows = np.array(rows, np.intp)
        add_usages(self.nodes, node_rows, usage)
        self._write_new_pod_rows(records, pod_rows, node_rows, pod_class.class_id)
        self.generation += count
        self.nodes.generation[node_rows] = np.arange(generation + 1, self.generation + 1)
        self.journal.pods.extend(pod_rows)
        self.journal.usage.extend(rows)
        return node_names

    def finish_binding(self, uid: str, now_s: float) -> bool:
        """The binding was accepted: from now on the assumption expires, where a TTL is set. Says
        whether the pod is on a node here."""
        pod = self._assumed.get(uid)
        if pod is None:
            return uid in self._pods  # The watch was faster than the binder's report.
        self._step(pod, Cause.FINISH_BINDING)
        pod.is_binding_finished = True
        if self._ttl_s != NEVER:
            pod.deadline_s = now_s + self._ttl_s
            self._expiring.append(pod)
        return True

    def forget_pod(self, uid: str) -> CachedPod | None:
        """Takes an assumption back; None where the pod is not assumed (any more)."""
        pod = self._assumed.get(uid)
        if pod is None:
            return None
        self._step(pod, Cause.FORGET)
        self._drop(pod)
        return pod

    def cleanup_expired(self, now_s: float) -> list[CachedPod]:
        """Drops assumed pods whose confirmation did not come in time."""
        expired = []
        while self.next_deadline_s() <= now_s:
            pod = self._expiring.popleft()
            self._step(pod, Cause.EXPIRE)
            self._drop(pod)
            expired.append(pod)
        return expired

    def next_deadline_s(self) -> float:
        """When `cleanup_expired` next has something to do; infinite if never."""
        while self._expiring and self._expiring[0].phase is not PodPhase.ASSUMED:
            self._expiring.popleft()
        return self._expiring[0].deadline_s if self._expiring else NEVER

    def mark_evicted(self, uid: str, *, is_evicted: bool) -> None:
        """A pod was ordered to go, or that order could not be carried out."""
        pod = self._pods.get(uid)
        if pod is not None and pod.is_evicted is not is_evicted:
            pod.is_evicted = is_evicted
            row = self._node_infos[pod.node_name].row
            self._write_pod_row(pod, row)
            self._touch_usage(row)

    # Pods on nodes, by the API server's word -----------------------------------------------------------

    def add_pod(self, record: PodRecord) -> None:
        """A pod with a node was listed, added, or bound. Raises ObjectError for a record that cannot
        be read, and has changed nothing then."""
        pod_class = self.classes.acquire(record)
        pod = self._pods.get(record.uid)
        if pod is None:
            self._attach(self._new_pod(record, pod_class, record.node_name, Cause.ADD))
        elif pod.phase is PodPhase.ASSUMED:
            self._confirm(pod, record, pod_class)
        else:
            self._replace(pod, record, pod_class)

    def update_pod(self, record: PodRecord) -> None:
        """A pod that is on a node changed. The same as `add_pod`, as a watch may merge events."""
        self.add_pod(record)

    def remove_pod(self, uid: str) -> CachedPod | None:
        """A pod is gone or finished; None if it was not here."""
        pod = self._pods.get(uid)
        if pod is None:
            return None
        self._step(pod, Cause.REMOVE)
        self._drop(pod)
        return pod

    def unbind_pod(self, uid: str) -> CachedPod:
        """The API server shows a pod without a node that it showed on one: its data are older than they
        were (etcd was restored). It is believed, as in everything. kube-scheduler ends itself there and
        lists anew, which comes to the same."""
        pod = self._pods[uid]
        self._disagree("unbound", pod, f"was on {pod.node_name}, is on none")
        self._step(pod, Cause.REMOVE)
        self._drop(pod)
        return pod

    def get_pod(self, uid: str) -> CachedPod | None:
        return self._pods.get(uid)

    def confirm_pod(self, record: PodRecord) -> CachedPod | None:
        """The same as `add_pod`, for an assumed pod that was bound where it was assumed and is
        otherwise as it was: nearly every binding. None, and nothing done, for any other."""
        pod = self._assumed.get(record.uid)
        if pod is None or record.node_name != pod.node_name:
            return None
        held = pod.record
        if (
            record.deleted != held.deleted
            or record.started != held.started
            or record.is_preempted != held.is_preempted
            or not pod.pod_class.is_of(record)
        ):
            return None
        self._step(pod, Cause.ADD)
        del self._assumed[record.uid]
        pod.deadline_s = NEVER
        msgspec.structs.force_setattr(record, "template", held.template)
        pod.record = record
        return pod

    def is_assumed_pod(self, uid: str) -> bool:
        return uid in self._assumed

    def pod_count(self) -> int:
        return len(self._pods)

    def assumed_pods(self) -> list[CachedPod]:
        return list(self._assumed.values())

    def pods(self) -> list[CachedPod]:
        return list(self._pods.values())

    # Nodes ----------------------------------------------------

    def add_node(self, node: Node) -> None:
        """A node appeared or changed. Raises ObjectError for quantities that cannot be read."""
        self._put_nodes([self._shapes.of(node)])

    def add_nodes(
        self, nodes: Iterable[Node], refuse: Callable[[ObjectError], None]
    ) -> list[NodeUpdate]:
        """The same as `add_node` for each, but that errors are handed to `refuse`."""
        shaped: list[ShapedNode] = []
        for node in nodes:
            try:
                shaped.append(self._shapes.of(node))
            except ObjectError as error:
                refuse(error)
        return self._put_nodes(shaped)

    def update_node(self, node: Node) -> None:
        """The same as `add_node`."""
        self.add_node(node)

    def remove_node(self, name: str) -> Node | None:
        """A node is gone; with pods still on it, it stays as a ghost. None if it was not here."""
        info = self._node_infos.get(name)
        if info is None or info.node is None:
            return None
        node = info.node
        self._forget_images(node)
        info.node = None
        self.nodes.set_present(info.row, is_present=False)
        self._tree.remove(info.row)
        self._touch_node(info.row)
        self._free_if_empty(info)
        return node

    def node_info(self, name: str) -> NodeInfo | None:
        """What is known of a node, ghosts included."""
        return self._node_infos.get(name)

    def node_infos(self) -> list[NodeInfo]:
        return list(self._node_infos.values())

    def node_count(self) -> int:
        """Nodes that the API server shows."""
        return len(self._tree)

    def touch_row(self, row: int) -> None:
        """Makes the next delta carry this row, for a worker whose copy of it is off."""
        self._touch_usage(row)

    def compact(self) -> bool:
        """Drops dictionary entries that nothing uses, once they are many; says whether it did so.
        Whoever keeps ids of the columns must then start over."""
        if self.nodes.dictionary_waste() < DICTIONARY_WASTE_MAX:
            return False
        self.nodes.compact_dictionaries()
        return True

    def compact_names(self) -> bool:
        """The same for names of nodes, resources, keys and values of labels, whose ids all processes
        share: if it says yes, every copy must be made anew. It does so when at least half of one of
        them are of no use."""
        nodes = self.nodes
        wasted = nodes.name_waste()
        is_worth_it = wasted >= DICTIONARY_WASTE_MAX and 2 * wasted >= len(nodes.names)
        # The others are counted each time that their number has doubled: that is seldom enough.
        if not is_worth_it and len(nodes.label_values) >= self._value_look:
            wasted = nodes.value_waste()
            is_worth_it = wasted >= DICTIONARY_WASTE_MAX and 2 * wasted >= len(nodes.label_values)
            self._value_look = 2 * len(nodes.label_values)
        line_count = len(nodes.resources) + len(nodes.label_keys)
        if not is_worth_it and line_count >= self._line_look:
            is_worth_it = 2 * nodes.line_waste() >= line_count
            self._line_look = 2 * line_count
        if not is_worth_it:
            return False
        nodes.compact_names()
        self._value_look = 2 * len(nodes.label_values) + DICTIONARY_WASTE_MAX
        line_count = len(nodes.resources) + len(nodes.label_keys)
        self._line_look = 2 * line_count + LINES_LOOKED_AT
        for pod_class in self.classes:
            pod_class.count_usage(nodes)
        self.view.forget_derived()
        return True

    def asked_in_vain(self, info: NodeInfo) -> dict[str, int]:
        """What the pods on a node ask for of resources that have no row, as no node has them. For
        people: no decision depends on it."""
        asked: Counter[str] = Counter()
        for pod in info.pods.values():
            for name, amount in pod.pod_class.info.requests.scalars.items():
                if amount and self.nodes.resources.find(name) < 0:
                    asked[name] += amount
        return dict(asked)

    def _recount(self, first_new: int) -> None:
        """Resources from `first_new` on are new with some node: what pods asked of them counts from now
        on."""
        names = self.nodes.resources.values[first_new:]
        if not names:
            return
        asking = [c for c in self.classes if not c.info.requests.scalars.keys().isdisjoint(names)]
        if not asking:
            return
        for pod_class in asking:
            pod_class.count_usage(self.nodes)
        is_asking = {pod_class.class_id for pod_class in asking}
        for pod in self._pods.values():
            if pod.pod_class.class_id in is_asking:
                row = self._node_infos[pod.node_name].row
                self.nodes.requested[first_new:, row] += pod.pod_class.usage.amounts[first_new:]
                self._touch_usage(row)
        self.view.forget_derived()
        self.is_recounted = True

    def all_changes(self) -> Changes:
        """Every row, as if all of them had changed."""
        rows = self.nodes.named_rows()
        return Changes(rows, rows, self.pod_table.used_rows())

    # Objects of the other kinds --------------------------------------------------------------------

    def put_object(self, kind: str, key: str, body: msgspec.Raw, value: object) -> None:
        """Keeps an object, decoded for our plugins and as msgpack for the workers'."""
        self.objects.put(kind, key, value)
        self._object_bodies[kind, key] = body

    def remove_object(self, kind: str, key: str) -> bool:
        """Says whether it was here."""
        self.objects.remove(kind, key)
        return self._object_bodies.pop((kind, key), None) is not None

    def object_keys(self, kind: str) -> list[str]:
        return list(self.objects.all(kind))

    def encoded_objects(self) -> list[tuple[str, str, bytes]]:
        """All of them, as a full snapshot carries them."""
        return [(kind, key, bytes(body)) for (kind, key), body in self._object_bodies.items()]

    # Inside: pods -----------------------------------------------------------

    def _take_pod_rows(self, count: int) -> list[int]:
        """Free rows of the pod table, in the order in which one by one would be taken."""
        taken = _taken(self._free_pod_rows, self.pod_table.row_count, count)
        self.pod_table.reserve(max(taken) + 1)
        return taken

    def _write_new_pod_rows(
        self, records: list[PodRecord], pod_rows: list[int], node_rows: Rows, class_id: int
    ) -> None:
        """Rows of pods that are not evicted."""
        table, rows = self.pod_table, np.array(pod_rows, np.intp)
        is_terminating = np.array([bool(record.deleted) for record in records])
        table.write_rows(
            rows,
            np.full(len(rows), class_id),
            node_rows.astype(np.int32),
            np.array([start_time_s(record.started) for record in records], np.int64),
            is_terminating,
        )
        table.is_preempted[rows] = is_terminating & [record.is_preempted for record in records]
        table.name_hash[rows] = [name_hash(record.name) for record in records]

    def _new_pod(
        self, record: PodRecord, pod_class: PodClass, node_name: str, cause: Cause
    ) -> CachedPod:
        if record.uid in self._pods:
            held = self._pods[record.uid]
            # Raises: neither an assumed nor an added pod may be assumed (or added anew).
            next_phase(held.phase, cause, record, self._story)
        pod = CachedPod(record, pod_class, node_name)
        self._step(pod, cause)
        self._pods[record.uid] = pod
        return pod

    def _confirm(self, pod: CachedPod, record: PodRecord, new_class: PodClass) -> None:
        """An assumed pod was seen bound."""
        self._step(pod, Cause.ADD)
        del self._assumed[record.uid]
        pod.deadline_s = NEVER
        if record.node_name != pod.node_name:
            detail = f"assumed on {pod.node_name}, bound to {record.node_name}"
            self._disagree("assumed elsewhere", pod, detail)
        self._adopt(pod, record, new_class)

    def _replace(self, pod: CachedPod, record: PodRecord, new_class: PodClass) -> None:
        self._step(pod, Cause.UPDATE)
        if record.node_name != pod.node_name:
            detail = f"was on {pod.node_name}, is on {record.node_name}"
            self._disagree("moved", pod, detail)
        self._adopt(pod, record, new_class)

    def _adopt(self, pod: CachedPod, record: PodRecord, new_class: PodClass) -> None:
        """Takes the newer record over, and a share of its class; the sums change only if something that
        counts did."""
        old_class = pod.pod_class
        if record.node_name == pod.node_name and old_class is new_class:
            self.classes.release(new_class)
            looked = pod.record.deleted, pod.record.started, pod.record.is_preempted
            pod.record = record
            if looked != (record.deleted, record.started, record.is_preempted):
                row = self._node_infos[pod.node_name].row
                self._write_pod_row(pod, row)
                self._touch_usage(row)
            return
        self._detach(pod)
        self.classes.release(old_class)
        pod.record = record
        pod.pod_class = new_class
        pod.node_name = record.node_name
        self._attach(pod)

    def _drop(self, pod: CachedPod) -> None:
        uid = pod.record.uid
        self._detach(pod)
        del self._pods[uid]
        self._assumed.pop(uid, None)
        self.classes.release(pod.pod_class)

    def _attach(self, pod: CachedPod) -> None:
        info = self._node_infos.get(pod.node_name)
        if info is None:
            (info,) = self._new_node_infos([pod.node_name])
        info.pods[pod.record.uid] = pod
        add_usage(self.nodes, info.row, pod.pod_class.usage)
        ports = pod.pod_class.usage.ports
        if ports:
            info.ports |= ports
            self._write_ports(info)
        claims = pod.pod_class.claim_keys
        if claims:
            info.pvc_refs = Counter(info.pvc_refs) + Counter(claims)
        pod.row = self._free_pod_rows.pop() if self._free_pod_rows else self.pod_table.row_count
        self.pod_table.reserve(pod.row + 1)
        self._write_pod_row(pod, info.row)
        self._touch_usage(info.row)
        pod.attached_at = self.generation

    def _write_pod_row(self, pod: CachedPod, node_row: int) -> None:
        self.pod_table.write(
            pod.row,
            pod.pod_class.class_id,
            node_row,
            start_time_s(pod.record.started),
            is_terminating=bool(pod.record.deleted),
            is_preempted=pod.is_evicted or (bool(pod.record.deleted) and pod.record.is_preempted),
            name_hash=name_hash(pod.record.name),
        )
        self.journal.pod_changed(pod.row)

    def _detach(self, pod: CachedPod) -> None:
        info = self._node_infos[pod.node_name]
        del info.pods[pod.record.uid]
        add_usage(self.nodes, info.row, pod.pod_class.usage, -1)
        ports = pod.pod_class.usage.ports
        if ports:
            info.ports -= ports
            self._write_ports(info)
        claims = pod.pod_class.claim_keys
        if claims:
            info.pvc_refs = Counter(info.pvc_refs) - Counter(claims) or _NO_CLAIMS
        self.pod_table.clear(pod.row)
        self._free_pod_rows.append(pod.row)
        self.journal.pod_changed(pod.row)
        self._touch_usage(info.row)
        self._free_if_empty(info)

    def _step(self, pod: CachedPod, cause: Cause) -> None:
        pod.phase = next_phase(pod.phase, cause, pod.record, self._story)

    def _disagree(self, kind: str, pod: CachedPod, detail: str) -> None:
        self.disagreements.append(Disagreement(kind, pod.record.key, detail))

    # Inside: nodes -----------------------------------------------------------

    def _new_node_infos(self, names: Sequence[str]) -> list[NodeInfo]:
        """Of nodes, distinct, of which nothing is known."""
        count = len(names)
        rows = _taken(self._free_rows, self.nodes.row_count, count)
        self.nodes.reserve(max(rows, default=-1) + 1)
        infos = [NodeInfo(name, row) for name, row in zip(names, rows, strict=True)]
        self._node_infos.update(zip(names, infos, strict=True))
        index = np.array(rows, np.intp)
        self.nodes.bind_names(index, names)
        self._touch_nodes(index)
        self.nodes.incarnation[index] = self.nodes.generation[index]
        return infos

    def _put_nodes(self, nodes: Iterable[ShapedNode]) -> list[NodeUpdate]:
        """Nodes in the order in which they came or changed."""
        updates: list[NodeUpdate] = []
        new: dict[str, ShapedNode] = {}
        for shaped in nodes:
            node = shaped.node
            name = node.metadata.name
            if name in new:
                self._put_new_nodes(new)
            info = self._node_infos.get(name)
            old = None if info is None else info.node
            updates.append(NodeUpdate(old, node))
            if info is None or old is None:
                new[name] = shaped
            elif _looks_the_same(old, node):
                info.node = node  # A heartbeat: conditions and the like, which no plugin reads.
            else:
                self._put_new_nodes(new)
                self._change_node(info, old, shaped)
        self._put_new_nodes(new)
        return updates

    def _put_new_nodes(self, new: dict[str, ShapedNode]) -> None:
        """Nodes that are not here, or as ghosts, by name; `new` is empty then."""
        if not new:
            return
        self._new_node_infos([name for name in new if name not in self._node_infos])
        infos, shaped = [self._node_infos[name] for name in new], list(new.values())
        rows = np.array([info.row for info in infos], np.intp)
        resource_count = len(self.nodes.resources)
        write_node_columns(self.nodes, rows, shaped)
        self._recount(resource_count)
        for info, (node, _) in zip(infos, shaped, strict=True):
            info.node = node
            self._remember_images(node)
        self.nodes.set_present(rows, is_present=True)
        self._tree.add(rows, [node.metadata.labels or {} for node, _ in shaped])
        self._touch_nodes(rows)
        new.clear()

    def _change_node(self, info: NodeInfo, old: Node, shaped: ShapedNode) -> None:
        rows = np.array([info.row], np.intp)
        resource_count = len(self.nodes.resources)
        write_node_columns(self.nodes, rows, [shaped])
        self._recount(resource_count)
        self._forget_images(old)
        self._remember_images(shaped.node)
        info.node = shaped.node
        self._tree.update(info.row, shaped.node.metadata.labels or {})
        self._touch_nodes(rows)

    def _remember_images(self, node: Node) -> None:
        for image in node.status.images or ():
            for name in image.names or ():
                self._image_nodes[name] += 1
                if self._image_nodes[name] == 1:
                    self.nodes.image_sizes[name] = image.size_bytes
                    self.new_image_sizes[name] = image.size_bytes

    def _forget_images(self, node: Node) -> None:
        for image in node.status.images or ():
            for name in image.names or ():
                self._image_nodes[name] -= 1
                if self._image_nodes[name] <= 0:
                    del self._image_nodes[name]
                    del self.nodes.image_sizes[name]

    def _write_ports(self, info: NodeInfo) -> None:
        self.nodes.ports_id[info.row] = self.nodes.ports.id_of(info.ports)

    def _free_if_empty(self, info: NodeInfo) -> None:
        """Gives the row back once neither node nor pods need it."""
        if info.node is not None or info.pods:
            return
        del self._node_infos[info.name]
        self.nodes.unbind_name(info.row)
        self._free_rows.append(info.row)

    def _touch_usage(self, row: int) -> None:
        self.generation += 1
        self.nodes.generation[row] = self.generation
        self.journal.usage_changed(row)

    def _touch_node(self, row: int) -> None:
        self.generation += 1
        self.nodes.generation[row] = self.generation
        self.journal.node_changed(row)

    def _touch_nodes(self, rows: Rows) -> None:
        """The same as `_touch_node` for each."""
        first = self.generation + 1
        self.generation += len(rows)
        self.nodes.generation[rows] = np.arange(first, first + len(rows))
        self.journal.node.extend(rows.tolist())


def _taken(free: list[int], first: int, count: int) -> list[int]:
    """Rows in the order in which one by one would be taken: from the end of `free`, then from `first`
    on, where nothing has been yet."""
    taken = free[: -count - 1 : -1]
    del free[len(free) - len(taken) :]
    taken.extend(range(first, first + count - len(taken)))
    return taken


def _looks_the_same(old: Node, new: Node) -> bool:
    """Whether the columns of two states of a node are equal."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.status.allocatable == new.status.allocatable
        and old.status.images == new.status.images
        and old.status.declared_features == new.status.declared_features
    )
