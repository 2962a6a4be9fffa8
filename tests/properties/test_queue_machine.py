"""The scheduling queue against a model that is slow and simple.

The model keeps one list of pods, sorts it to pop, walks through all of it for each event, remembers
every event for every pod in flight, and looks at each full second whether time has changed anything.
The queue is woken only when it asks for it. After each step both agree on where every pod is; so no
pod is lost or doubled, no event during an attempt is forgotten, and no wake-up comes too late.
"""

import math
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from daemon.core.pod_classes import PodClasses
from daemon.core.queue.queued_pod import Place
from daemon.core.queue.scheduling_queue import REFUSALS_IN_A_ROW_MAX, SchedulingQueue
from shared.columns.table import NodeTable
from shared.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    Resource,
)
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.kube.api.core_v1 import PodSchedulingGate, PodSpec
from shared.kube.pod_record import PodRecord, PodTemplate
from shared.plugin_names import SCHEDULING_GATES
from shared.plugins.gates import PrioritySort
from tests.support.builders import make_node
from tests.support.wakeups import wakeups_of
from tests.unit.daemon.core.queue.builders import scheduling_gates

NODE = make_node("n1")
UIDS = [f"u{i}" for i in range(8)]
EVENTS = [NODE_ADD, NODE_DELETE, ASSIGNED_POD_ADD]
INTERESTS: dict[str, list[ClusterEvent]] = {
    "A": [NODE_ADD],
    "B": [NODE_ADD, ASSIGNED_POD_ADD],
    "Deaf": [],
}
REGISTRATIONS = {
    "A": (ClusterEventWithHint(Resource.NODE, (Action.ADD,)),),
    "B": (
        ClusterEventWithHint(Resource.NODE, (Action.ADD,)),
        ClusterEventWithHint(Resource.ASSIGNED_POD, (Action.ADD,)),
    ),
    SCHEDULING_GATES: (
        ClusterEventWithHint(Resource.POD, (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,)),
    ),
}
PLUGIN_SETS = st.frozensets(st.sampled_from(sorted(INTERESTS)), max_size=2)


def record_of(uid: str, version: int, priority: int, *, is_gated: bool) -> PodRecord:
    gates = [PodSchedulingGate(name="wait")] if is_gated else None
    template = PodTemplate(spec=PodSpec(priority=priority, scheduling_gates=gates))
    return PodRecord(
        namespace="default",
        name=uid,
        uid=uid,
        resource_version=str(version),
        node_name="",
        deleted="",
        started="",
        nominated_node_name="",
        template=msgspec.Raw(msgspec.msgpack.encode(template)),
    )


class ModelPod:
    """What the model remembers of a pod."""

    def __init__(self, uid: str, priority: int, now_s: float, arrival: int) -> None:
        self.uid = uid
        self.priority = priority
        self.is_gated = False
        self.timestamp_s = now_s
        self.arrival = arrival
        self.place = Place.GONE
        self.is_returned = False
        self.attempts = 0
        self.rejections = 0
        self.errors = 0
        self.refusals = 0
        self.plugins: frozenset[str] = frozenset()
        self.pending: frozenset[str] = frozenset()
        self.is_held = False
        self.seen: list[ClusterEvent | str] = []
        """Events while it was in flight."""


