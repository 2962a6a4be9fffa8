"""The cache: the pods on nodes, assumed pods, and the sums per node as columns.

The operations are kube-scheduler's (pkg/scheduler/backend/cache/cache.go, v1.36.2). The difference is
where the sums live: in a `NodeTable`, so that filters and scores are array arithmetic and a snapshot
is a copy of rows.

When the API server's word contradicts what is held here (a pod on another node than assumed, an
update of a pod never added), the server is right: the cache is repaired, and the disagreement is
kept for the caller to count and log. Only our own mistakes raise.

A pod is counted on a node from `assume_pod` or `add_pod` on. One that is assumed is then added (the API
server says so), forgotten, removed, or expires: only after `finish_binding`, and only where a time to
live is set.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import numpy as np

from daemon.core.cached_nodes import NO_CLAIMS, CachedNodes, CachedPod, NodeInfo, take_rows
from daemon.core.pod_classes import PodClass, PodClasses, Reclassed
from daemon.core.selected_labels import SelectedLabels, keys_of_object
from shared.columns.journal import Changes
from shared.columns.nomination_columns import Nomination
from shared.columns.pod_table import PodTable, group_id_of, name_hash, start_time_s
from shared.columns.schema import Rows
from shared.columns.usage import add_usage, add_usages
from shared.feature_gates import FeatureGates
from shared.framework.cluster_view import ClusterView
from shared.framework.object_store import ObjectStore
from shared.grouped import Grouped
from shared.kube.pod_record import PodRecord

RUN_LENGTH_MIN: Final = 4
"""Fewer pods than that are assumed faster one by one than by a dozen operations on arrays."""


class Cache(CachedNodes):
    """Nodes and pods as the scheduler must see them at this moment. One writer, no locks."""

    def __init__(
        self,
        gates: FeatureGates,
        assumed_pod_ttl_s: float = 0.0,
        labels_read: frozenset[str] | None = None,
    ) -> None:
        """`labels_read`: as `OwnerPlugins` has it."""
        super().__init__()
        self.objects = ObjectStore()
        self.pod_table = PodTable()
        self.classes = PodClasses(self.nodes, SelectedLabels(labels_read))
        self.view = ClusterView(
            self.nodes, self.objects, self.pod_table, self.classes.infos, self.journal, gates
        )
        self.disagreements: list[tuple[str, str, str]] = []
        """What the API server said against what is here: kind, pod, in words. For the caller to take."""
        self.nomination_news: dict[str, Nomination] = {}
        """By uid, the same; written by `daemon.core.nominations`."""
        self._ttl_s = assumed_pod_ttl_s
        self.grouped = Grouped[str, str, CachedPod]()
        """Pods on nodes by group and uid, assumed ones included."""
        self._pods: dict[str, CachedPod] = {}
        self._assumed: dict[str, CachedPod] = {}
        """Invariant: a subset of `_pods`."""
        self.get_pod: Callable[[str], CachedPod | None] = self._pods.get
        self.is_assumed_pod: Callable[[str], bool] = self._assumed.__contains__
        """By uid. Asked several times for each pod, so without a function around them."""
        self._expiring: deque[tuple[float, CachedPod]] = deque()
        """When each accepted binding's time is over, in that order; some were confirmed meanwhile."""
        self._object_bodies: dict[tuple[str, str], msgspec.Raw] = {}
        self.object_news: list[tuple[str, str, bytes]] = []
        """Kind, key and body (empty: it is gone) of those that changed since somebody last took this."""
        self.is_recounted = False
        """Classes in use have another usage than copies know; reset by whoever tells them."""
        self._free_pod_rows: list[int] = []

    def assume_pod(
        self, record: PodRecord, node_name: str, pod_class: PodClass | None = None
    ) -> None:
        """Counts a pod on a node before the API server knows. The pod must not be in the cache.
        `pod_class`: where it is in hand."""
        if pod_class is None:
            pod_class = self.classes.acquire(record)
        else:
            self.classes.retain(pod_class)
        pod = self._new_pod(record, pod_class, node_name)
        self._assumed[record.uid] = pod
        self._attach(pod)

    def assume_pods(
        self, records: list[PodRecord], rows: list[int], pod_class: PodClass
    ) -> list[str]:
        """As `assume_pod` for each, of pods of one class on distinct rows; the names of the nodes."""
        usage = pod_class.usage
        node_names = [self.nodes.name_of(row) for row in rows]
        if len(records) < RUN_LENGTH_MIN or usage.ports or pod_class.claim_keys:
            for record, node_name in zip(records, node_names, strict=True):
                self.assume_pod(record, node_name, pod_class)
            return node_names
        count = len(records)
        pod_rows = take_rows(self._free_pod_rows, self.pod_table.row_count, count)
        self.pod_table.reserve(max(pod_rows) + 1)
        generation = self.generation
        for index, (record, node_name) in enumerate(zip(records, node_names, strict=True)):
            pod = self._new_pod(record, pod_class, node_name)
            pod.row = pod_rows[index]
            pod.attached_at = generation + index + 1
            self._assumed[record.uid] = pod
            self._node_infos[node_name].pods[record.uid] = pod
            if record.group:
                self.grouped.put(pod.record.group_key, pod.record.uid, pod)
        self.classes.retain(pod_class, count)
        node_rows = np.array(rows, np.intp)
        add_usages(self.nodes, node_rows, 1, usage)
        self._write_new_pod_rows(records, pod_rows, node_rows, pod_class.class_id)
        self.journal.pods.extend(pod_rows)
        self._number_rows(node_rows)
        self.journal.usage.extend(rows)
        return node_names

    def finish_binding(self, uid: str, now_s: float) -> bool:
        """The binding was accepted: from now on the assumption expires, where a TTL is set. Says
        whether the pod is on a node here."""
        pod = self._assumed.get(uid)
        if pod is None:
            return uid in self._pods  # The watch was faster than the binder's report.
        pod.is_binding_finished = True
        if self._ttl_s > 0:
            self._expiring.append((now_s + self._ttl_s, pod))
        return True

    def forget_pod(self, uid: str) -> CachedPod | None:
        """Takes an assumption back; None where the pod is not assumed (any more)."""
        pod = self._assumed.get(uid)
        if pod is not None:
            self._drop(pod)
        return pod

    def cleanup_expired(self, now_s: float) -> list[CachedPod]:
        """Drops assumed pods whose confirmation did not come in time."""
        expired = []
        while self.next_wakeup_s() <= now_s:
            _, pod = self._expiring.popleft()
            self._drop(pod)
            expired.append(pod)
        return expired

    def next_wakeup_s(self) -> float:
        """When `cleanup_expired` next has something to do; infinite if never."""
        while self._expiring:
            deadline_s, pod = self._expiring[0]
            if self._assumed.get(pod.record.uid) is pod:
                return deadline_s
            self._expiring.popleft()
        return math.inf

    def mark_evicted(self, uid: str, *, is_evicted: bool) -> None:
        """A pod was ordered to go, or that order could not be carried out."""
        pod = self._pods.get(uid)
        if pod is not None and pod.is_evicted is not is_evicted:
            pod.is_evicted = is_evicted
            self._rewrite(pod)

    def add_pod(self, record: PodRecord) -> CachedPod:
        """A pod with a node was listed, added, or bound. Raises ObjectError for a record that cannot
        be read, and has changed nothing then."""
        pod = self._pods.get(record.uid)
        if (
            pod is not None
            and record.node_name == pod.node_name
            and record.group == pod.record.group
            and self.is_same_class(record, pod)
        ):  # No sum changes: so it is of nearly every binding.
            before = pod.record
            if record.started != before.started:
                start_time_s(record.started)  # Raises, if at all, before anything is changed.
            self._assumed.pop(record.uid, None)
            pod.record = record
            if (
                record.deleted != before.deleted
                or record.started != before.started
                or record.is_preempted != before.is_preempted
            ):
                self._rewrite(pod)
            return pod
        pod_class = self.classes.acquire(record)
        if pod is None:
            pod = self._new_pod(record, pod_class, record.node_name)
            self._attach(pod)
            return pod
        was_assumed = self._assumed.pop(record.uid, None) is not None
        there, now = pod.node_name, record.node_name
        if there != now and was_assumed:
            self._disagree("assumed elsewhere", pod, f"assumed on {there}, bound to {now}")
        elif there != now:
            self._disagree("moved", pod, f"was on {there}, is on {now}")
        self._replace(pod, record, pod_class, now)
        return pod

    def _replace(
        self, pod: CachedPod, record: PodRecord, pod_class: PodClass, node_name: str
    ) -> None:
        """Takes over the caller's share of the class."""
        self._detach(pod)
        self.classes.release(pod.pod_class)
        pod.record, pod.pod_class, pod.node_name = record, pod_class, node_name
        self._attach(pod)

    def reclass(self, reclassed: Reclassed) -> None:
        """Pods that were of one class may be told apart by now."""
        for pod in self.pods():
            pod_class = reclassed(pod.record, pod.pod_class)
            if pod_class is not None:
                self._replace(pod, pod.record, pod_class, pod.node_name)

    def is_same_class(self, record: PodRecord, pod: CachedPod) -> bool:
        """Whether the pod, as it is now, is of the class that it was of."""
        before = pod.record
        if record.template == before.template and record.namespace == before.namespace:
            msgspec.structs.force_setattr(record, "template", before.template)
            return True
        return self.classes.key_of(record) == pod.pod_class.key

    def remove_pod(self, uid: str) -> CachedPod | None:
        """A pod is gone or finished; None if it was not here."""
        pod = self._pods.get(uid)
        if pod is not None:
            self._drop(pod)
        return pod

    def unbind_pod(self, uid: str) -> None:
        """The API server shows a pod without a node that it showed on one: its data are older than they
        were (etcd was restored). It is believed, as in everything. kube-scheduler ends itself there and
        lists anew, which comes to the same."""
        pod = self._pods[uid]
        self._disagree("unbound", pod, f"was on {pod.node_name}, is on none")
        self._drop(pod)

    def pod_count(self) -> int:
        return len(self._pods)

    def assumed_pods(self) -> list[CachedPod]:
        return list(self._assumed.values())

    def pods(self) -> list[CachedPod]:
        return list(self._pods.values())

    def pods_in(self, rows: Iterable[int], generation: int) -> list[CachedPod] | None:
        """Those in these rows of the table, if all of them were there at that generation."""
        found: list[CachedPod] = []
        for row in dict.fromkeys(rows):
            is_used = 0 <= row < self.pod_table.row_count and self.pod_table.node_row[row] >= 0
            name = self.nodes.name_of(self.pod_table.node_row.item(row)) if is_used else ""
            held = self._node_infos[name].pods.values() if is_used else ()
            there = [pod for pod in held if pod.row == row and pod.attached_at <= generation]
            if not there:
                return None
            found += there
        return found

    def compact_names(self) -> bool:
        """As of the nodes, for pods too."""
        is_done = super().compact_names()
        if is_done:
            for pod_class in self.classes:
                pod_class.count_usage(self.nodes)
            self.view.forget_derived()
        return is_done

    def asked_in_vain(self, info: NodeInfo) -> dict[str, int]:
        """What the pods on a node ask for of resources that have no row, as no node has them. For
        people: no decision depends on it."""
        asked: Counter[str] = Counter()
        for pod in info.pods.values():
            for name, amount in pod.pod_class.info.requests.scalars.items():
                if amount and self.nodes.resources.find(name) < 0:
                    asked[name] += amount
        return dict(asked)

    def _count_new_resources(self, first_new: int) -> None:
        names = self.nodes.resources.values[first_new:]
        asking = {
            each
            for each in (self.classes if names else ())
            if not each.info.requests.scalars.keys().isdisjoint(names)
        }
        if not asking:
            return
        for pod_class in asking:
            pod_class.count_usage(self.nodes)
        for pod in self._pods.values():
            if pod.pod_class in asking:
                row = self._node_infos[pod.node_name].row
                self.nodes.requested[first_new:, row] += pod.pod_class.usage.amounts[first_new:]
                self._touch_usage(row)
        self.view.forget_derived()
        self.is_recounted = True

    def all_changes(self) -> Changes:
        """Every row, as if all of them had changed."""
        rows = self.nodes.named_rows()
        return Changes(rows, rows, self.pod_table.used_rows())

    def put_object(self, kind: str, key: str, body: msgspec.Raw, value: object) -> None:
        """Keeps an object, decoded for our plugins and as msgpack for the scorers'."""
        self.objects.put(kind, key, value)
        self.classes.select_by(keys_of_object(value))
        self._object_bodies[kind, key] = body
        self.object_news.append((kind, key, bytes(body)))

    def holds_object(self, kind: str, key: str, body: msgspec.Raw) -> bool:
        """Just as it is here."""
        return self._object_bodies.get((kind, key)) == body

    def remove_object(self, kind: str, key: str) -> bool:
        """Says whether it was here."""
        self.objects.remove(kind, key)
        is_here = self._object_bodies.pop((kind, key), None) is not None
        if is_here:
            self.object_news.append((kind, key, b""))
        return is_here

    def encoded_objects(self) -> list[tuple[str, str, bytes]]:
        """All of them, as a full snapshot carries them."""
        return [(kind, key, bytes(body)) for (kind, key), body in self._object_bodies.items()]

    def _write_new_pod_rows(
        self, records: list[PodRecord], pod_rows: list[int], node_rows: Rows, class_id: int
    ) -> None:
        """Rows of pods that are not evicted."""
        is_terminating = np.array([bool(record.deleted) for record in records])
        self.pod_table.write_rows(
            np.array(pod_rows, np.intp),
            np.full(len(pod_rows), class_id),
            node_rows.astype(np.int32),
            is_terminating,
            np.array([start_time_s(record.started) for record in records], np.int64),
            is_terminating & [record.is_preempted for record in records],
            np.array([name_hash(record.name) for record in records]),
            np.array([group_id_of(record) for record in records]),
        )

    def _new_pod(self, record: PodRecord, pod_class: PodClass, node_name: str) -> CachedPod:
        pod = CachedPod(record, pod_class, node_name)
        assert record.uid not in self._pods, f"pod {record.key} is assumed, and on a node already"
        self._pods[record.uid] = pod
        return pod

    def _rewrite(self, pod: CachedPod) -> None:
        row = self._node_infos[pod.node_name].row
        self._write_pod_row(pod, row)
        self._touch_usage(row)

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
        if pod.record.group:
            self.grouped.put(pod.record.group_key, pod.record.uid, pod)
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
            group_id=group_id_of(pod.record),
        )
        self.journal.pods.append(pod.row)

    def _detach(self, pod: CachedPod) -> None:
        info = self._node_infos[pod.node_name]
        del info.pods[pod.record.uid]
        if pod.record.group:
            self.grouped.drop(pod.record.group_key, pod.record.uid)
        add_usage(self.nodes, info.row, pod.pod_class.usage, -1)
        ports = pod.pod_class.usage.ports
        if ports:
            info.ports -= ports
            self._write_ports(info)
        claims = pod.pod_class.claim_keys
        if claims:
            info.pvc_refs = Counter(info.pvc_refs) - Counter(claims) or NO_CLAIMS
        self.pod_table.clear(pod.row)
        self._free_pod_rows.append(pod.row)
        self.journal.pods.append(pod.row)
        self._touch_usage(info.row)
        self._free_if_empty(info)

    def _disagree(self, kind: str, pod: CachedPod, detail: str) -> None:
        self.disagreements.append((kind, pod.record.key, detail))
