"""How full the storage of a pod's volumes would be, node by node, as a score.

Rules: pkg/scheduler/framework/plugins/volumebinding/{scorer.go,volume_binding.go Score}, v1.36.2.
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from shared.columns.schema import Bools, Int64s
from shared.framework.normalize import UTILIZATION_MAX
from shared.kube import quantity
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.plugins.volumes.affinity_columns import NONE
from shared.plugins.volumes.volume_rules import STORAGE, claim_class, requests_of
from shared.plugins.volumes.volume_search import VolumeChoice, VolumeSearch


class _ClassTotals(NamedTuple):
    """Of one storage class; each of shape (count,)."""

    requested: Int64s
    """Bytes."""
    available: Int64s
    counts: Bools
    """Where the class has a say at all."""


def storage_scores(search: VolumeSearch, table: Int64s) -> Int64s:
    """The mean over storage classes of `table` at their utilisation, which is what the pod would ask for
    of what there is: of the volumes that it would take, or of the capacities that new ones would come
    from where it takes none. 0 where there is none."""
    count = len(search.passes)
    classes: defaultdict[str, _ClassTotals] = defaultdict(
        lambda: _ClassTotals(
            np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
        )
    )
    has_static: Bools = np.zeros(count, np.bool_)
    for choice in search.choices:
        has_static |= _add_volumes(classes, choice)
    for claim, wanted, source in search.provisions:
        where = wanted & ~has_static
        if source is not None and where.any():
            capacities, places = source
            named = claim.spec.storage_class_name  # Even beside the annotation, as upstream.
            totals = classes[claim_class(claim) if named is None else named]
            totals.requested[where] += _requested_bytes(claim)
            # Not a sum: several volumes would come from the same storage.
            totals.available[where] = capacities.totals[places[where]]
            totals.counts[where] = True
    total = np.zeros(count, np.int64)
    class_count = np.zeros(count, np.int64)
    for requested, available, counts in classes.values():
        is_full = (available == 0) | (requested > available)
        share = requested * UTILIZATION_MAX // np.maximum(available, 1)
        utilization = np.where(is_full, UTILIZATION_MAX, share)
        total += np.where(counts, table[np.minimum(utilization, UTILIZATION_MAX)], 0)
        class_count += counts
    divisor = np.maximum(class_count, 1)
    mean: Int64s = (2 * total + divisor) // (2 * divisor)
    return mean


def _add_volumes(classes: defaultdict[str, _ClassTotals], choice: VolumeChoice) -> Bools:
    """Counts a claim against the volumes chosen for it; returns where there is one."""
    claim, pool, chosen = choice
    found: Bools = chosen != NONE
    slots, inverse = np.unique(chosen[found], return_inverse=True)
    volumes = [pool.candidate(slot) for slot in slots.tolist()]
    sizes = np.array([quantity.value_of_nanos(v.capacity_nanos) for v in volumes], np.int64)
    names = [v.volume.spec.storage_class_name for v in volumes]
    for class_name in set(names):
        belongs = np.array([name == class_name for name in names], np.bool_)[inverse]
        where = found.copy()
        where[found] = belongs
        totals = classes[class_name]
        totals.requested[where] += _requested_bytes(claim)
        totals.available[where] += sizes[inverse][belongs]
        totals.counts[where] = True
    return found


def _requested_bytes(claim: PersistentVolumeClaim) -> int:
    return quantity.value(requests_of(claim).get(STORAGE, 0))
