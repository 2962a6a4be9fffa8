"""What must hold of pod groups: none is begun that does not reach its quorum, and none is left behind
that could be placed.

A gang may lose pods that were placed: somebody deletes them, a node goes, a binding comes to nothing
with a process that dies. So few pods may be on nodes at the end; but then nobody can place as many more
as the quorum lacks.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.sim.draw import Json
from bench.sim.extender import is_asked_about
from bench.sim.oracle import OracleCluster, OraclePod, is_over, pod_of, where_it_fits
from bench.sim.permit import GROUP
from bench.sim.refusal import REFUSED_AT
from bench.sim.schedule import SimulatedFailure
from bench.sim.slow_pods import CannotTell
from daemon.core.cache import Cache
from shared.kube.pod_record import PodRecord
from shared.kube.resources import POD_GROUPS


class Begun:
    """Gangs of which pods were assumed in this turn of an owner."""

    def __init__(self) -> None:
        self._uids: dict[str, list[str]] = {}
        """Key -> pods."""
        self._reached: dict[str, int] = {}
        """Key -> how many pods it had when the last of them was assumed."""

    def assumed(self, cache: Cache, record: PodRecord) -> None:
        """A pod was assumed."""
        if record.group:
            key = record.group_key
            self._uids.setdefault(key, []).append(record.uid)
            self._reached[key] = sum(held.record.group_key == key for held in cache.pods())

    def check(self, cache: Cache) -> None:
        """At the end of the turn."""
        for key, uids in self._uids.items():
            group = cache.objects.get(POD_GROUPS.plural, key)
            gang = None if group is None else group.spec.scheduling_policy.gang
            is_kept = any(cache.get_pod(uid) is not None for uid in uids)
            if gang is not None and is_kept and self._reached[key] < gang.min_count:
                told = f"{key}: {self._reached[key]} of {gang.min_count}"
                raise SimulatedFailure("half a gang", told)
        self._uids.clear()
        self._reached.clear()


def judge_groups(
    groups: dict[str, Json], pods: list[Json], cluster: OracleCluster, counts: Counter[str]
) -> None:
    """When all has come to rest. Only of groups whose pods are alike and look at nobody else: then
    whoever places them in any order finds as many places as there are."""
    left = [pod_of(pod) for pod in pods if not is_over(pod)]
    for key, group in groups.items():
        spec = group["spec"]
        members = [pod for pod in left if pod.group == key]
        waiting = [pod for pod in members if not pod.node]
        placed_count = len(members) - len(waiting)
        quorum = spec["schedulingPolicy"].get("gang", {}).get("minCount", 0)
        needed = max(1, quorum - placed_count)
        counts["gangs"] += 1
        is_gated = len(members) < quorum
        if is_gated or len(waiting) < needed or not are_alike(waiting, cluster):
            continue
        if spec.get("schedulingConstraints"):
            continue
        try:
            count = places(waiting, cluster)
        except CannotTell:
            counts["untold"] += 1
            continue
        if count >= needed:
            told = f"{key}: {placed_count} of {quorum} on nodes, {count} more find one"
            raise SimulatedFailure("gang left behind", told)
        counts["half placed"] += 0 < placed_count < quorum


def are_alike(waiting: Sequence[OraclePod], cluster: OracleCluster) -> bool:
    """Whether these are one like the other, and nobody looks at others, so that more than room decides.
    Of pods that name two profiles not one is tried: their specs are not alike. Neither is one that
    extenders would have to be asked about, or somebody refuses where it is about to be bound, or one of
    those that share what only one may have."""
    if any(_looks_around(pod) for pod in (*cluster.pods, *cluster.nominated)):
        return False
    shapes: list[Any] = []
    for pod in waiting:
        if _looks_around(pod) or {GROUP, REFUSED_AT} & pod.labels.keys():
            return False
        if pod.spec.get("schedulingGates") or is_asked_about(pod.spec):
            return False
        if pod.spec.get("volumes") or pod.spec.get("resourceClaims"):
            return False
        if pod.spec not in shapes:
            shapes.append(pod.spec)
    return len(shapes) == 1


def _looks_around(pod: OraclePod) -> bool:
    return any(pod.spec.get(each) for each in ("affinity", "topologySpreadConstraints"))


def places(waiting: Sequence[OraclePod], cluster: OracleCluster) -> int:
    """How many of these find a node, one on top of the other; they are alike."""
    count = 0
    for pod in waiting:
        fits = where_it_fits(pod, cluster)
        if fits:
            cluster = cluster.beside([pod.on(fits[0])])
            count += 1
    return count
