"""What owner and workers see, as the oracle reads it: plain objects, put together anew each time.

Nothing of the columns that decide is read here but rows that stand for names. What an object comes to as
plain dictionaries is remembered, as objects never change.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from bench.sim.door import DOORS
from bench.sim.oracle import (
    OracleCluster,
    OracleNode,
    OraclePod,
    identity_of,
    node_of,
    pod_of_template,
)
from daemon.core.cache import Cache
from daemon.core.cached_nodes import CachedPod
from shared.columns.nomination_columns import Nomination
from shared.columns.schema import NO_NODE
from shared.framework.object_store import ObjectStore
from shared.kube.pod_record import PodRecord
from shared.kube.resources import ALL_KINDS, CustomObject
from workers.scorer.replica import Replica

Json = dict[str, Any]
TENTATIVE: Final = "tentative"
"""How uids begin of pods that a worker has placed and nobody has confirmed."""
OTHER_KINDS: Final = [
    *(kind.plural for kind in ALL_KINDS if kind.plural not in ("pods", "nodes")),
    DOORS,
]
CLAIMS: Final = "resourceclaims"


class ClassText(NamedTuple):
    """A pod class, as text."""

    namespace: str
    template: bytes


class Seen(NamedTuple):
    """The cluster as an owner saw it at one generation."""

    cluster: OracleCluster
    nominations: dict[str, tuple[Nomination, str]]
    """By uid, with the name of the node."""
    uids: dict[int, str]
    """Row of the pod table -> uid."""


class States:
    """Of one run: every state that was published."""

    def __init__(self) -> None:
        self._plain: dict[int, tuple[object, Json]] = {}
        self._nodes: dict[int, tuple[object, OracleNode]] = {}
        self._pods: dict[int, tuple[CachedPod, tuple[PodRecord, str, bool], OraclePod]] = {}
        self._classes: dict[tuple[int, int], ClassText] = {}
        """(epoch, id) -> class; ids are given once."""
        self._told: dict[str, dict[str, Json]] = {}
        self._told_of: tuple[ObjectStore | None, int] = None, -1
        """The store and its version of which these are the objects."""
        self._published: dict[tuple[int, int, int], Seen] = {}
        """(epoch, sequence, generation) -> what a copy of it holds."""

    # The owner's ------------------------------------------------------------------------------------

    def note_published(self, epoch: int, sequence: int, generation: int, cache: Cache) -> None:
        """A snapshot leaves the owner."""
        nominations = {
            each.uid: (each, cache.nodes.name_of(each.node_row))
            for each in cache.view.nominations.all()
        }
        uids = {held.row: held.record.uid for held in cache.pods()}
        seen = Seen(self.held_by(epoch, cache), nominations, uids)
        self._published[epoch, sequence, generation] = seen

    def held_by(self, epoch: int, cache: Cache, reserving: str = "") -> OracleCluster:
        """The cluster as an owner sees it now; without what it has just reserved for the pod `reserving`
        (uid)."""
        told, latest = self._objects(cache, reserving)
        namespaces = {
            name: value.get("metadata", {}).get("labels") or {}
            for name, value in told.get("namespaces", {}).items()
        }
        for pod_class in cache.classes:
            if (epoch, pod_class.class_id) not in self._classes:
                text = ClassText(*pod_class.key)
                self._classes[epoch, pod_class.class_id] = text
        return OracleCluster(
            [self._node(info.node) for info in cache.node_infos() if info.node is not None],
            [self._pod(held) for held in cache.pods()],
            namespaces,
            told,
            latest,
            [
                self._nominated(epoch, each, cache.nodes.name_of(each.node_row))
                for each in cache.view.nominations.all()
            ],
        )

    def _objects(self, cache: Cache, reserving: str) -> tuple[dict[str, dict[str, Json]], ...]:
        store = cache.objects
        if self._told_of != (store, store.version):
            self._told_of = store, store.version
            self._told = {
                kind: {key: self._as_plain(value) for key, value in store.all(kind).items()}
                for kind in OTHER_KINDS
            }
        told = self._told
        latest = dict(told)
        for kind in store.assumed_kinds():
            over = {
                key: self._as_plain(each.value)
                for key, each in store.assumed(kind).items()
                if each.pod_uids != (reserving,)
            }
            latest[kind] = told.get(kind, {}) | over
        return _with_shared(told, latest, store), latest

    def _as_plain(self, value: object) -> Json:
        found = self._plain.get(id(value))
        if found is None:
            if isinstance(value, CustomObject):
                plain: Json = value.decoded()
            else:
                plain = msgspec.to_builtins(value)
            found = self._plain[id(value)] = value, plain
        return found[1]

    def _node(self, node: object) -> OracleNode:
        found = self._nodes.get(id(node))
        if found is None:
            found = self._nodes[id(node)] = node, node_of(msgspec.to_builtins(node))
        return found[1]

    def _pod(self, held: CachedPod) -> OraclePod:
        found = self._pods.get(id(held))
        looked = (held.record, held.node_name, held.is_evicted)
        if found is None or found[1] != looked:
            pod = waiting(held.record, held.node_name)
            if (
                held.is_evicted
            ):  # It will be marked so; until then its preemptor waits in PreEnqueue.
                pod = replace(pod, is_preempted=True)
            found = self._pods[id(held)] = held, looked, pod
        return found[2]

    def _nominated(self, epoch: int, nomination: Nomination, node_name: str) -> OraclePod:
        """With the priority that its room is kept with: its own, or that of its group."""
        pod = self.of_class(epoch, nomination.class_id, nomination.uid, node_name)
        return replace(pod, spec={**pod.spec, "priority": nomination.priority})

    def of_class(self, epoch: int, class_id: int, uid: str, node_name: str = "") -> OraclePod:
        """Some pod of a class; that of a class of one has its name."""
        text = self._classes[epoch, class_id]
        name, own_uid = identity_of(text.template)
        key = f"{text.namespace}/{name}"
        return pod_of_template(uid or own_uid, key, text.template, node_name, is_terminating=False)

    def uids_at(self, replica: Replica, pod_rows: Sequence[int]) -> list[str]:
        """The pods that a worker means by rows of the pod table."""
        seen = self._published[replica.epoch, replica.sequence, replica.generation]
        return [seen.uids[row] for row in pod_rows]

    # A worker's -------------------------------------------------------------------------------------

    def copied_by(self, replica: Replica) -> OracleCluster | None:
        """The cluster as a worker sees it, by the generation that it says it has and by what it has
        placed since; None where no such state was published."""
        epoch = replica.epoch
        seen = self._published.get((epoch, replica.sequence, replica.generation))
        if seen is None:
            return None
        cluster, nodes = seen.cluster, replica.nodes
        placed = [
            self.of_class(epoch, each.class_id, f"{TENTATIVE} {i}", nodes.name_of(each.row))
            for i, each in enumerate(replica._tentative)  # noqa: SLF001 # Nobody else asks.
        ]
        nominations = dict(seen.nominations)
        for _, own in replica._own_nominations:  # noqa: SLF001 # The same.
            nominations[own.uid] = (
                own,
                "" if own.node_row == NO_NODE else nodes.name_of(own.node_row),
            )
        nominated = [
            self._nominated(epoch, each, name) for each, name in nominations.values() if name
        ]
        latest = _with_assumed(cluster.latest, replica, self._as_plain)
        return OracleCluster(
            cluster.nodes,
            [*cluster.pods, *placed],
            cluster.namespaces,
            _with_shared(cluster.told, latest, replica.objects),
            latest,
            nominated,
        )


def _with_assumed(latest: Any, replica: Replica, as_plain: Any) -> Any:
    """With what a worker has assumed for its own placements."""
    more = dict(latest)
    for kind in replica.objects.assumed_kinds():
        over = {key: as_plain(each.value) for key, each in replica.objects.assumed(kind).items()}
        more[kind] = more.get(kind, {}) | over
    return more


def _with_shared(told: Any, latest: Any, store: ObjectStore) -> Any:
    """Pods of the group that is being tried see devices of one another's as if all were told of them
    (`podGroupStateData` in dynamicresources/dynamicresources.go, v1.36.2)."""
    keys = [key for kind, key in store._of_group or () if kind == CLAIMS]  # noqa: SLF001 # The same.
    shared = {key: latest[CLAIMS][key] for key in keys if key in latest.get(CLAIMS, {})}
    return told | {CLAIMS: told.get(CLAIMS, {}) | shared} if shared else told


def waiting(record: PodRecord, node: str = "") -> OraclePod:
    """A pod as a record has it."""
    return pod_of_template(
        record.uid, record.key, bytes(record.template), node, is_terminating=bool(record.deleted),
        started=record.started, is_preempted=record.is_preempted,
        group=record.group_key if record.group else "",
    )  # fmt: skip
