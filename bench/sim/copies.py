"""Whether a worker's copy that has every delta is what the owner holds, column by column and object by
object.

Ids of names may differ between the two; what they stand for may not.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from bench.sim.berth import Berth
from bench.sim.schedule import SimulatedFailure
from bench.sim.sim_processes import OwnerProcess, ScorerProcess
from bench.sim.states import OTHER_KINDS
from daemon.core.cache import Cache
from shared.columns.rows import row_index
from shared.columns.schema import NodeColumns, PodColumns, UsageColumns, names_of
from shared.columns.table import NodeTable
from workers.scorer.replica import Replica

NAMED: Final[dict[str, Callable[[NodeTable], Any]]] = {
    "name_id": lambda nodes: nodes.names.values,
    "taints_id": lambda nodes: nodes.taints.values,
    "images_id": lambda nodes: nodes.images.values,
    "features_id": lambda nodes: nodes.features.values,
    "ports_id": lambda nodes: nodes.ports.values,
}
PLAIN: Final = [
    name
    for name in ("generation", *names_of(UsageColumns), *names_of(NodeColumns))
    if name not in NAMED
]


class Copies:
    """Of the workers of one berth; each state of one is looked at once."""

    def __init__(self, berth: Berth) -> None:
        self._berth = berth
        self._compared: dict[str, tuple[int, int, int]] = {}
        """Worker -> epoch, sequence and generation of what was held against the owner's last."""
        self._alike: dict[str, tuple[object, ...]] = {}
        """Worker -> its life, the owner's, and the versions of objects that both had and were alike."""

    def look_at(self, scorer: ScorerProcess) -> None:
        """After each turn of a worker."""
        owner, replica = self._berth.owner, scorer.loop.replica
        compared = (replica.epoch, replica.sequence, replica.generation)
        if self._compared.get(scorer.name) == compared:
            return
        if owner is None or not replica.is_settled or not has_all(scorer, owner):
            return
        self._compared[scorer.name] = compared
        cache = owner.state.cache
        alike = (scorer, owner, cache.objects.version, replica.objects.version)
        found = _node_differences(cache, replica) or _pod_differences(cache, replica)
        if not found and self._alike.get(scorer.name) != alike:
            found = _object_differences(cache, replica)
            self._alike[scorer.name] = alike
        for difference in found:
            raise SimulatedFailure("copy", f"{scorer.name}: {difference} is not the owner's")
        mine = sorted(cache.view.nominations.all())
        if mine != sorted(replica.view.nominations.all()):
            raise SimulatedFailure("copy", f"{scorer.name}: nominations are not the owner's")


def has_all(scorer: ScorerProcess, owner: OwnerProcess) -> bool:
    """Nothing is to be told to the worker."""
    state, replica = owner.state, scorer.loop.replica
    known, snapshots = state.scorers.get(scorer.sockets.identity), state.snapshots
    return (
        replica.is_whole
        and replica.epoch == owner.epoch
        and known is not None
        and known.is_ready  # Deltas that nobody listens to have no numbers of their own.
        and replica.sequence == snapshots.sequence
        and snapshots.is_current(state.scorers.settled, snapshots.generation)
    )


def _node_differences(cache: Cache, replica: Replica) -> list[str]:
    """No placement of the worker's own lies on top."""
    ours, theirs = cache.nodes, replica.nodes
    present = ours.present_rows()
    if not np.array_equal(present, theirs.present_rows()):
        return ["other nodes than the owner"]
    if not len(present):
        return []
    rows = row_index(present)
    found = [
        name
        for name in PLAIN
        if getattr(ours, name)[rows].tobytes() != getattr(theirs, name)[rows].tobytes()
    ]
    for name, values in NAMED.items():
        if _told(ours, name, values, rows) != _told(theirs, name, values, rows):
            found.append(name)
    if _labels(ours, rows) != _labels(theirs, rows):
        found.append("labels")
    count = len(ours.resources)
    return found + [
        name
        for name in ("requested", "allocatable")
        if getattr(ours, name)[:count, rows].tobytes()
        != getattr(theirs, name)[:count, rows].tobytes()
    ]


def _told(nodes: NodeTable, name: str, values: Callable[[NodeTable], Any], rows: Any) -> list[Any]:
    """What the ids of a column stand for."""
    of = values(nodes)
    return [of[each] for each in getattr(nodes, name)[rows].tolist()]


def _labels(nodes: NodeTable, rows: Any) -> dict[str, list[str]]:
    """By key, of each row; of keys that any row has."""
    keys, of = nodes.label_keys.values, nodes.label_values.values
    return {
        key: [of[value_id] for value_id in ids]
        for key, ids in zip(keys, nodes.labels[: len(keys), rows].tolist(), strict=True)
        if any(ids)
    }


def _pod_differences(cache: Cache, replica: Replica) -> list[str]:
    rows = np.array([pod.row for pod in cache.pods()], np.intp)
    if not len(rows):
        return []
    if rows.max() >= replica.pods.row_count:
        return ["pods"]
    return [
        f"pods' {name}"
        for name in names_of(PodColumns)
        if getattr(cache.pod_table, name)[rows].tobytes()
        != getattr(replica.pods, name)[rows].tobytes()
    ]


def _object_differences(cache: Cache, replica: Replica) -> list[str]:
    found = []
    for plural in OTHER_KINDS:
        if cache.objects.all(plural) != replica.objects.all(plural):
            found.append(plural)
        if cache.objects.assumed(plural) != replica.objects.assumed(plural):
            found.append(f"what is assumed of {plural}")
    return found
