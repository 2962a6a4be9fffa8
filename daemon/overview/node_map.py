"""Nodes by zone, and how full each is: what the heat map shows. Pure.

A page shows some thousand cells and no more: where there are more nodes than that, neighbours by name in
a zone share a cell. Zones are told in full, whatever their number of nodes.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from shared.messages.admin import NodeLoads

CELLS_MAX: Final = 6_000
ZONES_MAX: Final = 100
"""With nodes of their own; all further ones are told as one."""
FURTHER: Final = "further zones"
UNKNOWN: Final = -1
"""Of a cell without any of a resource."""


class Total(msgspec.Struct, frozen=True, gc=False):
    """Of one resource, in the columns' units."""

    requested: int
    allocatable: int


class ZoneMap(msgspec.Struct, frozen=True):
    """The nodes of one zone, in order of name."""

    zone: str
    node_count: int
    totals: list[Total]
    cells: list[str]
    shares: list[list[int]]
    """By resource, of each cell: percent of what may be allocated."""


class NodeMap(msgspec.Struct, frozen=True):
    resources: list[str]
    node_count: int
    nodes_per_cell: int
    totals: list[Total]
    zones: list[ZoneMap]


class _Node(NamedTuple):
    name: str
    loads: list[Total]


def node_map(pages: Sequence[NodeLoads]) -> NodeMap:
    """Of all nodes; empty without pages. Pages of different resources (a node brought one meanwhile) are
    cut to what they share."""
    resources = min((page.resources for page in pages), key=len, default=[])
    by_zone: dict[str, list[_Node]] = {}
    for page in pages:
        requested, allocatable = (
            memoryview(amounts).cast("q") for amounts in (page.requested, page.allocatable)
        )
        count = len(page.names)
        begins = [page.resources.index(name) * count for name in resources]
        for at, (zone, name) in enumerate(zip(page.zones, page.names, strict=True)):
            loads = [Total(requested[begin + at], allocatable[begin + at]) for begin in begins]
            by_zone.setdefault(zone, []).append(_Node(name, loads))
    node_count = sum(map(len, by_zone.values()))
    per_cell = -(-node_count // CELLS_MAX) or 1
    largest = sorted(by_zone, key=lambda zone: (-len(by_zone[zone]), zone))
    shown = sorted(largest[:ZONES_MAX])
    if len(largest) > ZONES_MAX:
        by_zone[FURTHER] = [node for zone in largest[ZONES_MAX:] for node in by_zone[zone]]
        shown.append(FURTHER)
    zones = [_zone(zone, by_zone[zone], per_cell) for zone in shown]
    totals = _sums(zone.totals for zone in zones) or [Total(0, 0) for _ in resources]
    return NodeMap(resources, node_count, per_cell, totals, zones)


def _zone(zone: str, nodes: list[_Node], per_cell: int) -> ZoneMap:
    nodes.sort(key=lambda node: node.name)
    cells = [nodes[at : at + per_cell] for at in range(0, len(nodes), per_cell)]
    of_cells = [_sums(node.loads for node in cell) for cell in cells]
    return ZoneMap(
        zone=zone,
        node_count=len(nodes),
        totals=_sums(node.loads for node in nodes),
        cells=[cell[0].name for cell in cells],
        shares=[
            [round(100 * t.requested / t.allocatable) if t.allocatable else UNKNOWN for t in totals]
            for totals in zip(*of_cells, strict=True)
        ],
    )


def _sums(loads: Iterable[list[Total]]) -> list[Total]:
    return [
        Total(sum(one.requested for one in totals), sum(one.allocatable for one in totals))
        for totals in zip(*loads, strict=True)
    ]
