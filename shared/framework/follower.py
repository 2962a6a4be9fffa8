"""Follower: where somebody stands who keeps up with a cluster, and what happened since.

Whatever is worked out of a view and kept (an evaluation, an index of volumes, columns of scores) follows
the same logs: rows by what pods take and by their Node objects, pods that came and went, rows of the
table of pods, objects of the other kinds. Each log forgets its old end. A question is answered with None
where the log does not reach back, or nothing was read yet: then all is to be made anew. So whoever keeps
something states how it is patched and how it is made, and nothing of positions.
"""

from typing import Final

from shared.columns.journal import Changes, PodChange
from shared.columns.rows import union_of
from shared.columns.schema import Rows
from shared.framework.cluster_view import ClusterView

POD_CHANGES_MAX: Final = 4096
"""With more pods that came and went, counting all of them again is quicker than one by one."""
UNREAD: Final = -1
"""No log reaches back there."""


class Follower:
    """Of one view. Asks the logs that its owner needs; `note` says that all of them are taken in."""

    def __init__(self, cluster: ClusterView) -> None:
        self._usage_log, self._node_log = cluster.journal.usage, cluster.journal.node
        self._pod_log, self._pod_row_log = cluster.pod_log, cluster.journal.pods
        self._object_log = cluster.objects
        self._usage = self._node = self._pods = self._pod_rows = self._objects = UNREAD

    def note(self) -> None:
        """Everything up to now is taken in."""
        self._usage = self._usage_log.position
        self._node = self._node_log.position
        self._pods = self._pod_log.position
        self._pod_rows = self._pod_row_log.position
        self._objects = self._object_log.version

    def note_objects(self) -> None:
        """Every object up to now is."""
        self._objects = self._object_log.version

    # Whether nothing happened to: what pods take of nodes, Node objects, pods, objects of other kinds.

    @property
    def saw_usage(self) -> bool:
        return self._usage == self._usage_log.position

    @property
    def saw_nodes(self) -> bool:
        return self._node == self._node_log.position

    @property
    def saw_pods(self) -> bool:
        return self._pods == self._pod_log.position

    @property
    def saw_objects(self) -> bool:
        return self._objects == self._object_log.version

    @property
    def saw_all(self) -> bool:
        return (
            self._usage == self._usage_log.position
            and self._pods == self._pod_log.position
            and self._node == self._node_log.position
            and self._objects == self._object_log.version
        )

    @property
    def usage_count(self) -> int:
        """How often something happened to what pods take of nodes."""
        return self._usage_log.position - self._usage

    def usage_rows(self) -> Rows | None:
        """Rows to which pods came, or that pods left; each once, ascending."""
        return self._usage_log.since(self._usage)

    def node_rows(self) -> Rows | None:
        """Rows of which the Node object was written."""
        return self._node_log.since(self._node)

    def rows(self) -> Rows | None:
        """Either; each once, ascending."""
        usage_rows, node_rows = self.usage_rows(), self.node_rows()
        if usage_rows is None or node_rows is None:
            return None
        return union_of(usage_rows, node_rows)

    def changes(self) -> Changes | None:
        """All rows that were written, by group of columns."""
        usage, node, pods = self.usage_rows(), self.node_rows(), self.pod_rows()
        if usage is None or node is None or pods is None:
            return None
        return Changes(usage, node, pods)

    def pod_rows(self) -> Rows | None:
        """Rows of the table of pods that were written, each once, ascending; also where the pod there
        counts as before: it has started since, or is another, or was this scorer's own placement."""
        return self._pod_row_log.since(self._pod_rows)

    def pods(self, changes_max: int = POD_CHANGES_MAX) -> list[PodChange] | None:
        """Pods that came and went; None as well where there are more of them."""
        return self._pod_log.since(self._pods, changes_max)

    def classes(self, changes_max: int = POD_CHANGES_MAX) -> set[int] | None:
        """The classes of these."""
        return self._pod_log.classes_since(self._pods, changes_max)

    def objects(self) -> list[tuple[str, str]] | None:
        """Kind and key of objects that changed, oldest first, each once."""
        changes = self._object_log.changes_since(self._objects)
        return None if changes is None else list(dict.fromkeys(changes))

    def concerns(self, kinds: frozenset[str] | None) -> bool:
        """Whether an object of one of these kinds may have changed; None: of any."""
        if self.saw_objects:
            return False
        changes = self._object_log.changes_since(self._objects)
        if kinds is None or changes is None:
            return kinds is None or bool(kinds)
        return any(kind in kinds for kind, _ in changes)
