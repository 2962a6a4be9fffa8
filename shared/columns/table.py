"""NodeTable: the arrays of a cluster, one row a node.

Rows are recycled: a node that goes frees its row (`present` False), a node that comes takes a free
one, with a new `incarnation`. The writer notes in the journal what it touched.

Nodes are looked at one of each zone in turn, so that neighbours differ in zone
(pkg/scheduler/backend/cache/node_tree.go, v1.36.2). Zones stand in the order in which they appeared,
nodes of a zone in that in which they were added. The owner numbers both (`daemon.core.node_columns`) and
the numbers travel as columns, so that every copy finds the same order by itself, and only where somebody
asks for it: few do, and at a million nodes the order has 8 MB.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import numpy as np

from shared.columns.schema import (
    BASE_RESOURCES,
    Bools,
    Int32s,
    Int64s,
    NodeColumns,
    Rows,
    Table,
    UsageColumns,
    names_of,
)

V = TypeVar("V", bound=Hashable)


class Interner(Generic[V]):
    """A bijection between values and 0, 1, 2, ... in order of first use. Append-only, as scorers are
    told of each id once (`delta.py`); what nobody says any more is dropped by starting over (`restart`),
    with new ids for all, and every copy is then made anew."""

    def __init__(self, initial: Sequence[V] = ()) -> None:
        self.values: list[V] = []
        self._ids: dict[V, int] = {}
        self.ids_of(initial)

    def id_of(self, value: V) -> int:
        """The id of `value`, given now if it is new."""
        found = self._ids.get(value)
        return self.ids_of((value,))[0] if found is None else found

    def ids_of(self, values: Iterable[V]) -> list[int]:
        """The same as `id_of` for each."""
        ids, known, found = self._ids, self.values, []
        for value in values:
            value_id = ids.get(value)
            if value_id is None:
                value_id = ids[value] = len(known)
                known.append(value)
            found.append(value_id)
        return found

    def find(self, value: V) -> int:
        """The id of `value`, or -1 if nobody has used it yet."""
        return self._ids.get(value, -1)

    def extend(self, first_id: int, values: Sequence[V]) -> None:
        """Takes over ids that another interner gave; `first_id` follows on, or overlaps equally.
        ValueError where it does neither."""
        if not 0 <= first_id <= len(self.values):
            raise ValueError("a range of ids is missing")
        expected = range(first_id, first_id + len(values))
        if self.ids_of(values) != list(expected):
            raise ValueError("ids disagree")

    def restart(self, initial: Sequence[V]) -> None:
        """Forgets everything but `initial`; ids change."""
        self.values.clear()
        self._ids.clear()
        self.ids_of(initial)

    def __len__(self) -> int:
        return len(self.values)


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


TaintTuple = tuple[str, str, str]
"""(key, value, effect)"""
PortTuple = tuple[str, str, int]
"""(host IP, protocol, port); an empty host IP is kept as "0.0.0.0"."""

FIRST_CAPACITY: Final = 64
_USAGE_COLUMNS: Final = names_of(UsageColumns)
NO_ROW: Final = -1


class NodeTable(Table, UsageColumns, NodeColumns):
    """The columns (see `schema.py` for each) and the dictionaries that their ids point into. Matrices
    are (resource, row) and (label key, row), so that one resource or key of all nodes lies in one run
    of memory."""

    generation: Int64s
    """Of the last change of the row, of either group."""
    requested: Int64s
    """Shape (resource, row); requests of the pods on the node, assumed ones included."""
    allocatable: Int64s
    """Shape (resource, row)."""
    labels: Int32s
    """Shape (label key, row); value id, 0 where the node has no such label."""

    def __init__(self) -> None:
        count = len(BASE_RESOURCES)
        super().__init__(FIRST_CAPACITY, requested=count, allocatable=count, labels=4)
        self.resources = Interner[str](BASE_RESOURCES)
        self.label_keys = Interner[str]()
        self.label_values = Interner[str](("",))
        """Id 0 is "no such label", not the empty value: texts of values stand here after a "="."""
        self.names = Interner[str]()
        self.taints = Interner[tuple[TaintTuple, ...]](((),))
        self.ports = Interner[frozenset[PortTuple]]((frozenset(),))
        self.images = Interner[frozenset[str]]((frozenset(),))
        self.image_sizes: dict[str, int] = {}
        """Bytes; of the node that was first to have the image, as in kube-scheduler's cache."""
        self.features = Interner[frozenset[str]]((frozenset(),))
        self.topology_version = 0
        """Raised when a label of a row changes, or whether a node is behind it; see `write_labels`
        and `set_present`. Most updates of a Node object change neither."""
        self._order: Rows | None = None
        """As long as nothing changed that it depends on."""
        self._ordered_ids: Int32s = np.zeros(0, np.int32)
        """Of the names, as they were in order when it was last made."""
        self._row_by_name_id: Int32s = np.full(FIRST_CAPACITY, NO_ROW, np.int32)
        """NO_ROW for names of which there is no node; may be shorter than `names`."""

    # Rows ----------------------------------------------------------------

    def row_of(self, node_name: str) -> int:
        """The row of a node, or -1."""
        name_id = self.names.find(node_name)
        if name_id < 0 or name_id >= len(self._row_by_name_id):
            return NO_ROW
        return self._row_by_name_id.item(name_id)

    def name_of(self, row: int) -> str:
        return self.names.values[self.name_id.item(row)]

    def bind_names(self, rows: Rows, node_names: Sequence[str]) -> None:
        """Gives rows to nodes that have none."""
        name_ids = np.array(self.names.ids_of(node_names), np.int32)
        self.name_id[rows] = name_ids
        self._rows_by_name_id()[name_ids] = rows

    def unbind_name(self, row: int) -> None:
        """Takes a row from its node."""
        self._row_by_name_id[self.name_id.item(row)] = NO_ROW

    def _rows_by_name_id(self) -> Int32s:
        """Long enough for all names."""
        by_id, count = self._row_by_name_id, len(self.names)
        if count > len(by_id):
            self._row_by_name_id = np.full(2 * count, NO_ROW, np.int32)
            self._row_by_name_id[: len(by_id)] = by_id
        return self._row_by_name_id

    def reindex_names(self, rows: Rows, before: Int32s) -> None:
        """Finds `rows` by name again, after a snapshot wrote their `present`, and their `name_id`,
        which was `before`."""
        by_id = self._rows_by_name_id()
        now = self.name_id[rows]
        renamed = before != now
        old = before[renamed]
        by_id[old[by_id[old] == rows[renamed]]] = NO_ROW
        present = self.present[rows]
        by_id[now[present]] = rows[present]

    def set_present(self, rows: Rows | int, *, is_present: bool) -> None:
        """Says whether a Node object stands behind each of the rows."""
        if (self.present[rows] != is_present).any():
            self.present[rows] = is_present
            self.topology_version += 1
            self._order = None

    @property
    def order(self) -> Rows:
        """Rows of all present nodes in nodeTree order (round-robin over zones). Read only.

        As long as the same nodes are there, by name, they stay in order, wherever their zones are by now
        (UpdateSnapshot in pkg/scheduler/backend/cache/cache.go, v1.36.2)."""
        if self._order is None:
            rows = self.present_rows()
            if set(self._ordered_ids.tolist()) == set(self.name_id[rows].tolist()):
                self._order = self._row_by_name_id[self._ordered_ids].astype(np.intp)
            else:
                self._order = rows_in_turn(rows, self.zone_number[rows], self.zone_place[rows])
                self._ordered_ids = self.name_id[self._order]
        return self._order

    def forget_order(self) -> None:
        """To be said when a column was written that `order` depends on."""
        self._order = None

    def named_rows(self) -> Rows:
        """Rows that were given to a node, ascending."""
        by_id = self._row_by_name_id
        return np.sort(by_id[by_id != NO_ROW]).astype(np.intp)

    def present_rows(self) -> Rows:
        """Rows with a Node object, ascending."""
        return np.flatnonzero(self.present[: self.row_count])

    def usage_of(self, rows: Rows) -> Int64s:
        """What pods take of these rows, shape (numbers, n): equal where all usage columns are."""
        return np.vstack(
            (self.requested[:, rows], *(getattr(self, name)[rows] for name in _USAGE_COLUMNS))
        )

    def dictionary_waste(self) -> int:
        """How many interned sets of images and ports no row has any more (at most: some do)."""
        return len(self.images) + len(self.ports) - 2 * self.row_count

    def compact_dictionaries(self) -> None:
        """Drops sets of images and ports that no row has. Ids change: whoever keeps some must start
        over."""
        rows = slice(0, self.row_count)
        self.images_id[rows] = _compacted(self.images, self.images_id[rows], frozenset())
        self.ports_id[rows] = _compacted(self.ports, self.ports_id[rows], frozenset())

    def value_waste(self) -> int:
        """How many label values no row has any more. Looks at all labels of all nodes."""
        is_used = np.zeros(len(self.label_values), np.bool_)
        is_used[0] = True
        is_used[self.labels[:, self.named_rows()]] = True
        return len(is_used) - int(np.count_nonzero(is_used))

    def line_waste(self) -> int:
        """How many resources no node has, and label keys. Looks at all nodes."""
        lines = len(self.resources) + len(self.label_keys)
        return lines - len(self._resources_in_use()) - len(self._keys_in_use())

    def _resources_in_use(self) -> Rows:
        """Ids of those of which some node has any, and of those that every table has. Of a resource
        that no node has nobody can be given any, so what pods asked for is of no interest either."""
        is_used: Bools = np.any(self.allocatable[: len(self.resources)], axis=1)
        is_used[: len(BASE_RESOURCES)] = True
        return np.flatnonzero(is_used)

    def _keys_in_use(self) -> Rows:
        """Ids of label keys that some node has."""
        return np.flatnonzero(self.labels[: len(self.label_keys), self.named_rows()].any(axis=1))

    def compact_names(self) -> None:
        """Drops names, label keys and values, resources, taints and features that no row has. Ids
        change: whoever keeps some must start over, in whichever process."""
        used = self._resources_in_use()
        self.requested, self.allocatable = self.requested[used], self.allocatable[used]
        self.resources.restart([self.resources.values[i] for i in used.tolist()])
        used = self._keys_in_use()
        self.labels = self.labels[used]
        self.label_keys.restart([self.label_keys.values[i] for i in used.tolist()])
        rows = slice(0, self.row_count)
        kept_ids = np.flatnonzero(self._row_by_name_id != NO_ROW)
        kept_rows = self._row_by_name_id[kept_ids]
        self.names.restart([self.names.values[name_id] for name_id in kept_ids.tolist()])
        self._ordered_ids = self._ordered_ids[:0]
        free = np.ones(self.row_count, np.bool_)
        free[kept_rows] = False
        for ids in (self.name_id, self.taints_id, self.features_id, self.labels.T):
            ids[rows][free] = 0
        self._row_by_name_id = kept_rows
        self.name_id[kept_rows] = np.arange(len(kept_rows))
        self.labels[:, rows] = _compacted(self.label_values, self.labels[:, rows], "")
        self.taints_id[rows] = _compacted(self.taints, self.taints_id[rows], ())
        self.features_id[rows] = _compacted(self.features, self.features_id[rows], frozenset())
        self.topology_version += 1

    # Resources and labels ----------------------------------------------------------------

    def add_resources(self, names: Iterable[str]) -> None:
        """Makes a row of the matrices for each that has none. To be asked for what nodes have, never
        for what pods ask: a row costs 16 bytes a node, and anybody may ask for anything."""
        self.resources.ids_of(names)
        self.reserve_resources(len(self.resources))

    def reserve_resources(self, count: int) -> None:
        self.reserve_lines("requested", count)
        self.reserve_lines("allocatable", count)

    def reserve_lines(self, matrix: str, count: int) -> None:
        """Makes at least so many lines of one of the matrices. They come one by one, and to copy all
        nodes for each of them would take minutes: what is copied is doubled."""
        lines: np.ndarray = getattr(self, matrix)
        if count <= len(lines):
            return
        room = lines.base  # With lines to spare, where the matrix is the first of them.
        if room is None or len(room) < count:
            room = np.zeros((max(count, 2 * len(lines)), self.capacity), lines.dtype)
            room[: len(lines)] = lines
        setattr(self, matrix, room[:count])

    def find_value_id(self, value: str) -> int:
        """Id of a label value, or -1 if no node has it."""
        return self.label_values.find("=" + value)

    def value_text(self, value_id: int) -> str:
        return self.label_values.values[value_id][1:]

    def label_column(self, key: str) -> Int32s | None:
        """Value ids of one label over all rows, or None where no node ever had it."""
        key_id = self.label_keys.find(key)
        return None if key_id < 0 else self.labels[key_id, : self.row_count]

    def write_labels(self, rows: Rows, labels: Sequence[Mapping[str, str]]) -> None:
        """The labels of each of these rows, which are distinct."""
        # Nodes have the same keys, mostly, and few of the values differ much: so key by key.
        alike: dict[tuple[str, ...], list[int]] = {}
        for at, own in enumerate(labels):
            alike.setdefault(tuple(own), []).append(at)
        for keys in alike:
            self.label_keys.ids_of(keys)
        self.reserve_lines("labels", len(self.label_keys))
        written = np.zeros((len(self.labels), len(rows)), np.int32)
        for keys, members in alike.items():
            for key in keys:
                ids = self.label_values.ids_of(["=" + labels[at][key] for at in members])
                written[self.label_keys.find(key), members] = ids
        if not np.array_equal(self.labels[:, rows], written):
            self.labels[:, rows] = written
            self.topology_version += 1

    def labels_of(self, row: int) -> dict[str, str]:
        """The labels of one node; for people and slow paths."""
        column = self.labels[: len(self.label_keys), row]
        return {
            self.label_keys.values[key_id]: self.value_text(int(column[key_id]))
            for key_id in np.flatnonzero(column).tolist()
        }


def _compacted(dictionary: Interner[V], ids: Int32s, nothing: V) -> Int32s:
    """Restarts a dictionary with the values in use, and returns their new ids."""
    used, indices = np.unique(ids, return_inverse=True)
    kept = [dictionary.values[i] for i in used.tolist()]
    dictionary.restart((nothing,))
    new_ids = np.array(dictionary.ids_of(kept), np.int32)
    return new_ids[indices].reshape(ids.shape)
