"""Preemption for a pod group said slowly: who has to go, wherever they are, so that enough of it fit.

Rules: pkg/scheduler/framework/preemption/podgrouppreemption.go and types.go, v1.36.2.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bench.sim.gang_rules import places
from bench.sim.oracle import OracleCluster, OraclePod, why_not
from bench.sim.slow_preemption import start_of, violating


class Unit(NamedTuple):
    """Who goes together or not at all: one pod, or all of a group that is disrupted as a whole."""

    pods: list[OraclePod]
    priority: int

    def importance(self) -> tuple[object, ...]:
        """The most important has the least."""
        count = len(self.pods) if self.pods[0].group else 0
        return -self.priority, -count, min(map(start_of, self.pods))


class GroupVictims(NamedTuple):
    """Who has to go for a group."""

    uids: set[str]
    is_clear: bool
    """No two units that could go are as important as one another: any search comes to these."""


def units_of(cluster: OracleCluster) -> list[Unit]:
    """All pods on nodes."""
    groups = cluster.told.get("podgroups", {})
    found: dict[str, Unit] = {}
    for pod in cluster.on_nodes():
        spec = groups[pod.group]["spec"] if pod.group in groups else {}
        if spec.get("disruptionMode") == "PodGroup":
            found.setdefault(pod.group, Unit([], spec.get("priority") or 0)).pods.append(pod)
        else:
            found[pod.uid] = Unit([pod], pod.priority)
    return list(found.values())


def wrong_about(
    uids: set[str], placed: Iterable[OraclePod], priority: int, cluster: OracleCluster
) -> str:
    """Why these may not go for a group that matters so much, with its pods placed so; or nothing."""
    gone: list[OraclePod] = []
    for unit in units_of(cluster):
        going = [pod for pod in unit.pods if pod.uid in uids]
        if going and (unit.priority >= priority or len(going) < len(unit.pods)):
            return f"{going[0].name} matters as much, or goes without others of its group"
        gone += going
    cluster = cluster.without(gone)
    for pod in placed:
        node = cluster.node(pod.node)
        problem = "it is not there" if node is None else why_not(pod, node, cluster)
        if problem is not None:
            return f"{pod.name} on {pod.node} even so: {problem}"
        cluster = cluster.beside([pod])
    return ""


def victims_for(
    waiting: Sequence[OraclePod], needed: int, priority: int, cluster: OracleCluster
) -> GroupVictims | None:
    """Who has to go so that so many of these fit, which are alike and look at nobody else; None where
    that does not help."""
    units = sorted(
        (unit for unit in units_of(cluster) if unit.priority < priority), key=Unit.importance
    )
    gone = {pod.uid: pod for unit in units for pod in unit.pods}
    if not gone or places(waiting, cluster.without(gone.values())) < needed:
        return None
    is_violating = violating([unit.pods for unit in units], cluster)
    order = sorted(range(len(units)), key=lambda i: not is_violating[i])
    for unit in (units[i] for i in order):
        rest = [pod for pod in gone.values() if pod not in unit.pods]
        if places(waiting, cluster.without(rest)) >= needed:
            gone = {pod.uid: pod for pod in rest}
    return GroupVictims(set(gone), len({unit.importance() for unit in units}) == len(units))


def needless(
    uids: set[str], waiting: Sequence[OraclePod], needed: int, cluster: OracleCluster
) -> list[str]:
    """Of these victims, names of those without whose going so many of the others fit as well."""
    gone = [unit for unit in units_of(cluster) if unit.pods[0].uid in uids]
    found = []
    for unit in gone:
        rest = [pod for other in gone if other is not unit for pod in other.pods]
        if places(waiting, cluster.without(rest)) >= needed:
            found += [pod.name for pod in unit.pods]
    return found
