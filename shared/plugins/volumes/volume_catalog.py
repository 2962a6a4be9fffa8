"""VolumeCatalog: persistent volumes, and storage capacities by storage class, ready to be matched.

Kept with the view and brought up to date by the store's changes: a cluster has tens of thousands of
volumes, and the next pod finds all but a few of them as the last one did. Holds the latest of each
volume, what is assumed of it included. What has a quantity that cannot be read is left out.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from shared.columns.schema import Int64s
from shared.errors import ObjectError
from shared.framework.cluster_view import ClusterView, Follower
from shared.kube import quantity
from shared.kube.api.storage_v1 import CsiStorageCapacity
from shared.plugins.volumes.affinity_columns import AffinityColumns
from shared.plugins.volumes.volume_pool import VolumePool, candidate
from shared.plugins.volumes.volume_rules import selector_terms, volume_size_max
from shared.selectors.node_terms import Terms

VOLUMES: Final = "persistentvolumes"
CAPACITIES: Final = "csistoragecapacities"
NO_SIZE: Final = -1
"""Of a capacity that does not say how large a volume can be: none can."""


class Capacities:
    """The storage that volumes of one class can come from; arrays by place."""

    def __init__(self, stated: Iterable[tuple[str, CsiStorageCapacity]]) -> None:
        found = [(key, *_read(capacity)) for key, capacity in stated]
        self.place_of = {key: place for place, (key, _, _, _) in enumerate(found)}
        self._terms = [terms for _, _, _, terms in found]
        self.sizes_max: Int64s = np.array([size for _, size, _, _ in found], np.int64)
        """Bytes of the largest volume that can be made from each."""
        self.totals: Int64s = np.array([total for _, _, total, _ in found], np.int64)
        """Bytes altogether."""
        self.nodes = AffinityColumns(self._terms)
        """Which nodes reach it."""

    def rewrite(self, key: str, capacity: CsiStorageCapacity) -> bool:
        """Takes over new sizes, which is what changes; False where all has to be read again."""
        place = self.place_of.get(key)
        if place is None:
            return False
        size_max, total, terms = _read(capacity)
        if terms != self._terms[place]:
            return False
        self.sizes_max[place] = size_max
        self.totals[place] = total
        return True


class VolumeCatalog:
    """See the module."""

    def __init__(self, cluster: ClusterView) -> None:
        self._objects = cluster.objects
        self._follower = Follower(cluster)
        self.pool = VolumePool()
        self._capacities: dict[str, Capacities] = {}
        """By storage class; made when asked for."""

    def capacities(self, class_name: str) -> Capacities:
        """The storage for new volumes of a storage class."""
        found = self._capacities.get(class_name)
        if found is None:
            stated = self._objects.all(CAPACITIES).items()
            of_class = [each for each in stated if each[1].storage_class_name == class_name]
            found = self._capacities[class_name] = Capacities(of_class)
        return found

    def catch_up(self) -> None:
        """Brings the catalog to the store's present state."""
        changed = self._follower.objects()
        if changed is None:
            self.pool = VolumePool()
            self._capacities.clear()
            changed = [(VOLUMES, name) for name in self._objects.all(VOLUMES)]
        for kind, key in changed:
            if kind == VOLUMES:
                self._read_volume(key)
            elif kind == CAPACITIES:
                self._read_capacity(key)
        self._follower.note()

    def _read_volume(self, name: str) -> None:
        volume = self._objects.latest(VOLUMES, name)
        try:
            found = None if volume is None else candidate(volume)
        except ObjectError:
            found = None
        self.pool.put(name, found)

    def _read_capacity(self, key: str) -> None:
        now: CsiStorageCapacity | None = self._objects.get(CAPACITIES, key)
        for class_name, kept in list(self._capacities.items()):
            if now is not None and now.storage_class_name == class_name:
                is_stale = not kept.rewrite(key, now)
            else:
                is_stale = key in kept.place_of
            if is_stale:
                del self._capacities[class_name]


def _read(capacity: CsiStorageCapacity) -> tuple[int, int, Terms]:
    """Largest volume, total, and the nodes; of a capacity that cannot be read there is nothing."""
    terms = selector_terms(capacity.node_topology)
    try:
        size_max = volume_size_max(capacity)
        total = 0 if capacity.capacity is None else quantity.value(capacity.capacity)
    except ObjectError:
        return NO_SIZE, 0, terms
    return (NO_SIZE if size_max is None else size_max), total, terms
