"""Nodes by zone, and how full each is: what the heat map shows. Pure.

A page shows some thousand cells and no more: where there are more nodes than that, neighbours by name in
a zone share a cell. Zones are told in full, whatever their number of nodes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from shared.messages.admin import NodeLoads

CELLS_MAX: Final = 6_000
ZONES_MAX: Final = 100
"""With nodes of their own; all further ones are told as one."""
FURTHER: Final = "further zones"
UNKNOWN: Final = -1
"""Of a cell without any of a resource."""


class Total(msgspec.Struct, frozen=True):
    """Of one resource, in the columns' units."""

    requested: int
    allocatable: int


class ZoneMap(msgspec.Struct, frozen=True):
    """The nodes of one zone, in order of name."""

    zone: str
    node_count: int
    totals: list[Total]
    """By resource."""
    cells: list[str]
    """The first node of each."""
    shares: list[list[int]]
    """By resource, of each cell: percent of what may be allocated."""


class NodeMap(msgspec.Struct, frozen=True):
    resources: list[str]
    node_count: int
    nodes_per_cell: int
    totals: list[Total]
    zones: list[ZoneMap]


class _Node(msgspec.Struct, frozen=True):
    name: str
    requested: Sequence[int]
    allocatable: Sequence[int]


def node_map(pages: Sequence[NodeLoads]) -> NodeMap:
    """Of all nodes; empty without pages. Pages of different resources (a node brought one meanwhile) are
    cut to what they share."""
    resources = min((page.resources for page in pages), key=len, default=[])
    by_zone: dict[str, list[_Node]] = {}
    for page in pages:
        kept = [page.resources.index(name) for name in resources if name in page.resources]
        for zone, node in _nodes(page, kept):
            by_zone.setdefault(zone, []).append(node)
    node_count = sum(map(len, by_zone.values()))
    per_cell = -(-node_count // CELLS_MAX) or 1
    largest = sorted(by_zone, key=lambda zone: (-len(by_zone[zone]), zone))
    shown = sorted(largest[:ZONES_MAX])
    if len(largest) > ZONES_MAX:
        by_zone[FURTHER] = [node for zone in largest[ZONES_MAX:] for node in by_zone[zone]]
        shown.append(FURTHER)
    zones = [_zone(zone, by_zone[zone], len(resources), per_cell) for zone in shown]
    totals = [_sum([zone.totals[each] for zone in zones]) for each in range(len(resources))]
    return NodeMap(resources, node_count, per_cell, totals, zones)


def _nodes(page: NodeLoads, resources: Sequence[int]) -> list[tuple[str, _Node]]:
    requested = memoryview(page.requested).cast("q")
    allocatable = memoryview(page.allocatable).cast("q")
    count = len(page.names)
    begins = [each * count for each in resources]
    return [
        (
            page.zones[at],
            _Node(
                name,
                [requested[begin + at] for begin in begins],
                [allocatable[begin + at] for begin in begins],
            ),
        )
        for at, name in enumerate(page.names)
    ]


def _zone(zone: str, nodes: list[_Node], resource_count: int, per_cell: int) -> ZoneMap:
    nodes.sort(key=lambda node: node.name)
    cells = [nodes[at : at + per_cell] for at in range(0, len(nodes), per_cell)]
    each = range(resource_count)
    return ZoneMap(
        zone=zone,
        node_count=len(nodes),
        totals=[_total(nodes, one) for one in each],
        cells=[cell[0].name for cell in cells],
        shares=[[_percent(_total(cell, one)) for cell in cells] for one in each],
    )


def _total(nodes: Sequence[_Node], resource: int) -> Total:
    return Total(
        sum(node.requested[resource] for node in nodes),
        sum(node.allocatable[resource] for node in nodes),
    )


def _sum(totals: Sequence[Total]) -> Total:
    return Total(sum(each.requested for each in totals), sum(each.allocatable for each in totals))


def _percent(total: Total) -> int:
    return round(100 * total.requested / total.allocatable) if total.allocatable else UNKNOWN
