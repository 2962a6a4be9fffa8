"""What one pod takes of a node, as it is added to and taken from the columns.

The owner's cache and a scorer's tentative placements use the same arithmetic, so that both reach
equal columns (NodeInfo.update in pkg/scheduler/framework/types.go, v1.36.2).
"""

from typing import NamedTuple

import numpy as np

from shared.columns.schema import EPHEMERAL_STORAGE, Int64s, Rows, wrap_int64
from shared.columns.table import NodeTable, PortTuple
from shared.kube.pod_resources import PodRequests


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
    amounts = np.zeros(max(len(table.resources), EPHEMERAL_STORAGE + 1), np.int64)
    for name, amount in requests.amounts.items():
        row = table.resources.find(name)
        if row >= 0:
            amounts[row] = amount
    taken = [(row, amount) for row, amount in enumerate(amounts.tolist()) if amount]
    nonzero = requests.nonzero_milli_cpu, requests.nonzero_memory_bytes
    return PodUsage(amounts, taken, *nonzero, host_ports)


def add_usages(table: NodeTable, rows: Rows, usage: PodUsage) -> None:
    """Adds the amounts of one pod to each of the rows, no two of which may be equal."""
    count = len(usage.amounts)
    table.requested[:count, rows] += usage.amounts[:, np.newaxis]
    table.nonzero_cpu_milli[rows] += usage.nonzero_cpu_milli
    table.nonzero_memory_bytes[rows] += usage.nonzero_memory_bytes
    table.pod_count[rows] += 1


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
