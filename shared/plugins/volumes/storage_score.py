"""How full the storage of a pod's volumes would be, node by node, as a score.

Rules: pkg/scheduler/framework/plugins/volumebinding/{scorer.go,volume_binding.go Score}, v1.36.2.
"""

import numpy as np

from shared.columns.schema import Bools, Int64s
from shared.framework.normalize import UTILIZATION_MAX
from shared.kube import quantity
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.plugins.volumes.affinity_columns import NONE, Places
from shared.plugins.volumes.volume_pool import Slots, VolumePool
from shared.plugins.volumes.volume_rules import STORAGE, claim_class


class ClassTotals:
    """Requested and available bytes by storage class, each of shape (count,)."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._classes: dict[str, tuple[Int64s, Int64s, Bools]] = {}
        """Requested, available, and where the class has a say at all."""

    def add_volumes(self, claim: PersistentVolumeClaim, pool: VolumePool, chosen: Slots) -> Bools:
        """Counts a claim against the volumes chosen for it; returns where there is one."""
        found: Bools = chosen != NONE
        requested = _requested_bytes(claim)
        slots, inverse = np.unique(chosen[found], return_inverse=True)
        volumes = [pool.candidate(slot) for slot in slots.tolist()]
        sizes = np.array([quantity.value_of_nanos(v.capacity_nanos) for v in volumes], np.int64)
        names = [v.volume.spec.storage_class_name for v in volumes]
        for class_name in set(names):
            belongs = np.array([name == class_name for name in names], np.bool_)[inverse]
            where = found.copy()
            where[found] = belongs
            wanted, available, counts = self._of(class_name)
            wanted[where] += requested
            available[where] += sizes[inverse][belongs]
            counts |= where
        return found

    def add_provision(
        self, claim: PersistentVolumeClaim, totals: Int64s, places: Places, where: Bools
    ) -> None:
        """Counts a claim against the storage that its volume would come from."""
        if not where.any():
            return
        wanted, available, counts = self._of(claim_class(claim))
        wanted[where] += _requested_bytes(claim)
        # Not a sum: several volumes would come from the same storage.
        available[where] = totals[places[where]]
        counts |= where

    def scores(self, table: Int64s) -> Int64s:
        """The mean over the classes of `table` at their utilisation; 0 where there is none."""
        total = np.zeros(self._count, np.int64)
        class_count = np.zeros(self._count, np.int64)
        for wanted, available, counts in self._classes.values():
            is_full = (available == 0) | (wanted > available)
            share = wanted * UTILIZATION_MAX // np.maximum(available, 1)
            utilization = np.where(is_full, UTILIZATION_MAX, share)
            total += np.where(counts, table[np.minimum(utilization, UTILIZATION_MAX)], 0)
            class_count += counts
        divisor = np.maximum(class_count, 1)
        mean: Int64s = (2 * total + divisor) // (2 * divisor)
        return mean

    def _of(self, class_name: str) -> tuple[Int64s, Int64s, Bools]:
        found = self._classes.get(class_name)
        if found is None:
            found = self._classes[class_name] = (
                np.zeros(self._count, np.int64),
                np.zeros(self._count, np.int64),
                np.zeros(self._count, np.bool_),
            )
        return found


def _requested_bytes(claim: PersistentVolumeClaim) -> int:
    resources = claim.spec.resources
    stated = ((None if resources is None else resources.requests) or {}).get(STORAGE)
    return 0 if stated is None else quantity.value(stated)
