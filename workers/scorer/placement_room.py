"""How many pods of a class each node takes, counted in one pass over the columns."""

import numpy as np

from shared.columns.resource_columns import requested_and_allocatable
from shared.columns.rows import row_index, rows_where
from shared.columns.schema import Int64s
from shared.columns.usage import PodUsage
from shared.dra.device_index import takes_devices
from shared.engine.evaluation import Evaluation
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import RoomFilter


def room_by_row(evaluation: Evaluation, usage: PodUsage, cluster: ClusterView) -> Int64s | None:
    """Shape (capacity,). None where more than what the pods take of the node themselves decides."""
    info, framework = evaluation.info, evaluation.framework
    if evaluation.is_wide or usage.ports or info.takes_claims or takes_devices(info, cluster):
        return None
    if len(cluster.nominations) or framework.has_failed(evaluation.outcome):
        return None
    nodes = cluster.nodes
    rows = rows_where(evaluation.feasible)
    index = row_index(rows)
    room = nodes.allowed_pod_count[index] - nodes.pod_count[index]
    for number in evaluation.filters.moving:
        plugin = framework.filters[number]
        asked = plugin.room_asked(info, cluster) if isinstance(plugin, RoomFilter) else None
        if asked is None:
            return None
        requested, allocatable = requested_and_allocatable(nodes, asked.names, index)
        for i, (name, amount) in enumerate(zip(asked.names, asked.amounts, strict=True)):
            row = nodes.resources.find(name)
            taken = int(usage.amounts[row]) if 0 <= row < len(usage.amounts) else 0
            if taken > 0:
                fits = (allocatable[i] - requested[i] - amount) // taken + 1
                room = np.minimum(room, fits)
    by_row = np.zeros(nodes.capacity, np.int64)
    by_row[rows] = np.maximum(room, 1)  # One at least: the filters let it pass.
    return by_row
