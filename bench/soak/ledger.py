"""What the soak's own watch saw: who is alive, where, and every fault, at every single binding.

Pure, and bounded by what is alive: a soak may run for days. It knows nothing of the scheduler. As one
watch shows all pods in the order in which the API server changed them, the sums of a node are exact
after each event: a node is overcommitted only if the scheduler put too much on it.
"""

from array import array
from collections import Counter
from typing import Final

import msgspec

from bench.soak.soak_pods import KINDS, NODE_CPU_MILLI, NODE_PODS, Kind, apart_group, kind_of

CLOSED_S_MAX: Final = 15.0
"""A binding may have been under way when its node was closed to it, but not for so long, unless
processes are killed and stopped meanwhile."""
LATENCIES_MAX: Final = 2_000_000
PROBLEMS_MAX: Final = 100


class LivePod(msgspec.Struct, gc=False):
    kind: Kind
    created_s: float
    cpu_milli: int = 0
    bound_before: int = 0
    """How many pods had been bound when it came."""
    uid: str = ""
    """Empty until the watch has shown it."""
    node: str = ""
    is_finished: bool = False


class Ledger:
    """All pods that are alive."""

    def __init__(self, closed_s_max: float = CLOSED_S_MAX) -> None:
        self._closed_s_max = closed_s_max
        self.pods: dict[str, LivePod] = {}
        self.on_node: dict[str, set[str]] = {}
        """Node -> pods that use it."""
        self.closed_s: dict[str, float] = {}
        """Node -> since when it may not be bound to: cordoned, tainted or deleted."""
        self.problems: list[str] = []
        self.problem_count = 0
        self.created_count = 0
        self.bound_count = 0
        self.by_kind: Counter[str] = Counter()
        self.latencies_s: array[float] = array("f")
        self._cpu_milli: Counter[str] = Counter()

    def created(self, name: str, cpu_milli: int, now_s: float) -> None:
        """Its creation is about to be sent."""
        self.pods[name] = LivePod(kind_of(name), now_s, cpu_milli, self.bound_count)
        self.created_count += 1

    def saw(self, name: str, uid: str, node: str, now_s: float, *, is_finished: bool) -> bool:
        """A pod as the watch shows it. Whether this is its binding."""
        pod = self.pods.get(name)
        if pod is None:
            return False  # Deleted, and shown once more by a list.
        pod.uid = pod.uid or uid
        if pod.node and node != pod.node:
            self._blame(f"pod {name} was bound to {pod.node} and then to {node or 'no node'}")
            return False
        is_binding = bool(node) and not pod.node
        if is_binding:
            pod.node = node
            self._bound(name, pod, now_s)
        if is_finished and not pod.is_finished:
            pod.is_finished = True
            self._leave_node(name, pod)
        return is_binding

    def gone(self, name: str) -> None:
        """It was deleted, by whomever."""
        pod = self.pods.pop(name, None)
        if pod is None:
            return
        if pod.node and not pod.is_finished:
            self._leave_node(name, pod)

    def lost(self, older_than_s: float, bound_since: int = 0) -> list[str]:
        """Pods without a node that were created before that moment and for which there is room, while
        so many others were bound."""
        bound_before_max = self.bound_count - bound_since
        return [
            name
            for name, pod in self.pods.items()
            if pod.kind.must_bind
            and not pod.node
            and pod.created_s < older_than_s
            and pod.bound_before <= bound_before_max
        ]

    def pending_count(self) -> int:
        return sum(not pod.node for pod in self.pods.values())

    def _bound(self, name: str, pod: LivePod, now_s: float) -> None:
        node = pod.node
        self.bound_count += 1
        self.by_kind[name.split("-")[1]] += 1
        if len(self.latencies_s) < LATENCIES_MAX:
            self.latencies_s.append(now_s - pod.created_s)
        there = self.on_node.setdefault(node, set())
        if pod.kind is KINDS["apart"]:
            self._check_apart(name, node, there)
        there.add(name)
        self._cpu_milli[node] += pod.cpu_milli
        if self._cpu_milli[node] > NODE_CPU_MILLI or len(there) > NODE_PODS:
            self._blame(
                f"node {node} was overcommitted by pod {name}: {self._cpu_milli[node]}m of"
                f" {NODE_CPU_MILLI}m CPU, {len(there)} of {NODE_PODS} pods"
            )
        closed_s = self.closed_s.get(node)
        if closed_s is not None and now_s - closed_s > self._closed_s_max:
            self._blame(f"pod {name} was bound to {node}, closed for {now_s - closed_s:.0f} s")

    def _check_apart(self, name: str, node: str, there: set[str]) -> None:
        group = apart_group(name)
        for other in there:
            if self.pods[other].kind is KINDS["apart"] and apart_group(other) == group:
                self._blame(f"pod {name} was bound to {node}, where {other} keeps it away")

    def _leave_node(self, name: str, pod: LivePod) -> None:
        there = self.on_node[pod.node]
        there.discard(name)
        self._cpu_milli[pod.node] -= pod.cpu_milli
        if not there:
            del self.on_node[pod.node], self._cpu_milli[pod.node]

    def _blame(self, problem: str) -> None:
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)
