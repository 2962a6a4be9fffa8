"""What the demo's own watch saw of each pod: when created, when and where bound, why not.

Pure: events and times come in from `watcher.py`. It is the demo's measuring instrument and shares
nothing with the scheduler; every binding that the API server ever announced is kept, so that a pod
that was bound twice cannot hide behind its last state.
"""

from collections import Counter

import msgspec


class Metadata(msgspec.Struct, gc=False):
    name: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API's name


class Spec(msgspec.Struct, gc=False):
    nodeName: str = ""  # noqa: N815 - the API's name


class Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct):
    conditions: list[Condition] = []


class WatchedPod(msgspec.Struct):
    """A pod as far as the demo looks at it; also an ERROR event's Status, by its message."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: Spec = msgspec.field(default_factory=Spec)
    status: PodStatus | str = ""
    message: str = ""


class WatchEvent(msgspec.Struct):
    type: str
    object: WatchedPod


class PodBook:
    """All pods of one run, by name."""

    def __init__(self) -> None:
        self.created_s: dict[str, float] = {}
        """When its creation was sent."""
        self.bound_s: dict[str, float] = {}
        """When the watch first saw it with a node."""
        self.unschedulable: dict[str, str] = {}
        """Pods without a node whose PodScheduled condition says Unschedulable, and the message."""
        self.other_reasons: dict[str, str] = {}
        """Pods without a node whose PodScheduled condition says something else."""
        self.placements: dict[str, list[str]] = {}
        """Every node that the watch saw a pod on, in order; more than one is a fault."""
        self.change_count = 0

    def created(self, name: str, now_s: float) -> None:
        self.created_s[name] = now_s

    def observed(self, event: WatchEvent, now_s: float) -> None:
        """Takes in one watch event of a pod."""
        pod = event.object
        name = pod.metadata.name
        node = pod.spec.nodeName
        self.change_count += 1
        if node:
            placed = self.placements.setdefault(name, [])
            if not placed:
                self.bound_s[name] = now_s
                self.unschedulable.pop(name, None)
                self.other_reasons.pop(name, None)
            if not placed or placed[-1] != node:
                placed.append(node)
            return
        if name in self.placements:
            # Bound and then without a node: a different pod of the same name, or a broken server.
            self.placements[name].append("")
        if isinstance(pod.status, PodStatus):
            self._take_conditions(name, pod.status.conditions)

    def _take_conditions(self, name: str, conditions: list[Condition]) -> None:
        for condition in conditions:
            if condition.type != "PodScheduled" or condition.status != "False":
                continue
            is_unschedulable = condition.reason == "Unschedulable"
            said, other = self.unschedulable, self.other_reasons
            if not is_unschedulable:
                said, other = other, said
            said[name] = condition.message
            other.pop(name, None)

    @property
    def pending_count(self) -> int:
        """Created pods that are neither bound nor said to be unschedulable."""
        return len(self.created_s) - len(self.bound_s) - len(self.unschedulable)

    def latencies_s(self) -> list[float]:
        """From creation sent to binding seen, sorted."""
        created = self.created_s
        return sorted(at - created[name] for name, at in self.bound_s.items() if name in created)

    def bound_twice(self) -> dict[str, list[str]]:
        """Pods that the watch saw on more than one node."""
        return {name: nodes for name, nodes in self.placements.items() if len(nodes) > 1}

    def messages(self) -> Counter[str]:
        """Unschedulable pods by message."""
        return Counter(self.unschedulable.values())
