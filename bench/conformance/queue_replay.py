"""Families `queue` and `hints`: the scheduling queue and its hints on their own, without processes.

`queue`: whole histories of a queue, compared after every step. `hints`: what each plugin says of each
event for each pending pod.

The recorder asked the hints with the objects as they were at the start of a scenario: changes of
device classes and claims among the events do not show in what later hints look up. The replay does
the same; the owner, as kube-scheduler does in a cluster, looks them up as they are.
"""

from typing import Any, Final, NamedTuple

import msgspec

from bench.conformance.scenario import CorpusError
from daemon.core.administration import by_place
from daemon.core.pod_classes import PodClasses
from daemon.core.queue.object_changes import node_update_events, pod_update_events
from daemon.core.queue.queued_pod import Place, QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from daemon.core.queue.wakeups import Strategy, Wakeups
from shared.columns.journal import Journal
from shared.columns.pod_table import PodTable
from shared.columns.table import NodeTable
from shared.feature_gates import DEFAULT_GATES
from shared.framework.cluster_event import Action, ClusterEvent, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.object_store import ObjectStore
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ChangedObject, PodView
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.api.core_v1 import Node, PersistentVolumeClaim, Pod
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.resource_v1_devices import DeviceClass
from shared.kube.api.storage_v1 import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from shared.kube.pod_record import decode_template, split_pod
from shared.plugin_names import SCHEDULING_GATES
from shared.plugins.gates import PrioritySort
from shared.plugins.in_tree import InTreeRegistry

Json = dict[str, Any]

OP_MS: Final = 1
SECOND_MS: Final = 1000


class Kind(NamedTuple):
    """A kind of the corpus."""

    struct: Any
    resource: Resource
    plural: str


KINDS: Final = {
    "nodes": Kind(Node, Resource.NODE, "nodes"),
    "pvs": Kind(PersistentVolume, Resource.PERSISTENT_VOLUME, "persistentvolumes"),
    "pvcs": Kind(PersistentVolumeClaim, Resource.PERSISTENT_VOLUME_CLAIM, "persistentvolumeclaims"),
    "storageclasses": Kind(StorageClass, Resource.STORAGE_CLASS, "storageclasses"),
    "csinodes": Kind(CsiNode, Resource.CSI_NODE, "csinodes"),
    "csidrivers": Kind(CsiDriver, Resource.CSI_DRIVER, "csidrivers"),
    "csistoragecapacities": Kind(
        CsiStorageCapacity, Resource.CSI_STORAGE_CAPACITY, "csistoragecapacities"
    ),
    "volumeattachments": Kind(VolumeAttachment, Resource.VOLUME_ATTACHMENT, "volumeattachments"),
    "deviceclasses": Kind(DeviceClass, Resource.DEVICE_CLASS, "deviceclasses"),
}


class Decoded(NamedTuple):
    """An event of the corpus and what it is taken for."""

    events: list[ClusterEvent]
    old: ChangedObject | None
    new: ChangedObject | None


def view_of(body: Json | None) -> PodView | None:
    """A pod of the corpus as hints see it."""
    if body is None:
        return None
    record = split_pod(msgspec.convert(body, Pod))
    return PodView(record, PodInfo(record.namespace, decode_template(record.template)))


def change_of(event: Json) -> Decoded:
    """What an event of the corpus stands for."""
    bodies = event.get("old"), event.get("new")
    action = Action.UPDATE
    if None in bodies:
        action = Action.ADD if bodies[1] is not None else Action.DELETE
    if event["kind"] == "pods":
        was, now = view_of(bodies[0]), view_of(bodies[1])
        if was is not None and now is not None:
            return Decoded(pod_update_events(was, now), was, now)
        return Decoded([ClusterEvent(Resource.ASSIGNED_POD, action)], was, now)
    kind = KINDS[event["kind"]]
    old, new = (msgspec.convert(b, kind.struct) if b is not None else None for b in bodies)
    if isinstance(old, Node) and isinstance(new, Node):
        return Decoded(node_update_events(old, new), old, new)
    return Decoded([ClusterEvent(kind.resource, action)], old, new)


