"""Devices counted as the extended resource that their class stands for, for scores by resources.

Rule: calculateDRAExtendedResourceAllocatableRequest in
pkg/scheduler/framework/plugins/noderesources/resource_allocation.go, v1.36.2.
"""

from collections.abc import Sequence

import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.dra.device_index import CLASSES, device_index
from shared.dra.extended import can_be_backed
from shared.framework.cluster_view import ClusterView


def may_be_devices(names: Sequence[str], cluster: ClusterView) -> bool:
    """Whether devices may provide one of these resources."""
    return any(map(can_be_backed, names)) and bool(cluster.objects.all(CLASSES))


def count_devices(
    names: Sequence[str],
    cluster: ClusterView,
    rows: Rows,
    used: list[Int64s],
    capacities: list[Int64s],
) -> None:
    """Puts devices in place of extended resources that the node does not have otherwise, into `used` and
    `capacities`, which have a column for each of `names`."""
    if not may_be_devices(names, cluster):
        return
    index = device_index(cluster)
    for i, name in enumerate(names):
        device_class = index.by_resource.get(name)
        if device_class is None:
            continue
        count, allocated = index.class_counts(cluster.nodes, rows, device_class)
        at = (capacities[i] == 0) & (count > 0)
        capacities[i] = np.where(at, count, capacities[i])
        used[i] = np.where(at, allocated, used[i])