class Model:
    """The rules of the queue, written down once more without any thought of speed."""

    def __init__(self, initial_s: float, max_s: float) -> None:
        self.initial_s = initial_s
        self.max_s = max_s
        self.pods: dict[str, ModelPod] = {}
        self.arrivals = 0

    def in_place(self, place: Place) -> list[ModelPod]:
        return [pod for pod in self.pods.values() if pod.place is place]

    def add(self, uid: str, priority: int, now_s: float, *, is_gated: bool) -> None:
        self.arrivals += 1
        pod = ModelPod(uid, priority, now_s, self.arrivals)
        pod.is_gated = is_gated
        self.pods[uid] = pod
        self.to_active(pod)

    def to_active(self, pod: ModelPod) -> None:
        if not self.is_stopped(pod):
            pod.place = Place.ACTIVE

    def is_stopped(self, pod: ModelPod) -> bool:
        pod.is_held = pod.is_gated
        if pod.is_gated:
            pod.plugins |= {SCHEDULING_GATES}
            pod.place = Place.UNSCHEDULABLE
        return pod.is_gated

    def end_s(self, pod: ModelPod) -> float:
        """When the back-off ends; it is over one second later."""
        count = pod.errors or pod.rejections
        if count == 0 or self.max_s == 0:
            return -math.inf
        wait_s = self.initial_s
        for _ in range(count - 1):
            wait_s = min(wait_s * 2, self.max_s)
        return math.floor(pod.timestamp_s + min(wait_s, self.max_s))

    def requeue(self, pod: ModelPod, strategy: str, now_s: float) -> None:
        if strategy == "skip":
            pod.place = Place.UNSCHEDULABLE
        elif strategy == "wait" and self.end_s(pod) >= math.floor(now_s):
            if not self.is_stopped(pod):
                pod.place = Place.BACKOFF
        else:
            self.to_active(pod)

    def verdict(self, pod: ModelPod, event: ClusterEvent | str) -> str:
        if isinstance(event, str):
            return "wait"
        interested = {name for name, events in INTERESTS.items() if event in events}
        if interested & pod.pending:
            return "now"
        return "wait" if interested & pod.plugins else "skip"

    def event(self, event: ClusterEvent, now_s: float) -> None:
        if not any(event in events for events in INTERESTS.values()):
            return
        for pod in self.in_place(Place.UNSCHEDULABLE):
            verdict = self.verdict(pod, event)
            if not pod.is_held and verdict != "skip":
                self.requeue(pod, verdict, now_s)
        for pod in self.in_place(Place.IN_FLIGHT):
            pod.seen.append(event)

    def pop(self, limit: int) -> list[str]:
        popped: list[str] = []
        while len(popped) < limit:
            active = self.in_place(Place.ACTIVE)
            rejected = [p for p in self.in_place(Place.BACKOFF) if p.plugins or p.pending]
            if active:
                pod = min(active, key=self.importance)
            elif rejected:
                pod = min(rejected, key=lambda p: (self.end_s(p), *self.importance(p)))
            else:
                break
            pod.place = Place.IN_FLIGHT
            pod.is_returned = False
            pod.attempts += 1
            pod.plugins = pod.pending = frozenset()
            pod.seen = []
            popped.append(pod.uid)
        return popped

    @staticmethod
    def importance(pod: ModelPod) -> tuple[int, bool, float, int]:
        return (-pod.priority, not pod.is_returned, pod.timestamp_s, pod.arrival)

    def reject(
        self, uid: str, plugins: frozenset[str], pending: frozenset[str], now_s: float
    ) -> None:
        pod = self.pods[uid]
        pod.refusals = 0
        pod.plugins, pod.pending = plugins, pending
        if plugins or pending:
            pod.rejections += 1
            pod.errors = 0
        else:
            pod.errors += 1
        self.arrivals += 1
        pod.timestamp_s, pod.arrival = now_s, self.arrivals
        verdicts = {self.verdict(pod, event) for event in pod.seen}
        if not plugins and not pending:
            verdicts = {"wait"}
        best = next((v for v in ("now", "wait") if v in verdicts), "skip")
        self.requeue(pod, best, now_s)

    def give_back(self, uid: str, now_s: float) -> None:
        pod = self.pods[uid]
        refusals = pod.refusals + 1
        if refusals > REFUSALS_IN_A_ROW_MAX:
            self.reject(uid, frozenset(), frozenset(), now_s)
        else:
            pod.place, pod.is_returned = Place.ACTIVE, True
            pod.attempts -= 1
        pod.refusals = refusals

    def tick(self, now_s: float) -> None:
        """A full second has come."""
        for pod in self.in_place(Place.BACKOFF):
            if self.end_s(pod) < now_s:
                pod.place = Place.ACTIVE
        if now_s % 30 == 0:
            parked = self.in_place(Place.UNSCHEDULABLE)
            overdue = [pod for pod in parked if now_s - pod.timestamp_s > 300]
            for pod in overdue:
                if not pod.is_held:
                    self.requeue(pod, "wait", now_s)
            if overdue:
                for pod in self.in_place(Place.IN_FLIGHT):
                    pod.seen.append("timeout")