def store_of(objects: Json) -> ObjectStore:
    """The objects that hints look up."""
    store = ObjectStore()
    for name, kind in KINDS.items():
        for body in objects.get(name) or () if name != "nodes" else ():
            meta = body["metadata"]
            key = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
            store.put(kind.plural, key, msgspec.convert(body, kind.struct))
    return store


# queue --------------------------------------------------------------------------------------------


class QueueReplay:
    """A queue with a clock that the scenario sets."""

    def __init__(self, scenario: Json) -> None:
        self._classes = PodClasses(NodeTable())
        wakeups = wakeups_of(store_of(scenario["objects"]), self._classes.infos)
        self.queue = SchedulingQueue(
            wakeups,
            start_s=0.0,
            release=self._classes.release,
            initial_backoff_s=scenario.get("initial_backoff_seconds", 1),
            max_backoff_s=scenario.get("max_backoff_seconds", 10),
            pre_enqueue=lambda pod: SCHEDULING_GATES if pod.info.spec.scheduling_gates else None,
            queue_key=PrioritySort().queue_key,
            leftover_after_s=300.0,
        )
        self.now_ms = 0
        self.tried: list[QueuedPod] = []

    def step(self, op: Json) -> Json:
        """Does one op; what the corpus says of it, and the state after it."""
        shown = self._do(op, self.now_ms / SECOND_MS)
        self._advance(self.now_ms + OP_MS)
        self.queue.check_invariants()
        return {**shown, "now": self.now_ms / SECOND_MS, "state": self._state()}

    def _do(self, op: Json, now_s: float) -> Json:
        match op["op"]:
            case "advance":
                self._advance(self.now_ms + op["millis"])
            case "add" | "update":
                self._put(op, now_s)
            case "delete":
                gone = self.queue.delete(op["old"]["metadata"]["uid"])
                self.tried = [pod for pod in self.tried if pod is not gone]
            case "pop":
                return self._pop(now_s)
            case "reject" | "error" | "bound":
                return self._end_attempt(op, now_s)
            case "event":
                events, old, new = change_of(op)
                for event in events:
                    self.queue.move_all_to_active_or_backoff(event, old, new, now_s)
                return {"events": [event.label for event in events]}
            case unknown:
                raise CorpusError(f"has an op that the replay lacks: {unknown}")
        return {}

    def _put(self, op: Json, now_s: float) -> None:
        record = split_pod(msgspec.convert(op["new"], Pod))
        put = self.queue.add if self.queue.get(record.uid) is None else self.queue.update
        put(record, self._classes.acquire(record), now_s)

    def _pop(self, now_s: float) -> Json:
        popped = self.queue.pop_batch(1, now_s)
        if not popped:
            return {"pod": None}
        self.tried += popped
        return {"pod": popped[0].key, "attempts": popped[0].attempts}

    def _end_attempt(self, op: Json, now_s: float) -> Json:
        if not self.tried:
            return {}
        pod = self.tried.pop(op.get("which", 0) % len(self.tried))
        if op["op"] == "reject":
            self.queue.requeue_unschedulable(pod.uid, op["plugins"], (), now_s)
        elif op["op"] == "error":
            self.queue.requeue_unschedulable(pod.uid, (), (), now_s)
        else:
            self.queue.done(pod.uid)
        return {"pod": pod.key}

    def _advance(self, until_ms: int) -> None:
        """Wakes the queue when it asked for it, and at no other time."""
        while (wakeup_ms := self.queue.next_wakeup_s() * SECOND_MS) <= until_ms:
            self.queue.flush(max(wakeup_ms, self.now_ms) / SECOND_MS)
        self.now_ms = until_ms

    def _state(self) -> Json:
        state: Json = {"active": [], "backoff": {}, "unschedulable": {}}
        state["in_flight"] = [pod.key for pod in self.tried]
        for pod in by_place(self.queue):
            match pod.place:
                case Place.ACTIVE:
                    state["active"].append(pod.key)
                case Place.BACKOFF:
                    state["backoff"][pod.key] = pod.backoff_until_s
                case Place.UNSCHEDULABLE:
                    shown: Json = {"plugins": sorted(pod.unschedulable_plugins)}
                    if pod.gated_by:
                        shown["gated_by"] = pod.gated_by
                    state["unschedulable"][pod.key] = shown
                case _:
                    assert pod.place is Place.IN_FLIGHT, f"{pod.key} is {pod.place}"
        return state


