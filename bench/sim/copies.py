"""Whether a worker's copy is what the owner holds, column by column and object by object.

Ids of names may differ between the two; what they stand for may not.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from daemon.core.cache import Cache
from shared.columns.schema import COMMON_COLUMNS, NODE_COLUMNS, USAGE_COLUMNS
from shared.columns.table import NodeTable
from shared.kube.resources import ALL_KINDS
from workers.scorer.replica import Replica

NAMED: Final[dict[str, Callable[[NodeTable], Any]]] = {
    "name_id": lambda nodes: nodes.names.values,
    "taints_id": lambda nodes: nodes.taints.values,
    "images_id": lambda nodes: nodes.images.values,
    "features_id": lambda nodes: nodes.features.values,
    "ports_id": lambda nodes: nodes.ports.values,
}
PLAIN: Final = [
    column.name
    for column in (*COMMON_COLUMNS, *USAGE_COLUMNS, *NODE_COLUMNS)
    if column.name not in NAMED
]
POD_COLUMNS: Final = (
    "class_id",
    "node_row",
    "is_terminating",
    "start_s",
    "is_preempted",
    "name_hash",
    "group_id",
)


def differences(cache: Cache, replica: Replica) -> list[str]:
    """Of an owner and a copy that has every delta; no placement of the worker's own lies on top."""
    ours, theirs = cache.nodes, replica.nodes
    rows = ours.present_rows()
    if not np.array_equal(rows, theirs.present_rows()):
        return ["other nodes than the owner"]
    found = [
        name for name in PLAIN if (getattr(ours, name)[rows] != getattr(theirs, name)[rows]).any()
    ]
    for row in rows.tolist():
        found += [
            name
            for name, values in NAMED.items()
            if values(ours)[getattr(ours, name)[row]] != values(theirs)[getattr(theirs, name)[row]]
        ]
        if _labels(ours, row) != _labels(theirs, row):
            found.append("labels")
    count = len(ours.resources)
    for name in ("requested", "allocatable"):
        if (getattr(ours, name)[:count, rows] != getattr(theirs, name)[:count, rows]).any():
            found.append(name)
    return found + _pod_differences(cache, replica) + _object_differences(cache, replica)


def _labels(nodes: NodeTable, row: int) -> dict[str, str]:
    ids = nodes.labels[: len(nodes.label_keys), row].tolist()
    return {
        key: nodes.label_values.values[value_id]
        for key, value_id in zip(nodes.label_keys.values, ids, strict=True)
        if value_id
    }


def _pod_differences(cache: Cache, replica: Replica) -> list[str]:
    rows = np.array([pod.row for pod in cache.pods()], np.intp)
    if not len(rows):
        return []
    if rows.max() >= replica.pods.row_count:
        return ["pods"]
    return [
        f"pods' {name}"
        for name in POD_COLUMNS
        if (getattr(cache.pod_table, name)[rows] != getattr(replica.pods, name)[rows]).any()
    ]


def _object_differences(cache: Cache, replica: Replica) -> list[str]:
    found = []
    for kind in ALL_KINDS:
        if cache.objects.all(kind.plural) != replica.objects.all(kind.plural):
            found.append(kind.plural)
        mine, other = cache.objects.assumed(kind.plural), replica.objects.assumed(kind.plural)
        if mine != other:
            found.append(f"what is assumed of {kind.plural}")
    return found
