"""Preemption said slowly: who would have to go from each node, one pod at a time, and from which best.

Rules: pkg/scheduler/framework/plugins/defaultpreemption and pkg/scheduler/framework/preemption, v1.36.2.
All nodes are tried, as upstream does where there are at most 100.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from bench.sim.oracle import OracleCluster, OracleNode, OraclePod, why_not
from bench.sim.poison import is_poison
from bench.sim.slow_topology import selects

NOT_STARTED = "~"
"""Later than all times: a pod that has not started counts as starting now."""
PRIORITY_SHIFT = 1 << 31


class Candidate(NamedTuple):
    """A node that takes the pod once others are gone."""

    node: str
    victims: list[OraclePod]
    """The most important first."""
    violations: int
    is_clear: bool
    """No two of the pods that could go are as important as one another: any search comes to these."""

    def badness(self) -> tuple[object, ...]:
        """By which the best is chosen: the smallest is."""
        priorities = [pod.priority for pod in self.victims]
        first = min(start_of(pod) for pod in self.victims if pod.priority == max(priorities))
        total = sum(priority + PRIORITY_SHIFT for priority in priorities)
        return self.violations, max(priorities), total, len(priorities), _Later(first)


class _Later(str):
    """Of two times the later one is the better."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def start_of(pod: OraclePod) -> str:
    """When it began to run."""
    return pod.started or NOT_STARTED


def _importance(pod: OraclePod) -> tuple[int, str]:
    return -pod.priority, start_of(pod)


def may_preempt(pod: OraclePod, nominated_to: str, cluster: OracleCluster) -> bool:
    """Whether the pod may have others go: not while those that it had go already are going."""
    if pod.spec.get("preemptionPolicy") == "Never":
        return False
    node = cluster.node(nominated_to)
    if node is None:
        return True
    verdict = why_not(pod, node, cluster)
    if verdict is not None and verdict.is_final:
        return True
    return not any(
        other.is_preempted and other.priority < pod.priority for other in cluster.on(node)
    )


def candidates(
    pod: OraclePod, cluster: OracleCluster, stay: Collection[str] = ()
) -> list[Candidate]:
    """Each node where it helps; pods with a uid in `stay` never go."""
    found = []
    for node in cluster.nodes:
        verdict = why_not(pod, node, cluster)
        if verdict is not None and not verdict.is_final:
            candidate = victims_on(pod, node, cluster, stay)
            if candidate is not None:
                found.append(candidate)
    return found


def best_of(found: Sequence[Candidate]) -> list[Candidate]:
    """Those that nothing else is better than."""
    least = min(each.badness() for each in found)
    return [each for each in found if each.badness() == least]


def victims_on(
    pod: OraclePod, node: OracleNode, cluster: OracleCluster, stay: Collection[str] = ()
) -> Candidate | None:
    """Who has to go from one node; None where it does not help."""
    lesser = [
        other
        for other in cluster.on(node)
        if other.priority < pod.priority and other.uid not in stay
    ]
    if not lesser or why_not(pod, node, cluster.without(lesser), cluster) is not None:
        return None
    lesser.sort(key=_importance)
    is_violating = dict(zip(lesser, violating([[each] for each in lesser], cluster), strict=True))
    gone = {other.uid: other for other in lesser}
    violations = 0
    for other in sorted(lesser, key=lambda each: not is_violating[each]):
        del gone[other.uid]
        if why_not(pod, node, cluster.without(gone.values()), cluster) is not None:
            gone[other.uid] = other
            violations += is_violating[other]
    if not gone:
        return None
    keys = [_importance(other) for other in lesser]
    is_clear = len(set(keys)) == len(keys)
    return Candidate(node.name, sorted(gone.values(), key=_importance), violations, is_clear)


def violating(units: Sequence[Sequence[OraclePod]], cluster: OracleCluster) -> list[bool]:
    """Whether a budget forbids the going of each of these, whose pods go together, if they go in this
    order."""
    told = cluster.told.get("poddisruptionbudgets", {}).values()
    # A selector that cannot be read means nobody (filterPodsWithPDBViolation).
    budgets = [each for each in told if not is_poison(each["metadata"]["name"])]
    allowed = [(each.get("status") or {}).get("disruptionsAllowed") or 0 for each in budgets]

    def is_violating(pod: OraclePod) -> bool:
        is_violated = False
        for i, budget in enumerate(budgets if pod.labels else ()):
            selector = (budget.get("spec") or {}).get("selector") or {}
            is_empty = not (selector.get("matchLabels") or selector.get("matchExpressions"))
            disrupted = (budget.get("status") or {}).get("disruptedPods") or {}
            if budget["metadata"]["namespace"] != pod.namespace or is_empty:
                continue
            if not selects(selector, pod.labels) or pod.name in disrupted:
                continue
            allowed[i] -= 1
            is_violated |= allowed[i] < 0
        return is_violated

    return [any(is_violating(pod) for pod in pods) for pods in units]
