"""Every column of the tables of nodes and of pods: name, type, unit, what it is for a row without one.

Of nodes there are two groups, because they change at different rates and travel apart: *usage* changes
with each pod that comes or goes, *node* only when somebody edits the Node object.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from shared.kube.api.meta_v1 import INT64_MAX

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]
Rows = NDArray[np.intp]
"""Indices of node rows, shape (n,)."""
NO_ROWS: Final[Rows] = np.zeros(0, np.intp)

# Resource rows of the (resource, node) matrices. Further ones are interned scalar resources.
CPU: Final = 0
"""milli-CPU"""
MEMORY: Final = 1
"""bytes"""
EPHEMERAL_STORAGE: Final = 2
"""bytes"""
BASE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")


class Column(NamedTuple):
    """One array of shape (capacity,)."""

    name: str
    dtype: DTypeLike
    meaning: str


USAGE_COLUMNS: Final = (
    Column("pod_count", np.int64, "pods on the node, assumed ones included"),
    Column("nonzero_cpu_milli", np.int64, "requests with 100m for each container that states none"),
    Column("nonzero_memory_bytes", np.int64, "the same with 200 MiB"),
    Column("ports_id", np.int32, "interned set of used host ports; 0 is none"),
)
NODE_COLUMNS: Final = (
    Column("present", np.bool_, "a Node object stands behind the row; ghosts and free rows do not"),
    Column("unschedulable", np.bool_, "spec.unschedulable"),
    Column("allowed_pod_count", np.int64, "allocatable pods"),
    Column("name_id", np.int32, "interned node name"),
    Column("taints_id", np.int32, "interned tuple of taints; 0 is none"),
    Column("images_id", np.int32, "interned set of image names; 0 is none"),
    Column("features_id", np.int32, "interned set of declared features; 0 is none"),
    Column("incarnation", np.int64, "generation at which this node took the row"),
    Column(
        "zone_number", np.int64, "its zone in `node_order`: zones that appeared later have more"
    ),
    Column("zone_place", np.int64, "its place in that zone: nodes that were added later have more"),
)
POD_COLUMNS: Final = (
    Column("class_id", np.int64, "its class"),
    Column("node_row", np.int32, "of the node that it is on; NO_NODE for a free row"),
    Column("is_terminating", np.bool_, "being deleted"),
    Column("start_s", np.int64, "status.startTime in seconds since 1970; NEVER_STARTED without"),
    Column("is_preempted", np.bool_, "being deleted because a scheduler preempted it"),
    Column("name_hash", np.uint32, "see there; 0 for placements that the owner has not settled"),
    Column("group_id", np.int64, "see there; 0: none"),
)
COMMON_COLUMNS: Final = (
    Column("generation", np.int64, "of the last change of the row, of either group"),
)


def wrap_int64(number: int) -> int:
    """What is left of a sum in 64 bits, as in arrays and in Go."""
    if -INT64_MAX <= number <= INT64_MAX:
        return number
    return (number + INT64_MAX + 1) % (1 << 64) - INT64_MAX - 1
