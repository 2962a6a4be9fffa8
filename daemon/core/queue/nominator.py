"""Pods that preemption gave a node to, before they are placed on it.

Whoever filters a node counts the pods nominated to it that matter as much as the pod at hand. Apart
from the cache because a nominated pod is still pending: it is in the queue, and only the queue hears
of its updates.

Rules: pkg/scheduler/backend/queue/nominator.go, v1.36.
"""

from shared.ids import NodeName, PodUid
from shared.kube.pod_record import PodRecord


class Nominator:
    """Which pending pod is nominated to which node."""

    def __init__(self) -> None:
        self._node_by_uid: dict[PodUid, NodeName] = {}
        self._uids_by_node: dict[NodeName, dict[PodUid, None]] = {}
        self.changed: dict[PodUid, None] = {}
        """Pods nominated, not nominated any more, or changed, since somebody last took this."""

    def __len__(self) -> int:
        return len(self._node_by_uid)

    def node_of(self, uid: PodUid) -> NodeName | None:
        """The node that a pod is nominated to."""
        return self._node_by_uid.get(uid)

    def pods_of(self, node_name: NodeName) -> tuple[PodUid, ...]:
        """The pods nominated to a node, in the order of their nomination."""
        return tuple(self._uids_by_node.get(node_name, ()))

    def nominate(self, uid: PodUid, node_name: NodeName) -> None:
        """Nominates a pod, in place of an earlier nomination; an empty name only clears that."""
        self.clear(uid)
        if not node_name:
            return
        self._node_by_uid[uid] = node_name
        self.changed[uid] = None
        self._uids_by_node.setdefault(node_name, {})[uid] = None

    def clear(self, uid: PodUid) -> None:
        """Ends a pod's nomination, if it has one."""
        node_name = self._node_by_uid.pop(uid, None)
        if node_name is None:
            return
        self.changed[uid] = None
        uids = self._uids_by_node[node_name]
        del uids[uid]
        if not uids:
            del self._uids_by_node[node_name]

    def uids(self) -> list[PodUid]:
        """All that are nominated."""
        return list(self._node_by_uid)

    def update(self, old: PodRecord, new: PodRecord) -> None:
        """Follows the API object, except where we nominated and the server does not know it yet."""
        if new.uid in self._node_by_uid:
            self.changed[PodUid(new.uid)] = None  # Its class or priority may be another.
        if not old.nominated_node_name and not new.nominated_node_name:
            return
        self.nominate(PodUid(new.uid), NodeName(new.nominated_node_name))

    def check_invariants(self) -> None:
        """Raises AssertionError if the two directions contradict one another."""
        pairs = {(uid, node) for node, uids in self._uids_by_node.items() for uid in uids}
        assert pairs == set(self._node_by_uid.items()), "nominations by pod and by node differ"
        assert all(self._uids_by_node.values()), "a node without nominations is kept"
