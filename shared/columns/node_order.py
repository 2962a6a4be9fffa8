"""The order in which nodes are looked at: one of each zone in turn, so that neighbours differ in zone.

Rules: pkg/scheduler/backend/cache/node_tree.go, v1.36.2. Zones stand in the order in which they
appeared, nodes of a zone in the order in which they were added. The owner numbers both
(`daemon.core.node_tree`) and the numbers travel as columns, so that every copy finds the same order by
itself, and only where somebody asks for it: few do, and at a million nodes the order has 8 MB.
"""

import numpy as np

from shared.columns.schema import Int64s, Rows


def rows_in_turn(rows: Rows, zones: Int64s, places: Int64s) -> Rows:
    """`rows` (ascending) in order. `zones` and `places` are the numbers of each row's zone and of its
    addition to that zone."""
    if len(rows) == 0:
        return rows
    if bool((zones == zones[0]).all()):
        is_sorted = bool((places[1:] >= places[:-1]).all())
        return rows if is_sorted else rows[np.argsort(places, kind="stable")]
    by_zone = np.lexsort((places, zones))
    rows, zones = rows[by_zone], zones[by_zone]
    starts = np.flatnonzero(np.diff(zones, prepend=zones[0] - 1))
    sizes = np.diff(starts, append=len(rows))
    turns = np.arange(len(rows)) - np.repeat(starts, sizes)
    # Stable: within a turn, zones stay in their order.
    in_turn: Rows = rows[np.argsort(turns, kind="stable")]
    return in_turn
