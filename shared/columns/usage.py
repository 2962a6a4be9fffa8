"""What one pod takes of a node, as it is added to and taken from the columns; and these columns by the
name of a resource, for plugins that add up requests.

The owner's cache and a scorer's tentative placements use the same arithmetic, so that both reach
equal columns (NodeInfo.update in pkg/scheduler/framework/types.go, v1.36.2).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from shared.columns.rows import RowIndex
from shared.columns.schema import Int64s, Rows, wrap_int64
from shared.columns.table import NodeTable, PortTuple
from shared.kube.pod_resources import PodRequests
from shared.kube.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar


class PodUsage(NamedTuple):
    """Amounts by resource row; `amounts` has shape (resource,) and is 0 for all that follow."""

    amounts: Int64s
    taken: list[tuple[int, int]]
    """Resource row and amount of what is not 0."""
    nonzero_cpu_milli: int
    nonzero_memory_bytes: int
    ports: frozenset[PortTuple]


def usage_of(table: NodeTable, requests: PodRequests, host_ports: frozenset[PortTuple]) -> PodUsage:
    """The usage of a pod class in the resource rows of `table`. What no node ever had is left out: with
    nothing to be had, what is taken is of no interest. Whoever keeps usages makes them anew when a node
    brings such a resource."""
    amounts = np.zeros(len(table.resources), np.int64)
    for name, amount in requests.amounts.items():
        row = table.resources.find(name)
        if row >= 0:
            amounts[row] = amount
    taken = [(row, amount) for row, amount in enumerate(amounts.tolist()) if amount]
    nonzero = requests.nonzero_milli_cpu, requests.nonzero_memory_bytes
    return PodUsage(amounts, taken, *nonzero, host_ports)


def add_usages(table: NodeTable, rows: Rows, times: Int64s | int, usage: PodUsage) -> None:
    """Adds the amounts of so many pods to each of the rows, no two of which may be equal."""
    count = len(usage.amounts)
    table.requested[:count, rows] += usage.amounts[:, np.newaxis] * times
    table.nonzero_cpu_milli[rows] += usage.nonzero_cpu_milli * times
    table.nonzero_memory_bytes[rows] += usage.nonzero_memory_bytes * times
    table.pod_count[rows] += times


def add_usage(table: NodeTable, row: int, usage: PodUsage, sign: int = 1) -> None:
    """Adds a pod's amounts to a row, or with `sign` -1 takes them off. Ports are the caller's. Number by
    number: arithmetic of arrays costs more for so few."""
    for resource, amount in usage.taken:
        add_to(table.requested[resource], row, sign * amount)
    add_to(table.nonzero_cpu_milli, row, sign * usage.nonzero_cpu_milli)
    add_to(table.nonzero_memory_bytes, row, sign * usage.nonzero_memory_bytes)
    add_to(table.pod_count, row, sign)


def add_to(column: Int64s, row: int, amount: int) -> None:
    """Adds to one number of a column, which wraps around beyond 64 bits as arrays and Go do; numpy
    warns of that where it is told to add to a single number."""
    total = column.item(row) + amount
    try:
        column[row] = total
    except OverflowError:
        column[row] = wrap_int64(total)


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
