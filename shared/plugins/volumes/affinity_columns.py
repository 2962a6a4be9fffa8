"""Things that only some nodes can reach (volumes, storage capacities), found by the nodes' labels.

The simple way matches each thing's node affinity against all nodes: 5,000 nodes with a local disk
each make that 25 million comparisons for one pod. Nearly every such affinity names values of one
label (the host, the zone). Those are kept as arrays, and one look at the label's column finds for
every node at once which of them is first in line. The others share few distinct affinities, and
each of those is matched once.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.columns.schema import NO_ROWS, Bools, Int32s
from shared.columns.table import NodeTable
from shared.selectors.node_selector import SelectedColumns, match_any
from shared.selectors.node_terms import Terms

Places = NDArray[np.intp]
"""Positions in a list of things, the first in line first."""
NONE: Final = -1


class AffinityColumns:
    """The affinities of a list of things. The list does not change; which of it counts may."""

    def __init__(self, affinities: Sequence[Terms | None]) -> None:
        self.count = len(affinities)
        self._values: dict[str, int] = {}
        entries: dict[str, tuple[list[int], list[int]]] = {}
        others: dict[Terms | None, list[int]] = {}
        for place, terms in enumerate(affinities):
            choice = _single_choice(terms)
            if choice is None:
                others.setdefault(terms, []).append(place)
                continue
            key, named = choice
            places, values = entries.setdefault(key, ([], []))
            for value in dict.fromkeys(named):
                places.append(place)
                values.append(self._values.setdefault(value, len(self._values)))
        self._by_label = {
            key: (np.array(places, np.intp), np.array(values, np.intp))
            for key, (places, values) in entries.items()
        }
        """Things that name values of one label, ascending, and which of all values: a thing with two
        stands there twice."""
        self._others = [(terms, np.array(places, np.intp)) for terms, places in others.items()]
        self._value_ids = np.zeros(0, np.intp)
        self._value_ids_of = -1

    def first(
        self,
        usable: Bools,
        columns: SelectedColumns,
        taken: Sequence[Places] = (),
        ids: Places = NO_ROWS,
    ) -> Places:
        """For each row the first usable thing that it reaches, or NONE; shape (count,). `taken`: things
        that do not count on a row, each of that shape, by `ids`, in which NONE comes last."""
        best = np.full(columns.count, self.count, np.intp)
        for levels in self._levels(usable, columns, len(taken) + 1):
            is_found = np.zeros(columns.count, np.bool_)
            for places in levels:
                is_free = ~is_found & (places < self.count)
                for others in taken:
                    is_free &= ids[places] != others
                np.minimum(best, places, out=best, where=is_free)
                is_found |= is_free
        best[best == self.count] = NONE
        return best

    def _levels(
        self, usable: Bools, columns: SelectedColumns, depth: int
    ) -> Iterator[list[Places]]:
        """For each group of things: the place of the first that a row reaches, of the second, and
        so on to `depth`; each of shape (count,), with `self.count` where there is none."""
        nodes = columns.nodes
        value_ids = self._ids_of_values(nodes)
        for key, (places, values) in self._by_label.items():
            column = columns.values_of(key)
            if column is None:
                continue
            ids = value_ids[values]
            counts = usable[places] & (ids > 0)
            yield self._first_by_value(places[counts], ids[counts], column, nodes, depth)
        for terms, places in self._others:
            left = places[usable[places]][:depth].tolist()
            if left:
                reached = match_affinity(terms, columns)
                yield [np.where(reached, place, self.count) for place in left]

    def _first_by_value(
        self, places: Places, ids: Places, column: Int32s, nodes: NodeTable, depth: int
    ) -> list[Places]:
        levels: list[Places] = []
        for _ in range(depth):
            table = np.full(len(nodes.label_values), self.count, np.intp)
            # Of several that are assigned to one value, the last stays: the first in line.
            table[ids[::-1]] = places[::-1]
            levels.append(table[column])
            if len(levels) < depth:
                later = places != table[ids]
                places, ids = places[later], ids[later]
        return levels

    def _ids_of_values(self, nodes: NodeTable) -> Places:
        """The nodes' ids of the values; looked up again once nodes know more values."""
        if self._value_ids_of != len(nodes.label_values):
            found = [nodes.find_value_id(value) for value in self._values]
            self._value_ids = np.array(found, np.intp)
            self._value_ids_of = len(nodes.label_values)
        return self._value_ids


def match_affinity(terms: Terms | None, columns: SelectedColumns) -> Bools:
    """Rows that an affinity allows, shape (count,); None allows all."""
    return np.ones(columns.count, np.bool_) if terms is None else match_any(terms, columns)


def _single_choice(terms: Terms | None) -> tuple[str, Collection[str]] | None:
    """Label and values of the one "label in (...)" that is all of an affinity; None where there is more
    to it."""
    if terms is None or len(terms) != 1:
        return None
    labels, names, errors = terms[0]
    if names or errors or len(labels) != 1:
        return None
    key, values, is_wanted, _ = labels[0]
    return None if values is None or not is_wanted else (key, values)
