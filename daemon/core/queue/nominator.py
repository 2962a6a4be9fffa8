"""Pods that preemption gave a node to, before they are placed on it.

Whoever filters a node counts the pods nominated to it that matter as much as the pod at hand. Apart
from the cache because a nominated pod is still pending: it is in the queue, and only the queue hears
of its updates.

Rules: pkg/scheduler/backend/queue/nominator.go, v1.36.
"""

from collections.abc import Callable

from shared.kube.pod_record import PodRecord


class Nominator:
    def __init__(self) -> None:
        self.node_by_uid: dict[str, str] = {}
        self.node_of: Callable[[str], str | None] = self.node_by_uid.get
        self.changed: dict[str, None] = {}
        """Pods nominated, not nominated any more, or changed, since somebody last took this."""
        self.priorities: dict[str, int] = {}
        """Of those whose room is kept from whoever matters less than that, or as much."""

    def nominate(self, uid: str, node_name: str, priority: int | None = None) -> None:
        """Nominates a pod, in place of an earlier nomination; an empty name only clears that.
        `priority`: as the pod has it if nothing is said."""
        self.clear(uid)
        if not node_name:
            return
        self.node_by_uid[uid] = node_name
        self.changed[uid] = None
        if priority is not None:
            self.priorities[uid] = priority

    def clear(self, uid: str) -> None:
        """Ends a pod's nomination, if it has one."""
        if self.node_by_uid.pop(uid, None) is not None:
            self.changed[uid] = None
            self.priorities.pop(uid, None)

    def touch(self, uid: str) -> None:
        """The pod's class or priority may be another."""
        if uid in self.node_by_uid:
            self.changed[uid] = None

    def update(self, old: PodRecord, new: PodRecord) -> None:
        """Follows the API object, except where we nominated and the server does not know it yet."""
        self.touch(new.uid)
        if not old.nominated_node_name and not new.nominated_node_name:
            return
        self.nominate(new.uid, new.nominated_node_name)