def queue_differences(scenario: Json, expected: Json) -> list[str]:
    """The first step of a history that came out otherwise; nothing after it can be compared."""
    replay = QueueReplay(scenario)
    for index, (op, step) in enumerate(zip(scenario["ops"], expected["steps"], strict=True)):
        actual = replay.step(op)
        if actual != step:
            return [f"step {index} ({op['op']}): expected {step}, got {actual}"]
    return []


def wakeups_of(objects: ObjectStore, classes: dict[int, PodInfo]) -> Wakeups:
    """What the default profile's plugins register, with these objects and classes of pods to look up."""
    built = InTreeRegistry(entry_points=()).build(ProfileConfig())
    cluster = ClusterView(NodeTable(), objects, PodTable(), classes, Journal(), DEFAULT_GATES)
    return Wakeups({built.scheduler_name: built.registrations}, cluster)


# hints --------------------------------------------------------------------------------------------


def hints_of(
    wakeups: Wakeups, event: ClusterEvent, change: Decoded, pending: dict[str, QueuedPod]
) -> Json:
    """Pod -> plugin -> hint, for those who are asked."""
    asked = pending
    if event.resource is Resource.UNSCHEDULABLE_POD:
        assert isinstance(change.new, PodView)
        asked = {change.new.record.key: pending[change.new.record.key]}
    found: Json = {}
    for key, pod in asked.items():
        for plugin in wakeups.interested.get(event, ()):
            helps = hint_of(wakeups, plugin, pod, Change(event, change.old, change.new))
            found.setdefault(key, {})[plugin] = "Queue" if helps else "Skip"
    return found


def hint_of(wakeups: Wakeups, plugin: str, pod: QueuedPod, change: Change) -> bool:
    """What comes of an event for a pod that one plugin alone rejected."""
    rejected = msgspec.structs.replace(pod, unschedulable_plugins=frozenset({plugin}))
    return wakeups.strategy(rejected, change) is not Strategy.SKIP


def queued(view: PodView) -> QueuedPod:
    """The pod as if it waited in the queue; hints read nothing of where."""
    pod_class = PodClasses(NodeTable()).acquire(view.record)
    return QueuedPod(
        record=view.record,
        pod_class=pod_class,
        tried_as=pod_class,
        priority=0,
        timestamp_s=0.0,
        arrival=0,
        added_s=0.0,
    )


def hint_differences(scenario: Json, expected: Json) -> list[str]:
    """Where a plugin says something else of an event, or an event is taken for something else."""
    wakeups = wakeups_of(store_of(scenario["objects"]), {})
    views = [view_of(body) for body in scenario["pending"]]
    pending = {view.record.key: queued(view) for view in views if view is not None}
    found: list[str] = []
    for index, (event, recorded) in enumerate(
        zip(scenario["events"], expected["events"], strict=True)
    ):
        change = change_of(event)
        if isinstance(change.new, PodView) and not change.new.record.node_name:
            pending[change.new.record.key] = queued(change.new)
        taken_for = [(str(e.resource), e.action.value) for e in change.events]
        wanted = [(e["resource"], e["action"]) for e in recorded["cluster_events"]]
        if taken_for != wanted:
            found.append(f"event {index}: expected {wanted}, got {taken_for}")
            continue
        for cluster_event, one in zip(change.events, recorded["cluster_events"], strict=True):
            actual = hints_of(wakeups, cluster_event, change, pending)
            if actual != one["hints"]:
                told = f"expected {one['hints']}, got {actual}"
                found.append(f"event {index} ({cluster_event.label}): {told}")
    return found
