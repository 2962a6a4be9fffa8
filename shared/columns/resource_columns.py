"""Columns of resources by name, for the plugins that add up requests.

A resource that no node ever had reads as 0 requested and 0 allocatable. Names are looked up at each
use: a table's dictionaries grow and its matrices move while the state of a pod class lives.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from shared.columns.rows import RowIndex
from shared.columns.schema import Int64s
from shared.columns.table import NodeTable
from shared.kube.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar

COUNTED_FOR_ALL: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


def counts_in_score(name: str, amount: int) -> bool:
    """A scalar resource counts only for pods that ask for it; what is no resource, never."""
    return name in COUNTED_FOR_ALL or (amount != 0 and is_scalar(name))


def requested_and_allocatable(
    nodes: NodeTable, names: Sequence[str], index: RowIndex, *, is_nonzero: bool = False
) -> tuple[list[Int64s], list[Int64s]]:
    """Both columns of each resource. They may be views: read only. `is_nonzero`: with defaults where
    pods state no cpu or memory."""
    requested: list[Int64s] = []
    allocatable: list[Int64s] = []
    for name in names:
        resource = nodes.resources.find(name)
        if is_nonzero and name == CPU:
            requested.append(nodes.nonzero_cpu_milli[index])
        elif is_nonzero and name == MEMORY:
            requested.append(nodes.nonzero_memory_bytes[index])
        elif resource < 0:
            requested.append(np.zeros_like(nodes.pod_count[index]))
        else:
            requested.append(nodes.requested[resource, index])
        allocatable.append(nodes.allocatable[resource, index] if resource >= 0 else requested[-1])
    return requested, allocatable


def requested_and_allocatable_one(
    nodes: NodeTable, names: Sequence[str], row: int, *, is_nonzero: bool = False
) -> tuple[list[int], list[int]]:
    """The same for one row, in plain integers."""
    requested: list[int] = []
    allocatable: list[int] = []
    for name in names:
        resource = nodes.resources.find(name)
        if is_nonzero and name == CPU:
            requested.append(nodes.nonzero_cpu_milli.item(row))
        elif is_nonzero and name == MEMORY:
            requested.append(nodes.nonzero_memory_bytes.item(row))
        else:
            requested.append(nodes.requested.item(resource, row) if resource >= 0 else 0)
        allocatable.append(nodes.allocatable.item(resource, row) if resource >= 0 else 0)
    return requested, allocatable