class QueueMachine(RuleBasedStateMachine):
    """Random calls in any order that the owner could make them."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.version = 0

    @initialize(backoff=st.sampled_from([(1.0, 10.0), (3.0, 4.0), (2.0, 0.0)]))
    def start(self, backoff: tuple[float, float]) -> None:
        self.model = Model(*backoff)
        self.classes = PodClasses(NodeTable())
        self.queue = SchedulingQueue(
            wakeups_of(REGISTRATIONS),
            start_s=0.0,
            release=self.classes.release,
            initial_backoff_s=backoff[0],
            max_backoff_s=backoff[1],
            pre_enqueue=scheduling_gates,
            queue_key=PrioritySort().queue_key,
            leftover_after_s=300.0,
        )

    def put(self, uid: str, priority: int, *, is_gated: bool) -> None:
        self.version += 1
        record = record_of(uid, self.version, priority, is_gated=is_gated)
        put = self.queue.add if self.queue.get(uid) is None else self.queue.update
        pod = put(record, self.classes.acquire(record), self.now_s)
        assert pod.record is record

    @rule(
        uid=st.sampled_from(UIDS),
        priority=st.sampled_from([0, 10]),
        is_gated=st.sampled_from([False, False, False, True]),
    )
    def add(self, uid: str, priority: int, is_gated: bool) -> None:
        if uid in self.model.pods:
            return
        self.model.add(uid, priority, self.now_s, is_gated=is_gated)
        self.put(uid, priority, is_gated=is_gated)

    @rule(data=st.data())
    @precondition(lambda self: self.model.pods)
    def update(self, data: st.DataObject) -> None:
        """Gates can only be taken away; nothing else of a pod that matters here can change."""
        pod = self.model.pods[data.draw(st.sampled_from(sorted(self.model.pods)))]
        is_opened = pod.is_gated and data.draw(st.booleans())
        pod.is_gated = pod.is_gated and not is_opened
        if is_opened:
            assert pod.place is Place.UNSCHEDULABLE
            self.model.requeue(pod, "wait", self.now_s)
        self.put(pod.uid, pod.priority, is_gated=pod.is_gated)

    @rule(limit=st.integers(1, 4))
    def pop(self, limit: int) -> None:
        expected = self.model.pop(limit)
        popped = self.queue.pop_batch(limit, self.now_s)
        assert [pod.record.uid for pod in popped] == expected
        for pod in popped:
            assert pod.attempts == self.model.pods[pod.record.uid].attempts

    def _in_flight(self) -> list[str]:
        return sorted(pod.uid for pod in self.model.in_place(Place.IN_FLIGHT))

    @rule(data=st.data(), plugins=PLUGIN_SETS, pending=PLUGIN_SETS)
    @precondition(lambda self: self._in_flight())
    def reject(self, data: st.DataObject, plugins: frozenset[str], pending: frozenset[str]) -> None:
        uid = data.draw(st.sampled_from(self._in_flight()))
        self.model.reject(uid, plugins, pending, self.now_s)
        place = self.queue.requeue_unschedulable(uid, plugins, pending, self.now_s)
        assert place is self.model.pods[uid].place

    @rule(data=st.data(), plugins=PLUGIN_SETS, pending=PLUGIN_SETS)
    @precondition(lambda self: self.model.pods)
    def attempt(
        self, data: st.DataObject, plugins: frozenset[str], pending: frozenset[str]
    ) -> None:
        """One pod is tried while things happen, and rejected."""
        self.pop(1)
        for event in data.draw(st.lists(st.sampled_from(EVENTS), max_size=2)):
            self.event(event)
        if self._in_flight():
            self.reject(data, plugins, pending)

    @rule(data=st.data(), how=st.sampled_from(["delete", "bind", "give back"]))
    @precondition(lambda self: self._in_flight())
    def end_otherwise(self, data: st.DataObject, how: str) -> None:
        uid = data.draw(st.sampled_from(self._in_flight()))
        if how == "give back":
            self.model.give_back(uid, self.now_s)
            assert self.queue.requeue_head(uid, self.now_s) is self.model.pods[uid].place
            return
        del self.model.pods[uid]
        end = self.queue.delete if how == "delete" else self.queue.done
        assert end(uid) is not None
        assert end(uid) is None

    @rule(times=st.integers(REFUSALS_IN_A_ROW_MAX, REFUSALS_IN_A_ROW_MAX + 2))
    @precondition(lambda self: self.model.pods)
    def refuse(self, times: int) -> None:
        """Whatever is proposed for a pod is refused."""
        for _ in range(times):
            self.pop(1)
            for uid in self._in_flight()[:1]:
                self.model.give_back(uid, self.now_s)
                assert self.queue.requeue_head(uid, self.now_s) is self.model.pods[uid].place

    @rule(data=st.data())
    @precondition(lambda self: len(self.model.pods) > 5)
    def delete(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.model.pods)))
        del self.model.pods[uid]
        assert self.queue.delete(uid) is not None

    @rule(event=st.sampled_from(EVENTS))
    def event(self, event: ClusterEvent) -> None:
        self.model.event(event, self.now_s)
        self.queue.move_all_to_active_or_backoff(event, None, NODE, self.now_s)

    @rule(uid=st.sampled_from(UIDS))
    def activate(self, uid: str) -> None:
        pod = self.model.pods.get(uid)
        if pod is not None and pod.place is Place.IN_FLIGHT:
            pod.seen.append("activated")
        elif pod is not None and pod.place is not Place.ACTIVE:
            self.model.to_active(pod)
        self.queue.activate([uid], self.now_s)

    @rule(by_s=st.sampled_from([0.25, 0.25, 0.5, 1.0, 1.0, 2.75, 31.0, 290.0]))
    def wait(self, by_s: float) -> None:
        """The model looks every second, the queue only when it asked to be woken."""
        until_s = self.now_s + by_s
        for second in range(math.floor(self.now_s) + 1, math.floor(until_s) + 1):
            self.model.tick(float(second))
        wakeups = 0
        while (wakeup_s := self.queue.next_wakeup_s()) <= until_s:
            self.queue.flush(max(wakeup_s, self.now_s))
            assert self.queue.next_wakeup_s() > wakeup_s, "it asks for the same wake-up again"
            wakeups += 1
            assert wakeups <= by_s + 2, "woken more often than once a second"
        self.now_s = until_s

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.queue.check_invariants()
        actual: dict[str, Any] = {
            pod.record.uid: (pod.place, bool(pod.gated_by)) for pod in self.queue
        }
        expected = {
            pod.uid: (pod.place, pod.place is Place.UNSCHEDULABLE and pod.is_held)
            for pod in self.model.pods.values()
        }
        assert actual == expected
        # Each pod has one share of its class, and nobody else has any.
        assert sum(pod_class.pod_count for pod_class in self.classes) == len(self.queue)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=100, stateful_step_count=60)
