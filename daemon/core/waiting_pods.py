"""Pods that are assumed and wait for Permit plugins, and what plugins may do about them.

They live in the owner, with the assumption that they are one half of: no binder knows of them, so one
that dies loses none, and a waiting pod takes nobody's place among the bindings. It is in memory only.
After the owner's death nothing of it was told to anybody: the pods are pending, as ever, and are
scheduled anew.

Decisions are taken down where they are made (in a plugin's `permit` or `unreserve`, or by the clock)
and carried out by the state afterwards, so that no plugin is called from within another's call.

Rules: RunPermitPlugins and WaitOnPermit in pkg/scheduler/framework/runtime/framework.go and
waiting_pods_map.go, v1.36.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.queue.scheduling_queue import SchedulingQueue
from shared.durations import duration_text
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import PERMIT_TIMEOUT_MAX_S, HandleUser, WaitingReviewer
from shared.framework.pod_info import PodInfo
from shared.framework.status import SUCCESS, Code, Status
from shared.kube.pod_record import PodRecord

PREEMPTED: Final = "waiting on permit for pod: preempted"
"""As WaitOnPermit tells an error."""
REMOVED: Final = "removed"


class Waiting(msgspec.Struct, eq=False):
    """One pod; see `shared.framework.plugin_api.WaitingPod` for what plugins make of it."""

    record: PodRecord
    pod: PodInfo
    node_name: str
    work: dict[str, bytes]
    _ends: dict[str, tuple[float, float]]
    """Plugin -> (when its time is over, how long that was)."""
    _decided: list["Waiting"]
    since_s: float
    """When it began to wait."""
    decision: Status | None = None
    """SUCCESS, the rejection with its plugin, or the error; None as long as it waits."""

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        return tuple(self._ends)

    def allow(self, plugin_name: str) -> None:
        self._ends.pop(plugin_name, None)
        if not self._ends:
            self.decide(SUCCESS)

    def reject(self, plugin_name: str, message: str) -> None:
        self.decide(Status(Code.UNSCHEDULABLE, (message,), plugin_name))

    def decide(self, status: Status) -> None:
        """The first decision counts."""
        if self.decision is None:
            self.decision = status
            self._decided.append(self)

    @property
    def end_s(self) -> float:
        return min(end_s for end_s, _ in self._ends.values())

    def expire(self, now_s: float) -> None:
        """Rejects the pod if a plugin's time is over; of several, by the one that was first."""
        end_s, timeout_s, plugin = min((*end, name) for name, end in self._ends.items())
        if now_s >= end_s:
            span = duration_text(timeout_s)
            self.reject(plugin, f"rejected due to timeout after waiting {span} at plugin {plugin}")


class WaitingPods:
    """All of them. Is the `Handle` of the plugins, too."""

    def __init__(self, plugins: OwnerPlugins, queue: SchedulingQueue, cluster: ClusterView) -> None:
        self._plugins = {profile: each for profile, each in plugins.permit.items() if each}
        self._queue = queue
        self._cluster = cluster
        self.by_uid: dict[str, Waiting] = {}
        """Those that were decided about and not taken yet included."""
        self._decided: list[Waiting] = []
        self.to_activate: dict[str, None] = {}
        """Uids of pods that plugins ask for, until somebody has taken them."""
        self._next_end_s = math.inf
        """No pod's time is over before."""
        self._reviewers = {
            plugin.NAME: plugin
            for each in self._plugins.values()
            for plugin in each
            if isinstance(plugin, WaitingReviewer)
        }
        for user in {id(plugin): plugin for plugin in plugins.everyone()}.values():
            if isinstance(user, HandleUser):
                user.use_handle(self)

    def waiting_pods(self) -> Iterator[Waiting]:
        return iter([each for each in self.by_uid.values() if each.decision is None])

    def waiting_pod(self, uid: str) -> Waiting | None:
        found = self.by_uid.get(uid)
        return None if found is None or found.decision is not None else found

    def pending_pods(self) -> Iterator[PodRecord]:
        return (pod.record for pod in self._queue)

    def activate(self, uids: Iterable[str]) -> None:
        self.to_activate.update(dict.fromkeys(uids))

    def run_permit(
        self, record: PodRecord, pod: PodInfo, node_name: str, work: dict[str, bytes], now_s: float
    ) -> Status:
        """SUCCESS: bind it. WAIT: it is kept here. Else the rejection or error, with its plugin."""
        row = self._cluster.nodes.row_of(node_name)
        ends: dict[str, tuple[float, float]] = {}
        for plugin in self._plugins.get(pod.spec.scheduler_name, ()):
            status, timeout_s = plugin.permit(record, pod, self._cluster, row)
            if status.code is Code.WAIT:
                span_s = min(timeout_s, PERMIT_TIMEOUT_MAX_S)
                ends[plugin.NAME] = (now_s + span_s, span_s)
            elif status.is_rejected:
                return status._replace(plugin=plugin.NAME)
            elif not status.is_success:
                text = f'running Permit plugin "{plugin.NAME}": {status.message}'
                return Status(Code.ERROR, (text,), plugin.NAME)
        if not ends:
            return SUCCESS
        waiting = Waiting(record, pod, node_name, work, ends, self._decided, now_s)
        self.by_uid[record.uid] = waiting
        self._next_end_s = min(self._next_end_s, waiting.end_s)
        return Status(Code.WAIT)

    def preempt(self, uid: str) -> bool:
        """Has a waiting pod make room: it goes back to the queue, undeleted. Whether it was waiting."""
        waiting = self.waiting_pod(uid)
        if waiting is not None:
            waiting.decide(Status(Code.ERROR, (PREEMPTED,)))
        return waiting is not None

    def reject_deleted(self, uid: str) -> bool:
        """A waiting pod is being deleted: it need not wait for that. Whether it gives its room up that
        way (RejectWaitingPod upstream)."""
        waiting = self.by_uid.get(uid)
        if waiting is None:
            return False
        waiting.reject("", REMOVED)
        return waiting.decision is None or not waiting.decision.is_success

    def review(self, now_s: float) -> None:
        """Lets the clock decide, and the plugins that look at the cluster."""
        if self._reviewers:
            pending = {name for each in self.waiting_pods() for name in each.pending_plugins}
            for name, plugin in self._reviewers.items():
                if name in pending:
                    plugin.review_waiting(self._cluster)
        if now_s >= self._next_end_s:
            for each in self.waiting_pods():
                each.expire(now_s)
            left = [each.end_s for each in self.waiting_pods()]
            self._next_end_s = min(left, default=math.inf)

    def take_decided(self) -> list[Waiting]:
        """Pods that wait no more, in the order of the decisions. A plugin may have decided about one
        that was dropped meanwhile."""
        decided = [each for each in self._decided if self.by_uid.get(each.record.uid) is each]
        for each in decided:
            del self.by_uid[each.record.uid]
        self._decided.clear()
        return decided

    def next_wakeup_s(self) -> float:
        return self._next_end_s if self.by_uid else math.inf
