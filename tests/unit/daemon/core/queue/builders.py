"""A queue with pods in it, in few words."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from daemon.core.cache import Cache
from daemon.core.queue.pod_line import QueueKey
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.scheduling_queue import PreEnqueue, SchedulingQueue
from shared.feature_gates import DEFAULT_GATES
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import PodView, Registrations
from shared.kube.pod_record import PodRecord, decode_template
from shared.plugin_names import SCHEDULING_GATES
from shared.plugins.gates import PrioritySort
from tests.support.builders import make_pod
from tests.support.wakeups import default_registrations, wakeups_of

by_priority: QueueKey = PrioritySort().queue_key
GATED: dict[str, Any] = {"schedulingGates": [{"name": "example.com/wait"}]}


def scheduling_gates(pod: QueuedPod) -> str | None:
    """SchedulingGates' PreEnqueue."""
    return SCHEDULING_GATES if pod.info.spec.scheduling_gates else None


def view_of(record: PodRecord) -> PodView:
    """The record with its decoded template."""
    return PodView(record, PodInfo(record.namespace, decode_template(record.template)))


class Bench:
    """A queue under test: pods by name, time moved by hand, invariants checked after each call."""

    def __init__(
        self,
        *,
        registrations: Registrations | None = None,
        pre_enqueue: PreEnqueue = scheduling_gates,
        queue_key: QueueKey = by_priority,
        **settings: Any,
    ) -> None:
        cache = Cache(DEFAULT_GATES)
        self.classes = cache.classes
        self.wakeups = wakeups_of(
            default_registrations() if registrations is None else registrations, cache.view
        )
        self.queue = SchedulingQueue(
            self.wakeups,
            start_s=0.0,
            release=self.classes.release,
            pre_enqueue=pre_enqueue,
            queue_key=queue_key,
            **{"leftover_after_s": 300.0, **settings},
        )

    def add(self, name: str, now_s: float = 0.0, **pod: Any) -> QueuedPod:
        return self.put(make_pod(name, uid=name, **pod), now_s)

    def put(self, record: PodRecord, now_s: float, *, is_update: bool = False) -> QueuedPod:
        put = self.queue.update if is_update else self.queue.add
        pod = put(record, self.classes.acquire(record), now_s)
        self.queue.check_invariants()
        return pod

    def update(self, name: str, now_s: float = 0.0, **pod: Any) -> QueuedPod:
        return self.put(make_pod(name, uid=name, **pod), now_s, is_update=True)

    def pop(self, now_s: float = 0.0, limit: int = 100) -> list[str]:
        popped = [pod.record.name for pod in self.queue.pop_batch(limit, now_s)]
        self.queue.check_invariants()
        return popped

    def park(
        self,
        name: str,
        plugins: Iterable[str],
        now_s: float = 0.0,
        pending: Iterable[str] = (),
        **pod: Any,
    ) -> QueuedPod:
        """A pod that is tried at once and rejected by the plugins."""
        queued = self.add(name, now_s, **pod)
        assert self.pop(now_s) == [name], "other pods are active"
        self.queue.requeue_unschedulable(name, plugins, pending, now_s)
        self.queue.check_invariants()
        return queued

    def moved(self, move: Callable[..., None], *told: Any) -> int:
        """How many pods the call brings to another place."""
        before = self.places()
        move(*told)
        return sum(place != before[name] for name, place in self.places().items())

    def places(self) -> dict[str, str]:
        """Name -> place; "gated" for those that a PreEnqueue plugin holds."""
        self.queue.check_invariants()
        return {pod.record.name: "gated" if pod.gated_by else pod.place.value for pod in self.queue}


def labels_of(labels: Mapping[str, str]) -> dict[str, Any]:
    """A required label selector, as in the API."""
    return {"labelSelector": {"matchLabels": dict(labels)}}
