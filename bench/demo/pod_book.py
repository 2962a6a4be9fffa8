"""What the demo's own watch saw of each pod: when created, when and where bound, why not.

Pure: events and times come in from the demo's run. It is the demo's measuring instrument and shares
nothing with the scheduler; every binding that the API server ever announced is kept, so that a pod
that was bound twice cannot hide behind its last state.
"""

from collections import Counter

from bench.watched.pod_events import Condition, PodEvent


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

    def observed(self, event: PodEvent, now_s: float) -> None:
        """Takes in one watch event of a pod."""
        pod = event.object
        name = pod.metadata.name
        node = pod.spec.node_name
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
        refusal = pod.unscheduled()
        if refusal is not None:
            self._refused(name, refusal)

    def _refused(self, name: str, condition: Condition) -> None:
        said, other = self.unschedulable, self.other_reasons
        if condition.reason != "Unschedulable":
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
