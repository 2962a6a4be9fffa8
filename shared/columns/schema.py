"""Every column of the tables of nodes and of pods: name, type, unit, what it is for a row without one.

Of nodes there are two groups, because they change at different rates and travel apart.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from shared.kube.api.meta_v1 import INT64_MAX

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]
UInt32s = NDArray[np.uint32]
_DTYPES: Final[Mapping[Any, DTypeLike]] = {
    Int64s: np.int64,
    Int32s: np.int32,
    Bools: np.bool_,
    UInt32s: np.uint32,
}
"""By what stands at a column. What `NDArray[...]` is made of differs between versions of numpy."""
Rows = NDArray[np.intp]
"""Indices of node rows, shape (n,)."""
NO_ROWS: Final[Rows] = np.zeros(0, np.intp)
NO_NODE: Final = -1
"""In place of a row."""

# Resource rows of the (resource, node) matrices. Further ones are interned scalar resources.
CPU: Final = 0
BASE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
"""In milli-CPU and bytes."""


class UsageColumns:
    """What pods take of a node: changes with each that comes or goes."""

    pod_count: Int64s  # Pods on the node, assumed ones included.
    nonzero_cpu_milli: Int64s  # Requests with 100m for each container that states none.
    nonzero_memory_bytes: Int64s  # The same with 200 MiB.
    ports_id: Int32s  # Interned set of used host ports; 0 is none.


class NodeColumns:
    """What a Node object says: changes only when somebody edits it."""

    present: Bools  # A Node object stands behind the row; ghosts and free rows do not have one.
    unschedulable: Bools  # spec.unschedulable
    allowed_pod_count: Int64s  # Allocatable pods.
    name_id: Int32s  # Interned node name.
    taints_id: Int32s  # Interned tuple of taints; 0 is none.
    images_id: Int32s  # Interned set of image names; 0 is none.
    features_id: Int32s  # Interned set of declared features; 0 is none.
    incarnation: Int64s  # Generation at which this node took the row.
    zone_number: Int64s  # Its zone in `NodeTable.order`: zones that appeared later have more.
    zone_place: Int64s  # Its place in that zone: nodes that were added later have more.


class PodColumns:
    """Of pods on nodes."""

    class_id: Int64s
    node_row: Int32s  # Of the node that it is on; NO_NODE for a free row.
    is_terminating: Bools  # Being deleted.
    start_s: Int64s  # status.startTime in seconds since 1970; NEVER_STARTED without.
    is_preempted: Bools  # Being deleted because a scheduler preempted it.
    name_hash: UInt32s  # See there; 0 for placements that the owner has not settled.
    group_id: Int64s  # See there; 0: none.


def names_of(columns: type) -> tuple[str, ...]:
    """Of one of these groups, in order."""
    return tuple(columns.__annotations__)


class Table:
    """Arrays that grow together, by doubling: nobody may keep a reference to one across a change of the
    table. What a table and its bases annotate by one of the four names above is an array: a column of
    shape (capacity,), or a matrix of shape (lines, capacity)."""

    _dtypes: ClassVar[dict[str, DTypeLike]]

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls).items()
        cls._dtypes = {name: _DTYPES[hint] for name, hint in hints if hint in _DTYPES}

    def __init__(
        self, capacity: int, *, unused: Mapping[str, int] | None = None, **lines: int
    ) -> None:
        """`capacity`: at first. `unused`: what columns hold in rows that nobody wrote, where that is not
        0; `lines`: of the matrices."""
        self._unused = unused or {}
        for name, dtype in self._dtypes.items():
            shape = (lines[name], 0) if name in lines else (0,)
            setattr(self, name, np.zeros(shape, dtype))
        self.start_over(capacity)

    def start_over(self, capacity: int) -> None:
        """Forgets all rows."""
        self.row_count = 0
        """Rows ever used: rows at and above are untouched."""
        for name in self._dtypes:
            setattr(self, name, getattr(self, name)[..., :0])
        self._grow(capacity)

    def reserve(self, row_count: int) -> None:
        """Makes room for rows 0..row_count-1 and counts them as used."""
        self.row_count = max(self.row_count, row_count)
        capacity = self.capacity
        while capacity < row_count:
            capacity *= 2
        if capacity > self.capacity:
            self._grow(capacity)

    def _grow(self, capacity: int) -> None:
        self.capacity = capacity
        for name in self._dtypes:
            array: NDArray[Any] = getattr(self, name)
            bigger = np.zeros((*array.shape[:-1], capacity), array.dtype)
            if name in self._unused:
                bigger.fill(self._unused[name])
            bigger[..., : array.shape[-1]] = array
            setattr(self, name, bigger)


def wrap_int64(number: int) -> int:
    """What is left of a sum in 64 bits, as in arrays and in Go."""
    if -INT64_MAX <= number <= INT64_MAX:
        return number
    return (number + INT64_MAX + 1) % (1 << 64) - INT64_MAX - 1


def quotients(dividends: Int64s, divisors: Int64s | int) -> Int64s:
    """Truncated towards zero, as Go divides."""
    floors = dividends // divisors
    found: Int64s = floors + ((floors < 0) & (floors * divisors != dividends))
    return found
